"""Shapes, strides, slices of device arrays, against NumPy; and what launches refuse."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import strided_kernels as kernels
from hypothesis import given, settings
from hypothesis import strategies as st

import kdsl
from kdsl.launch.generate import launcher_source
from kdsl.runtime.layout import shares_elements

CPU = kdsl.device("cpu")
HOST = np.arange(4 * 5 * 6, dtype=np.int32).reshape(4, 5, 6)


def test_attributes() -> None:
    a = CPU.array(HOST)
    assert (a.shape, a.strides, a.ndim, a.size, len(a), a.nbytes) == ((4, 5, 6), (30, 6, 1), 3, 120, 4, 480)
    assert a.T.strides == (1, 6, 30)
    assert not a.T.contiguous
    assert a[1:].contiguous
    assert repr(a) == "<array of 4 x 5 x 6 i32 on cpu>"
    assert CPU.zeros((2, 3), kdsl.f32).numpy().tolist() == [[0, 0, 0], [0, 0, 0]]
    assert CPU.full((2, 2), 3, kdsl.i8).numpy().tolist() == [[3, 3], [3, 3]]


def test_any_order_is_copied_to_row_major() -> None:
    for host in (np.asfortranarray(HOST), HOST[::-1, :, ::2], np.broadcast_to(HOST[:1], (3, 5, 6))):
        a = CPU.array(host)
        assert a.contiguous
        assert np.array_equal(a.numpy(), host)


PARTS = [slice(None), slice(1, None), slice(None, None, -1), slice(None, None, 2), slice(3, 0, -2), slice(9, 9), 0, -1, 3]


@pytest.mark.parametrize("parts", [p for p in itertools.product(PARTS, repeat=3) if any(isinstance(x, slice) for x in p)][::7])
def test_parts(parts: tuple[Any, ...]) -> None:
    assert np.array_equal(CPU.array(HOST)[parts].numpy(), HOST[parts])


def test_parts_with_dots_and_of_parts() -> None:
    a = CPU.array(HOST)
    for index in (..., (..., slice(1, 3)), (1, ...), (slice(2), ..., 3), slice(1, 3), 2):
        assert np.array_equal(a[index].numpy(), HOST[index])
    assert np.array_equal(a[1:, ::-2].T[::2, 1:].numpy(), HOST[1:, ::-2].T[::2, 1:])
    assert np.array_equal(a.transpose(1, 2, 0).numpy(), HOST.transpose(1, 2, 0))
    assert np.array_equal(a.transpose((1, 2, 0)).numpy(), HOST.transpose(1, 2, 0))
    flat = CPU.array(HOST.ravel())
    assert np.array_equal(flat[::-7].numpy(), HOST.ravel()[::-7])
    assert np.array_equal(flat.reshape(6, -1).numpy(), HOST.reshape(6, -1))
    assert np.array_equal(flat.reshape((2, 60)).numpy(), HOST.reshape(2, 60))


def test_refused_on_the_host() -> None:
    a = CPU.array(HOST)
    for error, words, action in (
        (ValueError, "not contiguous", lambda: a.T.reshape(-1)),
        (ValueError, "cannot reshape 120 elements", lambda: a.reshape(7, -1)),
        (ValueError, "cannot reshape 120 elements", lambda: a.reshape(-1, -1)),
        (ValueError, "takes each dimension", lambda: a.transpose(0, 0, 1)),
        (ValueError, "cannot be broadcast", lambda: a.broadcast_to((4, 5, 7))),
        (ValueError, "at most", lambda: CPU.zeros((1, 1), kdsl.f32).broadcast_to((1 << 30, 1 << 30))),
        (ValueError, "1 to 5 dimensions", lambda: CPU.array(np.zeros((1,) * 6, np.float32))),
        (ValueError, "1 to 5 dimensions", lambda: CPU.zeros((), kdsl.f32)),
        (ValueError, "at least 0", lambda: CPU.zeros((3, -1), kdsl.f32)),
        (TypeError, "tuple of ints", lambda: CPU.zeros((3, 1.5), kdsl.f32)),
        (IndexError, "outside dimension 1", lambda: a[:, 5]),
        (IndexError, "4 indices for an array of 3", lambda: a[:, :, :, :]),
        (TypeError, "not accessible", lambda: a[1, 2, 3]),
        (TypeError, "slices, ints", lambda: a[[1, 2]]),
        (ValueError, "not contiguous and cannot be filled", lambda: a[::2].fill(1)),
        (ValueError, "not contiguous and cannot be copied to", lambda: a.T.copy_from(HOST.T)),
        (ValueError, r"of shape \(4, 30\)", lambda: a.copy_from(HOST.reshape(4, 30))),
    ):
        with pytest.raises(error, match=words):
            action()


def test_copies() -> None:
    a, b = CPU.array(HOST), CPU.zeros((6, 5, 4), kdsl.i32)
    b.copy_from(a.T)
    assert np.array_equal(b.numpy(), HOST.T)
    b.copy_from(np.ascontiguousarray(HOST.T[::-1]))
    assert np.array_equal(b.numpy(), HOST.T[::-1])


def test_wrong_arguments() -> None:
    flat, matrix = CPU.zeros(6, kdsl.f32), CPU.zeros((2, 3), kdsl.f32)
    out = CPU.zeros(1, kdsl.f32)
    for words, action in (
        (
            r"parameter x is Slice\[f32, D2\], which has 2 dimensions; the argument has 1, its shape is \(6,\)",
            lambda: kernels.copy2(flat, matrix),
        ),
        (
            r"parameter out is SliceMut\[f32\], which has 1 dimension; the argument has 2.*out.reshape\(-1\)",
            lambda: kernels.at2(matrix, matrix, 0, 0),
        ),
        (r"parameter out.*device.array\(out.numpy\(\).reshape\(-1\)\)", lambda: kernels.at2(matrix, matrix.T, 0, 0)),
        (r"parameter out.*a stride of 2 elements.*declare it as SliceMut\[f32, D1\]", lambda: kernels.at2(matrix, flat[::2], 0, 0)),
        (r"parameter y.*repeats elements", lambda: kernels.copy2(matrix, out.broadcast_to((2, 3)))),
        (
            r"a.shape\[1\] == b.shape\[0\]; a.shape\[1\] is 3, b.shape\[0\] is 2",
            lambda: kernels.product(matrix, matrix, CPU.zeros((2, 3), kdsl.f32)),
        ),
        (
            "parameter x is Slice.f32, D2., an array of f32; the argument is an array of i32",
            lambda: kernels.copy2(CPU.zeros((2, 3), kdsl.i32), matrix),
        ),
    ):
        with pytest.raises(kdsl.LaunchError, match=words):
            action()


def test_overlap() -> None:
    a = CPU.array(np.arange(64, dtype=np.float32).reshape(8, 8))
    kernels.copy2(a[:, :4], a[:, 4:])  # interleaved in memory, with no element in common
    assert np.array_equal(a.numpy()[:, 4:], a.numpy()[:, :4])
    kernels.copy2(a[::2], a[1::2])
    assert np.array_equal(a.numpy()[1::2], a.numpy()[::2])
    for x, y in ((a[:, :5], a[:, 3:]), (a, a), (a, a.T), (a[::-1], a), (a[:5], a[3:])):
        with pytest.raises(kdsl.LaunchError, match="overlap"):
            kernels.copy2(x, y)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_what_is_said_not_to_overlap_does_not(data: st.DataObject) -> None:
    host = np.arange(5 * 6 * 4, dtype=np.int32).reshape(5, 6, 4)
    whole = CPU.array(host)

    def part() -> tuple[slice, ...]:
        steps = st.sampled_from([1, 2, 3, -1, -2])
        return tuple(
            slice(data.draw(st.integers(0, 5)), data.draw(st.one_of(st.none(), st.integers(0, 6))), data.draw(steps)) for _ in range(3)
        )

    first, second = part(), part()
    a, b = whole[first], whole[second]
    meets = bool(set(host[first].ravel().tolist()) & set(host[second].ravel().tolist()))
    found = shares_elements(a, b)
    assert found or not meets
    if a.strides == b.strides:
        assert found == meets


def test_the_launcher_says_what_it_takes() -> None:
    source = launcher_source(kernels.product.declaration)
    assert "if a.ndim != 2:" in source
    assert "if c.ndim != 2 or c.repeats:" in source
    assert "a : Slice[f32, D2]" in source
    assert "It has 2 dimensions, with any strides." in source
    assert "(a_address, a_shape_0, a_shape_1, a_stride_0, a_stride_1, b_address," in source.replace("\n", " ").replace("  ", "")
