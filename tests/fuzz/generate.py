"""Random well-typed programs of the language as source text: `generate(seed)` always gives the same program for a seed.

Every program ends: loops run over short ranges, and a `while` counts. No program has a race: a thread writes its own elements only, and reads those of
others in shared arrays only between barriers. Everything that a thread computes ends in the arrays `oi` and `of` and in the views that it writes.
"""

from __future__ import annotations

from tests.fuzz.arithmetic import FLOATS
from tests.fuzz.scope import Helper, Scope
from tests.fuzz.together import ATOMIC
from tests.fuzz.unwritten import UnwrittenWriter

_BLOCKS = (1, 1, 2, 2, 3, 3, 3, 4, 4, 5, 7, 8, 13, 17)
_WARPS = (5, 13, 31, 32, 33, 40)
_SEVERAL_WARPS = (1, 31, 32, 33, 40, 64, 70)

_WITNESSES = (("is_first_thread()", "block_index()"), ("is_first_thread()", "row_index()"), ("is_first_lane()", "row_index()"))


def generate(seed: int) -> str:
    """The source of one program: numbers, functions, and one kernel."""
    return Generator(seed).program()


class Generator(UnwrittenWriter):
    """Writes one program."""

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
        if self.records:
            self.record_class()
        if self.tabled:
            self.constant_arrays()
        slices = {
            f"x{n}": of for n, of in enumerate(self.favourites[: rng.randrange(1, 4)] + ([self.type()] if rng.random() < 0.3 else []))
        }
        many = {f"m{n}": (self.type(), rng.choice((2, 2, 2, 3, 4))) for n in range(rng.choice((0, 0, 0, 0, 0, 0, 1, 1, 2)))}
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
            self.helper(slices, many)
        if self.wide and rng.random() < 0.4:
            self.vector_helper()
        if self.generic:
            self.type_variables(slices)
        self.kernel(slices, many, fields)
        return "\n".join(self.lines) + "\n"

    def helper(self, slices: dict[str, str], many: dict[str, tuple[str, int]]) -> None:
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
            if kind == 2 and many:
                of, rank = rng.choice(list(many.values()))
                scope.many[name] = (of, rank)
                parameters.append(f"Slice[{of}, D{rank}]")
                annotated.append(f"{name}: Slice[{of}, D{rank}]")
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

    def kernel(self, slices: dict[str, str], many: dict[str, tuple[str, int]], fields: list[tuple[str, str]]) -> None:
        """The kernel."""
        rng = self.rng
        warps = rng.random() < 0.1 or self.masked
        self.exchanges = warps
        self.collectives = warps and rng.random() < 0.4
        block: int | tuple[int, int] = rng.choice(_SEVERAL_WARPS if self.collectives else _WARPS if warps else _BLOCKS)
        if rng.random() < 0.12:
            block = rng.choice(((3, 2), (2, 4), (5, 3), (4, 8), *(((8, 5),) if self.collectives else ())))
        threads = block if isinstance(block, int) else block[0] * block[1]
        grid = rng.choice(("1", "2", "3") if threads < 9 else ("1", "2")) if rng.random() < 0.9 else "(2, 2)"
        scope = Scope(in_kernel=True, convergent=True, slices=slices, many=many)
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
        parameters += [f"{name}: Slice[{of}, D{rank}]" for name, (of, rank) in many.items()]
        if rng.random() < 0.15:
            scope.rows["u0"] = of, rank = self.type(), rng.choice((2, 2, 3, 4))
            parameters.append(f"u0: SliceMut[{of}, D{rank}]")
        if rng.random() < 0.12:
            of = rng.choice(ATOMIC)
            scope.counters["c0"] = of, self.kind_of_atomic(of)
            parameters.append(f"c0: SliceMut[{of}]")
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
        if self.wide:
            parameters += self.vector_parameters(scope)
        if self.records:
            parameters += self.record_parameters(scope)
        if self.constant:
            parameters += self.constant_parameters()
        settings = [f"grid={grid}", f"block={block}"]
        if rng.random() < 0.25:
            first, *more = [*slices, *scope.disjoint]
            relation = f"len({first}) {rng.choice(('==', '>='))} len({rng.choice(more)})" if more else f"len({first}) >= 8"
            relations = [relation]
            extents = [f"{name}.shape[{dimension}]" for name, (_, rank) in many.items() for dimension in range(rank)]
            if extents:
                relations = relations[: rng.randrange(2)]
                relations.append(
                    f"{rng.choice(extents)} {rng.choice(('>= 2', '== 3', f'== {rng.choice(extents)}', f'>= {rng.choice(extents)}'))}"
                )
            settings.append(f"requires=({', '.join(map(repr, relations))},)")
        if rng.random() < 0.2:
            settings.append("contract=False")
        self.emit(f"@kernel({', '.join(settings)})")
        self.emit(f"def k({', '.join(parameters)}) -> None:")
        self.indent += 1
        self.prologue(scope, block)
        self.budget = max(self.budget, 2)
        while self.budget > 0:
            self.statement(scope)
            if self.exchanges and rng.random() < 0.7:
                self.between_lanes(scope)
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
        if self.wide:
            self.vector_arrays(scope, threads)
        if self.records:
            self.record_arrays(scope, threads)
        self.calls_with_several_types(scope)

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
        for name, (of, rank) in scope.rows.items():
            self.emit(f"{self.own_row(scope, name, rank)} = {self.given(scope, of, 2)}")
        if self.wide:
            self.vector_results(scope)
        if self.records:
            self.emit(f"ry0[i] = {self.record(scope, 1)}")
