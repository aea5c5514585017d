"""Random tables, `constant_array`, that kernels and functions capture."""

from __future__ import annotations

import math

from tests.fuzz.constants import ConstantWriter
from tests.fuzz.inputs import scalar
from tests.fuzz.scope import Scope

_SHARE = 0.2
"""Of programs that have tables."""
_SHAPES = ((1,), (2,), (4,), (5,), (8,), (16,), (2, 3), (4, 4), (2, 2, 3))


class TableWriter(ConstantWriter):
    """Writes tables, and expressions that read them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.tabled = self.features.random() < _SHARE
        self.tables: dict[str, tuple[str, tuple[int, ...]]] = {}
        """Types and shapes."""

    def constant_arrays(self) -> None:
        """One or two tables."""
        rng = self.rng
        for number in range(rng.choice((1, 1, 2))):
            name, of, shape = f"TAB{number}", self.type(), rng.choice(_SHAPES)
            self.emit(f"{name} = constant_array({self.content(of, shape)}, {of})")
            self.tables[name] = of, shape

    def content(self, of: str, shape: tuple[int, ...]) -> str:
        """Nested lists of numbers that the type holds, none of them infinite, no u64 of 64 bits: NumPy makes floats of lists that mix these with others."""
        if shape:
            return f"[{', '.join(self.content(of, shape[1:]) for _ in range(shape[0]))}]"
        found = scalar(self.rng, of)
        if of == "u64":
            found = int(found) & (1 << 63) - 1
        return repr(found if math.isfinite(found) else 1.0)

    def atom(self, scope: Scope, of: str) -> str:
        """As ever, or an element of a table, or an extent of one."""
        rng = self.rng
        fitting = [(name, shape) for name, (type_, shape) in self.tables.items() if type_ == of]
        if fitting and rng.random() < 0.3:
            name, shape = rng.choice(fitting)
            return f"{name}[{', '.join(self.index(scope, extent) for extent in shape)}]"
        return super().atom(scope, of)
