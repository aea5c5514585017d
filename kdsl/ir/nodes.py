"""The typed IR of one specialised kernel: structured, every value typed, every operation with its place in the source.

A `Kernel` holds parameters, arrays, variables and a `Block`. A block is a list of operations in the order of evaluation. An operation that
yields a value *is* that value (`ValueOp`), is defined once and may be used by later operations of the same block and of blocks nested in it; one that
yields several (`Instruction`, `LoadVector`) is followed by its `Result`s.
What Python assigns more than once is a `Variable`, read by `Get` and changed by `Set`. Control stays structured: `If`, `While`, `ForRange`,
`Scope`. `@function` calls are already expanded in place (a `Scope` with `Leave` where the function returns early).

All decisions of the language are made before or by these operations, whose meanings are exact and stand in the docstrings here; a backend
only translates. What is not here: names, Python types, convergence and witness rules, all of which the frontend has checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from kdsl.ir.instruction import Element as Element
from kdsl.ir.instruction import Instruction as Instruction
from kdsl.ir.instruction import Option as Option
from kdsl.ir.instruction import Result as Result
from kdsl.ir.operation import Op as Op
from kdsl.ir.operation import ValueOp as ValueOp
from kdsl.ir.places import Array as Array
from kdsl.ir.places import Location as Location
from kdsl.ir.places import Member as Member
from kdsl.ir.places import Memory as Memory
from kdsl.ir.places import ScalarParameter as ScalarParameter
from kdsl.ir.places import SharedView as SharedView
from kdsl.ir.places import StructParameter as StructParameter
from kdsl.ir.places import TensorMap as TensorMap
from kdsl.ir.places import Variable as Variable
from kdsl.ir.places import View as View
from kdsl.ir.vector import LoadVector as LoadVector
from kdsl.ir.vector import StoreVector as StoreVector
from kdsl.lang.attributes import PLAIN, Attributes
from kdsl.lang.struct_type import Field as Field
from kdsl.lang.types import DType

# ------------------------------------------------------------------------------------------------------------------------- operations


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
    """A bool that is known when code is made: True on the GPU, False on the CPU. Chooses between inline PTX and what stands for it."""


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


@dataclass(eq=False, kw_only=True)
class Get(ValueOp):
    """The present value of a variable."""

    variable: Variable


@dataclass(eq=False, kw_only=True)
class Load(ValueOp):
    """An element, or a number in one. If `checked` and an index is outside, the value is 0 (False) and the failure is recorded under `site`."""

    memory: Memory
    indices: tuple[ValueOp, ...]
    """i64, one per dimension; then one per dimension of the arrays that `field` passes through."""
    checked: bool
    site: int
    remote: ValueOp | None = None
    """Of a shared array, the rank (i64) of the block of the cluster whose it is, checked like an index behind the others; None for this block's own."""
    field: Field | None = None
    """Which number, of elements that are structs."""


@dataclass(eq=False, kw_only=True)
class Check(ValueOp):
    """A `bool`: whether all indices are inside; if not, the failure is recorded under `site`. It stands before accesses of several numbers of one element."""

    memory: Memory
    indices: tuple[ValueOp, ...]
    """i64, one per dimension; then one per extent of `shape`."""
    shape: tuple[int, ...]
    """Extents of the arrays within the element, as many as are indexed."""
    site: int
    remote: ValueOp | None = None
    """As of `Load`."""


@dataclass(eq=False, kw_only=True)
class Exchange(ValueOp):
    """A value formed from several lanes of the warp, by the table of `kdsl.lang.intrinsics`; it has no other effect."""

    name: str
    arguments: tuple[ValueOp, ...]
    width: int = 32
    """Of a shuffle: lanes of a segment (2, 4, 8, 16 or 32), within which it stays."""
    mask: ValueOp | None = None
    """u32, bit n says that lane n takes part; it names the lane itself, and every lane that is named, and has not returned, comes with the same mask.
    None: all that have not returned."""


@dataclass(eq=False, kw_only=True)
class Agreed(ValueOp):
    """`value`, which all threads of the block, or lanes of the warp, that have not returned hold; they come together. If they do not hold the same, the
    failure is recorded under `site`, and all get the value of one of them."""

    value: ValueOp
    among: Literal["block", "warp"]
    """Who compares."""
    site: int


ScopeName: TypeAlias = Literal["block", "device", "system"]
OrderName: TypeAlias = Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"]
AtomicName: TypeAlias = Literal["add", "sub", "min", "max", "and", "or", "xor", "exchange", "cas", "inc", "dec", "load", "store"]
ATOMIC: Final[dict[str, str]] = {
    "add": "old + value; integers wrap, floats round to nearest even (f32 in global memory may flush subnormals)",
    "sub": "old - value, likewise",
    "min": "the smaller of old and value, integers",
    "max": "the larger of old and value, integers",
    "and": "old & value",
    "or": "old | value",
    "xor": "old ^ value",
    "exchange": "value",
    "cas": "(compare, value): value if old has the bits of compare, else old",
    "inc": "(limit): 0 if old >= limit, else old + 1; u32",
    "dec": "(limit): limit if old == 0 or old > limit, else old - 1; u32",
    "load": "no change",
    "store": "value; the result is 0 and not old",
}


@dataclass(eq=False, kw_only=True)
class Atomic(ValueOp):
    """Change one element of a view or shared array by `ATOMIC[op]`, indivisibly among the threads of `scope`; the result is its value before (old).

    `order` is the memory order of the PTX and C++ memory models. Lanes of a group do it one after the other, in any order. If `checked` and an index is
    outside, nothing is changed, the result is 0, and the failure is recorded under `site`.
    """

    name: str
    """Its row in the table."""
    op: AtomicName
    memory: Memory
    indices: tuple[ValueOp, ...]
    """As of a `Load`."""
    arguments: tuple[ValueOp, ...]
    """Of the type of the element; see `ATOMIC`."""
    scope: ScopeName
    order: OrderName
    checked: bool
    site: int
    remote: ValueOp | None = None
    """As of `Load`."""
    field: Field | None = None
    """Which number, of elements that are structs."""


@dataclass(eq=False, kw_only=True)
class Clock(ValueOp):
    """A counter of the GPU, i64, read here and now; differs from read to read. GPU only."""

    name: str
    """Its row in the table."""


@dataclass(eq=False, kw_only=True)
class Fence(Op):
    """Accesses of the thread before it come before those after it, for all threads of `scope`; fences of a scope have one order."""

    name: str
    """Its row in the table."""
    scope: ScopeName


@dataclass(eq=False, kw_only=True)
class Sleep(Op):
    """Suspend the thread for between 0 and twice `nanoseconds` (u32). GPU only."""

    name: str
    """Its row in the table."""
    nanoseconds: ValueOp


@dataclass(eq=False, kw_only=True)
class Set(Op):
    """Assign to a variable."""

    variable: Variable
    value: ValueOp


@dataclass(eq=False, kw_only=True)
class Store(Op):
    """Write an element. If `checked` and an index is outside, nothing is written and the failure is recorded under `site`."""

    memory: Memory
    indices: tuple[ValueOp, ...]
    """As of a `Load`."""
    value: ValueOp
    checked: bool
    site: int
    remote: ValueOp | None = None
    """As of `Load`."""
    field: Field | None = None
    """Which number, of elements that are structs."""


Access: TypeAlias = Load | Store | Atomic | LoadVector | StoreVector
"""What reads or writes an array at a place that may have to be checked."""


@dataclass(eq=False, kw_only=True)
class Assertion(Op):
    """Record a failure under `site` if the condition is False; the thread goes on."""

    condition: ValueOp
    site: int
    about: tuple[ValueOp, ValueOp, ValueOp] | None = None
    """What is recorded: dimension, index and extent (i64); without it three zeros."""


@dataclass(eq=False, kw_only=True)
class Print(Op):
    """Write down the values for the host, which puts them into the text of `site` at the next synchronisation."""

    values: tuple[ValueOp, ...]
    site: int


@dataclass(eq=False, kw_only=True)
class Barrier(Op):
    """All threads of the block that have not returned arrive; their writes to shared and global memory before it are visible after it."""


@dataclass(eq=False, kw_only=True)
class If(Op):
    """Run one of two blocks."""

    condition: ValueOp
    then: Block
    orelse: Block


@dataclass(eq=False, kw_only=True)
class While(Op):
    """Evaluate `head`, leave if `condition` (defined in or before it) is False (after `orelse`), run `body`, repeat."""

    head: Block
    condition: ValueOp
    body: Block
    orelse: Block


@dataclass(eq=False, kw_only=True)
class Counter(ValueOp):
    """The i64 loop value of the `ForRange` that defines it, constant within one trip."""

    multiple: int = 1
    """A power of two of which it is known to be a multiple."""


@dataclass(eq=False, kw_only=True)
class ForRange(Op):
    """Python's `for counter in range(start, stop, step)`, operands i64 and evaluated once; a step of 0 makes no trip; then `orelse`, unless broken."""

    counter: Counter
    start: ValueOp
    stop: ValueOp
    step: ValueOp
    body: Block
    orelse: Block


@dataclass(eq=False, kw_only=True)
class Break(Op):
    """Leave the innermost loop without its `orelse`. Last in its block."""


@dataclass(eq=False, kw_only=True)
class Continue(Op):
    """Begin the next trip of the innermost loop. Last in its block."""


@dataclass(eq=False, kw_only=True)
class Scope(Op):
    """Run `body` once; `Leave` jumps to its end. An expanded call or a trip of an unrolled loop."""

    body: Block


@dataclass(eq=False, kw_only=True)
class Leave(Op):
    """Jump to the end of an enclosing scope, out of any loops between. Last in its block."""

    scope: Scope


@dataclass(eq=False, kw_only=True)
class Return(Op):
    """The thread is done. Last in its block."""


@dataclass(eq=False)
class Block:
    """Operations in order."""

    ops: list[Op] = field(default_factory=list)

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)


# ----------------------------------------------------------------------------------------------------------------------------- kernels


Format: TypeAlias = "str | tuple[DType, str]"
"""A part of a line of output: text, or a number with its type and the format that stands behind the colon of an f-string."""


@dataclass(frozen=True)
class Site:
    """A check that can fail at run time: what the recorded failure means."""

    kind: Literal["load", "store", "atomic", "copy", "assert", "divide", "shift", "mask", "agree", "print"]
    """What was left out, that an assertion failed, or what a checked build found: a division by zero, a shift by too much, a lane that is not in its own mask,
    threads that differ in control. `print` is no check but a line of output."""
    name: str
    """Name of the array, the message of the assertion, or of what was checked."""
    location: Location
    """Where."""
    extents: tuple[int, ...] | None
    """Shape of a shared or local array, None for a view (whose extent is in the record)."""
    rank: int = 1
    """Indices of a view: its dimensions, and those of arrays within its elements; an array has them in its extents."""
    format: tuple[Format, ...] = ()
    """Of a line of output: text, and numbers with how they are written."""


@dataclass(eq=False)
class Kernel:
    """One kernel, for one choice of type variables and constants."""

    name: str
    """Name of the Python function."""
    parameters: list[ScalarParameter | View | Array]
    """In the order of the signature; a struct is flattened to its numbers and arrays, in order."""
    arrays: list[Array]
    """Shared and local arrays."""
    variables: list[Variable]
    """All variables."""
    block_dim: tuple[int, int, int]
    """Threads per block along x, y and z."""
    sites: list[Site]
    """Checks, by their number."""
    body: Block
    location: Location
    """The `def` line."""
    grid_rank: int = 3
    """Dimensions of the grid that the geometry declares: 1 if grid_y and grid_z are always 1 (block_idx.x is the linear block), 2 if grid_z is. The grid
    that hardware sees is always linear; a backend unfolds block_idx.y and z from it, and what it need not unfold costs nothing. 3 is always right."""
    shared_views: list[SharedView] = field(default_factory=list)
    """Shared arrays whose extents the launch decides."""
    attributes: Attributes = PLAIN
    """What it asks of its launches beyond a grid of blocks. The blocks of a cluster are consecutive in the hardware's grid, x fastest among them, and the
    grid's clusters follow one another likewise."""
    spills: bool = True
    """Whether registers may be spilled to memory on a GPU; if not, code that does is refused."""

    @property
    def threads(self) -> int:
        """Threads per block."""
        x, y, z = self.block_dim
        return x * y * z


def children(op: Op) -> tuple[Block, ...]:
    """The blocks nested in an operation, in order of evaluation."""
    match op:
        case If():
            return (op.then, op.orelse)
        case While():
            return (op.head, op.body, op.orelse)
        case ForRange():
            return (op.body, op.orelse)
        case Scope():
            return (op.body,)
        case _:
            return ()


def operands(op: Op) -> tuple[ValueOp, ...]:
    """The values that an operation itself uses (not those inside its nested blocks)."""
    match op:
        case Unary() | Cast() | Bitcast():
            return (op.operand,)
        case Binary() | Compare():
            return (op.left, op.right)
        case Fma():
            return (op.a, op.b, op.c)
        case Select():
            return (op.condition, op.then, op.orelse)
        case Load() | LoadVector() | Check():
            return (*op.indices, *_rank(op.remote))
        case StoreVector():
            return (*op.indices, *op.values, *_rank(op.remote))
        case Exchange():
            return op.arguments if op.mask is None else (*op.arguments, op.mask)
        case Atomic():
            return (*op.indices, *op.arguments, *_rank(op.remote))
        case Instruction():
            return (*(i for element in op.elements for i in element.indices), *op.arguments)
        case Sleep():
            return (op.nanoseconds,)
        case Print():
            return op.values
        case Set() | Agreed():
            return (op.value,)
        case Store():
            return (*op.indices, op.value, *_rank(op.remote))
        case Assertion():
            return (op.condition, *(op.about or ()))
        case If() | While():
            return (op.condition,)
        case ForRange():
            return (op.start, op.stop, op.step)
        case _:
            return ()


def _rank(remote: ValueOp | None) -> tuple[ValueOp, ...]:
    return () if remote is None else (remote,)


def extents_within(op: Access | Check) -> tuple[int, ...]:
    """Extents of the arrays within an element that an access passes through."""
    if isinstance(op, Check):
        return op.shape
    return op.field.shape if isinstance(op, Load | Store | Atomic) and op.field is not None else ()


def walk(block: Block) -> Iterator[Op]:
    """Every operation of a block and of the blocks nested in it, in order."""
    for op in block:
        yield op
        for child in children(op):
            yield from walk(child)


WARP_SIZE: Final = 32

WARP_GROUP_SIZE: Final = 4 * WARP_SIZE
