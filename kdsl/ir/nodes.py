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

from kdsl.ir.control import Block as Block
from kdsl.ir.control import Break as Break
from kdsl.ir.control import Continue as Continue
from kdsl.ir.control import Counter as Counter
from kdsl.ir.control import ForRange as ForRange
from kdsl.ir.control import If as If
from kdsl.ir.control import Leave as Leave
from kdsl.ir.control import Return as Return
from kdsl.ir.control import Scope as Scope
from kdsl.ir.control import While as While
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
from kdsl.ir.together import ATOMIC as ATOMIC
from kdsl.ir.together import Agreed as Agreed
from kdsl.ir.together import Atomic as Atomic
from kdsl.ir.together import AtomicName as AtomicName
from kdsl.ir.together import Barrier as Barrier
from kdsl.ir.together import Clock as Clock
from kdsl.ir.together import Exchange as Exchange
from kdsl.ir.together import Fence as Fence
from kdsl.ir.together import OrderName as OrderName
from kdsl.ir.together import ScopeName as ScopeName
from kdsl.ir.together import Sleep as Sleep
from kdsl.ir.values import BINARY as BINARY
from kdsl.ir.values import TERNARY as TERNARY
from kdsl.ir.values import UNARY as UNARY
from kdsl.ir.values import Approximation as Approximation
from kdsl.ir.values import Binary as Binary
from kdsl.ir.values import BinaryName as BinaryName
from kdsl.ir.values import Bitcast as Bitcast
from kdsl.ir.values import Cast as Cast
from kdsl.ir.values import Compare as Compare
from kdsl.ir.values import CompareName as CompareName
from kdsl.ir.values import Constant as Constant
from kdsl.ir.values import Fma as Fma
from kdsl.ir.values import Length as Length
from kdsl.ir.values import OnGpu as OnGpu
from kdsl.ir.values import ParameterValue as ParameterValue
from kdsl.ir.values import Scale as Scale
from kdsl.ir.values import Select as Select
from kdsl.ir.values import Special as Special
from kdsl.ir.values import SpecialName as SpecialName
from kdsl.ir.values import Ternary as Ternary
from kdsl.ir.values import TernaryName as TernaryName
from kdsl.ir.values import Unary as Unary
from kdsl.ir.values import UnaryName as UnaryName
from kdsl.ir.vector import LoadVector as LoadVector
from kdsl.ir.vector import StoreVector as StoreVector
from kdsl.lang.attributes import PLAIN, Attributes
from kdsl.lang.caching import CacheHint
from kdsl.lang.struct_type import Field as Field
from kdsl.lang.types import DType

# ------------------------------------------------------------------------------------------------------------------------- operations


@dataclass(eq=False, kw_only=True)
class Get(ValueOp):
    """The present value of a variable."""

    variable: Variable


@dataclass(frozen=True, eq=False)
class RowCheck:
    """That an index is `row * width + rest`, and inside exactly where the row is at least 0 and below the count: a cheaper question."""

    row: ValueOp
    """i64."""
    width: ValueOp
    """i64, at least 1."""
    rest: ValueOp
    """i64, at least 0 and below the width."""
    count: ValueOp
    """Rows of the array: a `Length` or `ParameterValue`, not negative."""


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
    row_check: RowCheck | None = None
    """What a check may ask in place of its only index, if that is known. What is recorded are index and extent all the same."""
    cache: CacheHint | None = None
    """Of a view in device memory, what the caches are told."""


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
    cache: CacheHint | None = None
    """As of `Load`."""


@dataclass(eq=False, kw_only=True)
class Clear(Op):
    """Make all elements of a local array 0: it begins here. Nobody has written them, in the eyes of the sanitizer."""

    array: Array


PlainAccess: TypeAlias = Load | Store | LoadVector | StoreVector
"""What reads or writes an array as no other thread needs to see it."""
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
    resident: int = 1
    """Blocks for which a GPU's multiprocessor shall have registers at a time."""

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
        case Fma() | Ternary():
            return (op.a, op.b, op.c)
        case Scale():
            return (op.value, op.exponent)
        case Approximation():
            return op.arguments
        case Select():
            return (op.condition, op.then, op.orelse)
        case Load() if op.row_check is not None:
            return (*op.indices, op.row_check.row, op.row_check.width, op.row_check.rest, op.row_check.count)
        case Load() | LoadVector() | Check():
            return (*op.indices, *_rank(op.remote))
        case StoreVector():
            return (*op.indices, *op.values, *_rank(op.remote))
        case Exchange():
            return op.arguments if op.mask is None else (*op.arguments, op.mask)
        case Atomic():
            return (*op.indices, *op.arguments, *_rank(op.remote))
        case Instruction():
            return (*(i for element in op.elements for i in (*element.indices, *_rank(element.remote))), *op.arguments)
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


def touched(op: Op) -> tuple[Access | Element, ...]:
    """The places in memory that an operation reads or writes."""
    if isinstance(op, Instruction):
        return op.elements
    return (op,) if isinstance(op, Access) else ()


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
