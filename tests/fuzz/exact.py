"""Random calls of functions whose results are specified to the last bit on all targets, beside those in `writer.py`: signs, classes and remainders of floats,
and operations on words and their bytes."""

from __future__ import annotations

from tests.fuzz.scope import NARROWER, Scope
from tests.fuzz.tables import TableWriter

_MATHEMATICS = ("f32", "f64")
"""Types that mathematical functions have."""


class ExactWriter(TableWriter):
    """Writes such calls now and then, in programs of every kind."""

    def real(self, scope: Scope, of: str, depth: int) -> str:
        """As ever, or a number with another's sign, or an exact remainder. The sign of a NaN is not specified, so it is not asked for."""
        rng = self.rng
        if of not in _MATHEMATICS or rng.random() < 0.9:
            return super().real(scope, of, depth)
        a, other = self.expression(scope, of, depth - 1), rng.choice([t for t in NARROWER[of] if t in _MATHEMATICS])
        if rng.random() < 0.5:
            return f"fmod({a}, {self.operand(scope, other, depth - 1)})"
        names = scope.of_type(other)
        sign = f"{(name := rng.choice(names))} if {name} == {name} else -1.0" if names else rng.choice(("-0.0", "0.0", "-2.5"))
        return f"copysign({a}, {sign})"

    def condition(self, scope: Scope, depth: int, *, asked: bool = False) -> str:
        """As ever, or whether a float is of a class."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.93:
            return super().condition(scope, depth, asked=asked)
        of = rng.choice(_MATHEMATICS)
        return f"{rng.choice(('isnan', 'isinf', 'isfinite'))}({self.expression(scope, of, depth - 1)})"

    def integer(self, scope: Scope, of: str, depth: int) -> str:
        """As ever, or words of 32 bits and their bytes."""
        rng = self.rng
        if of not in ("i32", "u32") or rng.random() < 0.88:
            return super().integer(scope, of, depth)
        if of == "u32" and rng.random() < 0.6:
            name = rng.choice(("funnel_shift_left", "funnel_shift_right", "permute_bytes"))
            return f"{name}({', '.join(self.given(scope, of, depth - 1) for _ in range(3))})"
        types = ("u32", "u32") if of == "u32" else rng.choice((("i32", "i32"), ("i32", "u32"), ("u32", "i32")))
        a, b, c = (self.expression(scope, each, depth - 1) for each in (*types, of))
        return f"dp4a({a}, {b}, {c})"
