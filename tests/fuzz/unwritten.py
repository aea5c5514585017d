"""Random local arrays of which elements are read that nothing wrote: they are 0, each time that the call is executed."""

from __future__ import annotations

from tests.fuzz.exact import ExactWriter
from tests.fuzz.scope import Scope

_SHARE = 0.25
"""Of programs that have such arrays."""


class UnwrittenWriter(ExactWriter):
    """Writes arrays whose elements are written in part, or not at all, or by some threads."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.unwritten = self.features.random() < _SHARE

    def statement(self, scope: Scope) -> None:
        """One statement, or such an array: also in loops and branches, and in functions."""
        if not (self.unwritten and self.rng.random() < 0.2):
            return super().statement(scope)
        self.budget -= 1
        return self.unwritten_array(scope)

    def unwritten_array(self, scope: Scope) -> None:
        """An array, a write or none, and a read of any element; behind it the array is like any other one of this block."""
        rng = self.rng
        name, of, read = self.new("lu"), self.type(), self.new("v")
        shape = rng.choice(((1,), (2,), (3,), (5,), (8,), (2, 3), (40,)))
        quiet = scope.inner(convergent=False)
        self.emit(f"{name} = local_array({shape[0] if len(shape) == 1 else shape}, {of})")
        kind = rng.randrange(4)
        place = f"{name}[{', '.join(self.index(scope, extent) for extent in shape)}]"
        if kind == 1:
            self.emit(f"{place} = {self.given(quiet, of, 1)}")
        elif kind == 2:
            self.emit(f"if {self.condition(quiet, 1)}:")
            self.emit(f"    {place} = {self.given(quiet, of, 1)}")
        elif kind == 3:
            first = ", ".join(["q", *("0" for _ in shape[1:])])
            self.emit(f"for q in range({rng.randrange(1, 3)}, {shape[0]}, {rng.randrange(1, 3)}):")
            self.emit(f"    {name}[{first}] {rng.choice(('=', '+=')) if of != 'bool' else '='} {self.expression(quiet, of, 1)}")
        self.emit(f"{read} = {name}[{', '.join(self.index(scope, extent) for extent in shape)}]")
        scope.variables[read] = of
        if scope.depth == 0:
            scope.local[name] = (of, shape)
