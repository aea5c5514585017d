"""From Python to PTX, a construct at a time: the docstring of each kernel says what its PTX has to contain."""

from typing import TypeVar

import pytest

from kdsl import (
    Const,
    DisjointSlice,
    Kernel,
    Slice,
    SliceMut,
    block_idx,
    elements,
    exp,
    f32,
    f64,
    fma,
    function,
    i32,
    i64,
    is_first_lane,
    kernel,
    lane_index,
    local_array,
    row_index,
    rows,
    shared_array,
    shuffle_down,
    sqrt,
    sweep,
    sync_threads,
    thread_idx,
    thread_index,
    tile_index,
    tiles,
    u32,
    unroll,
    warp_any,
    warp_ballot,
    warp_index,
    warp_sum,
)
from kdsl.testing.ptx import assemble, filecheck

T = TypeVar("T", f32, f64, i32)


@kernel(grid=elements("y"), requires=("len(x) == len(y)",))
def guarded(y: DisjointSlice[f32], x: Slice[f32], a: f32) -> None:
    """A thread per element; the guard proves the accesses.

    CHECK: .entry guarded(
    CHECK: .maxntid 256, 1, 1
    CHECK: mul.wide.u32 {{.*}}, 256;
    CHECK: setp.ge.u64
    CHECK-NEXT: @%p{{[0-9]+}} bra
    CHECK: ld.global.b32
    CHECK: ld.global.b32
    CHECK: fma.rn.f32
    CHECK: st.global.b32
    CHECK-NOT: kdsl_record_failure
    """
    i = thread_index()
    if i in y:
        y[i] = a * x[i] + y[i]


@kernel(grid=elements("y"), contract=False)
def apart(y: DisjointSlice[f32], a: f32) -> None:
    """`contract=False` keeps the product and the sum apart.

    CHECK: mul.rn.f32
    CHECK-NOT: fma
    CHECK: add.rn.f32
    """
    i = thread_index()
    if i in y:
        y[i] = a * y[i] + 1.0


@kernel(grid=elements("y"), contract=False)
def fused(y: DisjointSlice[f32], a: f32) -> None:
    """`fma` always is one.

    CHECK: fma.rn.f32
    """
    i = thread_index()
    if i in y:
        y[i] = fma(a, y[i], f32(1))


@kernel(grid=elements("y"))
def literals(y: DisjointSlice[f32]) -> None:
    """Literals take the type of the other operand.

    CHECK-NOT: .f64
    CHECK: fma.rn.f32 {{.*}}, 0f3DCCCCCD, 0f3FC00000;
    CHECK-NOT: .f64
    """
    i = thread_index()
    if i in y:
        y[i] = y[i] * 0.1 + 1.5


@kernel(grid=elements("y"))
def rounded(y: DisjointSlice[f32], x: Slice[f32]) -> None:
    """Division and square root round correctly.

    CHECK-DAG: sqrt.rn.f32
    CHECK-DAG: div.rn.f32
    CHECK-NOT: approx
    """
    i = thread_index()
    if i in y:
        y[i] = sqrt(y[i]) / x[0]


@kernel(grid=elements("y"))
def limits(y: DisjointSlice[f32], low: f32, high: f32) -> None:
    """`min` and `max` keep NaN.

    CHECK: max.NaN.f32
    CHECK: min.NaN.f32
    """
    i = thread_index()
    if i in y:
        y[i] = min(max(y[i], low), high)


@kernel(grid=elements("y"))
def divided(y: DisjointSlice[i32], n: i32) -> None:
    """`//` and `%` floor, and by zero give 0.

    CHECK: setp.{{eq|ne}}.b32 {{.*}}, 0;
    CHECK: div.s32
    CHECK-NOT: div.s32
    CHECK: st.global.b32
    """
    i = thread_index()
    if i in y:
        y[i] = y[i] // n + y[i] % n


@kernel(grid=elements("y"))
def by_a_power_of_two(y: DisjointSlice[i32]) -> None:
    """Division by a constant is not a division.

    CHECK-NOT: div
    CHECK: shr.s32 {{.*}}, 4;
    CHECK: and.b32 {{.*}}, 15;
    CHECK-NOT: div
    """
    i = thread_index()
    if i in y:
        y[i] = (y[i] // 16) * 1000 + y[i] % 16


@kernel(grid=elements("y"))
def shifted(y: DisjointSlice[u32], amount: u32) -> None:
    """PTX clamps shift amounts as the language does.

    CHECK: shl.b32
    CHECK: shr.u32
    CHECK-NOT: shr.s32
    """
    i = thread_index()
    if i in y:
        y[i] = (y[i] << amount) ^ (y[i] >> amount)


@kernel(grid=elements("y"))
def converted(y: DisjointSlice[f32], x: Slice[i32]) -> None:
    """Conversions by calling the type.

    CHECK: cvt.rn.f32.s32
    CHECK: cvt.rzi.s32.f32
    CHECK: cvt.rn.f32.s32
    """
    i = thread_index()
    if i in y:
        y[i] = f32(i32(f32(x[0]) * 0.5))


@kernel(grid=elements("y"))
def chosen(y: DisjointSlice[f32], limit: f32) -> None:
    """A conditional expression without side effects becomes a selection.

    CHECK: setp.gt.f32
    CHECK: selp.f32
    CHECK: st.global.b32
    """
    i = thread_index()
    if i in y:
        value = y[i]
        y[i] = value * 2.0 if value > limit else value


@kernel(grid=elements("y"))
def search(y: DisjointSlice[i64], x: Slice[f32], n: u32) -> None:
    """`while`, `break`, `continue` and the `else` of a loop.

    CHECK: {{^\\$L__BB0_[0-9]+}}:
    CHECK: ld.global.nc.b32
    CHECK: bra
    CHECK: st.global.b64
    """
    i = thread_index()
    if i in y:
        found = i64(-1)
        for j in range(n):
            if x[j] < 0.0:
                continue
            if x[j] == f32(i):
                found = j
                break
        else:
            found = -2
        k = i64(0)
        while k < found:
            k += 3
        y[i] = found + k


@kernel(grid=elements("y"))
def backwards(y: DisjointSlice[f32], x: Slice[f32], n: u32) -> None:
    """A loop downwards.

    CHECK: add.s64 {{.*}}, -1;
    CHECK: ld.global.nc.b32
    """
    i = thread_index()
    if i in y:
        total = f32(0)
        for j in range(i64(n) - 1, -1, -1):
            total = total * 0.5 + x[j]
        y[i] = total


@kernel(grid=elements("y"))
def unrolled(y: DisjointSlice[T], x: Slice[T], *, exponent: Const[int]) -> None:
    """`unroll` repeats its body.

    CHECK-COUNT-3: mul.rn.f32
    CHECK: // second run
    CHECK-COUNT-3: mul.rn.f32
    CHECK-NOT: mul.rn.f32
    """
    i = thread_index()
    if i in y:
        value = x[i]
        for _ in unroll(exponent):
            value *= x[i]
        y[i] = value


@kernel(grid=tiles(rows="p", columns="p", batch="q", tile=(16, 16)), block=(16, 16))
def transposed(y: SliceMut[f32], x: Slice[f32], p: u32, q: u32) -> None:
    """A block per tile; shared memory between two barriers.

    CHECK: .entry transposed(
    CHECK: .maxntid 16, 16, 1
    CHECK: .shared .align 16 .b8 kdsl_shared0_tile[1088];
    CHECK: %ctaid.x
    CHECK-NOT: %ctaid.y
    CHECK: st.shared.b32
    CHECK: bar.sync 0;
    CHECK: ld.shared.b32
    CHECK: st.global.b32
    CHECK: // kdsl_record_failure
    """
    tile = shared_array((16, 17), f32)
    where = tile_index()
    column, row = where.column + thread_idx.x, where.row + thread_idx.y
    inside = row < p and column < p
    first = where.batch * p * p
    if inside:
        tile[thread_idx.y, thread_idx.x] = x[first + row * p + column]
    sync_threads()
    if inside:
        y[first + column * p + row] = tile[thread_idx.y, thread_idx.x]


@kernel(grid=rows("n"))
def summed(y: DisjointSlice[f32], x: Slice[f32], n: u32, width: u32) -> None:
    """A warp per row; whole warps return, so every lane takes part in the exchange.

    CHECK: .entry summed(
    CHECK: shfl.sync.bfly.b32 {{.*}}, 16, 31, -1;
    CHECK: shfl.sync.bfly.b32 {{.*}}, 8, 31, -1;
    CHECK: shfl.sync.bfly.b32 {{.*}}, 4, 31, -1;
    CHECK: shfl.sync.bfly.b32 {{.*}}, 2, 31, -1;
    CHECK: shfl.sync.bfly.b32 {{.*}}, 1, 31, -1;
    CHECK-NOT: ballot
    CHECK: st.global.b32
    """
    row = row_index()
    if row >= n:
        return
    total = f32(0)
    for column in range(lane_index(), width, 32):
        total += x[row * width + column]
    total = warp_sum(total)
    if is_first_lane():
        y[row] = total


@kernel(grid=sweep(blocks=4), block=48)
def partial_warps(y: SliceMut[u32]) -> None:
    """In a block of 48 threads, lanes of the second warp are absent.

    CHECK: vote.sync.any.pred
    CHECK: vote.sync.ballot.b32
    CHECK: shfl.sync.down.b32
    CHECK: selp
    """
    x = y[thread_idx.x]
    if warp_any(x > 3):
        y[block_idx.x * 48 + thread_idx.x] = shuffle_down(warp_ballot(x > 2), 1)


@kernel(grid=sweep(blocks=2), block=64)
def in_a_loop(y: SliceMut[f32], n: u32) -> None:
    """A barrier in a loop stays one barrier.

    CHECK-COUNT-1: bar.sync
    CHECK-NOT: bar.sync
    """
    totals = shared_array(2, f32)
    for step in range(n):
        if is_first_lane():
            totals[warp_index()] = y[step]
        sync_threads()
        y[thread_idx.x] = totals[0] + totals[1]


@kernel(grid=elements("y"))
def histogram(y: DisjointSlice[i32], x: Slice[i32]) -> None:
    """A local array with run-time indices lies in local memory, and is checked.

    CHECK: .local .align 16
    CHECK: setp.{{.*}}.u64
    CHECK: st.local.b32
    CHECK: // kdsl_record_failure
    """
    i = thread_index()
    if i in y:
        counts = local_array(8, i32)
        for k in range(8):
            counts[k] = 0
        for k in range(len(x)):
            counts[x[k]] += 1
        y[i] = counts[i % 8]


@kernel(grid=elements("index"))
def scattered(y: SliceMut[f32], index: Slice[i32]) -> None:
    """A write anywhere is checked.

    CHECK: ld.global.nc.b32 %r[[I:[0-9]+]]
    CHECK: cvt.s64.s32 %rd[[PLACE:[0-9]+]], %r[[I]]
    CHECK: setp.{{.*}}.u64 {{.*}}%rd[[PLACE]]
    CHECK: @{{!?}}%p{{[0-9]+}} bra
    CHECK: st.global.b32
    CHECK: ret;
    CHECK: // second run
    CHECK: // kdsl_record_failure
    """
    i = thread_index()
    if i < len(index):
        y[index[i]] = 1.0


@kernel(grid=elements("y"))
def asserted(y: DisjointSlice[f32]) -> None:
    """An assertion records and goes on.

    CHECK: setp
    CHECK: // kdsl_record_failure
    """
    i = thread_index()
    if i in y:
        assert y[i] >= 0.0, "negative"
        y[i] = sqrt(y[i])


@function
def smooth(x: f32) -> f32:
    """x / (1 + exp(-x))."""
    return x / (f32(1) + exp(-x))


@kernel(grid=elements("y"))
def called(y: DisjointSlice[f32]) -> None:
    """A function is expanded in place, also the mathematics that it calls; its lines are those of its own file.

    CHECK-NOT: call.uni
    CHECK: .loc 1
    CHECK: neg.f32
    CHECK: .loc 2
    CHECK: fma.rn.f32
    CHECK: .loc 1
    CHECK: div.rn.f32
    CHECK: .file 1 "{{.*}}test_ptx_kernels.py"
    CHECK: .file 2 "{{.*}}exponential.py"
    """
    i = thread_index()
    if i in y:
        y[i] = smooth(y[i])


SETTINGS = {"unrolled": {"T": f32, "exponent": 3}}
KERNELS = [value for value in list(globals().values()) if isinstance(value, Kernel)]


@pytest.mark.parametrize("tested", KERNELS, ids=lambda k: k.name)
def test_the_kernel_compiles_to_what_its_docstring_says(tested: Kernel) -> None:
    ptx = tested.ptx("sm_90", **SETTINGS.get(tested.name, {}))
    filecheck(ptx, tested.declaration.doc)
    assert ptx.isascii()


@pytest.mark.parametrize("target", ["sm_87", "sm_90", "sm_110"])
def test_all_kernels_assemble_without_spills(target: str) -> None:
    for tested in KERNELS:
        report = assemble(tested.ptx(target, **SETTINGS.get(tested.name, {})), target)
        assert report.spills == 0
