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
    """Every exponent of f32 with significands that lie on, between and beside the numbers of narrower types; zeros, infinities, NaNs."""
    random = np.random.default_rng(1)
    significands = np.concatenate(
        [random.integers(0, 1 << 23, 24), np.arange(8) << 20, (np.arange(16) << 19) + 1, (np.arange(16) << 19) - 1, np.arange(8) << 15]
    )
    bits = (np.arange(256)[:, None] << 23 | (significands & 0x7FFFFF)).astype(np.uint32).reshape(-1)
    return np.concatenate([bits, bits | np.uint32(1 << 31)]).view(np.float32)


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
