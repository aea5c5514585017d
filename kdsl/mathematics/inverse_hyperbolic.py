"""Inverse hyperbolic functions, as logarithms of 1 + w with w as a pair of floats, so that arguments with small results lose no digits:

asinh |x| = log(1 + w), w = |x| + x**2 / (1 + sqrt(1 + x**2));    acosh x = log(1 + w), w = t + sqrt(t (t + 2)), t = x - 1;
atanh |x| = log(1 + w) / 2, w = 2 |x| / (1 - |x|).

Where x**2 hides 1, the first two are log(2 |x|).
"""

from typing import Any

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import fma, sqrt
from kdsl.lang.types import f32
from kdsl.mathematics.floats import copysign, divide_pairs, exact_product, exact_sum, ordered_sum
from kdsl.mathematics.logarithm import corrected_log, special, split


@function
def log_of_one_and(w: Any, w_low: Any, x: Any, large: Any) -> Any:
    """log(1 + w + w_low) for w >= 0, or where x is large log(2 x)."""
    u, c = exact_sum(w.dtype(1), w)
    u = x if large else u
    c = 0.0 if large else c + w_low
    e, f = split(u)
    return special(u, corrected_log(e + (1.0 if large else 0.0), f, c, u))


@function
def asinh(x: Any) -> Any:
    """Inverse hyperbolic sine."""
    size = abs(x)
    large = size > (2.0**13 if x.dtype == f32 else 2.0**28)
    w, w_low = ordered_sum(size, size * size / (1.0 + sqrt(fma(size, size, 1.0))))
    return copysign(log_of_one_and(w, w_low, size, large), x)


@function
def acosh(x: Any) -> Any:
    """Inverse hyperbolic cosine, not negative; NaN below 1."""
    large = x > (2.0**13 if x.dtype == f32 else 2.0**28)
    t = x - 1.0  # exact where x is not large
    other, other_low = ordered_sum(x, x.dtype(1))
    square, square_low = exact_product(t, other)
    root = sqrt(square)
    # what the root loses in rounding, and what its square does
    root_low = (fma(-root, root, square) + fma(t, other_low, square_low)) / (root + root) if t > 0.0 else 0.0
    w, w_low = ordered_sum(root, t)
    value = log_of_one_and(w, w_low + root_low, x, large)
    return value if x >= 1.0 else x.dtype("nan")


@function
def atanh(x: Any) -> Any:
    """Inverse hyperbolic tangent; infinite at 1 and -1, NaN beyond."""
    size = abs(x)
    rest, rest_low = ordered_sum(x.dtype(1), -size)
    w, w_low = divide_pairs(size + size, x.dtype(0), rest, rest_low)
    w, w_low = ordered_sum(w, w_low)
    value = 0.5 * log_of_one_and(w, w_low, w, size > 1.0)
    value = x.dtype("inf") if size == 1.0 else value
    return copysign(value, x) if size <= 1.0 else x.dtype("nan")
