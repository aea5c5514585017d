"""What a row of the table of intrinsics is, and the table.

A row says what the name lowers to (`lowering`), which threads must reach it together (`convergence`), and the least PTX version and compute
capability that its PTX needs. To add an intrinsic that lowers to an existing kind, add a row and export the name from `kdsl`.
What is not here: mathematics, which is written in the language itself (`kdsl.mathematics`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias


@dataclass(frozen=True)
class ToSpecial:
    """A `Special` of the IR."""

    name: str
    """Its name there."""


@dataclass(frozen=True)
class ToUnary:
    """A `Unary` of the IR."""

    op: str
    integer: bool = False
    """Whether its operand is an integer, else a float."""
    only: str = ""
    """The one element type that it takes, if it is not all of them."""


@dataclass(frozen=True)
class ToBinary:
    """A `Binary` of the IR on two operands of one type."""

    op: str
    """Its operation."""
    integer: bool = False
    """Whether its operands are integers, else floats."""


@dataclass(frozen=True)
class ToFma:
    """An `Fma`."""


@dataclass(frozen=True)
class ToScale:
    """A `Scale`."""


@dataclass(frozen=True)
class ToApproximation:
    """An `Approximation`."""

    ptx: Mapping[str, str]
    """The instructions, by element type; `$0` is the result, `$1` and `$2` are the operands. A type of which the row's floors do not hold is one of its
    `variants`."""


@dataclass(frozen=True)
class ToBitcast:
    """A `Bitcast`."""

    to: str
    """Name of the resulting element type."""


@dataclass(frozen=True)
class ToBarrier:
    """A `Barrier`."""


@dataclass(frozen=True)
class ToExchange:
    """An `Exchange`, a value formed from several lanes."""

    kind: Literal["shuffle", "reduce", "scan", "vote", "match"]
    """`shuffle`: another lane's value, or the lane's own where that lane does not take part. `reduce`: combines by a butterfly of xor 16, 8, 4, 2, 1,
    leaving out lanes that do not take part. `scan`: combines with the lanes below, by halves: in rounds of d = 1, 2, 4, 8, 16 a lane whose number has the
    bit d adds what the d lanes below its own d come to, as the left operand. `vote`: a predicate of all lanes that take part. `match`: which lanes hold the
    same bits."""
    mode: str
    """shuffle: `bfly`, `up`, `down`, `idx`; reduce: `add`, `max`, `min`, `and`, `or`, `xor`; scan: `add`; vote: `any`, `all`, `ballot`; match: `any`, `all`."""

    @property
    def uniform(self) -> bool:
        """Whether all lanes that take part get the same value, whatever the arguments."""
        return self.kind in ("reduce", "vote") or (self.kind == "match" and self.mode == "all")


@dataclass(frozen=True)
class ToAtomic:
    """An `Atomic`, an access to one element that no other thread can cut in two."""

    op: str
    """Name of the operation in the IR."""
    ptx: str
    """The instruction of PTX, without order, scope, space and type."""
    llvm: Mapping[str, str]
    """The operation of `atomicrmw`, by kind of element (`signed`, `unsigned`, `float`); empty for those that have an instruction of their own."""
    types: Mapping[str, str]
    """The element types that it takes, each with the type that PTX gives it."""
    orders: tuple[str, ...] = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
    """The memory orders that it takes."""


@dataclass(frozen=True)
class ToFence:
    """A `Fence`."""

    scope: Literal["block", "device", "system"]
    """Among which threads it orders."""


@dataclass(frozen=True)
class ToClock:
    """A `Clock`: a counter of the GPU."""

    register: str
    """The special register of PTX."""


@dataclass(frozen=True)
class ToSleep:
    """A `Sleep`."""


@dataclass(frozen=True)
class ToInstruction:
    """An `Instruction` of the IR: the frontend's handler checks the arguments and builds it, each target emits it by the name of the row."""

    handler: str
    """Name of what builds it, in `kdsl.frontend.instructions`."""


@dataclass(frozen=True)
class ToFrontend:
    """Something that the frontend itself builds: a derived index, an array, a loop marker."""

    handler: str
    """Name of what builds it."""


Lowering: TypeAlias = (
    ToSpecial
    | ToUnary
    | ToBinary
    | ToFma
    | ToScale
    | ToApproximation
    | ToBitcast
    | ToBarrier
    | ToExchange
    | ToAtomic
    | ToFence
    | ToClock
    | ToSleep
    | ToInstruction
    | ToFrontend
)


@dataclass(frozen=True, eq=False)
class Intrinsic:
    """One row. Callable so that kernels type-check; on the host a call is an error."""

    name: str
    """Name in the language."""
    signature: str
    """Parameters and result, for the documentation."""
    lowering: Lowering
    """What it becomes."""
    doc: str
    """One line."""
    convergence: Literal["none", "warp", "warpgroup", "block"] = "none"
    """Who must reach it together: nobody, the lanes of a warp, the four warps of a warpgroup, the threads of a block."""
    memory: Literal["none", "reads", "writes", "reads and writes", "orders"] = "none"
    """What it does to memory that other threads see; `orders`: makes writes before it visible before what follows."""
    whole_warps: bool = False
    """Whether all 32 lanes must take part: none beyond the end of the block, none that has returned."""
    targets: tuple[Literal["gpu", "cpu"], ...] = ("gpu", "cpu")
    """Where it has a meaning."""
    least_ptx: tuple[int, int] = (6, 0)
    """Least PTX version of its lowering."""
    least_capability: int = 70
    """Least compute capability, times ten."""
    only: tuple[str, ...] = ()
    """Names of the targets that have it, where it is not every one of its least compute capability and above."""
    variants: Mapping[str, tuple[tuple[int, int], int]] = field(default_factory=dict)
    """For forms of it that need more than the row says: the least PTX version and compute capability, by a name for the form (`Instruction.variant`)."""
    assembled: bool = False
    """Whether a kernel that uses it is assembled when it is built, where ptxas is at hand: what goes wrong with it shows only there."""
    isa: str = ""
    """Section of the PTX ISA that describes it."""
    topic: str = ""
    """Heading under which the documentation lists it, for rows whose lowering does not tell."""
    example: str = ""
    """Statements that use it in a kernel with `x: Slice`, `y: SliceMut`, `t = thread_index()`, `v = x[t]` and `w = x[t + 1]`; the probe that is assembled for the
    least target. Empty where the signature says enough to make one."""
    element: str = ""
    """Element type of `x` and `y` in the example; empty where the signature says it."""
    example_options: str = ""
    """Further arguments of `@kernel` in the example."""
    example_parameters: str = ""
    """Further parameters of the kernel in the example."""
    example_block: int = 32
    """Threads per block in the example."""

    @property
    def parameters(self) -> tuple[tuple[str, str | int | None], ...]:
        """Names of the parameters in order, each with its default (None: it has none)."""
        found: list[tuple[str, str | int | None]] = []
        for part in self.signature[1 : self.signature.index(")")].split(","):
            declared, _, default = part.partition("=")
            if declared.strip():
                found.append((declared.split(":")[0].strip(), _default(default.strip())))
        return tuple(found)

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return f"{self.name}{self.signature}\n\n{self.doc}"

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        raise TypeError(f"{self.name}() works only inside a function marked @kernel or @function")


def _default(text: str) -> str | int | None:
    """The default that a signature gives a parameter."""
    if text[:1].isdigit():
        return int(text, 0)
    return {"": None, "True": True, "False": False}.get(text, text.strip('"'))


INTRINSICS: Final[dict[str, Intrinsic]] = {}


def row(name: str, signature: str, lowering: Lowering, doc: str, **more: Any) -> Intrinsic:
    """Add a row to the table."""
    made = Intrinsic(name, signature, lowering, doc, **more)
    INTRINSICS[name] = made
    return made
