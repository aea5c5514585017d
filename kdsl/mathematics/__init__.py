"""Mathematics, written in the language itself, so that every target computes the same bits.

Each function is there for f32 and f64, is within 2 ulp of the exact value for every argument (`docs/mathematics.md` has the figures), keeps subnormals, and
gives what IEEE 754 and C say for zeros, infinities and NaN. It uses sums, products, `fma`, `/`, `sqrt`, integers and bits, and only floats of its argument's
width. For f16 and bf16 it is the f32 function, rounded.
A name stands for one function per element type; an integer argument must be converted.
What is not here: `sqrt`, `fma` and rounding, which hardware does exactly (`kdsl.lang.intrinsics`).
"""

from typing import Any

from kdsl.frontend.function import Overloaded
from kdsl.lang.types import BF16, F16, F32, F64
from kdsl.mathematics import (
    division,
    error_function,
    exponential,
    floats,
    hyperbolic,
    inverse_hyperbolic,
    inverse_trigonometric,
    logarithm,
    narrow,
    power,
    scaling,
    trigonometric,
)


def _both(name: str, function: Any) -> Overloaded:
    """A function that is written once for both types, and for no other."""
    return Overloaded(name, {F32: function, F64: function})


def _of_one(name: str, function: Any) -> Overloaded:
    """A function of one argument that is written for f32 and f64; of f16 and bf16 the f32 function, rounded."""
    rounded = narrow.of_one(function)
    return Overloaded(name, {F32: function, F64: function, F16: rounded, BF16: rounded})


def _of_two(name: str, function: Any) -> Overloaded:
    """Likewise of two arguments."""
    rounded = narrow.of_two(function)
    return Overloaded(name, {F32: function, F64: function, F16: rounded, BF16: rounded})


def _of_every(name: str, function: Any) -> Overloaded:
    """A function that is the same for all floats."""
    return Overloaded(name, dict.fromkeys((F32, F64, F16, BF16), function))


exp = _of_one("exp", exponential.exp)
exp2 = _of_one("exp2", exponential.exp2)
exp10 = _of_one("exp10", exponential.exp10)
expm1 = _of_one("expm1", exponential.expm1)
log = _of_one("log", logarithm.log)
log2 = _of_one("log2", logarithm.log2)
log10 = _of_one("log10", logarithm.log10)
log1p = _of_one("log1p", logarithm.log1p)
sin = _of_one("sin", trigonometric.sin)
cos = _of_one("cos", trigonometric.cos)
tan = _of_one("tan", trigonometric.tan)
asin = _of_one("asin", inverse_trigonometric.asin)
acos = _of_one("acos", inverse_trigonometric.acos)
atan = _of_one("atan", inverse_trigonometric.atan)
atan2 = _of_two("atan2", inverse_trigonometric.atan2)
sinh = _of_one("sinh", hyperbolic.sinh)
cosh = _of_one("cosh", hyperbolic.cosh)
tanh = _of_one("tanh", hyperbolic.tanh)
asinh = _of_one("asinh", inverse_hyperbolic.asinh)
acosh = _of_one("acosh", inverse_hyperbolic.acosh)
atanh = _of_one("atanh", inverse_hyperbolic.atanh)
erf = _of_one("erf", error_function.erf)
erfc = _of_one("erfc", error_function.erfc)
pow = _of_two("pow", power.pow)
cbrt = _of_one("cbrt", power.cbrt)
hypot = _of_two("hypot", power.hypot)
fmod = _of_two("fmod", division.fmod)
remainder = _of_two("remainder", division.remainder)
modulo = _both("modulo", division.modulo)
floor_divide = _both("floor_divide", division.floor_divide)
ldexp = scaling.ldexp
frexp = scaling.frexp
copysign = floats.copysign
isnan = _of_every("isnan", floats.isnan)
isinf = _of_every("isinf", floats.isinf)
isfinite = _of_every("isfinite", floats.isfinite)

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
