"""Random exchanges with `mask=`: between the lanes that take a branch, or that hold the same key.

Which programs have them is drawn apart, so that the others stay what they were.
"""

from __future__ import annotations

from tests.fuzz.records import RecordWriter
from tests.fuzz.scope import Scope

_SHARE = 0.06
"""Of programs that have such exchanges."""


class MaskWriter(RecordWriter):
    """Writes exchanges between some lanes."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.masked = self.features.random() < _SHARE

    def between_lanes(self, scope: Scope) -> None:
        """An exchange, now and then between some lanes."""
        rng = self.rng
        if not self.masked or rng.random() < 0.3:
            return super().between_lanes(scope)
        quiet = scope.inner(convergent=False)
        of, mask, name = self.type(), self.new("m"), self.new("v")
        if rng.random() < 0.4:
            self.emit(f"{mask} = warp_match_any({self.definite(quiet, 1)})")
            self.emit(f"{name} = {self.among(scope, of, mask)}")
            scope.variables[name] = of
            return None
        flag = self.new("v")
        self.emit(f"{flag} = {self.condition(quiet, 2)}")
        self.emit(f"{mask} = warp_ballot({flag})")
        self.emit(f"{name} = {self.expression(quiet, of, 1)}")
        self.emit(f"if {flag}:")
        self.emit(f"    {name} = {self.among(scope, of, mask)}")
        if rng.random() < 0.4:
            self.emit("else:")
            self.emit(f"    {name} = {self.among(scope, of, f'~{mask}')}")
        elif rng.random() < 0.4:
            self.emit(f"    for {self.new('n')} in range({rng.randrange(1, 3)}):")
            self.emit(f"        {name} = {self.among(scope, of, mask)}")
        scope.variables[name] = of
        return None

    def among(self, scope: Scope, of: str, mask: str) -> str:
        """An exchange between the lanes of a mask."""
        call = self.exchange(scope, of, 1)
        assert call is not None
        return f"{call[:-1]}, mask={mask})"
