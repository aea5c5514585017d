"""Random statements and expressions on structs that are elements of arrays, with structs and arrays in them, and on copies of them.

Which programs have them is drawn apart, so that the others stay what they were.
"""

from __future__ import annotations

from tests.fuzz.kinds import Fields, Fixed, Kind, numbers
from tests.fuzz.scope import Scope
from tests.fuzz.vectors import VectorWriter

_SHARE = 0.2
"""Of programs that have arrays of structs."""
_SHAPES = ((1,), (2,), (3,), (4,), (2, 2), (3, 2))


class RecordWriter(VectorWriter):
    """Writes statements and expressions on elements that are structs."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.records = self.features.random() < _SHARE
        self.inner: Fields = ()
        """The struct that may stand in the other one."""
        self.fields: Fields = ()
        """An element."""

    def record_class(self) -> None:
        """The struct."""
        rng = self.rng
        fields: list[tuple[str, Kind]] = [(name, self.type()) for name in "abcd"[: rng.randrange(1, 5)]]
        if rng.random() < 0.5:
            self.inner = tuple((name, self.type()) for name in "xyz"[: rng.randrange(1, 4)])
            if rng.random() < 0.3:
                self.inner += (("w", Fixed(self.type(), rng.choice(_SHAPES))),)
            self.struct("Part", self.inner)
            fields += [("part", self.inner)] if rng.random() < 0.7 else []
            fields += [("parts", Fixed(self.inner, rng.choice(_SHAPES)))] if rng.random() < 0.6 else []
        if rng.random() < 0.35:
            fields.append(("taps", Fixed(self.type(), rng.choice(_SHAPES))))
        rng.shuffle(fields)
        self.fields = tuple(fields)
        self.struct("Record", self.fields)

    def struct(self, name: str, fields: Fields) -> None:
        """The text of a struct."""
        self.emit(f'@struct\nclass {name}:\n    """An element, or a part of one."""')
        for field, kind in fields:
            self.emit(f'    {field}: {self.annotation(kind)}\n    """A field."""')

    def annotation(self, kind: Kind) -> str:
        """What names the kind of a field."""
        if isinstance(kind, Fixed):
            return f"FixedArray[{self.annotation(kind.of)}, {', '.join(map(str, kind.shape))}]"
        return kind if isinstance(kind, str) else "Part"

    def behind(self, scope: Scope, path: str, extents: tuple[int, ...]) -> str:
        """The text of a path to a number, with indices, now and then outside."""
        return path.format(*(self.index(scope, extent) for extent in extents))

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
            written = extent - 1 if rng.random() < 0.3 else extent  # what nothing writes is 0
            self.emit(f"for q in {rng.choice(('range', 'unroll'))}({written}):")
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
        parts = self.parts(scope)
        if parts and rng.random() < 0.25:
            return self.emit(f"{place}{rng.choice(parts)} = {self.part(quiet)}")
        path, extents, of = rng.choice(list(numbers(self.fields)))
        symbol = rng.choice(("=", "=", "+=", "*=")) if of != "bool" else "="
        return self.emit(
            f"{place}{self.behind(scope, path, extents)} {symbol} {self.given(quiet, of, 2) if symbol == '=' else self.expression(quiet, of, 2)}"
        )

    def new_record(self, scope: Scope) -> None:
        """A name of a struct, whose numbers can be read everywhere after it."""
        made = self.new("r")
        self.emit(f"{made} = {self.record(scope.inner(convergent=False), 2)}")
        scope.values_of_records.append(made)
        for path, extents, of in numbers(self.fields):
            if not extents:
                scope.variables[f"{made}{path}"] = of
                scope.fixed.add(f"{made}{path}")

    def parts(self, scope: Scope) -> list[str]:
        """Paths to structs in an element."""
        found = []
        for name, kind in self.fields:
            if isinstance(kind, Fixed) and not isinstance(kind.of, str):
                found.append(f".{name}[{', '.join(self.index(scope, extent) for extent in kind.shape)}]")
            elif not isinstance(kind, str | Fixed):
                found.append(f".{name}")
        return found

    def part(self, scope: Scope) -> str:
        """A value of the inner struct: one of an element, or one that is made; what holds an array is only copied."""
        made = _made(self.inner)
        if made and self.rng.random() < 0.6:
            return f"Part({', '.join(self.given(scope, of, 1) for of in made)})"
        return f"{self.record(scope, 0)}{self.rng.choice(self.parts(scope))}"

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
        if any(isinstance(of, Fixed) for _, of in self.fields):  # an array is no value that can be made
            return f"{rng.choice(scope.records)}[{self.index(scope)}]"
        values = [self.given(scope, of, min(depth, 1)) if isinstance(of, str) else self.part(scope) for _, of in self.fields]
        named = rng.randrange(len(values) + 1)
        given = [*values[:named], *(f"{name}={value}" for (name, _), value in zip(self.fields[named:], values[named:], strict=True))]
        return f"Record({', '.join(given)})"

    def atom(self, scope: Scope, of: str) -> str:
        """As ever, or a number of an element."""
        fitting = [(path, extents) for path, extents, type_ in numbers(self.fields) if type_ == of] if scope.records else []
        if not fitting or self.rng.random() < 0.6:
            return super().atom(scope, of)
        place = f"{self.rng.choice(scope.records)}[{self.index(scope)}]" if self.rng.random() < 0.7 else self.rng.choice(scope.records_own)
        if scope.values_of_records and self.rng.random() < 0.2:
            place = self.rng.choice(scope.values_of_records)
        return f"{place}{self.behind(scope, *self.rng.choice(fitting))}"


def _made(fields: Fields) -> list[str]:
    """The types of a struct of numbers alone; none of another one."""
    types = [of for _, of in fields if isinstance(of, str)]
    return types if len(types) == len(fields) else []
