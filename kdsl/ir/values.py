"""Operations of the IR that only compute: constants, what a launch and the hardware say, arithmetic, comparisons, casts.

`kdsl.ir.nodes` has these names, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from kdsl.ir.operation import ValueOp
from kdsl.ir.places import ScalarParameter, View


@dataclass(eq=False, kw_only=True)
class Constant(ValueOp):
    """A number of the type `type`: int for integers, bool for `bool`, float for floats (already rounded)."""

    value: bool | int | float


@dataclass(eq=False, kw_only=True)
class ParameterValue(ValueOp):
    """The value of a scalar parameter."""

    parameter: ScalarParameter


@dataclass(eq=False, kw_only=True)
class Length(ValueOp):
    """The extent of a view along a dimension, i64, never negative; of a view of rank 1, its number of elements."""

    view: View
    dimension: int = 0


SpecialName: TypeAlias = Literal[
    "thread_idx.x", "thread_idx.y", "thread_idx.z",
    "block_idx.x", "block_idx.y", "block_idx.z",
    "grid_dim.x", "grid_dim.y", "grid_dim.z",
    "thread_rank", "lane_index", "warp_index", "warp_group_index", "cluster_rank",
]  # fmt: skip
"""`thread_rank` is thread_idx.x + block_dim.x * (thread_idx.y + block_dim.y * thread_idx.z); `lane_index` is thread_rank % 32,
`warp_index` thread_rank // 32, `warp_group_index` thread_rank // 128. `cluster_rank` is the number of the block in its cluster, x fastest."""


@dataclass(eq=False, kw_only=True)
class Special(ValueOp):
    """Where the thread stands, i64 with a known range."""

    name: SpecialName


@dataclass(eq=False, kw_only=True)
class OnGpu(ValueOp):
    """A bool that is known when code is made: True on the GPU, False on the CPU. Chooses between inline PTX, or approximations, and what stands for them."""


UnaryName: TypeAlias = Literal[
    "neg",
    "invert",
    "not",
    "abs",
    "sqrt",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "tf32",
    "popcount",
    "leading_zeros",
    "trailing_zeros",
    "reverse_bits",
]


UNARY: Final[dict[str, str]] = {
    "neg": "integers wrap; a float's sign flips",
    "invert": "~x, integers",
    "not": "bool",
    "abs": "the smallest integer wraps to itself; a float loses its sign",
    "sqrt": "floats, correctly rounded",
    "floor": "floats, to an integral float",
    "ceil": "floats, to an integral float",
    "trunc": "floats, to an integral float",
    "rint": "floats, to an integral float, ties to even",
    "tf32": "f32, to 10 bits behind the binary point, ties away from 0",
    "popcount": "integers, the number of bits that are 1",
    "leading_zeros": "integers, the number of 0 bits above the highest 1; the width for 0",
    "trailing_zeros": "integers, the number of 0 bits below the lowest 1; the width for 0",
    "reverse_bits": "integers",
}


@dataclass(eq=False, kw_only=True)
class Unary(ValueOp):
    """`op` applied to one operand of the same type; meanings in `UNARY`."""

    op: UnaryName
    operand: ValueOp


BinaryName: TypeAlias = Literal[
    "add", "sub", "mul", "div", "floordiv", "mod", "and", "or", "xor", "shl", "shr", "min", "max", "fmin", "fmax", "multiply_high"
]


BINARY: Final[dict[str, str]] = {
    "add": "integers wrap; floats round to nearest even, never contracted by a backend",
    "sub": "likewise",
    "mul": "likewise",
    "div": "floats, correctly rounded",
    "floordiv": "integers: towards minus infinity, by zero 0, INT_MIN // -1 wraps",
    "mod": "integers: the sign of the divisor, by zero 0, INT_MIN % -1 is 0",
    "and": "integers bitwise, or bool (both sides evaluated)",
    "or": "likewise",
    "xor": "likewise",
    "shl": "integers; an amount that is negative or at least the width gives 0",
    "shr": "integers, arithmetic if signed; such an amount gives 0, or -1 for a negative signed operand",
    "min": "floats: NaN if either is, -0 below 0",
    "max": "likewise",
    "fmin": "floats: ignores a NaN, -0 below 0",
    "fmax": "likewise",
    "multiply_high": "integers, the upper half of the full product",
}


@dataclass(eq=False, kw_only=True)
class Binary(ValueOp):
    """`op` applied to two operands of the same type as the result; meanings in `BINARY`."""

    op: BinaryName
    left: ValueOp
    right: ValueOp


@dataclass(eq=False, kw_only=True)
class Fma(ValueOp):
    """a * b + c of floats, rounded once."""

    a: ValueOp
    b: ValueOp
    c: ValueOp


@dataclass(eq=False, kw_only=True)
class Scale(ValueOp):
    """value * 2 ** exponent, rounded once: of a normal float near 1, or a NaN, and an integer of its width within twice the exponents of the type (for a NaN
    any). What the mathematical functions end with."""

    value: ValueOp
    exponent: ValueOp


@dataclass(eq=False, kw_only=True)
class Approximation(ValueOp):
    """A function of floats as the instructions of a row of the table approximate it. GPU only: it stands where `OnGpu` holds."""

    name: str
    """The row."""
    arguments: tuple[ValueOp, ...]
    """Of the type of the result."""


CompareName: TypeAlias = Literal["lt", "le", "gt", "ge", "eq", "ne"]


@dataclass(eq=False, kw_only=True)
class Compare(ValueOp):
    """A `bool`; operands have one type. With a NaN only `ne` is true."""

    op: CompareName
    left: ValueOp
    right: ValueOp


@dataclass(eq=False, kw_only=True)
class Select(ValueOp):
    """`then` if `condition` else `orelse`; both are already evaluated."""

    condition: ValueOp
    then: ValueOp
    orelse: ValueOp


@dataclass(eq=False, kw_only=True)
class Cast(ValueOp):
    """Conversion to `type`: integers wrap; float to integer truncates, saturates, NaN gives 0; to bool is `!= 0`; to float rounds to nearest even."""

    operand: ValueOp


@dataclass(eq=False, kw_only=True)
class Bitcast(ValueOp):
    """The same bits as another type of the same width."""

    operand: ValueOp
