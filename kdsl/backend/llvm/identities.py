"""What an operation over lanes begins with where there is no lane to begin with."""

from __future__ import annotations

from kdsl.lang.types import DType


def identity(mode: str, of: DType) -> float | int:
    """What a lane gets that has none below it: 0 for `add`, and for `max` and `min` what every number is at least (at most)."""
    if mode == "add":
        return 0.0 if of.is_float else 0
    if of.is_float:
        return float("-inf") if mode == "max" else float("inf")
    return of.minimum if mode == "max" else of.maximum
