"""Elsewhere `block * stride` overflowed at 2**31, an index of type u8 was taken for a signed one, and the index of a thread wrapped in a large grid.

Indices are i64 wherever that shows. Places of arrays that no test could allocate are computed by kernels that write the number instead of using it; memory
beyond 2**31 bytes is reached through views of a broadcast.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, INTEGERS, kernel_of, mapped, result_of

import kdsl
from kdsl.lang.types import DType

I64, I32 = kdsl.dtype("i64"), kdsl.dtype("i32")


@DEVICES
def test_products_of_indices(device: Any) -> None:
    """block 319 by a stride of 7,864,320: 2,508,718,080, which is negative in 32 bits."""
    forms = [
        "block_idx.x * 7864320",
        "block_idx.x * n",
        "(block_idx.x * block_dim.x + thread_idx.x) * 7864320",
        "thread_index() * 7864320 + 5",
        "thread_idx.x * 3000000000",
        "lane_index() * 2147483648",
        "grid_dim.x * 100000000",
        "len(x) * 2000000000",
        "block_idx.x * m",
        "-(thread_index() * 100000000)",
        "thread_index() * thread_index() * 1000000",
        "i64(block_idx.x) * 7864320 // 3",
        "(block_idx.x - 320) * 7864320",
        "block_dim.x * 100000000 - thread_idx.x",
    ]
    body = "t = thread_index()\n" + "\n".join(f"y[{k} * 640 + t] = {form}" for k, form in enumerate(forms))
    kernel = kernel_of("y: SliceMut[i64], x: Slice[i8], n: i64, m: i32", body, "grid=320, block=2")
    found = result_of(device, kernel, 640 * len(forms), I64, np.zeros(3, np.int8), 7864320, 7864320).reshape(len(forms), 640)
    t = np.arange(640)
    b, lane = t // 2, t % 2
    expected = [
        b * 7864320,
        b * 7864320,
        t * 7864320,
        t * 7864320 + 5,
        lane * 3000000000,
        lane * 2147483648,
        t * 0 + 32000000000,
        t * 0 + 6000000000,
        b * 7864320,
        -t * 100000000,
        t * t * 1000000,
        b * 7864320 // 3,
        (b - 320) * 7864320,
        200000000 - lane,
    ]
    for form, row, wanted in zip(forms, found, expected, strict=True):
        np.testing.assert_array_equal(row, wanted, form)


@DEVICES
@pytest.mark.parametrize("of", [of for of in INTEGERS if of.name != "u64"], ids=str)
def test_an_index_of_every_type(device: Any, of: DType) -> None:
    """u8 200 is element 200; a negative one is outside, however narrow; the largest of each type is that number and no other."""
    count = 300
    places = [n for n in (0, 1, 127, 128, 200, 255, 299) if n <= of.maximum]
    x = np.arange(count, dtype=np.int64) + 1000
    kernel = mapped(["z[x[i]]", "z[x[i] + 0]", "z[of(x[i])]"], "i64", f"x: Slice[{of}], z: Slice[i64]", of=of)
    found = result_of(device, kernel, 3 * len(places), I64, np.array(places, of.numpy), x)
    assert found.tolist() == [1000 + n for n in places] * 3
    beyond = [n for n in (of.minimum, -1 if of.is_signed else 0, of.maximum) if not 0 <= n < count]
    for n in beyond:
        y = device.array(np.full(3, -5))
        kernel(y, device.array(np.array([n], of.numpy)), device.array(x))
        with pytest.raises(kdsl.BoundsError) as caught:
            y.numpy()
        assert (caught.value.index, caught.value.extent) == (n, count)
        assert y.numpy().tolist() == [0, 0, 0]


def test_an_index_that_no_i64_holds_is_refused() -> None:
    with pytest.raises(kdsl.KernelError, match="u64") as caught:
        kernel_of("y: SliceMut[f32], n: u64", "y[n] = 1.0").ir()
    assert "i64(n)" in caught.value.hint


@DEVICES
def test_elements_beyond_2_to_the_31(device: Any) -> None:
    """A view of 3,000,000,000 elements, all of them the same one: the index is checked and multiplied in 64 bits."""
    x = device.array(np.array([[7.0]], np.float32)).broadcast_to((3_000_000_000, 1))
    kernel = kernel_of(
        "y: SliceMut[f32], x: Slice[f32, D2], n: i64",
        "y[0] = x[n, 0]\ny[1] = f32(x.shape[0] // 1000)\ny[2] = 1.0 if n < x.shape[0] else 0.0",
        "grid=1, block=1",
    )
    for n in (0, 2**31 - 1, 2**31, 2_999_999_999):
        assert result_of(device, kernel, 3, kdsl.dtype("f32"), x, n).tolist() == [7.0, 3_000_000.0, 1.0]
    for n in (3_000_000_000, 2**32, 2**32 + 5, -1, 2**63 - 1, -(2**63)):
        y = device.zeros(3, np.float32)
        kernel(y, x, n)
        with pytest.raises(kdsl.BoundsError) as caught:
            y.numpy()
        assert (caught.value.index, caught.value.extent) == (n, 3_000_000_000)


@DEVICES
def test_bytes_beyond_2_to_the_31(device: Any) -> None:
    """2.2 GB, of which a few bytes are touched."""
    count = 2_200_000_000
    try:
        x = device.empty(count, np.uint8)
    except kdsl.DeviceError:
        pytest.skip("the device has not so much memory")
    kernel = kernel_of(
        "x: SliceMut[u8], n: i64, stride: i32",
        "t = thread_idx.x\nx[n + t] = u8(t + 1)\nx[block_idx.x * stride + t] = u8(t + 5)",
        "grid=320, block=4",
    )
    kernel(x, count - 4, 6_875_000)
    assert x[count - 4 :].numpy().tolist() == [1, 2, 3, 4]
    assert x[319 * 6_875_000 : 319 * 6_875_000 + 4].numpy().tolist() == [5, 6, 7, 8]


@DEVICES
@pytest.mark.parametrize(("grid", "block"), [("grid=(70000, 3)", 1), ("grid=(2, 70000)", 1), ("grid=(1, 1, 70001)", 2), ("grid=200000", 1)])
def test_extents_beyond_65535(device: Any, grid: str, block: int) -> None:
    """Along every axis; each block is there once."""
    kernel = kernel_of(
        "y: SliceMut[i32], z: SliceMut[i64]",
        "i = thread_index()\nif i in y:\n    y[i] += 1\natomic_max(z, 0, block_idx.x)\natomic_max(z, 1, block_idx.y)\natomic_max(z, 2, block_idx.z)",
        f"{grid}, block={block}",
    )
    extents = [int(n) for n in grid.removeprefix("grid=").strip("()").split(",")]
    extents += [1] * (3 - len(extents))
    total = int(np.prod(extents)) * block
    y, z = device.zeros(total + 3, I32), device.zeros(3, I64)
    kernel(y, z)
    assert (y.numpy() == (np.arange(total + 3) < total)).all()
    assert z.numpy().tolist() == [n - 1 for n in extents]


@pytest.mark.parametrize("index", ["thread_index() * 3000", "block_idx.x * n", "i64(n) * n"])
def test_ptx_multiplies_to_64_bits(index: str) -> None:
    """What the compiler narrows to 32 bits it widens in the product."""
    ptx = kernel_of("y: SliceMut[f64], x: Slice[f32], n: i32", f"y[thread_index()] = f64(x[{index}])", "grid='n', block=64").ptx("sm_90")
    body = ptx[ptx.index(".entry") : ptx.index("\n}", ptx.index(".entry"))]
    assert re.search(r"(mad|mul)\.wide\.[us]32|mul\.lo\.s64", body)
    assert not re.search(r"(mad|mul)\.lo\.[us]32", body)
