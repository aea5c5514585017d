"""Random statements and expressions on vectors: `f32x4` and its kin, wide accesses of views and of shared and local arrays.

Which programs have them is drawn apart, so that the others stay what they were.
"""

from __future__ import annotations

import random

from tests.fuzz.arithmetic import BITS, FLOATS, INTEGERS, NUMBERS
from tests.fuzz.scope import NARROWER, Scope
from tests.fuzz.statements import StatementWriter

_SHARE = 0.15
"""Of programs that have vectors."""
_LANES = (2, 4, 8, 16)


class VectorWriter(StatementWriter):
    """Writes statements and expressions on vectors."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.features = random.Random(f"features of {seed}")
        self.wide = self.features.random() < _SHARE
        self.vector_helpers: list[tuple[str, tuple[str, int], str]] = []
        """Functions of a vector and a number that give a vector: name, type of both vectors, type of the number."""

    def vector_type(self) -> tuple[str, int]:
        """A type and a length that together are a vector of at most 16 bytes."""
        of = self.rng.choice(self.favourites)
        return of, self.rng.choice([lanes for lanes in _LANES if lanes * BITS[of] <= 128])

    def vector_helper(self) -> None:
        """A `@function` of a vector and a number; without types it is compiled for those of its call, which are the same."""
        vector, of, name = self.vector_type(), self.type(), self.new("hv")
        scope = Scope(variables={"a1": of}, fixed={"a1"}, vectors={"a0": vector})
        scope.variables |= {f"a0[{lane}]": vector[0] for lane in range(vector[1])}
        scope.fixed |= set(scope.variables)
        typed = f"{vector[0]}x{vector[1]}"
        self.emit("@function")
        annotated = self.rng.random() < 0.6
        self.emit(f"def {name}(a0: {typed}, a1: {of}) -> {typed}:" if annotated else f"def {name}(a0, a1):")
        if self.rng.random() < 0.4:
            self.emit(f"    if {self.condition(scope, 1)}:")
            self.emit(f"        return {self.vector(scope, *vector, 1)}")
        self.emit(f"    return {self.vector(scope, *vector, 2)}")
        self.vector_helpers.append((name, vector, of))

    def vector_parameters(self, scope: Scope) -> list[str]:
        """Views of vectors, and what else of the kernel can be taken as such."""
        parameters = []
        for number in range(self.rng.choice((1, 1, 2))):
            of, lanes = self.vector_type()
            scope.wide[f"vx{number}"] = of, lanes
            parameters.append(f"vx{number}: Slice[{of}x{lanes}]")
            of, lanes = self.vector_helpers[0][1] if self.vector_helpers else self.vector_type()
            kind = self.rng.choice(("SliceMut", "DisjointSlice"))
            scope.wide_own[f"vy{number}[i]"] = of, lanes
            parameters.append(f"vy{number}: {kind}[{of}x{lanes}]")
        for name, of in scope.slices.items():
            self._as_vectors(scope, name, of)
        for name, of in scope.own.items():  # the four numbers of a thread are one vector, or two
            for lanes in (2, 4):
                if lanes * BITS[of] <= 128 and of != "bool" and self.rng.random() < 0.4:
                    for place in ("i",) if lanes == 4 else ("i * 2", "i * 2 + 1"):
                        scope.wide_own[f"as_vectors({name}, {lanes})[{place}]"] = of, lanes
        return parameters

    def _as_vectors(self, scope: Scope, name: str, of: str, extent: int = 1 << 40) -> None:
        lanes = [lanes for lanes in _LANES if lanes * BITS[of] <= 128 and lanes <= extent]
        if of != "bool" and lanes and self.rng.random() < 0.6:
            chosen = self.rng.choice(lanes)
            scope.wide[f"as_vectors({name}, {self.rng.choice((str(chosen), f'{of}x{chosen}'))})"] = of, chosen

    def vector_arrays(self, scope: Scope, threads: int) -> None:
        """Shared and local arrays of vectors, and those of numbers taken as vectors."""
        rng = self.rng
        quiet = scope.inner(convergent=False)
        for name, (of, extent) in scope.shared.items():
            self._as_vectors(scope, name, of, extent)
            scope.wide_shared |= {array for array in scope.wide if array.startswith("as_vectors(shared")}
        for name, (of, shape) in scope.local.items():
            if len(shape) == 1:
                self._as_vectors(scope, name, of, shape[0])
        if rng.random() < 0.3:
            of, lanes = self.vector_type()
            self.emit(f"vs = shared_array({threads}, {of}x{lanes})")
            self.emit(f"vs[t] = {self.vector(quiet, of, lanes, 1)}")
            self.emit("sync_threads()")
            scope.wide["vs"] = of, lanes
        if rng.random() < 0.3:
            of, lanes = self.vector_type()
            extent = rng.randrange(1, 5)
            self.emit(f"vl = local_array({extent}, {of}x{lanes})")
            self.emit(f"for q in {rng.choice(('range', 'unroll'))}({extent}):")
            self.emit(f"    vl[q] = {self.vector(quiet, of, lanes, 1)}")
            scope.wide["vl"] = scope.wide_own[f"vl[{rng.randrange(extent)}]"] = of, lanes
        for _ in range(rng.randrange(1, 3)):
            self.new_vector(scope)

    def statement(self, scope: Scope) -> None:
        """One statement, on vectors now and then."""
        if not (self.wide and scope.in_kernel and self.rng.random() < 0.35):
            return super().statement(scope)
        rng = self.rng
        self.budget -= 1
        quiet = scope.inner(convergent=False)
        kind = rng.randrange(6)
        assignable = [name for name in scope.vectors if name not in scope.fixed]
        if kind < 2 or (kind == 2 and not assignable):
            return self.new_vector(scope)
        if kind == 2:
            name = rng.choice(assignable)
            of, lanes = scope.vectors[name]
            symbol = rng.choice(("=", "=", "=", "+=", "*=", "-="))
            return self.emit(f"{name} {symbol} {self.vector(quiet, of, lanes, 2)}")
        if kind == 3 and scope.vectors:
            name = rng.choice(list(scope.vectors))
            of, lanes = scope.vectors[name]
            if lanes == 2 and rng.random() < 0.5:
                made = [self.new("v"), self.new("v")]
                self.emit(f"{', '.join(made)} = {name}")
            else:
                made = [self.new("v")]
                self.emit(f"{made[0]} = {rng.choice(('min', 'max'))}({name})")
            scope.variables.update(dict.fromkeys(made, of))
            return None
        return self.vector_store(quiet)

    def new_vector(self, scope: Scope) -> None:
        """A name of a vector, whose numbers can be read everywhere after it."""
        known = [*scope.wide.values(), *scope.wide_own.values()]
        of, lanes = self.rng.choice(known) if known and self.rng.random() < 0.8 else self.vector_type()
        name = self.new("q")
        self.emit(f"{name} = {self.vector(scope.inner(convergent=False), of, lanes, self.rng.choice((1, 2, 2, 3)))}")
        scope.vectors[name] = of, lanes
        for lane in range(lanes):
            number = f"{name}.{'xyzw'[lane]}" if lanes <= 4 and self.rng.random() < 0.5 else f"{name}[{lane}]"
            scope.variables[number] = of
            scope.fixed.add(number)

    def vector_store(self, scope: Scope) -> None:
        """Write vectors of the thread's own."""
        place = self.rng.choice(list(scope.wide_own))
        of, lanes = scope.wide_own[place]
        symbol = self.rng.choice(("=", "=", "+=", "*="))
        self.emit(f"{place} {symbol} {self.vector(scope, of, lanes, 2)}")

    def vector_results(self, scope: Scope) -> None:
        """Write what vectors hold, so that it is compared."""
        for place, (of, lanes) in scope.wide_own.items():
            if place.startswith("vy"):
                self.emit(f"{place} = {self.vector(scope, of, lanes, 1)}")
        for position, (name, (of, lanes)) in enumerate(list(scope.vectors.items())[-3:]):
            number = f"{name}[{self.rng.randrange(lanes)}]"
            self.emit(f"oi[i * 4 + {1 + position}] = i64({number})" if of in INTEGERS else f"of[i * 4 + {1 + position}] = f64({number})")

    # ----------------------------------------------------------------------------------------------------------- expressions

    def vector(self, scope: Scope, of: str, lanes: int, depth: int) -> str:
        """An expression of a vector type."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.15:
            return self.vector_atom(scope, of, lanes)
        kind = rng.randrange(11)
        helpers = [(name, number) for name, what, number in self.vector_helpers if what == (of, lanes)]
        if helpers and rng.random() < 0.3:
            name, number = rng.choice(helpers)
            return f"{name}({self.vector(scope, of, lanes, depth - 1)}, {self.expression(scope, number, 1)})"
        if kind < 4:
            symbol = rng.choice("+-*/" if of in FLOATS else "+-*&|^")
            a, b = self.vector_pair(scope, of, lanes, depth - 1)
            return f"({a} {symbol} {b})"
        if kind == 4 and of in FLOATS:
            a, b = self.vector_pair(scope, of, lanes, depth - 1)
            c = self.vector_operand(scope, of, lanes, depth - 1)
            if rng.random() < 0.3:
                return f"fma({', '.join(self.vector(scope, of, lanes, depth - 1) for _ in range(3))})"
            return rng.choice((f"({a} * {b} + {c})", f"({c} - {a} * {b})", f"({a} * {b} - {c})"))
        if kind == 4:
            return self.vector_quotient(scope, of, lanes, depth - 1)
        if kind == 5:
            functions = ("abs", "-", "+", "sqrt", "floor", "rint") if of in FLOATS else ("abs", "-", "~", "popcount", "reverse_bits")
            return f"{rng.choice(functions)}({self.vector(scope, of, lanes, depth - 1)})"
        if kind == 6:
            a, b = self.vector_pair(scope, of, lanes, depth - 1)
            functions = ("min", "max", "fmin", "fmax") if of in FLOATS else ("min", "max", "multiply_high")
            function = rng.choice(functions)
            if function in ("multiply_high", "fmin", "fmax"):
                a, b = (self.vector(scope, of, lanes, depth - 1) for _ in range(2))
            return f"{function}({a}, {b})"
        if kind == 7:
            sides = [self.vector(scope.inner(convergent=False), of, lanes, depth - 1) for _ in range(2)]
            return f"({sides[0]} if {self.condition(scope, 1)} else {sides[1]})"
        if kind == 8:
            other = rng.choice([t for t in NUMBERS if BITS[t] * lanes <= 128])
            return f"{of}x{lanes}({self.vector(scope, other, lanes, depth - 1)})"
        return self.vector_atom(scope, of, lanes)

    def vector_quotient(self, scope: Scope, of: str, lanes: int, depth: int) -> str:
        """A quotient, a remainder or a shift of integers. What stands for a literal on its right is a number, so that the left side is a vector then."""
        rng = self.rng
        whole, other, symbol = (
            self.vector(scope, of, lanes, depth),
            self.vector_operand(scope, of, lanes, depth),
            rng.choice(("//", "%", "<<", ">>")),
        )
        return f"({other} {symbol} {whole})" if rng.random() < 0.4 else f"({whole} {symbol} {self.not_literal(scope, of, other)})"

    def vector_pair(self, scope: Scope, of: str, lanes: int, depth: int) -> tuple[str, str]:
        """Two operands that meet in a vector, of which one may be a number."""
        a, b = self.vector(scope, of, lanes, depth), self.vector_operand(scope, of, lanes, depth)
        return (a, b) if self.rng.random() < 0.6 else (b, a)

    def vector_operand(self, scope: Scope, of: str, lanes: int, depth: int) -> str:
        """A vector of the type or of a narrower one, or a number beside one."""
        kind = self.rng.randrange(6)
        if kind < 3:
            return self.vector(scope, of, lanes, depth)
        narrow = self.rng.choice([t for t in NARROWER[of] if t != "bool"])
        return self.vector(scope, narrow, lanes, depth) if kind == 3 else self.operand(scope, narrow if kind == 4 else of, min(depth, 1))

    def vector_atom(self, scope: Scope, of: str, lanes: int) -> str:
        """A name, a wide read, or numbers put together."""
        rng = self.rng
        names = [name for name, what in scope.vectors.items() if what == (of, lanes)]
        if names and rng.random() < 0.6:
            return rng.choice(names)
        arrays = [name for name, what in scope.wide.items() if what == (of, lanes)]
        if not scope.shared_readable:
            arrays = [name for name in arrays if name != "vs" and name not in scope.wide_shared]
        if arrays and rng.random() < 0.7:
            return f"{rng.choice(arrays)}[{self.index(scope)}]"
        own = [place for place, what in scope.wide_own.items() if what == (of, lanes)]
        if own and rng.random() < 0.5:
            return rng.choice(own)
        others = [name for name, (_, count) in scope.vectors.items() if count == lanes]
        if others and rng.random() < 0.5:
            return f"{of}x{lanes}({rng.choice(others)})"
        if rng.random() < 0.5:
            return f"{of}x{lanes}({self.expression(scope, self.type(), 1)})"
        return f"{of}x{lanes}({', '.join(self.given(scope, of, 1 if lanes < 5 else 0) for _ in range(lanes))})"
