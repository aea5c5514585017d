"""Mathematics, written in the language itself, so that every target computes the same bits.

Each function is there for f32 and f64, is within 2 ulp of the exact value for every argument (`docs/mathematics.md` has the figures), keeps subnormals, and
gives what IEEE 754 and C say for zeros, infinities and NaN. It uses sums, products, `fma`, `/`, `sqrt`, integers and bits, and only floats of its argument's
width.
A name stands for one function per element type; an integer argument must be converted.
What is not here: `sqrt`, `fma` and rounding, which hardware does exactly (`kdsl.lang.intrinsics`).
"""

from typing import Any

from kdsl.frontend.function import Overloaded
from kdsl.lang.types import F32, F64
from kdsl.mathematics import (
    division,
    error_function,
    exponential,
    floats,
    hyperbolic,
    inverse_hyperbolic,
    inverse_trigonometric,
    logarithm,
    power,
    scaling,
    trigonometric,
)


def _both(name: str, function: Any) -> Overloaded:
    """A function that is written once for both types, and for no other."""
    return Overloaded(name, {F32: function, F64: function})


exp = _both("exp", exponential.exp)
exp2 = _both("exp2", exponential.exp2)
exp10 = _both("exp10", exponential.exp10)
expm1 = _both("expm1", exponential.expm1)
log = _both("log", logarithm.log)
log2 = _both("log2", logarithm.log2)
log10 = _both("log10", logarithm.log10)
log1p = _both("log1p", logarithm.log1p)
sin = _both("sin", trigonometric.sin)
cos = _both("cos", trigonometric.cos)
tan = _both("tan", trigonometric.tan)
asin = _both("asin", inverse_trigonometric.asin)
acos = _both("acos", inverse_trigonometric.acos)
atan = _both("atan", inverse_trigonometric.atan)
atan2 = _both("atan2", inverse_trigonometric.atan2)
sinh = _both("sinh", hyperbolic.sinh)
cosh = _both("cosh", hyperbolic.cosh)
tanh = _both("tanh", hyperbolic.tanh)
asinh = _both("asinh", inverse_hyperbolic.asinh)
acosh = _both("acosh", inverse_hyperbolic.acosh)
atanh = _both("atanh", inverse_hyperbolic.atanh)
erf = _both("erf", error_function.erf)
erfc = _both("erfc", error_function.erfc)
pow = _both("pow", power.pow)
cbrt = _both("cbrt", power.cbrt)
hypot = _both("hypot", power.hypot)
fmod = _both("fmod", division.fmod)
remainder = _both("remainder", division.remainder)
modulo = _both("modulo", division.modulo)
floor_divide = _both("floor_divide", division.floor_divide)
ldexp = scaling.ldexp
frexp = scaling.frexp
copysign = floats.copysign
isnan = _both("isnan", floats.isnan)
isinf = _both("isinf", floats.isinf)
isfinite = _both("isfinite", floats.isfinite)

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "exp10",
    "expm1",
    "floor_divide",
    "fmod",
    "frexp",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "ldexp",
    "log",
    "log1p",
    "log2",
    "log10",
    "modulo",
    "pow",
    "remainder",
    "sin",
    "sinh",
    "tan",
    "tanh",
]
