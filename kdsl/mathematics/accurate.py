"""What stands for the approximations of `kdsl.fast` on the CPU: the accurate functions, by the names of their rows.

Of f16 and bf16 those of f32, rounded once more.
"""

from typing import Any, Final

from kdsl.frontend.function import Overloaded, function
from kdsl.lang.intrinsics import sqrt
from kdsl.lang.types import BF16, F16, F32, f32
from kdsl.mathematics import exponential, hyperbolic, logarithm, narrow, power, trigonometric


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


def _also_narrow(name: str, of_f32: Any) -> Overloaded:
    rounded = narrow.of_one(of_f32)
    return Overloaded(name, {F32: of_f32, F16: rounded, BF16: rounded})


ACCURATE: Final[dict[str, Any]] = {
    "fast.exp": exponential.exp,
    "fast.exp2": _also_narrow("exp2", exponential.exp2),
    "fast.log": logarithm.log,
    "fast.log2": logarithm.log2,
    "fast.log10": logarithm.log10,
    "fast.sin": trigonometric.sin,
    "fast.cos": trigonometric.cos,
    "fast.tanh": _also_narrow("tanh", hyperbolic.tanh),
    "fast.sqrt": square_root,
    "fast.rsqrt": reciprocal_root,
    "fast.reciprocal": reciprocal,
    "fast.divide": quotient,
    "fast.pow": power.pow,
}
