"""Reduction of angles to r in [-pi/4, pi/4] and a quadrant, for the trigonometric functions.

While the angle is not large: n = the nearest integer to x 2/pi, and x - n pi/2 with pi/2 in three parts (Cody and Waite 1980); the first step is exact by fma,
the second is kept as a pair. Else: an exact product with as many bits of 2/pi as matter (Payne and Hanek 1983); bits that only add multiples of four
quadrants are left out. The rest is a float and a correction, because an angle can be so near to a multiple of pi/2 that the correction is what is left.
"""

from typing import Any

from kdsl.frontend.function import Overloaded, function
from kdsl.lang.intrinsics import bits_double, double_bits, float_bits, fma, local_array, unroll
from kdsl.lang.types import F32, F64, f32, f64, i32, i64, u64
from kdsl.mathematics.floats import exact_product, exact_sum, nearest, ordered_sum

TWO_OVER_PI = 0.6366197723675814
PI_HALF_F32 = (1.5707964, -4.371139e-08, -1.7151245e-15)
PI_HALF_F64 = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
# the first bits of 2/pi behind the binary point, behind 64 zeros
TWO_OVER_PI_WORDS = (
    0x0, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0, 0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)  # fmt: skip


@function
def window(first: Any, count: Any, reach: Any, length: Any) -> Any:
    """An array whose elements 0 to count - 1 are the words `first` to first + count - 1 of 2/pi, for 0 <= first < 2**reach. In registers: every step moves all
    words down by a power of 2, or none.
    """
    words = local_array(length, u64)
    for k in unroll(length):
        words[k] = u64(TWO_OVER_PI_WORDS[k])
    for step in unroll(reach - 1, -1, -1):
        moves = (first >> step) & 1 == 1
        for k in unroll(min(count + (1 << step) - 1, length - (1 << step))):
            words[k] = words[k + (1 << step)] if moves else words[k]
    return words


@function
def in_quadrant(high: Any, low: Any) -> Any:
    """A fraction of a quadrant, as a pair, in radians."""
    pi_half = PI_HALF_F32 if high.dtype == f32 else PI_HALF_F64
    r, r_low = exact_product(high, pi_half[0])
    return ordered_sum(r, r_low + fma(high, pi_half[1], low * pi_half[0]))


@function
def reduce_large_f32(x: f32) -> tuple[f32, f32, i32]:
    """Rest, correction and quadrant of a finite x >= 1: 24 bits times 96 of 2/pi, of which 64 remain."""
    bits = float_bits(x)
    mantissa = u64((bits & 0x7FFFFF) | 0x800000)
    place = (bits >> 23) - 127 + 39  # the first bit of weight 2 in mantissa * 2/pi * 2**(exponent - 23), counted from the first zero
    words = window(place >> 6, 3, 2, 6)
    shift = u64(place & 63)
    back = 64 - shift  # a shift by 64 gives 0
    first = (words[0] << shift) | (words[1] >> back)
    second = (words[1] << shift) | (words[2] >> back)
    sum_low = mantissa * (first & 0xFFFFFFFF) + ((mantissa * (second >> 32)) >> 32)
    product = (((mantissa * (first >> 32)) & 0xFFFFFFFF) << 32) + sum_low  # quadrants, 2 bits before and 62 behind the point
    quadrant = i32(((product >> 61) + 1) >> 1)
    rest = i64(product << 2)  # of the nearest quadrant, in 2**-64 of one
    size = u64(abs(rest))
    # 22 + 22 + 20 bits, each exact in a float
    high, low = ordered_sum(f32(i32(size >> 42)) * 2.0**-22, f32(i32((size >> 20) & 0x3FFFFF)) * 2.0**-44)
    high, low = ordered_sum(high, fma(f32(i32(size & 0xFFFFF)), 2.0**-64, low))
    r, r_low = in_quadrant(high, low)
    return -r if rest < 0 else r, -r_low if rest < 0 else r_low, quadrant


@function
def reduce_large_f64(x: f64) -> tuple[f64, f64, i64]:
    """Rest, correction and quadrant of a finite x >= 2**29: 53 bits times 192 of 2/pi, of which 128 remain."""
    bits = double_bits(x)
    mantissa = u64((bits & 0xFFFFFFFFFFFFF) | 0x10000000000000)
    place = (bits >> 52) - 1013  # the first bit of weight 2 in mantissa * 2/pi * 2**(exponent - 52), counted from the first zero
    words = window(place >> 6, 4, 5, 20)
    shift = u64(place & 63)
    back = 64 - shift  # a shift by 64 gives 0
    pieces = local_array(6, u64)  # of 32 bits, from the low end
    for k in unroll(3):
        word = (words[2 - k] << shift) | (words[3 - k] >> back)
        pieces[2 * k] = word & 0xFFFFFFFF
        pieces[2 * k + 1] = word >> 32
    sums = local_array(6, u64)
    carry = u64(0)
    for k in unroll(6):
        t = (mantissa & 0xFFFFFFFF) * pieces[k] + carry
        sums[k] = t & 0xFFFFFFFF
        carry = t >> 32
    carry = u64(0)
    for k in unroll(1, 6):
        t = (mantissa >> 32) * pieces[k - 1] + sums[k] + carry
        sums[k] = t & 0xFFFFFFFF
        carry = t >> 32
    upper, lower = (sums[5] << 32) | sums[4], (sums[3] << 32) | sums[2]  # quadrants, 2 bits before and 126 behind the point
    quadrant = i64(((upper >> 61) + 1) >> 1)
    first, second = (upper << 2) | (lower >> 62), lower << 2
    negative = i64(first) < 0  # the next quadrant is nearer: the rest is the complement
    second = (~second) + 1 if negative else second
    first = (~first) + (1 if second == 0 else 0) if negative else first
    # 43 + 43 + 42 bits, each exact in a float
    a = exact_float(i64(first >> 21)) * 2.0**-43
    b = exact_float(i64(((first & 0x1FFFFF) << 22) | (second >> 42))) * 2.0**-86
    c = exact_float(i64(second & 0x3FFFFFFFFFF)) * 2.0**-128
    high, low = ordered_sum(a, b)
    high, low = ordered_sum(high, low + c)
    r, r_low = in_quadrant(high, low)
    return -r if negative else r, -r_low if negative else r_low, quadrant


@function
def exact_float(n: i64) -> Any:
    """0 <= n < 2**52 as a float, by its bits."""
    return bits_double(n + 0x4330000000000000) - 4503599627370496.0


reduce_large = Overloaded("reduce_large", {F32: reduce_large_f32, F64: reduce_large_f64})


@function
def reduce(x: Any) -> Any:
    """Rest, correction and quadrant (an integer, of which the last two bits count) of x >= 0; NaN of an infinity."""
    n, quadrant = nearest(x * TWO_OVER_PI)
    pi_half = PI_HALF_F32 if x.dtype == f32 else PI_HALF_F64
    first = fma(n, -pi_half[0], x)  # exact
    product, product_low = exact_product(n, pi_half[1])
    r, low = exact_sum(first, -product)
    r, low = ordered_sum(r, fma(n, -pi_half[2], low - product_low))
    limit = 2.0**15 if x.dtype == f32 else 2.0**29
    if x >= limit and x < x.dtype("inf"):
        r, low, quadrant = reduce_large(x)
    return r, low, quadrant
