"""Host numbers for kernels: what a scalar parameter, a field of a struct, a fill or a constant accepts.

Integers take whole numbers that fit (Python's, NumPy's, bools), floats any real number, `bool` only bools. Nothing wraps or loses a fraction
silently; a float rounds to its type, and a finite number that would become infinite is refused.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from kdsl.lang.types import DType, is_real, round_float


def host_number(of: DType, value: Any) -> bool | int | float:
    """`value` as Python's number for the type `of`. Raises TypeError for the wrong kind, OverflowError if the type cannot hold it."""
    if of.is_bool:
        if isinstance(value, bool | np.bool_):
            return bool(value)
        raise TypeError(f"a bool is wanted, not {described(value)}")
    if of.is_integer:
        return _integer(of, value)
    return _real(of, value)


def _integer(of: DType, value: Any) -> int:
    if isinstance(value, np.bool_):
        return int(value)
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"a whole number ({of}) is wanted, not {described(value)}") from None
    if not of.minimum <= number <= of.maximum:
        raise OverflowError(f"{of} holds {of.minimum} to {of.maximum}, not {number}")
    return number


def _real(of: DType, value: Any) -> float:
    if not is_real(value):
        raise TypeError(f"a number ({of}) is wanted, not {described(value)}")
    exact = int(value) if isinstance(value, int | np.integer | np.bool_) else float(value)
    number = round_float(of, exact)
    if math.isinf(number) and not (isinstance(exact, float) and math.isinf(exact)):
        raise OverflowError(f"{of} cannot hold {value!r}: it would become infinite")
    return number


def described(value: object) -> str:
    """A value and its type, for messages; long values are cut."""
    text = repr(value)
    if len(text) > 60:
        text = text[:57] + "..."
    return f"{text} ({type(value).__name__})"
