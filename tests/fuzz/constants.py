"""Random `Const` parameters of a kernel, which decide branches, trips of unrolled loops, extents and types. Their values are the parameters' defaults."""

from __future__ import annotations

from tests.fuzz.generics import GenericWriter
from tests.fuzz.scope import Scope

_SHARE = 0.2
"""Of programs that have such parameters."""


class ConstantWriter(GenericWriter):
    """Writes statements and expressions on `Const` parameters."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.constant = self.features.random() < _SHARE
        self.constants: dict[str, bool | int | float] = {}
        """The parameters with their values."""

    def constant_parameters(self) -> list[str]:
        """The parameters; those that are numbers are used like captured ones, too."""
        rng = self.rng
        parameters = []
        for number in range(rng.choice((1, 2, 2, 3))):
            name, of = f"CP{number}", rng.choice(("int", "int", "bool", "float"))
            if of == "int":
                self.constants[name] = rng.randrange(1, 6)
                self.integer_constants.append(name)
            elif of == "bool":
                self.constants[name] = rng.random() < 0.5
            else:
                self.constants[name] = rng.choice((0.5, 2.0, 0.1, -1.5, 0.0))
                self.float_constants.append(name)
            parameters.append(f"{name}: Const[{of}] = {self.constants[name]}")
        return parameters

    def known_condition(self) -> str:
        """A condition on constants."""
        rng = self.rng
        name, value = rng.choice(list(self.constants.items()))
        if isinstance(value, bool):
            code = rng.choice((name, f"not {name}"))
        else:
            code = f"{name} {rng.choice(('<', '<=', '==', '!=', '>', '>='))} {rng.choice((0, 1, 2, 3, '0.5'))}"
        if rng.random() < 0.25:
            return rng.choice((f"({code} and {self.known_condition()})", f"({code} or {self.known_condition()})", f"(not ({code}))"))
        return code

    def holds(self, code: str) -> bool:
        """The value of a condition on constants."""
        return bool(eval(code, {"__builtins__": {}}, dict(self.constants)))

    def statement(self, scope: Scope) -> None:
        """One statement, on constants now and then."""
        if not (self.constants and scope.in_kernel and self.rng.random() < 0.25):
            return super().statement(scope)
        rng = self.rng
        self.budget -= 1
        kind = rng.randrange(4)
        whole = [name for name, value in self.constants.items() if isinstance(value, int) and not isinstance(value, bool)]
        if kind == 0 and whole and scope.loops < 2:
            return self.loop_of_constant(scope, rng.choice(whole))
        if kind == 1 and whole and scope.depth == 0:
            return self.array_of_constant(scope, rng.choice(whole))
        if kind == 2:
            return self.type_by_constant(scope)
        return self.branch_by_constant(scope)

    def loop_of_constant(self, scope: Scope, name: str) -> None:
        """A loop, unrolled or not, of so many trips."""
        rng = self.rng
        counter = self.new("j")
        bounds = rng.choice((name, f"{name} - 1", f"{name}, 0, -1", f"1, {name}", f"0, {name} * 2, {name}"))
        self.emit(f"for {counter} in {rng.choice(('unroll', 'unroll', 'range'))}({bounds}):")
        names = [(n, of) for n, of in scope.assignable() if of == "i64"]
        if names:
            self.emit(f"    {rng.choice(names)[0]} {rng.choice('+-^')}= {counter} * {rng.choice((name, rng.randrange(1, 9)))}")
        self.block(scope.inner(convergent=False, loops=scope.loops + 1))

    def array_of_constant(self, scope: Scope, name: str) -> None:
        """A local array with such an extent."""
        array, of, extent = self.new("lc"), self.type(), self.constants[name]
        assert isinstance(extent, int)
        self.emit(f"{array} = local_array({name}, {of})")
        self.emit(f"for q in {self.rng.choice(('range', 'unroll'))}({name}):")
        self.emit(f"    {array}[q] = {self.given(scope.inner(convergent=False), of, 1)}")
        scope.local[array] = (of, (extent,))

    def type_by_constant(self, scope: Scope) -> None:
        """A name whose type the constants decide: the other branch, and the other side, are not part of the program."""
        rng = self.rng
        name, types, quiet = self.new("v"), (self.type(), self.type()), scope.inner(convergent=False)
        code = self.known_condition()
        first, second = (self.expression(quiet, of, 2) for of in types)
        if rng.random() < 0.5:
            self.emit(f"{name} = {first} if {code} else {second}")
        else:
            self.emit(f"if {code}:")
            self.emit(f"    {name} = {first}")
            self.emit("else:")
            self.emit(f"    {name} = {second}")
        scope.variables[name] = types[0 if self.holds(code) else 1]

    def branch_by_constant(self, scope: Scope) -> None:
        """A branch that is taken or left out; one that is left out may be ill-typed."""
        rng = self.rng
        code = self.known_condition()
        taken = self.holds(code)
        if rng.random() < 0.3:
            code = f"{code} {'or' if taken else 'and'} {self.condition(scope.inner(convergent=False), 1)}"
        self.emit(f"if {code}:")
        self.kept(scope, taken)
        if rng.random() < 0.6:
            self.emit("else:")
            self.kept(scope, not taken)

    def kept(self, scope: Scope, taken: bool) -> None:
        """One side of such a branch: all threads come to what is part of the program."""
        if not taken and self.rng.random() < 0.5:
            return self.emit(f"    {self.new('v')} = f32(t) + i64(t)")
        return self.block(scope.inner(convergent=scope.convergent and taken))
