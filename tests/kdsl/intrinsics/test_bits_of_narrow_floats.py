"""The bits of f16 and bf16, read and made, against NumPy: every pattern, those of NaNs too."""

from typing import Any

import numpy as np
import pytest
from written import BLOCKS, poison, written

from kdsl import bf16, f16, u16
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
TYPES = pytest.mark.parametrize("of", [f16, bf16], ids=str)
EVERY = np.arange(1 << 16, dtype=np.uint16)


def run(device: Any, body: str, takes: Any, gives: Any) -> Any:
    """The bits that a kernel gives for every pattern as its argument."""
    apply = written(f"x: Slice[{takes}], y: SliceMut[{gives}]", f"i = thread_index()\nif i in x:\n    {body}", BLOCKS[2], 'elements("x")')
    y = device.array(poison(EVERY.size, gives))
    apply(device.array(EVERY.view(takes.numpy)), y)
    return y.numpy().view(np.uint16)


@DEVICES
@TYPES
def test_bits_are_read(of: Any, device: Any) -> None:
    np.testing.assert_array_equal(run(device, f"y[i] = {of}_bits(x[i])", of, u16), EVERY)


@DEVICES
@TYPES
def test_numbers_are_made_of_bits(of: Any, device: Any) -> None:
    np.testing.assert_array_equal(run(device, f"y[i] = bits_{of}(x[i])", u16, of), EVERY)


@DEVICES
@TYPES
def test_arithmetic_on_bits(of: Any, device: Any) -> None:
    """The next number in the direction of the bits; of what has been computed, too."""
    np.testing.assert_array_equal(run(device, f"y[i] = bits_{of}({of}_bits(x[i]) + 1)", of, of), EVERY + np.uint16(1))
    np.testing.assert_array_equal(run(device, f"y[i] = {of}_bits(-bits_{of}(x[i]))", u16, u16), EVERY ^ 0x8000)
    with np.errstate(all="ignore"):
        doubled = EVERY.view(of.numpy) * of.numpy.type(2)
    result = run(device, f"y[i] = {of}_bits(x[i] + x[i])", of, u16)
    numbers = ~np.isnan(doubled.astype(np.float32))
    np.testing.assert_array_equal(result[numbers], doubled.view(np.uint16)[numbers])
