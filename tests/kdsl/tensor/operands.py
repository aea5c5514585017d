"""Matrices of every type that `mma` multiplies: random numbers that the type holds, their bits, and what they are exactly."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[Any]
HOST: Final[dict[str, np.dtype[Any]]] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "f32": np.dtype(np.float32),
    "s32": np.dtype(np.int32),
}
"""NumPy's type with the same bits."""


def to_tf32(x: Matrix) -> Matrix:
    """f32 numbers rounded to 10 bits behind the binary point, ties away from 0."""
    bits = x.astype(np.float32).view(np.uint32)
    rounded = ((bits + 0x1000) & 0xFFFFE000).view(np.float32)
    return np.where(np.isnan(x), np.float32("nan"), rounded)


def random_matrix(shape: tuple[int, ...], kind: str, seed: int) -> Matrix:
    """Numbers of the type: all of an integer type, of moderate size of a float."""
    random = np.random.default_rng(seed)
    of = HOST[kind]
    if of.kind in "iu":
        limits = np.iinfo(of)
        return random.integers(limits.min, limits.max, shape, dtype=of, endpoint=True)
    values = random.standard_normal(shape).astype(of)
    return to_tf32(values) if kind == "tf32" else values


def exact(x: Matrix) -> Matrix:
    """The numbers as f64, or as 64-bit integers."""
    return x.astype(np.int64 if x.dtype.kind in "iu" else np.float64)


def words(x: Matrix) -> Matrix:
    """The bits of rows of numbers as rows of u32, or as they are for f64."""
    return x if x.dtype == np.float64 else np.ascontiguousarray(x).view(np.uint32)


def error_bound(a: Matrix, b: Matrix, c: Matrix, kind: str) -> Matrix:
    """How far D may be from the exact A B + C: a tensor core aligns products and cuts bits off, so the error goes with the sum of magnitudes.

    Sums of products of 8-bit floats keep about 14 bits on Hopper (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 3.3.2).
    """
    sizes = np.abs(exact(a)) @ np.abs(exact(b)) + np.abs(exact(c))
    unit = {"f32": 2.0**-18, "f16": 2.0**-9, "f64": 2.0**-48, "s32": 0.0}[kind]
    return (2.0**-12 if a.dtype in (HOST["e4m3"], HOST["e5m2"]) else unit) * sizes


def capability(device: Any) -> int:
    """Compute capability of a device times ten; a CPU has all of them."""
    return 1000 if device.target == "cpu" else int("".join(c for c in device.target if c.isdigit()))
