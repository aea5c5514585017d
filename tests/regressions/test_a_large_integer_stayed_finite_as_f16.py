"""`f64(f16(n))` was finite for n = 2**63: LLVM took the way through f16 for exact, because one bit fits its mantissa."""

from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, f16, f64, i64, kernel, thread_index, u64


@kernel(grid=1, block=32, requires=("len(y) == len(x)", "len(z) == len(x)"))
def there_and_back(y: SliceMut[f64], z: SliceMut[f64], x: Slice[u64]) -> None:
    i = thread_index()
    if i in x:
        y[i] = f64(f16(x[i] << 63))
        z[i] = f64(f16(i64(x[i] & 1) << 40))


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_it_is_infinite(device: Any) -> None:
    y, z = device.zeros(3, kdsl.f64), device.zeros(3, kdsl.f64)
    there_and_back(y, z, device.array(np.array([1, 2, 3], np.uint64)))
    np.testing.assert_array_equal(y.numpy(), [np.inf, 0, np.inf])
    np.testing.assert_array_equal(z.numpy(), [np.inf, 0, np.inf])
