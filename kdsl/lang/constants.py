"""Constant arrays: tables that a kernel captures and that become part of its code.

The content is fixed when the array is made; a NumPy array that changes afterwards does not change it. Kernels that capture equal tables are the same code.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kdsl.lang.limits import CONSTANT_BYTES
from kdsl.lang.numbers import host_number
from kdsl.lang.types import DType, DTypeLike, dtype

_MOST_DIMENSIONS: Final = 4


class ConstantArray:
    """A table of numbers, made by `constant_array`. On the host it reads like an array; in a kernel `table[i, j]` is read from constant memory."""

    def __init__(self, element: DType, shape: tuple[int, ...], content: bytes) -> None:
        self.dtype: DType = element
        """Its element type."""
        self.shape: tuple[int, ...] = shape
        """Elements along each dimension, 1 to 4 of them."""
        self.content: bytes = content
        """Its elements in row-major order, as they lie in memory."""

    @property
    def digest(self) -> str:
        """A short name for what it holds: equal tables have the same."""
        return hashlib.sha256(f"{self.dtype.name} {self.shape} ".encode() + self.content).hexdigest()[:16]

    def numpy(self) -> npt.NDArray[Any]:
        """A copy for the host."""
        return np.frombuffer(self.content, self.dtype.numpy).reshape(self.shape).copy()

    def __getitem__(self, index: int | tuple[int, ...]) -> Any:
        return self.numpy()[index]

    def __len__(self) -> int:
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConstantArray):
            return NotImplemented
        return self.dtype is other.dtype and self.shape == other.shape and self.content == other.content

    def __hash__(self) -> int:
        return hash((self.dtype.name, self.shape, self.content))

    def __repr__(self) -> str:
        return f"<constant array of {self.dtype}, shape {self.shape}, {self.digest}>"


def constant_array(values: Any, of: DTypeLike | None = None) -> ConstantArray:
    """A table for kernels, from nested lists or a NumPy array of 1 to 4 dimensions.

    `of` is the element type; for a NumPy array it may be left out. Every number must fit as a scalar parameter would: integers are whole and in range, floats
    round once. Raises TypeError or OverflowError for one that does not fit, ValueError for another rank, an extent of 0, or more than 64 KiB.
    """
    if of is None and not isinstance(values, np.ndarray):
        raise TypeError("constant_array() of lists needs an element type, as in constant_array([1.0, 2.0], f32)")
    try:
        given = np.asarray(values)
    except ValueError:
        raise ValueError("the rows of a constant array all have the same length") from None
    element = dtype(given.dtype if of is None else of)
    if element.is_integer and given.dtype.kind == "f" and not isinstance(values, np.ndarray):
        given = np.asarray(values, object)  # of whole numbers below and above 2**63 NumPy makes floats
    if not 1 <= given.ndim <= _MOST_DIMENSIONS or not given.size:
        raise ValueError(f"a constant array has 1 to {_MOST_DIMENSIONS} dimensions, none of them empty; this one has shape {given.shape}")
    nbytes = given.size * element.itemsize
    if nbytes > CONSTANT_BYTES:
        raise ValueError(f"a constant array of shape {given.shape} takes {nbytes:,} bytes; there is constant memory for {CONSTANT_BYTES:,}")
    if given.dtype == element.numpy:
        return ConstantArray(element, given.shape, np.ascontiguousarray(given).tobytes())
    made = np.empty(given.shape, element.numpy)
    for index in np.ndindex(given.shape):
        try:
            made[index] = host_number(element, given[index])
        except (TypeError, OverflowError) as error:
            place = ", ".join(map(str, index))
            raise type(error)(f"constant_array(): the element at [{place}]: {error}") from None
    return ConstantArray(element, given.shape, made.tobytes())


def number_at(element: DType, shape: tuple[int, ...], content: bytes, position: tuple[int, ...]) -> bool | int | float | None:
    """One element as a number, None for a NaN (of which there is more than one)."""
    value = np.frombuffer(content, element.numpy).reshape(shape)[position]
    if element.is_bool:
        return bool(value)
    if element.is_integer:
        return int(value)
    return None if math.isnan(float(value)) else float(value)
