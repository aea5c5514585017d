"""PTX of barriers in shared memory, copies by tensor maps and products of warpgroups: the text, and that the assembler makes of it what was meant."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import kdsl
from kdsl import (
    D2,
    D5,
    Const,
    Slice,
    SliceMut,
    TensorMap,
    barrier_arrive_expect,
    barrier_init,
    barrier_wait,
    bf16,
    commit_stores,
    f32,
    fence_async_proxy,
    fence_barrier_init,
    i8,
    i32,
    is_first_thread,
    kernel,
    local_array,
    shared_array,
    shared_barriers,
    sync_threads,
    thread_index,
    tma_load,
    tma_load_multicast,
    tma_prefetch,
    tma_reduce,
    tma_store,
    u8,
    unroll,
    wait_stores,
    warp_group_index,
    wgmma,
    wgmma_commit,
    wgmma_fence,
    wgmma_wait,
)
from kdsl.testing.ptx import assemble, filecheck

Check = Callable[[str], None]


@kernel(grid=1, block=128)
def copied(n: i32, a: TensorMap[bf16, D2], c: TensorMap[bf16, D2]) -> None:
    tile = shared_array((2, 64, 64), bf16, swizzle=128)
    full = shared_barriers(2)
    if is_first_thread():
        barrier_init(full, 1, 1)
        fence_barrier_init()
        barrier_arrive_expect(full, 1, tile.nbytes // 2)
        tma_load(tile, 1, a, (8, n), full, 1, evict="first")
        barrier_wait(full, 1, 0)
        tma_store(c, (n, 16), tile, 1)
        commit_stores()
        wait_stores(2)


def test_descriptors_are_parameters_that_nobody_copies(check: Check) -> None:
    """
    CHECK: .visible .entry copied(
    CHECK: .param .u32 copied_param_0,
    CHECK: .param .align 64 .b8 copied_param_1[128],
    CHECK: .param .u64 copied_param_2,
    CHECK: .param .u64 copied_param_3,
    CHECK: .param .align 64 .b8 copied_param_4[128],
    CHECK-NOT: .local
    CHECK-NOT: ld.param.b8
    CHECK: mbarrier.init.shared.b64
    CHECK: fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;
    CHECK: mbarrier.arrive.expect_tx.shared::cta.b64 _, [{{%r[0-9]+}}], {{%r[0-9]+}};
    CHECK: cvta.param.u64
    CHECK: cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint
    CHECK: mbarrier.try_wait.parity.shared::cta.b64
    CHECK: cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group
    CHECK: cp.async.bulk.commit_group;
    CHECK: cp.async.bulk.wait_group.read 2;
    """
    ptx = copied.ptx("sm_90")
    check(ptx)
    report = assemble(ptx, "sm_90")
    assert (report.stack, report.spills) == (0, 0)


def test_coordinates_stand_innermost_first() -> None:
    ptx = copied.ptx("sm_90")
    (load,) = re.findall(r"complete_tx::bytes\S* \[%r\d+\], \[%rd\d+, \{(%r\d+), (%r\d+)\}\]", ptx)
    assert re.search(rf"mov.b32\s+{load[1]}, 8;", ptx)
    (store,) = re.findall(r"bulk_group \[%rd\d+, \{(%r\d+), (%r\d+)\}\]", ptx)
    assert re.search(rf"mov.b32\s+{store[0]}, 16;", ptx)
    assert load[0] == store[1]  # n


@kernel(grid=2, block=32, cluster=2)
def of_five(a: TensorMap[f32, D5], c: TensorMap[f32, D5], i: i32, j: i32, k: i32, m: i32) -> None:
    tile = shared_array((2, 2, 3, 4, 8), f32)
    full = shared_barriers(1)
    if is_first_thread():
        barrier_init(full, 0, 1)
        fence_barrier_init()
        tma_prefetch(a, (i, j, k, m, 16))
        tma_load(tile, 1, a, (i, j, k, m, 20), full, 0)
        tma_load_multicast(tile, 0, a, (i, j, k, m, 24), full, 0, 3, evict="last")
        tma_store(c, (i, j, k, m, 28), tile, 1)
        tma_reduce(c, (i, j, k, m, 32), tile, 0, op="add")
        commit_stores()
        wait_stores()


def test_five_dimensions() -> None:
    ptx = of_five.ptx("sm_90a")
    number, address = r"%r\d+", r"\[%rd?\d+"
    box = rf"\{{({number}), ({number}), ({number}), ({number}), ({number})\}}\]"
    forms = [
        rf"cp.async.bulk.prefetch.tensor.5d.L2.global.tile {address}, {box};",
        rf"cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes {address}\], {address}, {box}, {address}\];",
        r"cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint "
        rf"{address}\], {address}, {box}, {address}\], %rs\d+, %rd\d+;",
        rf"cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group {address}, {box}, {address}\];",
        rf"cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.tile.bulk_group {address}, {box}, {address}\];",
    ]
    found = [re.findall(form, ptx) for form in forms]
    assert [len(copies) for copies in found] == [1] * 5
    outer = {copies[0][1:] for copies in found[:3]}
    assert len(outer) == 1  # m, k, j, i
    for (copy,), column in zip(found, (16, 20, 24, 28, 32), strict=True):
        assert re.search(rf"mov.b32\s+{copy[0]}, {column};", ptx)
    report = assemble(ptx, "sm_90a")
    assert (report.stack, report.spills) == (0, 0)


@kernel(grid=1, block=32)
def swizzled(x: Slice[bf16], y: SliceMut[bf16]) -> None:
    tile = shared_array((32, 64), bf16, swizzle=128)
    t = thread_index()
    tile[t, 8] = x[t]
    sync_threads()
    y[t] = tile[0, t]


def test_chunks_are_exchanged_by_the_row(check: Check) -> None:
    """
    CHECK: .shared .align 1024 .b8 kdsl_shared0_tile[4096];
    CHECK: and.b64 {{.*}}, 56;
    CHECK: xor.b
    CHECK: st.shared.b16
    CHECK: ld.shared.b16
    """
    check(swizzled.ptx("sm_80"))


@kernel(grid=1, block=256, spills=False)
def multiplied(x: Slice[bf16], y: SliceMut[f32], n: i32) -> None:
    left = shared_array((128, 64), bf16, swizzle=128)
    right = shared_array((2, 64, 64), bf16, swizzle=128)
    t = thread_index()
    for i in range(t, 128 * 64, 256):
        left[i // 64, i % 64] = x[i]
        right[i // 4096, i // 64 % 64, i % 64] = x[i]
    fence_async_proxy()
    sync_threads()
    sums = local_array(64, f32)
    for _ in range(n):
        wgmma_fence()
        for k in unroll(0, 64, 16):
            wgmma(sums, left, (64 * warp_group_index(), k), right, (0, k, 0), transpose_b=True)
        wgmma_commit()
        wgmma_wait(0)
    for i in unroll(64):
        y[64 * t + i] = sums[i]


def test_accumulators_stay_where_they_are(check: Check) -> None:
    """
    CHECK: .target sm_90a
    CHECK: shfl.sync.idx.b32
    CHECK: wgmma.fence.sync.aligned;
    CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
    CHECK-NOT: mov
    CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
    CHECK-NOT: mov
    CHECK: wgmma.mma_async
    CHECK-NOT: mov
    CHECK: wgmma.mma_async
    CHECK: wgmma.commit_group.sync.aligned;
    CHECK: wgmma.wait_group.sync.aligned 0;
    """
    ptx = multiplied.ptx("sm_90a")
    check(re.sub(r"^\s*(mov\.b32\s+%r\d+, \d+;|mov\.b64\s+%rd\d+, -?\d+;)$", "", ptx, flags=re.MULTILINE))  # constants may stand between
    products = re.findall(r"wgmma\.mma_async\S+ \{([^}]*)\}, (\S+), (\S+), p, 1, 1, 0, 1;", ptx)
    assert len(products) == 4
    assert len({registers for registers, _, _ in products}) == 1  # all in place
    report = assemble(ptx, "sm_90a")
    assert report.spills == 0
    assert report.registers <= 128


def test_what_accumulates_nothing_reads_nothing() -> None:
    @kernel(grid=1, block=128)
    def fresh(y: SliceMut[f32]) -> None:
        tile = shared_array((64, 32), i8, swizzle=32)
        tile[thread_index() % 64, 0] = 1
        fence_async_proxy()
        sync_threads()
        sums = local_array(4, i32)
        wgmma_fence()
        wgmma(sums, tile, (0, 0), tile, (0, 0), accumulate=False)
        wgmma_commit()
        wgmma_wait(0)
        y[thread_index()] = f32(sums[0])

    ptx = fresh.ptx("sm_90a")
    assert "setp.ne.b32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {" in ptx
    assert re.search(r"m64n8k32\S+ \{\S+, \S+, \S+, \S+\}, %rd\d+, %rd\d+, p; \}", ptx)


@pytest.mark.parametrize("span", [0, 32, 64, 128])
def test_descriptors_name_the_layout(span: int) -> None:
    wide = (span or 16) // 2

    @kernel(grid=1, block=128)
    def described(y: SliceMut[f32]) -> None:
        tile = shared_array((2, 64, wide), bf16, swizzle=span)
        tile[0, thread_index() % 64, 0] = 1.0
        fence_async_proxy()
        sync_threads()
        sums = local_array(32, f32)
        wgmma_fence()
        wgmma(sums, tile, (0, 0, 0), tile, (0, 0, 0))
        wgmma_commit()
        wgmma_wait(0)
        y[thread_index()] = sums[0]

    code = {0: 0, 128: 1, 64: 2, 32: 3}[span]
    leading = 64 * 16 if span == 0 else 16
    layout = leading >> 4 << 16 | (8 * (span or 16)) >> 4 << 32 | code << 62
    signed = layout - (1 << 64) if layout >> 63 else layout
    ptx = described.ptx("sm_90a")
    assert re.search(rf"or\.b64\s+%rd\d+, %rd\d+, {signed};", ptx), f"{signed} is no part of a descriptor"


@kernel(grid=1, block=128, spills=False)
def of_bytes(y: SliceMut[f32], A: Const[bool], B: Const[bool]) -> None:
    left = shared_array((64, 128), u8, swizzle=128)
    right = shared_array((16, 128), u8, swizzle=128)
    t = thread_index()
    left[t % 64, t] = u8(t)
    right[t % 16, t] = u8(t)
    fence_async_proxy()
    sync_threads()
    sums = local_array(8, f32)
    wgmma_fence()
    for k in unroll(0, 128, 32):
        wgmma(sums, left, (0, k), right, (0, k), type=("e5m2" if A else "e4m3", "e5m2" if B else "e4m3"))
    wgmma_commit()
    wgmma_wait(0)
    for i in unroll(8):
        y[8 * t + i] = sums[i]


def test_bytes_of_which_one_has_a_sign_need_a_newer_version() -> None:
    @kernel(grid=1, block=128)
    def both(y: SliceMut[i32]) -> None:
        left = shared_array((64, 32), u8, swizzle=32)
        right = shared_array((8, 32), i8, swizzle=32)
        sums = local_array(4, i32)
        wgmma_fence()
        wgmma(sums, left, (0, 0), right, (0, 0))
        wgmma_commit()
        wgmma_wait(0)
        y[thread_index()] = sums[0]

    filecheck(both.ptx("sm_90a"), "CHECK: .version 8.4\nCHECK: wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8 {")


@pytest.mark.parametrize(("a", "b"), [("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3"), ("e5m2", "e5m2")])
def test_floats_of_eight_bits(a: str, b: str) -> None:
    settings = {"A": a == "e5m2", "B": b == "e5m2"}
    ptx = of_bytes.ptx("sm_90a", **settings)
    filecheck(
        ptx,
        f"""
        CHECK: .target sm_90a
        CHECK: wgmma.fence.sync.aligned;
        CHECK: wgmma.mma_async.sync.aligned.m64n16k32.f32.{a}.{b} {{{{.*}}}}, %rd{{{{[0-9]+}}}}, %rd{{{{[0-9]+}}}}, p, 1, 1; }}
        CHECK: m64n16k32.f32.{a}.{b}
        CHECK: m64n16k32.f32.{a}.{b}
        CHECK: m64n16k32.f32.{a}.{b}
        CHECK-NOT: wgmma.mma_async
        CHECK: wgmma.commit_group.sync.aligned;
        """,
    )
    assert assemble(ptx, "sm_90a").spills == 0
    with pytest.raises(kdsl.KernelError, match=r"only sm_90a has it") as caught:
        of_bytes.ptx("sm_90", **settings)
    assert caught.value.location.line > 1
