"""Whole matrix products on tensor cores, of awkward sizes, on every device, against NumPy in f64 and i64; what lies beyond the edges is poison."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operands import Matrix, capability, error_bound, exact, random_matrix, to_tf32
from products import by_bytes, by_double, by_eights, by_pairs, by_tf32, in_f16

import kdsl
from kdsl.testing import devices
from kdsl.testing.ptx import assemble, filecheck

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
SIZES = pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (17, 9, 33), (33, 31, 65), (32, 16, 32), (40, 17, 100), (5, 50, 7)])


def padded(device: Any, x: Matrix) -> Any:
    """The matrix with rows that begin at multiples of 16 bytes, and poison between them."""
    step = 16 // x.dtype.itemsize
    rows = np.frombuffer(b"\xff" * (len(x) * -(-x.shape[1] // step) * 16), x.dtype).reshape(len(x), -1).copy()
    rows[:, : x.shape[1]] = x
    return device.array(rows)[:, : x.shape[1]]


def product(device: Any, kernel: Any, a: Matrix, b: Matrix, result: Any, *, transposed: bool = False) -> Matrix:
    """C on a device; `transposed` says that the kernel takes B with rows and columns exchanged."""
    c = device.array(np.frombuffer(b"\xa5" * (len(a) * b.shape[1] * result.itemsize), result.numpy).reshape(len(a), -1).copy())
    kernel(c, padded(device, a), padded(device, np.ascontiguousarray(b.T) if transposed else b))
    found: Matrix = c.numpy()
    return found


def compare(found: Matrix, a: Matrix, b: Matrix, kind: str) -> None:
    nothing = np.zeros(found.shape)
    assert np.all(np.abs(exact(found) - exact(a) @ exact(b)) <= error_bound(a, b, nothing, kind))


@DEVICES
@SIZES
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_pairs(device: Any, kind: str, m: int, n: int, k: int) -> None:
    a, b = random_matrix((m, k), kind, 1), random_matrix((k, n), kind, 2)
    compare(product(device, by_pairs, a, b, kdsl.dtype("f32")), a, b, "f32")


@DEVICES
@SIZES
def test_f16_with_sums_in_f16(device: Any, m: int, n: int, k: int) -> None:
    a, b = random_matrix((m, k), "f16", 3), random_matrix((k, n), "f16", 4)
    compare(product(device, in_f16, a, b, kdsl.dtype("f16")), a, b, "f16")


@DEVICES
@SIZES
def test_tf32(device: Any, m: int, n: int, k: int) -> None:
    """The f32 numbers are rounded, and not cut off: the product of the rounded ones comes out."""
    random = np.random.default_rng(5)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    found = product(device, by_tf32, a, b, kdsl.dtype("f32"), transposed=True)
    compare(found, to_tf32(a), to_tf32(b), "f32")


@DEVICES
@SIZES
@pytest.mark.parametrize(("a_kind", "b_kind"), [("s8", "s8"), ("u8", "s8"), ("u8", "u8")])
def test_bytes(device: Any, a_kind: str, b_kind: str, m: int, n: int, k: int) -> None:
    a, b = random_matrix((m, k), a_kind, 6), random_matrix((k, n), b_kind, 7)
    np.testing.assert_array_equal(product(device, by_bytes, a, b, kdsl.dtype("i32"), transposed=True), exact(a) @ exact(b))


EIGHTS = {kinds: by_eights(*kinds) for kinds in [("e4m3", "e4m3"), ("e5m2", "e4m3")]}


@DEVICES
@SIZES
@pytest.mark.parametrize("kinds", EIGHTS, ids="-".join)
def test_floats_of_8_bits(device: Any, kinds: tuple[str, str], m: int, n: int, k: int) -> None:
    if capability(device) < 89:
        pytest.skip(f"{device} has no products of 8-bit floats")
    a, b = random_matrix((m, k), kinds[0], 8), random_matrix((k, n), kinds[1], 9)
    found = product(device, EIGHTS[kinds], a.view(np.uint8), b.view(np.uint8), kdsl.dtype("f32"), transposed=True)
    compare(found, a, b, "f32")


@DEVICES
@SIZES
def test_doubles(device: Any, m: int, n: int, k: int) -> None:
    a, b = random_matrix((m, k), "f64", 10), random_matrix((k, n), "f64", 11)
    compare(product(device, by_double, a, b, kdsl.dtype("f64")), a, b, "f64")


# -------------------------------------------------------------------------------------------------------------------------------- code

TARGETS = ("sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_110", "sm_120")


@pytest.mark.parametrize("target", TARGETS)
def test_all_of_them_assemble_without_spills(target: str) -> None:
    kernels = [
        *((by_pairs, {"T": of}) for of in ("f16", "bf16")), (in_f16, {}), (by_tf32, {}), (by_bytes, {"U": "u8", "V": "i8"}), (by_double, {}),
    ]  # fmt: skip
    if int("".join(c for c in target if c.isdigit())) >= 89:
        kernels.append((EIGHTS["e5m2", "e4m3"], {}))
    for kernel, settings in kernels:
        report = assemble(kernel.ptx(target, **settings), target)
        assert report.spills == 0, kernel
        assert report.stack == 0, kernel


def test_the_loop_is_what_one_would_write() -> None:
    """
    CHECK: cp.async.cg.shared.global [%r{{[0-9]+}}], [%rd{{[0-9]+}}], 16, %r{{[0-9]+}};
    CHECK: cp.async.commit_group;
    CHECK: cp.async.wait_group 1;
    CHECK: bar.sync 0;
    CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16 {[[A:%r[0-9]+, %r[0-9]+, %r[0-9]+, %r[0-9]+]]}, [%r{{[0-9]+}}];
    CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {[[B:%r[0-9]+, %r[0-9]+]], [[C:%r[0-9]+, %r[0-9]+]]}, [%r{{[0-9]+}}];
    CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{{.*}}}, {[[A]]}, {[[B]]}, {{{.*}}};
    CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{{.*}}}, {[[A]]}, {[[C]]}, {{{.*}}};
    CHECK: bar.sync 0;
    """
    filecheck(by_pairs.ptx("sm_80", T="bf16"), str(test_the_loop_is_what_one_would_write.__doc__))


def test_many_accumulators_stay_in_registers() -> None:
    """128 sums of a lane, as in a tile of 128 x 128 of four warps: no spills, and not one move per product."""

    @kdsl.kernel(grid=1, block=128)
    def wide(y: kdsl.SliceMut[kdsl.f32], x: kdsl.Slice[kdsl.u32], n: kdsl.i32) -> None:
        total = kdsl.local_array((4, 8, 4), kdsl.f32)
        a, b = kdsl.local_array((4, 4), kdsl.u32), kdsl.local_array((8, 2), kdsl.u32)
        t = kdsl.thread_idx.x
        for step in range(n):
            for i in kdsl.unroll(4):
                for r in kdsl.unroll(4):
                    a[i, r] = x.unchecked[(step * 32 + i * 4 + r) * 128 + t]
            for j in kdsl.unroll(8):
                for r in kdsl.unroll(2):
                    b[j, r] = x.unchecked[(step * 32 + 16 + j * 2 + r) * 128 + t]
            for i in kdsl.unroll(4):
                for j in kdsl.unroll(8):
                    total[i, j, :] = kdsl.mma(a[i, :], b[j, :], total[i, j, :], "m16n8k16", kdsl.bf16)
        for i in kdsl.unroll(4):
            for j in kdsl.unroll(8):
                for r in kdsl.unroll(4):
                    y.unchecked[((i * 8 + j) * 4 + r) * 128 + t] = total[i, j, r]

    for target in ("sm_80", "sm_90a", "sm_120"):
        ptx = wide.ptx(target)
        loop = ptx[ptx.index("mma.sync") : ptx.rindex("mma.sync")]
        assert loop.count("mma.sync") == 31
        assert loop.count("mov.") == 0
        report = assemble(ptx, target)
        assert (report.spills, report.stack) == (0, 0)
