"""The error function and its complement.

erf(x) up to 1 is x plus x times a polynomial in x**2; above, 1 - exp(-x**2) exp(g(x)) with a polynomial g for the logarithm of erfcx(x) = exp(x**2) erfc(x).
erfc(x) up to 3/4 is 1 - erf(x), summed from its parts; above, exp(-x**2) times erfcx(x), for which (1 + 2 x) erfcx(x) is a polynomial in
(x - K) / (x + K) (Shepherd and Laframboise 1981). All polynomials are minimax.
"""

from typing import Any

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import fma
from kdsl.lang.types import f32
from kdsl.mathematics.exponential import exp_pair, reduce_by_ln2
from kdsl.mathematics.floats import copysign, divide_pairs, exact_product, multiply_pairs, ordered_sum, polynomial, scale

# erf(x) / x - 1 in x**2 for |x| <= 1, relative errors of erf 2**-30, 2**-57
SMALL_F32 = (0.12837917, -0.37612626, 0.112836, -0.026854444, 0.0051895347, -0.0008020836, 7.8891e-05)
SMALL_F64 = (
    0.12837916709551256, -0.3761263890318355, 0.11283791670945253, -0.02686617064327622, 0.005223977607423468, -0.0008548325989696758,
    0.00012055295320494294, -1.4924744663335489e-05, 1.6447517677871873e-06, -1.6209175911748696e-07, 1.3722976265924504e-08,
    -7.801188874097751e-10,
)  # fmt: skip
# log(erfcx(x)) for 1 <= x <= 4 (f32) or 6, errors of erf 2**-30, 2**-57
LOG_ERFCX_F32 = (-0.00035370854, -1.12704, 0.3617743, -0.10303728, 0.02180525, -0.002939584, 0.00018557103)
LOG_ERFCX_F64 = (
    -5.132829955932624e-07, -1.128373991290372, 0.363355942928228, -0.10270228411425017, 0.01898803075221513, 0.0004135529417458318,
    -0.0019189636124864714, 0.0007730583626599817, -0.00013656435201741426, -1.9518491304748124e-05, 2.2531067674326214e-05,
    -8.578193652462003e-06, 2.1146516463647104e-06, -3.695371077973303e-07, 4.5929254122803606e-08, -3.8896326233706655e-09,
    2.020118057866912e-10, -4.864487621573549e-12,
)  # fmt: skip
# (1 + 2 x) erfcx(x) in (x - K) / (x + K) for 0.74 <= x, K = 3 (f32) or 3.75, relative errors 2**-30, 2**-57; the first coefficient in two parts
SCALED_F32_FIRST = (1.253008, 4.94909454e-08)
SCALED_F32 = (
    -0.13562109, -0.04756218, 0.12964442, -0.119276464, 0.06831829, -0.023746708, 0.0024715622, 0.001805101, -0.0006399677
)  # fmt: skip
SCALED_F64_FIRST = (1.2375126308378275, 9.92439659504e-17)
SCALED_F64 = (
    -0.14024059858554705, 0.003585415485466361, 0.08227673849015599, -0.10880393014190029, 0.09230432116001287,
    -0.05869339858512112, 0.028362277424435575, -0.009746579625733252, 0.0017556258109269534, 0.00029371424752220595,
    -0.0002901539206368145, 5.16460349000593e-05, 2.23840743429386e-05, -1.1433990415202351e-05, -9.745144725133788e-07,
    1.7305473100948716e-06, -5.323159551994673e-08, -2.3235771393415644e-07, 1.7111337984534808e-08, 2.0881599774663527e-08,
)  # fmt: skip


@function
def erf(x: Any) -> Any:
    """Error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x."""
    highest = 4.0 if x.dtype == f32 else 6.0  # 1 from there on
    y = abs(x)
    y = highest if y > highest else y
    square, square_low = exact_product(y, y)
    small = fma(y, polynomial(square, SMALL_F32 if x.dtype == f32 else SMALL_F64), y)
    exponent, exponent_low = ordered_sum(-square, polynomial(y, LOG_ERFCX_F32 if x.dtype == f32 else LOG_ERFCX_F64))
    r, low, power = reduce_by_ln2(exponent, exponent_low - square_low)
    value, value_low = exp_pair(r, low)
    large = 1.0 - scale(value + value_low, power)
    return copysign(small if y < 1.0 else large, x)


@function
def erfc(x: Any) -> Any:
    """Complementary error function, 1 - erf(x), without the loss of digits of that formula where erf(x) is near 1."""
    highest = 10.5 if x.dtype == f32 else 28.0  # 0 from there on
    y = abs(x)
    y = highest if y > highest else y
    square, square_low = exact_product(y, y)
    # 1 - x - x (erf(x) / x - 1)
    whole, whole_low = ordered_sum(x.dtype(1), -x)
    small = whole + fma(-x, polynomial(square, SMALL_F32 if x.dtype == f32 else SMALL_F64), whole_low)
    middle = 3.0 if x.dtype == f32 else 3.75
    t = (y - middle) / (y + middle)
    first = SCALED_F32_FIRST if x.dtype == f32 else SCALED_F64_FIRST
    top, top_low = ordered_sum(x.dtype(first[0]), t * polynomial(t, SCALED_F32 if x.dtype == f32 else SCALED_F64))
    top_low += first[1]
    bottom, bottom_low = ordered_sum(y + y, x.dtype(1))
    factor, factor_low = divide_pairs(top, top_low, bottom, bottom_low)
    r, low, power = reduce_by_ln2(-square, -square_low)
    value, value_low = exp_pair(r, low)
    high, rest = multiply_pairs(value, value_low, factor, factor_low)
    tail = scale(high + rest, power)
    large = 2.0 - tail if x < 0.0 else tail
    return small if y < 0.75 else large
