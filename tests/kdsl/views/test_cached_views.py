"""Hints for the caches on every device: they change no result and no check."""

from __future__ import annotations

import re
from typing import Any

import cached_kernels as kernels
import ml_dtypes
import numpy as np
import pytest

import kdsl
from kdsl import Const, Slice, SliceMut, cached, f32, kernel, sync_threads, thread_index
from kdsl.ir.printer import print_kernel
from kdsl.testing import devices, sanitized
from kdsl.testing.ptx import assemble, filecheck

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
RANDOM = np.random.default_rng(8)
TYPES = [*"bhilBHIL", "e", "f", "d", ml_dtypes.bfloat16]


@DEVICES
@pytest.mark.parametrize("of", TYPES, ids=lambda of: np.dtype(of).name)
@pytest.mark.parametrize("n", [1, 257])
def test_every_type(device: Any, of: Any, n: int) -> None:
    x = RANDOM.integers(0, 100, n).astype(of)
    y = device.zeros(n, kdsl.dtype(np.dtype(of)))
    kernels.reversed_(y, device.array(x))
    assert np.array_equal(y.numpy(), x[::-1])
    y = device.array(np.repeat(x, 2))
    kernels.moved(y, device.zeros(n, kdsl.i32))
    assert np.array_equal(y.numpy(), np.repeat(x + np.dtype(of).type(2), 2))


@DEVICES
def test_bool(device: Any) -> None:
    x = RANDOM.integers(0, 2, 300).astype(bool)
    y = device.array(~x[::-1])
    kernels.inverted(y, device.array(x))
    assert np.array_equal(y.numpy(), ~x)


@DEVICES
@pytest.mark.parametrize("n", [0, 1, 7])
def test_loops_functions_and_dimensions(device: Any, n: int) -> None:
    x, z = RANDOM.integers(-9, 9, 100).astype(np.float32), RANDOM.integers(-9, 9, (2, 100)).astype(np.float32)
    y = device.zeros(100 - n, kdsl.f32)
    kernels.everywhere(y, device.array(x), device.array(z).T, n)
    m = 100 - n
    wanted = sum((x[k : k + m] for k in range(n)), np.zeros(m, np.float32)) + 2 * x[:m] + z[1, :m]
    assert np.array_equal(y.numpy(), wanted)
    device.synchronize()
    kernels.everywhere(device.zeros(100, kdsl.f32), device.array(x), device.array(z).T, 2)
    with pytest.raises(kdsl.BoundsError, match="index 100 is out of bounds for 100 elements"):
        device.synchronize()


@DEVICES
def test_vectors(device: Any) -> None:
    x = RANDOM.integers(-9, 9, 4 * 70).astype(np.float32)
    y, z = device.zeros(4 * 70, kdsl.f32), device.zeros(4 * 70, kdsl.f32)
    kernels.wide(y, device.array(x), z)
    wanted = (4 * x).reshape(-1, 2)
    wanted[::2] = x.reshape(-1, 2)[::2]
    assert np.array_equal(y.numpy(), 2 * x)
    assert np.array_equal(z.numpy(), wanted.reshape(-1))


@DEVICES
@pytest.mark.parametrize(("at", "to", "array", "index"), [(5, 3, "x", 5), (-1, 3, "x", -1), (2, 4, "y", 4), (2, -7, "y", -7)])
def test_checks_are_those_of_plain_accesses(device: Any, at: int, to: int, array: str, index: int) -> None:
    y = device.zeros(4, kdsl.f32)
    kernels.outside(y, device.full(5, 3.0, kdsl.f32), at, to)
    with pytest.raises(kdsl.BoundsError) as caught:
        device.synchronize()
    assert (caught.value.array, caught.value.index) == (array, index)
    assert y.numpy().tolist() == ([0, 0, 0, 1] if array == "x" else [0] * 4)


# ------------------------------------------------------------------------------------------------------------------------------- PTX


TARGETS = ["sm_80", "sm_90", "sm_110"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("of", [kdsl.i8, kdsl.f16, kdsl.f32, kdsl.f64], ids=str)
def test_every_size_assembles(of: Any, target: str) -> None:
    for each in (kernels.reversed_, kernels.moved):
        assert assemble(each.ptx(target, T=of), target).spills == 0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("of", [kernels.inverted, kernels.everywhere, kernels.wide, kernels.outside], ids=lambda k: k.name)
def test_assembles(of: kdsl.Kernel, target: str) -> None:
    assert assemble(of.ptx(target), target).spills == 0


def test_what_nobody_writes_is_read_by_the_way_of_constants() -> None:
    filecheck(
        kernels.reversed_.ptx("sm_80", T=kdsl.f64),
        """
        CHECK: .version 7.4
        CHECK: ld.global.cs.nc.b64 %rd{{[0-9]+}}, [%rd{{[0-9]+}}];
        CHECK: st.global.cs.b64 [%rd{{[0-9]+}}], %rd{{[0-9]+}};
        CHECK: ld.global.cg.nc.L2::64B.b64
        CHECK: st.global.cg.b64
        CHECK: ld.global.nc.L1::evict_first.L2::128B.b64
        CHECK: st.global.L1::evict_first.b64
        CHECK: ld.global.nc.L1::evict_last.L2::256B.b64
        CHECK: st.global.L1::evict_last.b64
        CHECK: ld.global.nc.L1::no_allocate.b64
        CHECK: st.global.L1::no_allocate.b64
        CHECK: ld.global.nc.L2::128B.b64
        CHECK: st.global.b64
        CHECK: ret;
        """,
    )


def test_what_is_written_is_read_where_it_stands() -> None:
    ptx = kernels.moved.ptx("sm_80", T=kdsl.u8).split(".loc", 1)[1]
    found = re.findall(r"(?:ld|st)\.global\.(?:c|L)\S*|st\.global\.b8", ptx)
    assert found[:4] == ["ld.global.cg.b8", "st.global.cs.b8", "ld.global.L1::evict_last.b8", "st.global.b8"]
    assert "st.global.L1::no_allocate.b8" in found
    assert ".nc" not in "".join(found)


def test_elements_that_one_thread_reads_and_writes_may_be_the_same_ones() -> None:
    """So that nothing says that they stay as they are."""
    assert "ld.global.cg.b8" in kernels.inverted.ptx("sm_80")


def test_vectors_are_one_access() -> None:
    ptx = kernels.wide.ptx("sm_80")
    for access in (
        "ld.global.cs.nc.L2::256B.v2.b64 {", "ld.global.nc.L1::evict_last.v2.b64 {", "ld.global.cg.nc.b64 ", "st.global.cs.v2.b64 [",
        "ld.global.L1::evict_first.v2.b64 {", "st.global.L1::no_allocate.v2.b64 [", "st.global.cs.b64 [",
    ):  # fmt: skip
        assert access in ptx, access


def test_a_hint_is_part_of_what_is_compiled() -> None:
    text = print_kernel(kernels.outside.ir())
    assert re.search(r"load x\[%\d+\] cached level2 checked site", text)
    assert re.search(r"store y\[%\d+\] cached streaming = %\d+ checked site", text)


# ------------------------------------------------------------------------------------------------------------------------- kdsl check


@kernel(grid=1, block=64)
def read_back(y: SliceMut[f32], x: Slice[f32], fixed: Const[bool]) -> None:
    """An element is read back with a hint, which says nothing of when it was written."""
    t = thread_index()
    cached(y, "streaming")[t] = cached(x, "evict_last")[t]
    if fixed:
        sync_threads()
    y[64 + t] = cached(y, "level2")[63 - t]


def test_the_sanitizer_sees_them_as_plain_accesses() -> None:
    cpu = kdsl.device("cpu")
    x = cpu.array(np.arange(64, dtype=np.float32))
    with sanitized() as found:
        read_back(cpu.zeros(128, f32), x, False)
    assert [(finding.kind, finding.array) for finding in found] == [("race", "y")]
    with sanitized() as found:
        read_back(cpu.zeros(128, f32), x, True)
        kernels.outside(cpu.empty(4, f32), x, 3, 2)
    assert not found
