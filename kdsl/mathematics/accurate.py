"""What stands for the approximations of `kdsl.fast` on the CPU: the accurate functions, by the names of their rows.

Of f16 and bf16, for which the library has no functions, those of f32, rounded once more.
"""

from typing import Any, Final

from kdsl.frontend.function import Overloaded, function
from kdsl.lang.intrinsics import sqrt
from kdsl.lang.types import BF16, F16, F32, bf16, f16, f32
from kdsl.mathematics import exponential, hyperbolic, logarithm, power, trigonometric


@function
def exp2_f16(x: f16) -> f16:
    """2 ** x."""
    return f16(exponential.exp2(f32(x)))


@function
def exp2_bf16(x: bf16) -> bf16:
    """2 ** x."""
    return bf16(exponential.exp2(f32(x)))


@function
def tanh_f16(x: f16) -> f16:
    """The hyperbolic tangent."""
    return f16(hyperbolic.tanh(f32(x)))


@function
def tanh_bf16(x: bf16) -> bf16:
    """The hyperbolic tangent."""
    return bf16(hyperbolic.tanh(f32(x)))


@function
def square_root(x: f32) -> Any:
    """The root, correctly rounded."""
    return sqrt(x)


@function
def reciprocal_root(x: f32) -> Any:
    """1 / sqrt(x), of two operations that round correctly."""
    return 1.0 / sqrt(x)


@function
def reciprocal(x: f32) -> f32:
    """1 / x, correctly rounded."""
    return 1.0 / x


@function
def quotient(x: f32, y: f32) -> f32:
    """x / y, correctly rounded."""
    return x / y


def _of_three(name: str, of_f32: Any, of_f16: Any, of_bf16: Any) -> Overloaded:
    return Overloaded(name, {F32: of_f32, F16: of_f16, BF16: of_bf16})


ACCURATE: Final[dict[str, Any]] = {
    "fast.exp": exponential.exp,
    "fast.exp2": _of_three("exp2", exponential.exp2, exp2_f16, exp2_bf16),
    "fast.log": logarithm.log,
    "fast.log2": logarithm.log2,
    "fast.log10": logarithm.log10,
    "fast.sin": trigonometric.sin,
    "fast.cos": trigonometric.cos,
    "fast.tanh": _of_three("tanh", hyperbolic.tanh, tanh_f16, tanh_bf16),
    "fast.sqrt": square_root,
    "fast.rsqrt": reciprocal_root,
    "fast.reciprocal": reciprocal,
    "fast.divide": quotient,
    "fast.pow": power.pow,
}
