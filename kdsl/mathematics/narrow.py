"""Functions of f16 and bf16: those of f32, rounded to the type. The 2 ulp of an f32 are 2**-12 of one of an f16 and less of a bf16, so that the result is the
nearest number, or one of two that are nearly as near.
"""

from typing import Any

from kdsl.frontend.function import function
from kdsl.lang.types import f32


def of_one(wide: Any) -> Any:
    """The function of one narrow float that a function of an f32 gives."""

    @function
    def narrow(x: Any) -> Any:
        return x.dtype(wide(f32(x)))

    return narrow


def of_two(wide: Any) -> Any:
    """The function of two narrow floats that a function of two f32 gives."""

    @function
    def narrow(x: Any, y: Any) -> Any:
        return x.dtype(wide(f32(x), f32(y)))

    return narrow
