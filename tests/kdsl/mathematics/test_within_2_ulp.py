"""Every function of the mathematics library against NumPy in float64, in units of the last place of its type, over all magnitudes and the special values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kdsl
import kdsl.testing
from kdsl import DisjointSlice, Slice, elements, f32, kernel, thread_index

FUNCTIONS: dict[str, tuple[Any, Callable[..., Any]]] = {
    "exp": (kdsl.exp, np.exp),
    "log": (kdsl.log, np.log),
    "sin": (kdsl.sin, np.sin),
    "cos": (kdsl.cos, np.cos),
    "tanh": (kdsl.tanh, np.tanh),
}
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754942e-38, 1.1754944e-38, 3.4028235e38, -3.4028235e38], np.float32)


def kernel_of(function: Any) -> Any:
    @kernel(grid=elements("y"), requires=("len(x) == len(y)",))
    def apply(y: DisjointSlice[f32], x: Slice[f32]) -> None:
        i = thread_index()
        if i in y:
            y[i] = function(x[i])

    return apply


def ulps(result: npt.NDArray[np.float32], exact: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Distance from the exact value in units of the last place of the float32 that it rounds to."""
    with np.errstate(over="ignore", invalid="ignore"):
        unit = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
        distance = np.abs(result.astype(np.float64) - exact) / unit
        same = (result.astype(np.float64) == exact.astype(np.float32)) | (np.isnan(result) & np.isnan(exact))
    return np.where(same, 0.0, distance)


def arguments(name: str) -> npt.NDArray[np.float32]:
    rng = np.random.default_rng(7)
    patterns = rng.integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    near = rng.uniform(-110, 110, 200_000).astype(np.float32)
    quadrants = (np.arange(1, 40_001) * (np.pi / 2)).astype(np.float32)  # where a careless reduction loses everything
    return np.concatenate([SPECIAL, patterns, near, near / 64, quadrants])


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_within_2_ulp(name: str, device: Any) -> None:
    function, reference = FUNCTIONS[name]
    x = arguments(name)
    y = device.full(x.size, np.nan, f32)
    kernel_of(function)(y, device.array(x))
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64))
    error = ulps(y.numpy(), exact)
    worst = int(np.nanargmax(np.where(np.isnan(error), np.inf, error)))
    assert error[worst] <= 2.0, f"{name}({x[worst]!r}) is {y.numpy()[worst]!r}, exactly {exact[worst]!r}: {error[worst]:.2f} ulp"


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_signs_of_zeros_are_kept(device: Any) -> None:
    zeros = np.array([0.0, -0.0], np.float32)
    for function in (kdsl.sin, kdsl.tanh):
        y = device.full(2, np.nan, f32)
        kernel_of(function)(y, device.array(zeros))
        np.testing.assert_array_equal(np.signbit(y.numpy()), [False, True])
