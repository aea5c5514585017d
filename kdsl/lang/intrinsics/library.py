"""What the mathematical functions are made of and the language does not have: it has a meaning for some operands only."""

from __future__ import annotations

from typing import Final

from kdsl.lang.intrinsics.row import Intrinsic, ToScale

scale: Final = Intrinsic(
    "scale", "(x: F, n: I) -> F", ToScale(), "x * 2**n for a normal x near 1 or a NaN, and n within twice the exponents of the type; rounded once."
)  # fmt: skip
