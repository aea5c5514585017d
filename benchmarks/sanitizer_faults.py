"""Kernels with planted faults, each with its mended form: what the sanitizer is measured by. They run on either device.

Every kernel takes `fixed`, which is known to the compiler and mends it. The lines at fault end in a comment `fault`: those are the lines that a report names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kdsl import (
    D2,
    Const,
    Kernel,
    Slice,
    SliceMut,
    as_vectors,
    atomic_add,
    atomic_load,
    block_idx,
    copy_async,
    f32,
    f32x4,
    fence_device,
    i32,
    i64,
    is_first_thread,
    kernel,
    lane_index,
    local_array,
    shared_array,
    shuffle,
    struct,
    sync_threads,
    thread_idx,
    u32,
    wait_all_copies,
    warp_sum,
)

THREADS: Final = 64


@dataclass(frozen=True)
class Fault:
    """A planted fault."""

    kernel: Kernel
    """The kernel; its docstring says what is wrong."""
    kind: str
    """What the sanitizer calls it."""
    array: str | None
    """The array that a report names."""
    run: Callable[[Any, bool], None]
    """Launch it on a device, mended or not, and wait."""
    lines: tuple[int, ...]
    """Lines at fault."""
    numbers: bool = False
    """Whether the sanitizer has to be asked for it (`--nan`)."""

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return self.kernel.name


FAULTS: Final[list[Fault]] = []


def fault(kind: str, array: str | None, *, numbers: bool = False, **arguments: Callable[[Any], Any]) -> Callable[[Kernel], Kernel]:
    """Add a kernel to the list. `arguments` make its arguments on a device."""

    def add(made: Kernel) -> Kernel:
        source, first = inspect.getsourcelines(made.__wrapped__)  # type: ignore[attr-defined]
        lines = tuple(first + number for number, line in enumerate(source) if "# fault" in line)

        def run(device: Any, fixed: bool) -> None:
            values = {name: make(device) for name, make in arguments.items()}
            made(**values, fixed=fixed)
            next(iter(values.values())).numpy()

        FAULTS.append(Fault(made, kind, array, run, lines, numbers))
        return made

    return add


def floats(count: int = THREADS) -> Callable[[Any], Any]:
    """An array of 0, 1, 2, ..."""
    return lambda device: device.array(np.arange(count, dtype=np.float32))


def integers(*values: int, count: int = THREADS) -> Callable[[Any], Any]:
    """An array of integers that repeat."""
    return lambda device: device.array(np.resize(np.array(values, np.int32), count))


def zeros(count: int = THREADS, of: Any = f32) -> Callable[[Any], Any]:
    """An array of zeros."""
    return lambda device: device.zeros(count, of)


# ------------------------------------------------------------------------------------------------------------------------------ races


@fault("race", "s", x=floats(), y=zeros())
@kernel(grid=1, block=THREADS)
def read_without_barrier(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """A thread reads what another one writes, with no barrier between."""
    s = shared_array(THREADS, f32)
    t = thread_idx.x
    s[t] = x[t]  # fault
    if fixed:
        sync_threads()
    y[t] = s[THREADS - 1 - t]  # fault


@fault("race", "s", x=floats(), y=zeros())
@kernel(grid=1, block=THREADS)
def two_write_one_element(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """Two threads write one element."""
    s = shared_array(THREADS, f32)
    t = thread_idx.x
    s[t if fixed else t // 2 * 2] = x[t]  # fault
    sync_threads()
    y[t] = s[t // 2 * 2]


@fault("race", "s", x=floats(4 * THREADS), y=zeros())
@kernel(grid=1, block=THREADS)
def next_tile_too_early(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """The next trip of a loop overwrites what slow threads still read."""
    s = shared_array(THREADS, f32)
    t = thread_idx.x
    total = f32(0)
    for k in range(4):
        s[t] = x[k * THREADS + t]  # fault
        sync_threads()
        total += s[(t + 1) % THREADS]  # fault
        if fixed:
            sync_threads()
    y[t] = total


@fault("race", "s", x=floats(32), y=zeros(32))
@kernel(grid=1, block=32)
def lanes_are_not_ordered(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """Lanes of one warp exchange through memory; that they reach warp_sum() together orders nothing."""
    s = shared_array(32, f32)
    t = thread_idx.x
    s[t] = x[t]  # fault
    total = warp_sum(x[t])
    if fixed:
        sync_threads()
    y[t] = total + s[31 - t]  # fault


@fault("race", "y", x=floats(), y=zeros())
@kernel(grid=1, block=THREADS)
def global_within_a_block(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """Threads of a block exchange through global memory without a barrier."""
    t = thread_idx.x
    y[t] = x[t]  # fault
    if fixed:
        sync_threads()
    other = y[THREADS - 1 - t]  # fault
    sync_threads()
    y[t] = other


@fault("race", "y", x=floats(4 * THREADS), y=zeros(4 * THREADS))
@kernel(grid=4, block=THREADS)
def blocks_write_the_same(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """The number of the block is missing in an index."""
    t = thread_idx.x
    y[block_idx.x * THREADS + t if fixed else t] = x[block_idx.x * THREADS + t]  # fault


@fault("race", "y", x=floats(4 * THREADS), y=zeros(4 * THREADS))
@kernel(grid=4, block=THREADS)
def read_of_another_block(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """A block reads what the next one writes; a barrier orders the threads of one block only."""
    i = block_idx.x * THREADS + thread_idx.x
    neighbour = (i + THREADS) % (4 * THREADS)
    before = x[neighbour] if fixed else y[neighbour]  # fault
    sync_threads()
    y[i] = before + 1.0  # fault


@fault("race", "count", count=zeros(1, i32), y=zeros(THREADS, i32))
@kernel(grid=1, block=THREADS)
def plain_beside_atomic(count: SliceMut[i32], y: SliceMut[i32], fixed: Const[bool]) -> None:
    """A plain read beside atomic additions."""
    atomic_add(count, 0, i32(1))  # fault
    if fixed:
        y[thread_idx.x] = atomic_load(count, 0)
    else:
        y[thread_idx.x] = count[0]  # fault


@fault("race", "partial", x=floats(4 * THREADS), partial=zeros(4), count=zeros(1, u32), y=zeros(1))
@kernel(grid=4, block=THREADS)
def last_block_without_fence(x: Slice[f32], partial: SliceMut[f32], count: SliceMut[u32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """The last block adds what all have written, and nothing orders that before its count."""
    if is_first_thread():
        partial[block_idx.x] = x[block_idx.x * THREADS]  # fault
        if fixed:
            fence_device()
        if atomic_add(count, 0, u32(1)) == 3:
            if fixed:
                fence_device()
            total = f32(0)
            for block in range(4):
                total += partial[block]  # fault
            y[0] = total


@struct
class Pair:
    """Two numbers side by side."""

    left: f32
    """The first."""
    right: f32
    """The second."""


@fault("race", "pairs", x=floats(), pairs=lambda device: device.array(np.zeros(THREADS, Pair.dtype)))
@kernel(grid=1, block=THREADS)
def one_field_of_a_struct(x: Slice[f32], pairs: SliceMut[Pair], fixed: Const[bool]) -> None:
    """Two threads share an element; each has its own field, or both have one."""
    t = thread_idx.x
    if t % 2 == 0:
        pairs[t // 2].left = x[t]  # fault
    elif fixed:
        pairs[t // 2].right = x[t]
    else:
        pairs[t // 2].left = x[t]  # fault


@fault("race", "y", x=floats(8 * 8), y=lambda device: device.zeros((8, 8), f32).T)
@kernel(grid=1, block=(8, 8))
def rows_of_a_transposed_view(x: Slice[f32], y: SliceMut[f32, D2], fixed: Const[bool]) -> None:
    """Rows that overlap in a view of two dimensions."""
    i, j = thread_idx.y, thread_idx.x
    y[i if fixed else i // 2, j] = x[8 * i + j]  # fault


@fault("race", "y", x=floats(), y=zeros())
@kernel(grid=1, block=THREADS // 4)
def vector_beside_numbers(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """A vector of four numbers, one of which another thread writes."""
    t = thread_idx.x
    as_vectors(y, f32x4)[t] = as_vectors(x, f32x4)[t]  # fault
    if fixed:
        sync_threads()
    y[(4 * t + 5) % THREADS] = 1.0  # fault


@fault("race", "s", x=floats(), y=zeros())
@kernel(grid=1, block=THREADS)
def sized_by_the_launch(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """The same in a shared array whose extent the launch decides."""
    s = shared_array(len(x), f32)
    t = thread_idx.x
    s[t] = x[t]  # fault
    if fixed:
        sync_threads()
    y[t] = s[THREADS - 1 - t]  # fault


@fault("race", "flag", y=zeros())
@kernel(grid=1, block=THREADS)
def barrier_that_depends_on_a_race(y: SliceMut[f32], fixed: Const[bool]) -> None:
    """Threads decide by a number that one of them changes meanwhile whether they come to a barrier."""
    flag = shared_array(1, i32)
    t = thread_idx.x
    if t == 0:
        flag[0] = 0
    sync_threads()
    if t == 0:
        flag[0] = 1  # fault
    if fixed:
        sync_threads()
    if flag[0] == 1:  # fault
        sync_threads()
    y[t] = 1.0


# ------------------------------------------------------------------------------------------------------------- memory never written


@fault("uninitialised", "s", x=floats(), y=zeros())
@kernel(grid=1, block=THREADS)
def shared_never_written(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """The last elements of a shared array are read and never written."""
    s = shared_array(THREADS + 1, f32)
    t = thread_idx.x
    s[t] = x[t]
    if fixed and t == 0:
        s[THREADS] = 0.0
    sync_threads()
    y[t] = s[t + 1]  # fault


@fault("uninitialised", "a", x=floats(), y=zeros())
@kernel(grid=1, block=THREADS)
def local_never_written(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """A thread reads an element of its own array that it has not written."""
    a = local_array(4, f32)
    t = thread_idx.x
    for k in range(4 if fixed else 3):
        a[k] = x[t]
    y[t] = a[t % 4]  # fault


@fault("uninitialised", "y", x=floats(), y=lambda device: device.empty(THREADS, f32), fresh=lambda device: device.empty(THREADS, f32))
@kernel(grid=1, block=THREADS)
def global_never_written(x: Slice[f32], y: SliceMut[f32], fresh: SliceMut[f32], fixed: Const[bool]) -> None:
    """Adding to an array that was made by empty()."""
    t = thread_idx.x
    fresh[t] = x[t]
    if fixed:
        y[t] = 0.0
    y[t] = fresh[t] + y[t]  # fault


# --------------------------------------------------------------------------------------------------------------------------- outside


@fault("outside", "x", x=floats(), y=zeros())
@kernel(grid=1, block=THREADS)
def read_behind_the_end(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """A read behind the end that nobody checks."""
    t = thread_idx.x
    y[t] = x.unchecked[(t + (1 << 20)) if t == 63 and not fixed else t]  # fault


@fault("outside", "y", x=floats(), y=zeros())
@kernel(grid=1, block=THREADS)
def write_behind_the_end(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """The same for a write."""
    t = thread_idx.x
    y.unchecked[(t + (1 << 20)) if t == 63 and not fixed else t] = x[t]  # fault


@fault("outside", "x", x=lambda device: device.array(np.arange(2 * THREADS, dtype=np.float32))[:THREADS], y=zeros())
@kernel(grid=1, block=THREADS)
def inside_by_luck(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """A read outside a part of an array, which the rest of it hides."""
    t = thread_idx.x
    y[t] = x.unchecked[t if fixed else t + 1]  # fault


@fault("outside", "s", x=floats(), y=zeros())
@kernel(grid=1, block=THREADS)
def outside_a_shared_array(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """A checked read outside a shared array, which gives 0."""
    s = shared_array(THREADS, f32)
    t = thread_idx.x
    s[t] = x[t]
    sync_threads()
    y[t] = s[t + i64(x[1]) if not fixed else t]  # fault


# -------------------------------------------------------------------------------------------------------------------------- copies


@fault("misaligned", "x", x=floats(5 * THREADS), y=zeros())
@kernel(grid=1, block=THREADS)
def copy_from_an_odd_place(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """A copy of 16 bytes from an address that is no multiple of 16."""
    s = shared_array((THREADS, 4), f32)
    t = thread_idx.x
    copy_async(s, (t, 0), x.unchecked, 4 * t if fixed else 4 * t + 1, 4)  # fault
    wait_all_copies()
    y[t] = s[t, 3]


@fault("unfinished copy", "s", x=floats(4 * THREADS), y=zeros())
@kernel(grid=1, block=THREADS)
def copy_not_waited_for(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """A thread reads what its copy may not have brought yet."""
    s = shared_array((THREADS, 4), f32)
    t = thread_idx.x
    copy_async(s, (t, 0), x, 4 * t, 4)  # fault
    if fixed:
        wait_all_copies()
    y[t] = s[t, 3]  # fault


@fault("race", "s", x=floats(4 * THREADS), y=zeros())
@kernel(grid=1, block=THREADS)
def copy_without_barrier(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """Other threads read a copy that its own thread has waited for, without a barrier."""
    s = shared_array((THREADS, 4), f32)
    t = thread_idx.x
    copy_async(s, (t, 0), x, 4 * t, 4)  # fault
    wait_all_copies()
    if fixed:
        sync_threads()
    y[t] = s[(t - 1) % THREADS, 3]  # fault


# ----------------------------------------------------------------------------------------------------------------------- exchange


@fault("inactive lane", None, x=floats(), y=zeros())
@kernel(grid=1, block=THREADS)
def shuffle_from_nobody(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """A lane takes from one that has returned."""
    t = thread_idx.x
    if lane_index() >= 16:
        return
    y[t] = shuffle(x[t], (lane_index() + 1) % 16 if fixed else lane_index() + 1)  # fault


@fault("missing lane", None, x=floats(), y=zeros())
@kernel(grid=1, block=THREADS)
def mask_with_too_many(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """A mask names lanes that are elsewhere."""
    t = thread_idx.x
    if lane_index() < 16:
        y[t] = warp_sum(x[t], mask=u32(0xFFFF) if fixed else u32(0xFFFFF))  # fault


@fault("mask", None, x=floats(), y=zeros())
@kernel(grid=1, block=THREADS)
def mask_without_oneself(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """A lane comes with a mask that does not name it."""
    t = thread_idx.x
    if lane_index() < 16:
        y[t] = warp_sum(x[t], mask=u32(0xFFFF) if fixed else u32(0x7FFF))  # fault


# ------------------------------------------------------------------------------------------------------------------------- numbers


@fault("divide", None, n=integers(3, 2, 1, 0), y=zeros(THREADS, i32))
@kernel(grid=1, block=THREADS)
def division_by_zero(n: Slice[i32], y: SliceMut[i32], fixed: Const[bool]) -> None:
    """An integer division by zero."""
    t = thread_idx.x
    y[t] = 12 // (max(n[t], 1) if fixed else n[t])  # fault


@fault("shift", None, n=integers(1, 31, 32), y=zeros(THREADS, i32))
@kernel(grid=1, block=THREADS)
def shift_by_the_width(n: Slice[i32], y: SliceMut[i32], fixed: Const[bool]) -> None:
    """A shift by as many bits as there are."""
    t = thread_idx.x
    y[t] = i32(1) << (n[t] % 32 if fixed else n[t])  # fault


@fault("conversion", None, x=floats(), y=zeros(THREADS, i32))
@kernel(grid=1, block=THREADS)
def conversion_that_does_not_fit(x: Slice[f32], y: SliceMut[i32], fixed: Const[bool]) -> None:
    """A float that no i32 can hold."""
    t = thread_idx.x
    y[t] = i32(x[t] * 1e6 if fixed else x[t] * 1e8)  # fault


@fault("not a number", None, numbers=True, x=floats(), y=zeros())
@kernel(grid=1, block=THREADS)
def zero_by_zero(x: Slice[f32], y: SliceMut[f32], fixed: Const[bool]) -> None:
    """0 / 0, and x / 0."""
    t = thread_idx.x
    y[t] = x[t] / (x[t] + 1.0 if fixed else x[t])  # fault
