"""Fields of a @struct were checked by other rules than scalar parameters: a number too large for an f32 became infinite, one far from a tie was rounded twice,
and a field called `self` could not be given.
"""

import numpy as np
import pytest

from kdsl import f32, i32, struct


@struct
class Mixed:
    """Of several types."""

    self: i32
    """Called like the first parameter of a method."""
    scale: f32
    """A factor."""


def test_a_field_can_be_called_self() -> None:
    assert Mixed(self=3, scale=1.0).self == 3


def test_a_number_that_would_become_infinite_is_refused() -> None:
    with pytest.raises(OverflowError, match=r"field scale of Mixed: f32 cannot hold 1e\+40"):
        Mixed(self=0, scale=1e40)
    assert Mixed(self=0, scale=float("inf")).scale == float("inf")


def test_an_integer_is_rounded_once() -> None:
    exact = 2**60 + 2**36 + 1  # just above the middle of two f32, and on it once rounded to f64
    assert Mixed(self=0, scale=exact).scale == np.float32(2**60 + 2**37)


def test_kinds_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="field self of Mixed: a whole number"):
        Mixed(self=1.5, scale=0.0)
    assert Mixed(self=np.bool_(True), scale=np.int8(2)).scale == 2.0
