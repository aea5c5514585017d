"""Hyperbolic functions, from one reduction: with |x| = n ln 2 + r, s = 2**(n - 1) and t = 2**(-n - 1),

sinh |x| = (s - t) cosh r + (s + t) sinh r,    cosh x = (s + t) cosh r + (s - t) sinh r.
"""

from typing import Any

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import fma
from kdsl.lang.types import f32
from kdsl.mathematics.exponential import grown, hyperbolic_rests, reduce_by_ln2
from kdsl.mathematics.floats import copysign, divide_pairs, exact_product, exact_sum, ordered_sum, power_of_two


@function
def reduce_size(x: Any) -> Any:
    """r, its correction, s / 2**d, t, and 2**d for |x|: d is 0 but for large arguments, where s may be out of range and t does not matter."""
    highest = 90.0 if x.dtype == f32 else 711.0
    t = abs(x)
    t = highest if t > highest else t
    r, low, n = reduce_by_ln2(t, x.dtype(0))
    down = 2 if n > 100 else 0
    return r, low, power_of_two(n - 1 - down), power_of_two(max(-1 - n, -126)), 4.0 if n > 100 else 1.0


@function
def blend(r: Any, low: Any, first: Any, first_low: Any, second: Any) -> Any:
    """(first + first_low) cosh(r + low) + second sinh(r + low), as a pair; |first| >= |second r| or first is 0."""
    even, odd = hyperbolic_rests(r)
    product, product_low = exact_product(second, r)
    total, total_low = ordered_sum(first, product)
    # cosh(r + low) is 1 + even + r low, sinh(r + low) is r + odd + low
    return total, total_low + (first_low + fma(first, fma(r, low, even), fma(second, odd + low, product_low)))


@function
def sinh(x: Any) -> Any:
    """Hyperbolic sine."""
    r, low, s, t, back = reduce_size(x)
    difference, difference_low = ordered_sum(s, -t)
    high, rest = blend(r, low, difference, difference_low, s + t)
    return copysign((high + rest) * back, x)


@function
def cosh(x: Any) -> Any:
    """Hyperbolic cosine."""
    r, low, s, t, back = reduce_size(x)
    total, total_low = ordered_sum(s, t)
    high, rest = blend(r, low, total, total_low, s - t)
    return (high + rest) * back


@function
def tanh(x: Any) -> Any:
    """Hyperbolic tangent: with e = exp(2 |x|) - 1, e / (e + 2); 1 from 10 (f32) or 20 (f64) on."""
    highest = 10.0 if x.dtype == f32 else 20.0
    size = abs(x)
    size = highest if size > highest else size
    r, low, power = reduce_by_ln2(size + size, x.dtype(0))
    top, top_low = grown(r, low, power_of_two(power))
    top, top_low = ordered_sum(top, top_low)
    bottom, bottom_low = exact_sum(top, x.dtype(2))
    high, rest = divide_pairs(top, top_low, bottom, bottom_low + top_low)
    return copysign(high + rest, x)
