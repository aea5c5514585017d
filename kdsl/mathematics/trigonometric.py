"""Sine and cosine.

The argument is reduced to r in [-pi/4, pi/4] and a quadrant: by three fused steps while it is small (Cody and Waite 1980), else by an exact product with
enough bits of 2/pi (Payne and Hanek 1983).
"""

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import bits_float, float_bits, fma, rint
from kdsl.lang.types import f32, i64, u32, u64

TWO_OVER_PI = 0.6366197723675814
# pi/2 in three floats, the rest below 2**-77
PI_HALF_1 = 1.5707963705062866
PI_HALF_2 = -4.371138828673793e-08
PI_HALF_3 = -1.7151245100058819e-15
# pi/2 * 2**-62 in two floats
SCALE_HIGH = 3.4061216748705226e-19
SCALE_LOW = -9.478396428567739e-27


@function
def two_over_pi_word(i: i64) -> u32:
    """32 bits of 2/pi behind 32 zeros: word 0 is 0, word 1 holds the first bits behind the binary point."""
    word = u32(0)
    if i == 1:
        word = u32(0xA2F9836E)
    elif i == 2:
        word = u32(0x4E441529)
    elif i == 3:
        word = u32(0xFC2757D1)
    elif i == 4:
        word = u32(0xF534DDC0)
    elif i == 5:
        word = u32(0xDB629599)
    elif i == 6:
        word = u32(0x3C439041)
    elif i == 7:
        word = u32(0xFE5163AB)
    return word


@function
def reduce_large(x: f32) -> tuple[f32, i64]:
    """Quadrant and remainder of a finite x >= 2**15: bits of 2/pi that only add multiples of four quadrants are left out, 96 bits behind them are enough."""
    bits = float_bits(x)
    mantissa = u64((bits & 0x7FFFFF) | 0x800000)
    place = i64(bits >> 23) - 127 + 7  # the first bit of weight 2 in mantissa * 2/pi * 2**(exponent - 23)
    first, shift = place >> 5, u64(place & 31)
    w0, w1 = u64(two_over_pi_word(first)), u64(two_over_pi_word(first + 1))
    w2, w3 = u64(two_over_pi_word(first + 2)), u64(two_over_pi_word(first + 3))
    high = (((w0 << 32) | w1) << shift) >> 32
    middle = ((((w1 << 32) | w2) << shift) >> 32) & 0xFFFFFFFF
    low = ((((w2 << 32) | w3) << shift) >> 32) & 0xFFFFFFFF
    sum_low = mantissa * middle + ((mantissa * low) >> 32)
    product = (((mantissa * high) & 0xFFFFFFFF) << 32) + sum_low  # quadrants, 2 bits before and 62 behind the point
    quadrant = i64(product >> 62)
    rest = i64(product & 0x3FFFFFFFFFFFFFFF)
    if rest >= 0x2000000000000000:
        rest -= 0x4000000000000000
        quadrant += 1
    rest_high = f32(rest)
    rest_low = f32(rest - i64(rest_high))
    product_high = rest_high * SCALE_HIGH
    error = fma(rest_high, SCALE_HIGH, -product_high)
    return product_high + (error + fma(rest_high, SCALE_LOW, rest_low * SCALE_HIGH)), quadrant


@function
def reduce(x: f32) -> tuple[f32, i64]:
    """Remainder in [-pi/4, pi/4] and quadrant of x >= 0."""
    n = rint(x * TWO_OVER_PI)
    r = fma(n, -PI_HALF_3, fma(n, -PI_HALF_2, fma(n, -PI_HALF_1, x)))
    quadrant = i64(n)
    if x >= 32768.0:
        r, quadrant = reduce_large(x)
    return r, quadrant


@function
def sine_or_cosine(r: f32, quadrant: i64) -> f32:
    """sin(r + quadrant * pi/2) for |r| <= pi/4 (polynomials of Cephes, Moshier 1992)."""
    z = r * r
    s = -0.00019515295891 * z + 0.0083321608736
    s = s * z - 0.16666654611
    s = (s * z) * r + r
    c = 2.443315711809948e-5 * z - 0.001388731625493765
    c = c * z + 0.04166664568298827
    c = (c * z - 0.5) * z + 1.0
    value = c if quadrant & 1 == 1 else s
    return -value if quadrant & 2 == 2 else value


@function
def sin_f32(x: f32) -> f32:
    """Sine of an angle in radians; NaN of an infinity."""
    r, quadrant = reduce(abs(x))
    value = sine_or_cosine(r, quadrant)
    result = -value if float_bits(x) < 0 else value
    return result if abs(x) < f32("inf") else bits_float(0x7FC00000)


@function
def cos_f32(x: f32) -> f32:
    """Cosine of an angle in radians; NaN of an infinity."""
    r, quadrant = reduce(abs(x))
    value = sine_or_cosine(r, quadrant + 1)
    return value if abs(x) < f32("inf") else bits_float(0x7FC00000)
