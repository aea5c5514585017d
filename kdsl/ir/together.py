"""Operations of the IR through which threads deal with each other: lane exchange, atomics, fences, barriers, clocks.

`kdsl.ir.nodes` has these names, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from kdsl.ir.operation import Op, ValueOp
from kdsl.ir.places import Memory
from kdsl.lang.struct_type import Field


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


ScopeName: TypeAlias = Literal["block", "cluster", "device", "system"]


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
    """Accesses of the thread before it come before those after it, for all threads of `scope`."""

    name: str
    """Its row in the table."""
    scope: ScopeName
    order: OrderName = "seq_cst"
    """`seq_cst`: fences of a scope have one order; `acq_rel`: it acquires and releases only."""


@dataclass(eq=False, kw_only=True)
class Sleep(Op):
    """Suspend the thread for between 0 and twice `nanoseconds` (u32). GPU only."""

    name: str
    """Its row in the table."""
    nanoseconds: ValueOp


@dataclass(eq=False, kw_only=True)
class Barrier(Op):
    """All threads of the block that have not returned arrive; their writes to shared and global memory before it are visible after it."""
