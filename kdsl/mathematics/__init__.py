"""Mathematics, written in the language itself, so that every target computes the same bits.

Each function is within 2 ulp of the exact value for every argument of its type (`tests/kdsl/mathematics` sweeps them), keeps subnormals, and gives what
IEEE 754 and C say for zeros, infinities and NaN. A name stands for one function per element type; an integer argument must be converted.
What is not here: `sqrt`, `fma` and rounding, which hardware does exactly (`kdsl.lang.intrinsics`).
"""

from kdsl.frontend.function import Overloaded
from kdsl.lang.types import F32
from kdsl.mathematics import exponential, hyperbolic, trigonometric

exp = Overloaded("exp", {F32: exponential.exp_f32})
log = Overloaded("log", {F32: exponential.log_f32})
sin = Overloaded("sin", {F32: trigonometric.sin_f32})
cos = Overloaded("cos", {F32: trigonometric.cos_f32})
tanh = Overloaded("tanh", {F32: hyperbolic.tanh_f32})

__all__ = ["cos", "exp", "log", "sin", "tanh"]
