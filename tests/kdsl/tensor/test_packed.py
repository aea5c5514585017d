"""Packed numbers and tf32 on every device: every code of 8 and 16 bits, and roundings, against ml_dtypes and a model in integers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from operands import HOST, Matrix, capability, to_tf32
from written import poison, written

from kdsl.lang.types import DTYPES, F32, U16, U32
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
KINDS = ("f16", "bf16", "e4m3", "e5m2")
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}


def needs(device: Any, kind: str) -> None:
    if kind.startswith("e") and capability(device) < 89:
        pytest.skip(f"{device} has no {kind}")


def packed_of(kind: str) -> Any:
    return U16 if kind.startswith("e") else U32


def numbers_of_all_kinds() -> Matrix:
    """Every upper half of an f32 with lower halves below, on and above each tie of narrower types, of which only f16 and tf32 have some there; so all roundings
    to 8 bits and to bf16."""
    low = np.array([0, 1, 0x0FFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x3001, 0x7FFF, 0x8000, 0x8001, 0xF000, 0xFFFF], np.uint32)
    return (np.arange(1 << 16, dtype=np.uint32)[:, None] << 16 | low).reshape(-1).view(np.float32)


def rounded(x: Matrix, kind: str) -> Matrix:
    """As the language rounds: to nearest even; of 8 bits, what is too large becomes the largest number."""
    if kind in LARGEST:
        x = np.where(np.isnan(x), x, np.clip(x, -LARGEST[kind], LARGEST[kind])).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return x.astype(HOST[kind])


def same_numbers(found: Matrix, expected: Matrix) -> None:
    """Bit for bit, but for the sign and payload of a NaN."""
    bits = f"u{found.dtype.itemsize}"
    nan = np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), nan)
    np.testing.assert_array_equal(found.view(bits)[~nan], expected.view(bits)[~nan])


@DEVICES
@pytest.mark.parametrize("kind", KINDS)
def test_two_numbers_are_rounded_and_packed(device: Any, kind: str) -> None:
    needs(device, kind)
    x = numbers_of_all_kinds()
    packed = packed_of(kind)
    kernel = written(
        f"y: SliceMut[{packed}], low: Slice[f32], high: Slice[f32]",
        f"i = thread_index()\nif i in y:\n    y[i] = {kind}x2_bits(low[i], high[i])",
        64,
        'elements("y")',
    )
    y = device.array(poison(len(x), packed))
    kernel(y, device.array(x), device.array(x[::-1].copy()))
    found = y.numpy().view(HOST[kind]).reshape(-1, 2)
    same_numbers(found[:, 0], rounded(x, kind))
    same_numbers(found[:, 1], rounded(x[::-1], kind))


@DEVICES
@pytest.mark.parametrize("of", ["f16", "bf16"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_number_of_16_bits_is_rounded_and_packed(device: Any, kind: str, of: str) -> None:
    """What is too large for 8 bits saturates, infinities too; subnormals of either side are kept."""
    needs(device, kind)
    x, packed = np.arange(1 << 16, dtype=np.uint16).view(HOST[of]), packed_of(kind)
    kernel = written(
        f"y: SliceMut[{packed}], x: Slice[{of}]",
        f"i = thread_index()\nif i in y:\n    y[i] = {kind}x2_bits(x[i], x[len(x) - 1 - i])",
        64,
        'elements("y")',
    )
    y = device.array(poison(len(x), packed))
    kernel(y, device.array(x))
    found = y.numpy().view(HOST[kind]).reshape(-1, 2)
    with np.errstate(invalid="ignore"):  # NaNs that signal
        wanted = rounded(x.astype(np.float32), kind)
    same_numbers(found[:, 0], wanted)
    same_numbers(found[:, 1], wanted[::-1])


@DEVICES
@pytest.mark.parametrize("to", ["f16", "bf16", "i8", "u16"])
@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_every_float_of_8_bits_becomes_another_number(device: Any, kind: str, to: str) -> None:
    needs(device, kind)
    codes = np.arange(256, dtype=np.uint8)
    exact = codes.view(HOST[kind]).astype(np.float64)
    kernel = written(
        f"y: SliceMut[{to}], x: Slice[u16]", f"low, high = bits_{kind}x2(x[thread_index()])\ny[thread_index()] = {to}(high)", 256
    )
    of = DTYPES[to]
    y = device.array(poison(256, of))
    kernel(y, device.array(codes.astype(np.uint16) << 8))
    if of.is_float:
        same_numbers(y.numpy(), exact.astype(of.numpy))
    else:
        np.testing.assert_array_equal(y.numpy(), np.clip(np.nan_to_num(exact, nan=0.0), of.minimum, of.maximum).astype(of.numpy))


@pytest.mark.parametrize("of", ["f16", "bf16", "f32"])
def test_the_host_rounds_to_8_bits_likewise(of: str) -> None:
    """ml_dtypes against integers: the nearest of all codes by exact distance, the even one of two."""
    x = numbers_of_all_kinds()[::97] if of == "f32" else np.arange(1 << 16, dtype=np.uint16).view(HOST[of])
    with np.errstate(invalid="ignore"):
        x = x.astype(np.float32)
    x = x[np.isfinite(x)]
    for kind in LARGEST:
        codes = np.arange(128, dtype=np.uint8)
        values = codes.view(HOST[kind]).astype(np.float64)
        values = values[np.isfinite(values)]
        size = np.minimum(np.abs(x.astype(np.float64)), values[-1])
        above = np.minimum(np.searchsorted(values, size), len(values) - 1)
        below = np.maximum(above - 1, 0)
        low, high = size - values[below], values[above] - size
        nearest = np.where((low < high) | ((low == high) & (below % 2 == 0)), below, above)
        np.testing.assert_array_equal(rounded(x, kind).view(np.uint8), nearest | np.signbit(x) << 7)


@DEVICES
@pytest.mark.parametrize("kind", KINDS)
def test_every_code_is_widened(device: Any, kind: str) -> None:
    needs(device, kind)
    packed = packed_of(kind)
    of = HOST[kind]
    codes = np.arange(1 << (8 * of.itemsize)).astype(f"u{of.itemsize}")
    pairs = np.stack([codes, codes[::-1]], axis=1)
    kernel = written(
        f"low: SliceMut[f32], high: SliceMut[f32], x: Slice[{packed}]",
        f"i = thread_index()\nif i in x:\n    low[i], high[i] = bits_{kind}x2(x[i])",
        64,
        'elements("x")',
    )
    low, high = (device.array(poison(len(codes), F32)) for _ in range(2))
    kernel(low, high, device.array(np.ascontiguousarray(pairs).view(packed.numpy).reshape(-1)))
    for found, which in ((low, 0), (high, 1)):
        same_numbers(found.numpy(), np.ascontiguousarray(pairs[:, which]).view(of).astype(np.float32))


@DEVICES
def test_tf32_rounds_ties_away(device: Any) -> None:
    x = numbers_of_all_kinds()
    kernel = written("y: SliceMut[f32], x: Slice[f32]", "i = thread_index()\nif i in y:\n    y[i] = to_tf32(x[i])", 64, 'elements("y")')
    y = device.array(poison(len(x), F32))
    kernel(y, device.array(x))
    same_numbers(y.numpy(), to_tf32(x).astype(np.float32))
    assert not np.any(y.numpy()[~np.isnan(x)].view(np.uint32) & 0x1FFF)


def test_tf32_of_literals_is_the_same() -> None:
    values = [1.0 + 2.0**-11, 1.0 + 2.0**-11 - 2.0**-20, -3.0 - 3 * 2.0**-10, 3.4028234e38, 1e-45, 2.0**-137, 3 * 2.0**-138, 0.0, -0.0]
    literals = ", ".join(f"to_tf32({value!r})" for value in values)
    kernel = written("y: SliceMut[f32]", f"found = ({literals})\nfor i in unroll({len(values)}):\n    y[i] = found[i]")
    device = devices()[0]
    y = device.array(poison(len(values), F32))
    kernel(y)
    same_numbers(y.numpy(), to_tf32(np.array(values, np.float32)))


def test_the_host_types_are_those_of_the_format() -> None:
    for kind, largest in LARGEST.items():
        assert float(ml_dtypes.finfo(HOST[kind]).max) == largest
    assert DTYPES["u16"] is U16
