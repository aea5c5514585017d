"""Kernels on vectors that the tests of this folder share; made for a vector type, as a launch cannot choose one."""

# annotations name variables of the enclosing function, so they are not left as text
import functools
from types import SimpleNamespace
from typing import Any

from kdsl import (
    D2,
    DisjointSlice,
    Slice,
    SliceMut,
    as_vectors,
    elements,
    i32,
    i64,
    kernel,
    local_array,
    shared_array,
    sweep,
    sync_threads,
    thread_idx,
    thread_index,
    unroll,
)

BLOCK = 96
"""Threads per block of most kernels: no multiple of 64, three warps."""


@functools.cache
def of(vector: Any) -> Any:
    """The kernels for a vector type."""
    element, lanes = vector.element, vector.lanes

    @kernel(grid=elements("y"), block=BLOCK, requires="len(x) == len(y)")
    def copy(x: Slice[vector], y: DisjointSlice[vector]) -> None:
        i = thread_index()
        if i in y:
            y[i] = x[i]

    @kernel(grid=elements("y"), block=BLOCK)
    def checked_copy(x: Slice[vector], y: DisjointSlice[vector]) -> None:
        y[thread_index()] = x[thread_index()]

    @kernel(grid=elements("which"), block=BLOCK)
    def picked(x: Slice[vector], which: Slice[i32], y: SliceMut[vector]) -> None:
        """Each lane has its own place to read from and to write to."""
        i = thread_index()
        if i in which:
            y[which[i]] = x[len(x) - 1 - which[i]]

    @kernel(grid=elements("which"), block=BLOCK)
    def unchecked_picked(x: Slice[vector], which: Slice[i32], y: SliceMut[vector]) -> None:
        """The same without masks, as the block is full."""
        i = thread_index()
        place = which.unchecked[i]
        y.unchecked[place] = x.unchecked[len(x) - 1 - place]

    @kernel(grid=sweep(blocks=2), block=BLOCK)
    def broadcast(x: Slice[vector], y: SliceMut[vector], k: i64) -> None:
        """All threads read one vector, and all of a block write one."""
        for i in range(thread_index(), len(y), 2 * BLOCK):
            if i > 0:
                y[i] = x[k]
        y[0] = x[k]

    @kernel(grid=elements("y"), block=BLOCK)
    def rows_of_eight(x: Slice[vector], y: SliceMut[vector]) -> None:
        """Runs of eight neighbours, backwards."""
        i = thread_index()
        if i in y:
            y[(i // 8 ^ 1) * 8 + i % 8] = x[(i // 8 ^ 1) * 8 + i % 8]

    @kernel(grid=elements("y"), block=BLOCK)
    def groups_of_four(x: Slice[vector], y: SliceMut[vector]) -> None:
        """Four neighbours read one vector; in every other group of eight only some do. One thread writes the first vector."""
        i = thread_index()
        if i > 0 and i < len(y):
            if i & 8:
                y[i] = x[i // 4]
            elif i % 8 > 2:
                y[i] = x.unchecked[i // 4]
        if i % 64 == 37:
            y[0] = x[i]

    @kernel(grid=elements("y"), block=BLOCK)
    def through_shared(x: Slice[vector], y: SliceMut[vector]) -> None:
        """The vectors of a block in reverse order, each twice: written as vectors and read as vectors, written as vectors and read as numbers."""
        whole = shared_array(BLOCK, vector)
        single = shared_array((BLOCK, lanes), element)
        t = thread_idx.x
        i = thread_index()
        if i in x:
            whole[t] = x[i]
            as_vectors(single, vector)[t, 0] = x[i]
        sync_threads()
        other = BLOCK - 1 - t
        if i in y and i - t + other < len(x):
            numbers = local_array(lanes, element)
            for k in unroll(lanes):
                numbers[k] = single[other, k]
            y[i] = whole[other] + as_vectors(numbers, lanes)[0]

    @kernel(grid=elements("y"), block=BLOCK)
    def numbers_in_shared(x: Slice[element], y: SliceMut[element]) -> None:
        """y[i] = x[i] in blocks of BLOCK numbers: written as numbers, read as vectors."""
        single = shared_array(BLOCK, element)
        t = thread_idx.x
        i = thread_index()
        single[t] = x[i] if i in x else element(0)
        sync_threads()
        if t < BLOCK // lanes and i // BLOCK * (BLOCK // lanes) + t < len(y) // lanes:
            as_vectors(y, lanes)[i // BLOCK * (BLOCK // lanes) + t] = as_vectors(single, lanes)[t]

    @kernel(grid=elements("y"), block=BLOCK)
    def through_local(x: Slice[vector], y: SliceMut[vector], shift: i32) -> None:
        """A table of the thread's own, with places known at run time; written as vectors, read as vectors of the same numbers."""
        table = local_array((3, 2), vector)
        i = thread_index()
        if i in y:
            for k in range(6):
                table[k // 2, k % 2] = x[(i + k) % len(x)]
            y[i] = table[(shift + i) % 3, (shift + i) % 2]

    @kernel(grid=elements("y"), block=BLOCK)
    def in_registers(x: Slice[vector], y: SliceMut[vector]) -> None:
        """A table in registers, as numbers and as vectors."""
        i = thread_index()
        if i in y:
            numbers = local_array(2 * lanes, element)
            pair = as_vectors(numbers, lanes)
            pair[0] = x[i]
            pair[1] = pair[0] + pair[0]
            numbers[lanes] = numbers[0]
            y[i] = pair[1]

    @kernel(grid=elements("y"), block=BLOCK)
    def partly(x: Slice[element], y: SliceMut[element]) -> None:
        """As vectors what makes up vectors, number by number the rest."""
        i = thread_index()
        xv, yv = as_vectors(x, vector), as_vectors(y, lanes)
        if i < len(x) // lanes:
            yv[i] = xv[i]
        if len(xv) * lanes + i < len(x):
            y[len(xv) * lanes + i] = x[len(xv) * lanes + i]

    @kernel(grid=sweep(blocks=3), block=BLOCK)
    def matrix(x: Slice[vector, D2], y: SliceMut[vector, D2]) -> None:
        """y[i, j] = x[i, columns - 1 - j], in vectors."""
        for n in range(thread_index(), y.shape[0] * y.shape[1], 3 * BLOCK):
            i, j = n // y.shape[1], n % y.shape[1]
            y[i, j] = x[i, y.shape[1] - 1 - j]

    @kernel(grid=sweep(blocks=3), block=BLOCK)
    def matrix_as_vectors(x: Slice[element, D2], y: SliceMut[element, D2]) -> None:
        xv, yv = as_vectors(x, vector), as_vectors(y, vector)
        for i in range(yv.shape[0]):
            for j in range(thread_index(), yv.shape[1], 3 * BLOCK):
                yv[i, j] = xv[i, yv.shape[1] - 1 - j]

    return SimpleNamespace(**{name: value for name, value in locals().items() if name not in ("vector", "element", "lanes")})
