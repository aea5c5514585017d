"""The GPUs that tests of this folder run on, and what they share.

Every wait in them has a limit, so that a mistake is reported and does not hang the machine.
"""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from kdsl.runtime.gpu import CudaDevice
from kdsl.testing import devices

_GPUS: Final = [found for found in devices() if isinstance(found, CudaDevice)]
on_tensor_memory_gpus: Final = pytest.mark.parametrize("gpu", [g for g in _GPUS if g.capability >= (9, 0)], ids=str)
"""Compute capability 9.0 and up: barriers with transactions, copies by tensor maps."""
on_hopper: Final = pytest.mark.parametrize("gpu", [g for g in _GPUS if g.capability == (9, 0)], ids=str)
"""Compute capability 9.0: products of warpgroups."""
LIMIT: Final = 20_000_000
"""Nanoseconds of a wait."""
BF16: Final = np.dtype(ml_dtypes.bfloat16)


def whole(shape: tuple[int, ...], of: Any, seed: int, most: int = 4) -> npt.NDArray[Any]:
    """Random whole numbers of small size: every sum of their products is exact."""
    low = 0 if np.dtype(of).kind == "u" else -most
    return np.random.default_rng(seed).integers(low, most + 1, shape).astype(of)


def poisoned(shape: tuple[int, ...], of: Any = np.float32) -> npt.NDArray[Any]:
    """An array that no result looks like."""
    return np.full(shape, np.nan if np.dtype(of).kind not in "iu" else 77, of)
