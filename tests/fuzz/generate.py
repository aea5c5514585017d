"""Random well-typed programs of the language as source text: `generate(seed)` always gives the same program for a seed.

Every program ends: loops run over short ranges, and a `while` counts. No program has a race: a thread writes its own elements only, and reads those of
others in shared arrays only between barriers. Everything that a thread computes ends in the arrays `oi` and `of` and in the views that it writes.
"""

from __future__ import annotations

from tests.fuzz.arithmetic import BITS, FLOATS, INTEGERS, NUMBERS, TYPES, promote
from tests.fuzz.scope import NARROWER, Helper, Scope, firm_literal, literal
from tests.fuzz.writer import ExpressionWriter

_BLOCKS = (1, 1, 2, 2, 3, 3, 3, 4, 4, 5, 7, 8, 13, 17)
_WARPS = (5, 13, 31, 32, 33, 40)
_EXTREMES = (
    "9223372036854775800, 9223372036854775807, 3",
    "-9223372036854775808, 9223372036854775807, 4611686018427387904",
    "9223372036854775807, -9223372036854775808, -6148914691236517205",
    "-9223372036854775807, -9223372036854775808, -1",
    "9223372036854775805, 9223372036854775807",
    "0, 9223372036854775807, 9223372036854775807",
    "3, -3, -9223372036854775808",
)

_WITNESSES = (("is_first_thread()", "block_index()"), ("is_first_thread()", "row_index()"), ("is_first_lane()", "row_index()"))


def generate(seed: int) -> str:
    """The source of one program: numbers, functions, and one kernel."""
    return Generator(seed).program()


class Generator(ExpressionWriter):
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.lines: list[str] = []
        self.indent = 0
        self.numbers = 0
        self.budget = self.rng.choice((1, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 9, 20))
        self.returns_allowed = False

    def emit(self, line: str) -> None:
        """A line of source."""
        self.lines.append("    " * self.indent + line)

    def new(self, prefix: str) -> str:
        """A new name."""
        self.numbers += 1
        return f"{prefix}{self.numbers}"

    # -------------------------------------------------------------------------------------------------------------- the program

    def program(self) -> str:
        """The whole source."""
        rng = self.rng
        for number in range(rng.randrange(3)):
            name = f"C{number}"
            if rng.random() < 0.6:
                self.emit(f"{name} = {rng.choice((2, 3, 5, 7, 16))}")
                self.integer_constants.append(name)
            else:
                self.emit(f"{name} = {rng.choice((0.5, 2.0, 0.1, -1.5))}")
                self.float_constants.append(name)
        fields = [(f"f{n}", self.type()) for n in range(rng.randrange(1, 4))] if rng.random() < 0.25 else []
        if fields:
            self.emit('@struct\nclass Numbers:\n    """Numbers."""')
            for name, of in fields:
                self.emit(f'    {name}: {of}\n    """A number."""')
        slices = {
            f"x{n}": of for n, of in enumerate(self.favourites[: rng.randrange(1, 4)] + ([self.type()] if rng.random() < 0.3 else []))
        }
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
            self.helper(slices)
        self.kernel(slices, fields)
        return "\n".join(self.lines) + "\n"

    def helper(self, slices: dict[str, str]) -> None:
        """A `@function`."""
        rng = self.rng
        parameters, annotated = [], []
        scope = Scope(slices={})
        for number in range(rng.randrange(1, 4)):
            name, of = f"a{number}", self.type()
            kind = rng.randrange(8)
            if kind == 0:
                of = rng.choice(list(slices.values()))
                scope.slices[name] = of
                parameters.append(f"Slice[{of}]")
                annotated.append(f"{name}: Slice[{of}]")
                continue
            scope.variables[name] = of
            parameters.append(f"any {of}" if kind == 1 else of)
            annotated.append(name if kind == 1 else f"{name}: {of}")
            if kind == 1:
                scope.fixed.add(name)
        results = [self.type() for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        made = Helper(self.new("h"), parameters, results)
        group = ", ".join(results)
        annotation = (f" -> {group}" if len(results) == 1 else f" -> tuple[{group}]") if rng.random() < 0.7 else ""
        self.emit("@function")
        self.emit(f"def {made.name}({', '.join(annotated)}){annotation}:")
        self.indent += 1
        scope.results = tuple(results)
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            self.statement(scope)
        self.give_back(scope)
        self.indent -= 1
        self.helpers.append(made)

    def give_back(self, scope: Scope) -> None:
        """`return` with what the helper promises."""
        self.emit(f"return {', '.join(self.expression(scope, of, 2) for of in scope.results)}")

    def kernel(self, slices: dict[str, str], fields: list[tuple[str, str]]) -> None:
        """The kernel."""
        rng = self.rng
        warps = rng.random() < 0.1
        self.exchanges = warps
        block: int | tuple[int, int] = rng.choice(_WARPS if warps else _BLOCKS)
        if rng.random() < 0.12:
            block = rng.choice(((3, 2), (2, 4), (5, 3), (4, 8)))
        threads = block if isinstance(block, int) else block[0] * block[1]
        grid = rng.choice(("1", "2", "3") if threads < 9 else ("1", "2")) if rng.random() < 0.9 else "(2, 2)"
        scope = Scope(in_kernel=True, convergent=True, slices=slices)
        scope.own = {"oi": "i64", "of": "f64"}
        parameters = ["oi: SliceMut[i64]", "of: SliceMut[f64]"]
        for number in range(rng.randrange(0, 3)):
            of = self.type()
            if rng.random() < 0.5:
                scope.own[f"y{number}"] = of
                parameters.append(f"y{number}: SliceMut[{of}]")
            else:
                scope.disjoint[f"z{number}"] = of
                parameters.append(f"z{number}: DisjointSlice[{of}]")
        witnesses = [(f"w{number}", rng.choice(_WITNESSES), self.type()) for number in range(rng.choice((0, 0, 0, 0, 1)))]
        parameters += [f"{name}: DisjointSlice[{of}]" for name, _, of in witnesses]
        parameters += [f"{name}: Slice[{of}]" for name, of in slices.items()]
        for number in range(rng.randrange(0, 4)):
            of = self.type()
            scope.variables[f"s{number}"] = scope.uniform[f"s{number}"] = of
            scope.fixed.add(f"s{number}")
            parameters.append(f"s{number}: {of}")
        if fields:
            parameters.append("p: Numbers")
            scope.variables.update({f"p.{name}": of for name, of in fields})
            scope.uniform.update({f"p.{name}": of for name, of in fields})
            scope.fixed.update(f"p.{name}" for name, _ in fields)
        settings = [f"grid={grid}", f"block={block}"]
        if rng.random() < 0.25:
            first, *more = [*slices, *scope.disjoint]
            relation = f"len({first}) {rng.choice(('==', '>='))} len({rng.choice(more)})" if more else f"len({first}) >= 8"
            settings.append(f"requires=({relation!r},)")
        if rng.random() < 0.2:
            settings.append("contract=False")
        self.emit(f"@kernel({', '.join(settings)})")
        self.emit(f"def k({', '.join(parameters)}) -> None:")
        self.indent += 1
        self.prologue(scope, block)
        self.budget = max(self.budget, 2)
        while self.budget > 0:
            self.statement(scope)
        for name, (guard, index), of in witnesses:
            quiet = scope.inner(convergent=False)
            self.emit(f"if {guard}:")
            self.emit(f"    {name}[{index}] = {self.given(quiet, of, 2)}")
            self.emit(f"    {name}[{index}] {'+=' if of != 'bool' else '='} {self.expression(quiet, of, 1)}")
        self.epilogue(scope)

    def prologue(self, scope: Scope, block: int | tuple[int, int]) -> None:
        """Indices, arrays with their elements set, and some names."""
        rng = self.rng
        self.emit("i = thread_index()")
        self.emit("t = thread_idx.x" if isinstance(block, int) else "t = thread_idx.x + thread_idx.y * block_dim.x")
        scope.variables["t"] = "i64"
        scope.fixed |= {"i", "t"}
        threads = block if isinstance(block, int) else block[0] * block[1]
        if rng.random() < 0.2:
            name, of, extent = "shared", self.type(), threads + rng.randrange(4)
            self.emit(f"{name} = shared_array({extent}, {of})")
            self.emit(f"for q in range(t, {extent}, {threads}):")
            self.emit(f"    {name}[q] = {self.given(scope.inner(convergent=False), of, 1)}")
            self.emit("sync_threads()")
            scope.shared[name] = (of, extent)
        for number in range(rng.choice((0, 0, 0, 1, 1, 2))):
            name, of = f"l{number}", self.type()
            shape = rng.choice(((3,), (4,), (5,), (8,), (2, 3), (1,)))
            self.emit(f"{name} = local_array({shape[0] if len(shape) == 1 else shape}, {of})")
            loop = rng.choice(("range", "unroll"))
            for depth, extent in enumerate(shape):
                self.emit("    " * depth + f"for q{depth} in {loop}({extent}):")
            indices = ", ".join(f"q{depth}" for depth in range(len(shape)))
            self.emit("    " * len(shape) + f"{name}[{indices}] = {self.given(scope.inner(convergent=False), of, 1)}")
            scope.local[name] = (of, shape)
        for _ in range(rng.randrange(1, 3)):
            self.new_variable(scope, self.type(), depth=1)

    def epilogue(self, scope: Scope) -> None:
        """Write what was computed, so that it is compared."""
        whole = [name for name, of in scope.variables.items() if of not in FLOATS and name not in scope.fixed]
        if whole:
            self.emit("hash = i64(0)")
            for name in whole[:8]:
                self.emit(f"hash = hash * 31 + i64({name})")
            self.emit("oi[i * 4] = hash")
        for place, name in enumerate([name for name, of in scope.variables.items() if of in FLOATS and name not in scope.fixed][:3]):
            self.emit(f"of[i * 4 + {place}] = {name}")
        for name, of in scope.own.items():
            if name not in ("oi", "of"):
                self.emit(f"{name}[i * 4 + {self.rng.randrange(4)}] = {self.given(scope, of, 2)}")
        for name, of in scope.disjoint.items():
            self.emit(f"{name}[i] = {self.given(scope, of, 2)}")

    # ---------------------------------------------------------------------------------------------------------------- statements

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
        if self.rng.random() < 0.15:
            self.emit(f"if {self.condition(quiet, 1)}:")
            self.emit("    return")
        of, name = self.type(), self.new("v")
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
        """An assertion, or the same name on both ways of a branch."""
        rng = self.rng
        if rng.random() < 0.25:
            self.emit(f"assert {self.condition(scope, 1)}")
            return
        of, name, quiet = self.type(), self.new("v"), scope.inner(convergent=False)
        self.emit(f"if {self.condition(scope, 2)}:")
        self.emit(f"    {name} = {self.expression(quiet, of, 2)}")
        self.emit("else:")
        self.emit(f"    {name} = {self.expression(quiet, of, 2)}")
        scope.variables[name] = of

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
                if "% 4 - 1" in bounds and "u" in bounds.rsplit(",", 1)[1]:
                    bounds = bounds.rsplit(",", 1)[0]
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
        for name, (of, _) in scope.shared.items():
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
        elif scope.in_kernel and rng.random() < 0.25:
            quiet = scope.inner(convergent=False)
            self.emit(f"if {self.condition(quiet, 1)}:")
            self.emit("    return")
        else:
            self.store(scope)
        return None


__all__ = ["BITS", "INTEGERS", "TYPES", "firm_literal", "generate", "promote"]
