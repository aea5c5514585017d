"""Random statements and expressions on structs that are elements of arrays, and on copies of them.

Which programs have them is drawn apart, so that the others stay what they were.
"""

from __future__ import annotations

from tests.fuzz.scope import Scope
from tests.fuzz.vectors import VectorWriter

_SHARE = 0.12
"""Of programs that have arrays of structs."""


class RecordWriter(VectorWriter):
    """Writes statements and expressions on elements that are structs."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.records = self.features.random() < _SHARE
        self.fields: list[tuple[str, str]] = []
        """Names and types of the numbers of an element."""

    def record_class(self) -> None:
        """The struct."""
        self.fields = [(name, self.type()) for name in "abcd"[: self.rng.randrange(1, 5)]]
        self.emit('@struct\nclass Record:\n    """An element."""')
        for name, of in self.fields:
            self.emit(f'    {name}: {of}\n    """A number."""')

    def record_parameters(self, scope: Scope) -> list[str]:
        """Arrays of structs: one to read, one whose element `i` is the thread's own."""
        kind = self.rng.choice(("SliceMut", "DisjointSlice"))
        scope.records += ["rx0"]
        scope.records_own += ["ry0[i]"]
        return ["rx0: Slice[Record]", f"ry0: {kind}[Record]"]

    def record_arrays(self, scope: Scope, threads: int) -> None:
        """Shared and local arrays of structs."""
        rng = self.rng
        quiet = scope.inner(convergent=False)
        if rng.random() < 0.3:
            self.emit(f"rs = shared_array({threads}, Record)")
            self.emit(f"rs[t] = {self.record(quiet, 1)}")
            self.emit("sync_threads()")
            scope.records.append("rs")
        if rng.random() < 0.3:
            extent = rng.randrange(1, 4)
            self.emit(f"rl = local_array({extent}, Record)")
            self.emit(f"for q in {rng.choice(('range', 'unroll'))}({extent}):")
            self.emit(f"    rl[q] = {self.record(quiet, 1)}")
            scope.records.append("rl")
            scope.records_own.append(f"rl[{rng.randrange(extent)}]")
        self.new_record(scope)

    def statement(self, scope: Scope) -> None:
        """One statement, on structs now and then."""
        if not (self.records and scope.in_kernel and self.rng.random() < 0.3):
            return super().statement(scope)
        rng = self.rng
        self.budget -= 1
        kind = rng.randrange(5)
        quiet = scope.inner(convergent=False)
        names = [name for name in scope.values_of_records if name not in scope.fixed]
        if kind == 0 or (kind == 1 and not names):
            return self.new_record(scope)
        if kind == 1:
            return self.emit(f"{rng.choice(names)} = {self.record(quiet, 2)}")
        place = rng.choice(scope.records_own)
        if kind == 2:
            return self.emit(f"{place} = {self.record(quiet, 2)}")
        name, of = rng.choice(self.fields)
        symbol = rng.choice(("=", "=", "+=", "*=")) if of != "bool" else "="
        return self.emit(f"{place}.{name} {symbol} {self.given(quiet, of, 2) if symbol == '=' else self.expression(quiet, of, 2)}")

    def new_record(self, scope: Scope) -> None:
        """A name of a struct, whose numbers can be read everywhere after it."""
        made = self.new("r")
        self.emit(f"{made} = {self.record(scope.inner(convergent=False), 2)}")
        scope.values_of_records.append(made)
        for name, of in self.fields:
            scope.variables[f"{made}.{name}"] = of
            scope.fixed.add(f"{made}.{name}")

    def record(self, scope: Scope, depth: int) -> str:
        """A value of the struct."""
        rng = self.rng
        kind = rng.randrange(6)
        if kind == 0 and scope.values_of_records:
            return rng.choice(scope.values_of_records)
        if kind == 1 and depth:
            return f"({self.record(scope, 0)} if {self.condition(scope, 1)} else {self.record(scope, 0)})"
        if kind < 4:
            return f"{rng.choice(scope.records)}[{self.index(scope)}]"
        if kind == 4:
            return rng.choice(scope.records_own)
        values = [self.given(scope, of, min(depth, 1)) for _, of in self.fields]
        named = rng.randrange(len(values) + 1)
        given = [*values[:named], *(f"{name}={value}" for (name, _), value in zip(self.fields[named:], values[named:], strict=True))]
        return f"Record({', '.join(given)})"

    def atom(self, scope: Scope, of: str) -> str:
        """As ever, or a number of an element."""
        fitting = [name for name, type_ in self.fields if type_ == of] if scope.records else []
        if not fitting or self.rng.random() < 0.6:
            return super().atom(scope, of)
        place = f"{self.rng.choice(scope.records)}[{self.index(scope)}]" if self.rng.random() < 0.7 else self.rng.choice(scope.records_own)
        return f"{place}.{self.rng.choice(fitting)}"
