"""The forms of `mma`, and how a warp holds their matrices.

It holds a matrix in pieces, its *fragments* (PTX ISA, "Matrix Fragments for mma"). With t = lane % 4, g = lane // 4 and p numbers per register, register r
of a lane holds
- of A: row g + 8 * (r % 2), columns p * (t + 4 * (r // 2)) and following;
- of B: column g, rows p * (t + 4 * r) and following;
- of C and D: number i is that of row g + 8 * (i // 2) and column 2 * t + i % 2 (of f16, two numbers are in one register).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kdsl.lang.types import F16, F32, F64, I32, U32, DType

PACKED: Final = {"f16": 2, "bf16": 2, "tf32": 1, "f64": 1, "s8": 4, "u8": 4, "e4m3": 4, "e5m2": 4}
"""Numbers of an operand in one register, by their PTX types."""
SUMS: Final = {"f16": F16, "f32": F32, "f64": F64, "s32": I32}
"""Element types of accumulators, by their PTX types."""


@dataclass(frozen=True)
class Form:
    """One form of `mma`: D = A B + C, A of m rows and k columns, B of k rows and n columns."""

    m: int
    """Rows of A, C and D."""
    n: int
    """Columns of B, C and D."""
    k: int
    """Columns of A, rows of B."""
    a: str
    """PTX type of A."""
    b: str
    """PTX type of B."""
    c: str
    """PTX type of C and D."""
    least_ptx: tuple[int, int]
    """Least PTX version."""
    least_capability: int
    """Least compute capability, times ten."""

    @property
    def shape(self) -> str:
        """As PTX writes it."""
        return f"m{self.m}n{self.n}k{self.k}"

    @property
    def packed(self) -> int:
        """Numbers of A or B in one register."""
        return PACKED[self.a]

    @property
    def sums(self) -> int:
        """Numbers of C that a lane holds."""
        return self.m * self.n // 32

    @property
    def registers(self) -> tuple[int, int, int]:
        """Registers of a lane for A, B and C."""
        per_lane = (self.m * self.k // 32 // self.packed, self.k * self.n // 32 // self.packed)
        return (*per_lane, self.sums // 2 if self.c == "f16" else self.sums)

    @property
    def operand(self) -> DType:
        """What a register of A or B is in a kernel."""
        return F64 if self.a == "f64" else U32

    @property
    def accumulator(self) -> DType:
        """What a register of C is in a kernel."""
        return U32 if self.c == "f16" else SUMS[self.c]

    @property
    def variant(self) -> str:
        """What tells apart forms that need different targets."""
        return f"{self.shape}.{self.a}"


def _forms() -> list[Form]:
    floats, integers = ("e4m3", "e5m2"), ("s8", "u8")
    return [
        *(Form(16, 8, k, "f16", "f16", c, (7, 0), 80) for k in (8, 16) for c in ("f32", "f16")),
        *(Form(16, 8, k, "bf16", "bf16", "f32", (7, 0), 80) for k in (8, 16)),
        *(Form(16, 8, k, "tf32", "tf32", "f32", (7, 0), 80) for k in (4, 8)),
        Form(8, 8, 4, "f64", "f64", "f64", (7, 0), 80),
        *(Form(16, 8, k, "f64", "f64", "f64", (7, 8), 90) for k in (4, 8, 16)),
        *(Form(16, 8, k, a, b, "s32", (7, 0), 80) for k in (16, 32) for a in integers for b in integers),
        *(Form(16, 8, 32, a, b, "f32", (8, 4), 89) for a in floats for b in floats),
    ]


FORMS: Final = tuple(_forms())
"""All forms of `mma`. Where only the accumulators differ, the one that a kernel gets for literals comes first."""
_BY_NAME: Final = {(form.shape, form.a, form.b, form.c): form for form in FORMS}


def form_of(options: Mapping[str, object]) -> Form:
    """The form that the options of an instruction name: `shape`, `a`, `b` and `c`."""
    return _BY_NAME[str(options["shape"]), str(options["a"]), str(options["b"]), str(options["c"])]
