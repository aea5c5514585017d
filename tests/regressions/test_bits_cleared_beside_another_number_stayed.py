"""On a GPU `bits & constant` of a float that was just narrowed kept its bits where it was stored beside another number.

Of two conversions ptxas 13.0 makes one instruction (`F2FP.F16.F32.PACK_AB`) and forgets the masks of what it takes apart (random program 1100000004643,
an `abs` of vectors of f16 at level 0).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from from_text import DEVICES, kernel_of

from kdsl import DType, bf16, f16, u16
from kdsl.backend.nvptx.compile import compile_levels
from kdsl.backend.nvptx.faults import without_faulty_forms

MASKS = (0x7FFF, 0x00FF, 0x1234, 0x8000)
TYPES = pytest.mark.parametrize("of", [f16, bf16], ids=str)


def cleared(of: DType, first: int, second: int) -> Any:
    return kernel_of(
        "y: DisjointSlice[u16x2], x: Slice[f32], z: Slice[f32]",
        f"i = thread_index()\nif i in y and i in x and i in z:\n    y[i] = u16x2({of}_bits({of}(x[i])) & {first}, {of}_bits({of}(z[i])) & {second})",
        "grid=1, block=32",
    )


@DEVICES
@TYPES
@pytest.mark.parametrize("first", MASKS)
@pytest.mark.parametrize("second", [*MASKS, 0xFFFF])
def test_two_conversions(device: Any, of: DType, first: int, second: int) -> None:
    random = np.random.default_rng(first)
    x, z = (random.standard_normal(32).astype(np.float32) for _ in range(2))
    y = device.zeros(64, u16)
    cleared(of, first, second)(y, device.array(x), device.array(z))
    bits = [numbers.astype(of.numpy).view(np.uint16) for numbers in (x, z)]
    np.testing.assert_array_equal(y.numpy().reshape(32, 2), np.stack([bits[0] & first, bits[1] & second], axis=1))


def cleared_by_another(of: DType, packed: str) -> Any:
    return kernel_of(
        "y: DisjointSlice[u16x2], x: Slice[f32], z: Slice[f32]",
        f"i = thread_index()\nif i in y and i in x and i in z:\n"
        f"    y[i] = u16x2({of}_bits({of}(x[i])) & {packed}_bits(x[i], z[i]), {of}_bits({of}(z[i])))",
        "grid=1, block=32",
    )


@DEVICES
@TYPES
@pytest.mark.parametrize("packed", ["e4m3x2", "e5m2x2"])
def test_bits_of_two_numbers_of_8_bits(device: Any, of: DType, packed: str) -> None:
    """The mask is no constant. What remained was the mask, found by random programs of a review."""
    random = np.random.default_rng(5)
    x, z = (random.standard_normal(32).astype(np.float32) for _ in range(2))
    small = {"e4m3x2": ml_dtypes.float8_e4m3fn, "e5m2x2": ml_dtypes.float8_e5m2}[packed]
    low, high = (numbers.astype(small).view(np.uint8).astype(np.uint16) for numbers in (x, z))
    y = device.zeros(64, u16)
    cleared_by_another(of, packed)(y, device.array(x), device.array(z))
    bits = [numbers.astype(of.numpy).view(np.uint16) for numbers in (x, z)]
    np.testing.assert_array_equal(y.numpy().reshape(32, 2), np.stack([bits[0] & (high << 8 | low), bits[1]], axis=1))


@pytest.mark.parametrize("level", [0, 3])
@TYPES
def test_no_mask_of_a_register_is_left_for_ptxas(of: DType, level: int) -> None:
    (text,) = compile_levels([cleared_by_another(of, "e4m3x2").ir()], "sm_90", [level])
    assert "and.b16" not in text
    assert "or.b16" in text


@pytest.mark.parametrize("level", [0, 3])
@TYPES
def test_no_mask_is_left_for_ptxas(of: DType, level: int) -> None:
    (text,) = compile_levels([cleared(of, 0x7FFF, 0x1234).ir()], "sm_90", [level])
    assert "and.b16" not in text
    assert text.count("or.b16") >= 2


def test_no_mask_is_left_of_two_numbers_that_one_conversion_narrows() -> None:
    """Of four such numbers side by side ptxas 13.0 never came to an end (found by random programs of a review)."""
    tested = kernel_of(
        "y: DisjointSlice[u16x4], x: Slice[f32x4]",
        "i = thread_index()\nif i in y and i in x:\n    v = x[i]\n"
        "    first = u16(f16x2_bits(v[1], v[3]) >> 11) & 4608\n"
        "    second = u16(f16x2_bits(v[2], v[2])) & u16(f16x2_bits(v[2], v[3]) >> 16) & 65534\n"
        "    third = u16(f16x2_bits(v[3], v[0]) >> 16) & 240\n"
        "    y[i] = u16x4(first, second, third, u16(bf16x2_bits(v[3], v[0])) if (bf16x2_bits(v[3], v[3]) & 196608) != 0 else u16(240))",
        "grid=1, block=32",
    )
    (text,) = compile_levels([tested.ir()], "sm_90", [3])
    assert "cvt.rn.f16x2.f32" in text
    assert "and.b16" not in text
    assert text.count("or.b16") >= 3


def test_where_nothing_is_narrowed_masks_stay() -> None:
    text = "\tand.b16 \t%rs1, %rs2, 255;\n\tcvt.rn.f32.f16 \t%r1, %rs1;\n"
    assert without_faulty_forms(text) == text


def test_32_bits() -> None:
    """Only those that were 16 bits."""
    text = "\tcvt.rn.bf16.f32 \t%rs1, %r1;\n\tcvt.u32.u16 \t%r2, %rs1;\n\tand.b32 \t%r3, %r2, 255;\n\tand.b32 \t%r4, %r1, 255;\n"
    mended = without_faulty_forms(text)
    assert "{ .reg .b32 %a; not.b32 \t%a, %r2; or.b32 \t%a, %a, -256; not.b32 \t%r3, %a; }" in mended
    assert "\tand.b32 \t%r4, %r1, 255;" in mended
