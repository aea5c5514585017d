"""Random statements, each of them ending and free of races; the programs around them are made in `generate.py`."""

from __future__ import annotations

from tests.fuzz.arithmetic import FLOATS, NUMBERS
from tests.fuzz.scope import NARROWER, Scope, literal
from tests.fuzz.together import ATOMIC, TogetherWriter

_EXTREMES = (
    "9223372036854775800, 9223372036854775807, 3",
    "-9223372036854775808, 9223372036854775807, 4611686018427387904",
    "9223372036854775807, -9223372036854775808, -6148914691236517205",
    "-9223372036854775807, -9223372036854775808, -1",
    "9223372036854775805, 9223372036854775807",
    "0, 9223372036854775807, 9223372036854775807",
    "3, -3, -9223372036854775808",
)


class StatementWriter(TogetherWriter):
    """Writes statements into `lines`."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.lines: list[str] = []
        self.indent = 0
        self.numbers = 0
        self.budget = self.rng.choice((1, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 9, 20))

    def emit(self, line: str) -> None:
        """A line of source."""
        self.lines.append("    " * self.indent + line)

    def new(self, prefix: str) -> str:
        """A new name."""
        self.numbers += 1
        return f"{prefix}{self.numbers}"

    def block(self, scope: Scope) -> None:
        """A nested block."""
        self.indent += 1
        for _ in range(self.rng.randrange(1, 3)):
            self.statement(scope)
        if scope.in_loop and self.rng.random() < 0.2:
            self.jump(scope)
        self.indent -= 1

    def statement(self, scope: Scope) -> None:
        """One statement."""
        rng = self.rng
        self.budget -= 1
        if scope.convergent and scope.shared and scope.shared_readable and rng.random() < 0.3:
            return self.phase(scope)
        if scope.convergent and self.exchanges and rng.random() < 0.3:
            return self.between_lanes(scope)
        if scope.counters and rng.random() < 0.15:
            name = rng.choice(list(scope.counters))
            return self.emit(self.atomic(scope, name, *scope.counters[name]))
        kind = rng.randrange(24 if scope.depth < 3 and self.budget > 0 else 12)
        match kind:
            case 0 | 1:
                self.new_variable(scope, self.type(), depth=rng.choice((1, 2, 2, 3)))
            case 2 | 3:
                self.assignment(scope)
            case 4 | 5 | 6:
                self.augmented(scope)
            case 7:
                self.tuples(scope)
            case 8 | 9:
                self.store(scope)
            case 10:
                self.accumulator(scope)
            case 11:
                self.rare(scope)
            case 12 | 13 | 14 | 15:
                self.branch(scope)
            case 16 | 17 | 18:
                self.range_loop(scope)
            case 19 | 20:
                self.while_loop(scope)
            case 21:
                self.unrolled(scope)
            case 22:
                self.phase(scope)
            case _:
                self.early_end(scope)
        return None

    def between_lanes(self, scope: Scope) -> None:
        """An exchange, sometimes after some lanes have returned."""
        quiet = scope.inner(convergent=False)
        if self.rng.random() < 0.15 and not self.collectives:
            self.emit(f"if {self.condition(quiet, 1)}:")
            self.emit("    return")
        of, name = self.type(), self.new("v")
        if self.collectives and of != "bool" and self.rng.random() < 0.5:
            self.emit(f"{name} = {self.collective(scope, of, 2)}")
        else:
            self.emit(f"{name} = {self.exchange(scope, of, 2)}")
        scope.variables[name] = of

    def new_variable(self, scope: Scope, of: str, depth: int) -> None:
        """A name and its first value."""
        name = self.new("v")
        if self.rng.random() < 0.1:
            self.emit(f"{name}: {of} = {self.given(scope, of, depth)}")
        else:
            self.emit(f"{name} = {self.expression(scope, of, depth)}")
        scope.variables[name] = of

    def assignment(self, scope: Scope) -> None:
        """Another value for a name."""
        names = scope.assignable()
        if not names:
            return self.new_variable(scope, self.type(), 2)
        name, of = self.rng.choice(names)
        value = literal(self.rng, of) if self.rng.random() < 0.1 else self.expression(scope, of, self.rng.choice((1, 2, 2, 3)))
        self.emit(f"{name} = {value}")
        return None

    def augmented(self, scope: Scope) -> None:
        """`a += b` and its kin."""
        rng = self.rng
        names = [(name, of) for name, of in scope.assignable() if of != "bool"]
        if not names:
            return self.assignment(scope)
        name, of = rng.choice(names)
        if of in FLOATS:
            symbol = rng.choice(("+", "+", "-", "*", "/", "//", "%"))
        else:
            symbol = rng.choice(("+", "+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", "**"))
        other = rng.choice(NARROWER[of])
        value = self.expression(scope, other, 2) if rng.random() < 0.7 else literal(rng, of)
        if of in FLOATS and symbol in "+-" and rng.random() < 0.5:
            a, b = self.pair(scope, of, 1)
            value = f"{a} * {b}"
        if symbol == "**":
            value = str(rng.randrange(5))
        elif symbol in ("//", "%", "<<", ">>"):
            value = self.not_literal(scope, of, value)
        self.emit(f"{name} {symbol}= {value}")
        return None

    def tuples(self, scope: Scope) -> None:
        """Assignment to several names at once."""
        rng = self.rng
        names = scope.assignable()
        kind = rng.randrange(5)
        if kind == 0:
            same = [(a, b) for a, of in names for b, other in names if a != b and of == other]
            if same:
                a, b = rng.choice(same)
                self.emit(f"{a}, {b} = {b}, {a}")
                return
        if kind == 1 and self.helpers:
            groups = [h for h in self.callable(scope) if len(h.results) > 1]
            if groups:
                helper = rng.choice(groups)
                made = [self.new("v") for _ in helper.results]
                self.emit(f"{', '.join(made)} = {self.call(scope, helper, 1)}")
                scope.variables.update(zip(made, helper.results, strict=True))
                return
        if kind == 2:
            types = [self.type(), self.type()]
            name = self.new("g")
            quiet = scope.inner(convergent=False)
            first, second = ([self.expression(quiet, of, 1) for of in types] for _ in range(2))
            group = f"({first[0]}, {first[1]})"
            if rng.random() < 0.4:
                group = f"{group} if {self.condition(scope, 1)} else ({second[0]}, {second[1]})"
            self.emit(f"{name} = {group}")
            made = [self.new("v"), self.new("v")]
            self.emit(f"{made[0]}, {made[1]} = {name}[0], {name}[{rng.choice(('1', '-1'))}]")
            scope.variables.update(zip(made, types, strict=True))
            return
        if kind == 3:
            of = self.type()
            made = [self.new("v"), self.new("v")]
            self.emit(f"{made[0]} = {made[1]} = {self.expression(scope, of, 2)}")
            scope.variables.update(dict.fromkeys(made, of))
            return
        if len(names) >= 2:
            chosen = rng.sample(names, min(len(names), rng.choice((2, 2, 3))))
            self.emit(f"{', '.join(n for n, _ in chosen)} = {', '.join(self.expression(scope, of, 2) for _, of in chosen)}")
        else:
            self.new_variable(scope, self.type(), 2)

    def store(self, scope: Scope) -> None:
        """Write an element."""
        rng = self.rng
        targets: list[tuple[str, str]] = []
        if scope.in_kernel:
            targets += [(f"{name}[{self.own_place(scope)}]", of) for name, of in scope.own.items()]
            targets += [(f"{name}[i]", of) for name, of in scope.disjoint.items()]
            targets += [(self.own_row(scope, name, rank), of) for name, (of, rank) in scope.rows.items()] * 2
            if not scope.shared_readable:
                targets += [(f"{name}[t]", of) for name, (of, _) in scope.shared.items()] * 2
        targets += [(f"{name}[{', '.join(self.index(scope, e) for e in shape)}]", of) for name, (of, shape) in scope.local.items()] * 2
        if not targets:
            return self.assignment(scope)
        place, of = rng.choice(targets)
        if of != "bool" and rng.random() < 0.3:
            symbol = rng.choice("+-*")
            self.emit(f"{place} {symbol}= {self.expression(scope, rng.choice(NARROWER[of]), 2)}")
        else:
            self.emit(f"{place} = {self.given(scope, of, 2)}")
        return None

    def accumulator(self, scope: Scope) -> None:
        """A name that starts as a literal, and takes the type of what is added."""
        rng = self.rng
        of = rng.choice(NUMBERS)
        name = self.new("v")
        value = self.expression(scope, of, 2)
        self.emit(f"{name} = {'0.0' if of in FLOATS and rng.random() < 0.5 else rng.choice((0, 1, 5))}")
        self.emit(rng.choice((f"{name} += {value}", f"{name} = {name} * {value}", f"{name} = {value} - {name}")))
        scope.variables[name] = of

    def rare(self, scope: Scope) -> None:
        """An assertion, now or when compiling, or the same name on both ways of a branch."""
        rng = self.rng
        if rng.random() < 0.15:
            known = [f"{name} {rng.choice(('>', '!='))} 0" for name in self.integer_constants]
            known += [f"{name}.dtype == {of}" for name, of in scope.slices.items()]
            return self.emit(f'static_assert({rng.choice([*known, "2 > 1", "not False"])}, "this holds")')
        if rng.random() < 0.25:
            return self.emit(f"assert {self.condition(scope, 1)}")
        of, name, quiet = self.type(), self.new("v"), scope.inner(convergent=False)
        self.emit(f"if {self.condition(scope, 2)}:")
        self.emit(f"    {name} = {self.expression(quiet, of, 2)}")
        self.emit("else:")
        self.emit(f"    {name} = {self.expression(quiet, of, 2)}")
        scope.variables[name] = of
        return None

    def branch(self, scope: Scope) -> None:
        """`if`, `elif`, `else`."""
        rng = self.rng
        convergent = scope.convergent and rng.random() < 0.4
        if convergent:
            uniform = [n for n, of in scope.uniform.items() if of in NUMBERS]
            condition = f"{rng.choice(uniform)} > {rng.randrange(4)}" if uniform else f"block_idx.x < {rng.randrange(3)}"
            inner = scope.inner(convergent=True)
        else:
            condition = self.truth(scope.inner(convergent=False), 2)
            inner = scope.inner(convergent=False)
        self.emit(f"if {condition}:")
        self.block(inner)
        while rng.random() < 0.2:
            self.emit(f"elif {self.truth(scope.inner(convergent=False), 1)}:")
            self.block(scope.inner(convergent=False))
        if rng.random() < 0.5:
            self.emit("else:")
            self.block(scope.inner(convergent=False))

    def bound(self, scope: Scope) -> str:
        """A bound of a loop that is small."""
        rng = self.rng
        if rng.random() < 0.4:
            return str(rng.randrange(-2, 5))
        of = self.integer_type(index=True)
        return f"{self.expression(scope, of, 1)} % {rng.randrange(2, 6)}"

    def range_loop(self, scope: Scope) -> None:
        """`for` over a range."""
        rng = self.rng
        if scope.loops >= 2:
            return self.assignment(scope)
        uniform = scope.convergent and rng.random() < 0.4
        if uniform:
            bounds = rng.choice(
                (str(rng.randrange(1, 4)), f"{rng.randrange(-2, 1)}, {rng.randrange(1, 4)}", f"3, {rng.randrange(-2, 3)}, -2")
            )
            if scope.many and rng.random() < 0.5:
                bounds = str(self.extent(scope))
        elif scope.many and rng.random() < 0.4:
            bounds = rng.choice((f"{self.extent(scope)}", f"{rng.randrange(3)}, {self.extent(scope)}", f"{self.extent(scope)} - 1, -1, -1"))
        elif rng.random() < 0.12:
            bounds = rng.choice(_EXTREMES)
        else:
            quiet = scope.inner(convergent=False)
            kind = rng.randrange(4)
            bounds = self.bound(quiet)
            if kind:
                bounds = f"{bounds}, {self.bound(quiet)}"
            if kind > 1:
                bounds += f", {rng.choice(('1', '2', '-1', '-2', '3', '-1', f'{self.expression(quiet, self.integer_type(index=True), 1)} % 4 - 1'))}"
        counters = [name for name, of in scope.assignable() if of == "i64"]
        name = rng.choice(counters) if counters and rng.random() < 0.15 else self.new("n")
        inner = scope.inner(convergent=uniform, in_loop=not uniform, loops=scope.loops + 1)
        inner.variables[name] = "i64"
        inner.fixed.add(name)
        if rng.random() < 0.2:
            inner.fixed.discard(name)
        self.emit(f"for {name} in range({bounds}):")
        self.block(inner)
        self.otherwise(scope)
        return None

    def otherwise(self, scope: Scope) -> None:
        """The `else` of a loop, sometimes."""
        if self.rng.random() < 0.25:
            self.emit("else:")
            self.block(scope.inner(convergent=False))

    def while_loop(self, scope: Scope) -> None:
        """`while`, with a counter that ends it."""
        rng = self.rng
        if scope.loops >= 2:
            return self.assignment(scope)
        name = self.new("n")
        of = rng.choice(("", "i32", "u8", "i64"))
        self.emit(f"{name} = {f'{of}(0)' if of else '0'}")
        quiet = scope.inner(convergent=False)
        limit = f"{name} < {rng.randrange(1, 6)}"
        self.emit(f"while {rng.choice((limit, f'{limit} and {self.truth(quiet, 1)}', f'{self.truth(quiet, 1)} and {limit}'))}:")
        inner = scope.inner(convergent=False, in_loop=True, loops=scope.loops + 1)
        inner.variables[name] = of or "i64"
        inner.fixed.add(name)
        self.emit(f"    {name} += 1")
        self.block(inner)
        self.otherwise(scope)
        scope.variables[name] = of or "i64"
        scope.fixed.add(name)
        return None

    def unrolled(self, scope: Scope) -> None:
        """`for` over `unroll`: its number is a constant, which is used with care."""
        rng = self.rng
        if scope.loops >= 2:
            return self.assignment(scope)
        name = self.new("j")
        self.emit(f"for {name} in unroll({rng.choice(('2', '3', '1, 4', '3, 0, -1', '0'))}):")
        inner = scope.inner(convergent=scope.convergent, in_loop=rng.random() < 0.5, loops=scope.loops + 1)
        inner.convergent = inner.convergent and not inner.in_loop
        names = [(n, of) for n, of in scope.assignable() if of == "i64"]
        if names:
            self.emit(f"    {rng.choice(names)[0]} {rng.choice('+-^')}= {name} * {rng.randrange(1, 9)}")
        if rng.random() < 0.3:
            self.emit(f"    if {name} {rng.choice(('<', '==', '>'))} {rng.randrange(3)}:")
            self.indent += 1
            self.block(inner.inner())
            self.indent -= 1
        self.block(inner)
        self.otherwise(scope)
        return None

    def jump(self, scope: Scope) -> None:
        """A jump out of a loop, under a condition (or without one, at the end of a block)."""
        quiet = scope.inner(convergent=False)
        word = self.rng.choice(("break", "continue"))
        if self.rng.random() < 0.8:
            self.emit(f"if {self.condition(quiet, 1)}:")
            self.emit(f"    {word}")
        else:
            self.emit(word)

    def phase(self, scope: Scope) -> None:
        """Between two barriers, threads write their elements of shared arrays."""
        if not (scope.convergent and scope.shared and scope.shared_readable):
            return self.branch(scope)
        self.emit("sync_threads()")
        inner = scope.inner(shared_readable=False, convergent=True)
        counted = [name for name, (of, _) in scope.shared.items() if of in ATOMIC and self.rng.random() < 0.4]
        inner.shared = {name: what for name, what in scope.shared.items() if name not in counted}
        quiet = inner.inner(convergent=False)
        for name in counted:  # by all threads, anywhere in it, and in no other way
            of, extent = scope.shared[name]
            kind = self.kind_of_atomic(of)
            if self.rng.random() < 0.4:
                self.emit(f"if {self.condition(quiet, 1)}:")
                self.emit(f"    {self.atomic(quiet, name, of, kind, extent)}")
            self.emit(self.atomic(quiet, name, of, kind, extent))
        for name, (of, _) in inner.shared.items():
            self.emit(f"{name}[t] = {self.given(inner, of, 2)}")
        for _ in range(self.rng.randrange(2)):
            self.statement(inner)
        self.emit("sync_threads()")
        scope.variables.update(inner.variables)
        scope.fixed |= inner.fixed
        return None

    def early_end(self, scope: Scope) -> None:
        """A jump out of a loop, or an early return."""
        rng = self.rng
        if scope.in_loop:
            return self.jump(scope)
        if scope.results:
            self.emit(f"if {self.condition(scope, 2)}:")
            self.indent += 1
            self.give_back(scope)
            self.indent -= 1
        elif scope.in_kernel and not self.collectives and rng.random() < 0.25:
            quiet = scope.inner(convergent=False)
            self.emit(f"if {self.condition(quiet, 1)}:")
            self.emit("    return")
        else:
            self.store(scope)
        return None

    def give_back(self, scope: Scope) -> None:
        """`return` with what the helper promises."""
        self.emit(f"return {', '.join(self.expression(scope, of, 2) for of in scope.results)}")
