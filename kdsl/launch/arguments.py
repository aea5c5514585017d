"""Arguments at which a launcher looks twice: numbers that are not exactly Python's of the right kind (NumPy's, ints for floats), arrays of vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kdsl.errors import ArgumentError, ScalarRangeError
from kdsl.lang.numbers import described, host_number
from kdsl.lang.types import BOOL, F64, I64, U64, DType
from kdsl.launch import refuse
from kdsl.runtime.array import Array
from kdsl.runtime.layout import is_aligned


def scalar(kernel: str, parameter: str, of: DType, value: Any) -> Any:
    """`value` as Python's number for a parameter of type `of`.

    Raises ArgumentError (a TypeError) for the wrong kind, ScalarRangeError (an OverflowError) for a number that the type cannot hold.
    """
    try:
        return host_number(of, value)
    except TypeError as error:
        raise ArgumentError(f"{kernel}: parameter {parameter} is of type {of}: {error}") from None
    except OverflowError as error:
        raise ScalarRangeError(f"{kernel}: parameter {parameter} is of type {of}: {error}") from None


def large_float(kernel: str, parameter: str, of: DType, value: float) -> float:
    """A float at or beyond the largest of the type `of`: infinities and NaN pass, a finite number that would become infinite is refused."""
    return value if math.isinf(value) or math.isnan(value) else float(scalar(kernel, parameter, of, value))


def vectors(kernel: str, parameter: str, annotation: str, lanes: int, array: Array) -> None:
    """Nothing if the elements of an array can be taken as vectors of `lanes` numbers although a quick look found an obstacle (strides along an extent of
    1 do not matter, nor does the address of no elements). Raises ArgumentError or LaunchError."""
    if array.size and array.shape[-1] % lanes:
        refuse.vectors(kernel, parameter, annotation, lanes, array)
    size = lanes * array.dtype.itemsize
    if not is_aligned(array, size):
        refuse.alignment(kernel, parameter, array, size)


def constant(kernel: str, parameter: str, kind: type, value: Any) -> Any:
    """`value` for a compile-time constant: int (of at most 64 bits), float or bool, or NumPy's; an int does for a float.

    Raises ArgumentError or ScalarRangeError as `scalar`. True is no int here: a constant decides what code is compiled, so a slip would be costly.
    """
    if kind is int:
        if isinstance(value, bool | np.bool_):
            raise ArgumentError(f"{kernel}: the constant {parameter} is an int, not {described(value)}")
        return scalar(kernel, parameter, U64 if isinstance(value, int | np.integer) and value > I64.maximum else I64, value)
    return scalar(kernel, parameter, F64 if kind is float else BOOL, value)
