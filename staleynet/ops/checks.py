"""The checks that every operation makes on the host: sizes that fit a kernel's 32-bit fields, arrays of the expected length.

Left out: what a kernel's own contract (`requires=`) says; the launcher checks that, with exact integers, before anything runs.
"""

import operator

from kdsl import Array

LARGEST_SIZE = 2**32 - 1
"""Sizes travel to the kernels as u32."""


def check_size(operation: str, least: int = 0, **sizes: int) -> None:
    """Raise `ValueError` for a size that is not a whole number from `least` to `LARGEST_SIZE`; the keyword is the size's name."""
    for name, value in sizes.items():
        try:
            number = operator.index(value)
        except TypeError:
            raise ValueError(f"{operation}: {name} must be a whole number, got {value!r}") from None
        if not least <= number <= LARGEST_SIZE:
            raise ValueError(f"{operation}: {name} must be between {least} and {LARGEST_SIZE}, got {number}")


def check_length(operation: str, name: str, array: Array, expected: int, meaning: str) -> None:
    """Raise `ValueError` if `array` does not have `expected` elements; `meaning` says in words what they are, as in "rows * columns"."""
    if len(array) != expected:
        raise ValueError(f"{operation}: {name} must have {meaning} = {expected} elements, it has {len(array)}")


def check_alike(operation: str, name: str, array: Array, other_name: str, other: Array) -> None:
    """Raise `ValueError` unless both arrays have the same element type and live on the same device: what a copy between them needs."""
    if array.dtype != other.dtype:
        raise ValueError(f"{operation}: {name} is an array of {array.dtype}, {other_name} of {other.dtype}; they must be the same")
    if array.device != other.device:
        raise ValueError(f"{operation}: {name} is on {array.device}, {other_name} on {other.device}; move one of them")
