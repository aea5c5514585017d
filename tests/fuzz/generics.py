"""Random `@function`s with a type variable that stands for one of several types, and calls of them with several of these."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fuzz.arithmetic import FLOATS, INTEGERS, NUMBERS
from tests.fuzz.masks import MaskWriter
from tests.fuzz.scope import Scope

_SHARE = 0.25
"""Of programs that have such functions."""


@dataclass
class Generic:
    """A generated `@function` of a type variable."""

    name: str
    """Its name."""
    variable: str
    """Its type variable."""
    types: list[str]
    """What that may stand for."""
    parameters: list[str]
    """The variable, a type, or `Slice[…]` of the variable."""
    result: str
    """The variable, or a type."""

    @property
    def exact(self) -> bool:
        """Whether all its types are integers."""
        return all(of in INTEGERS for of in self.types)

    @property
    def real(self) -> bool:
        """Whether all its types are floats."""
        return all(of in FLOATS for of in self.types)


class GenericWriter(MaskWriter):
    """Writes functions of type variables, and calls of them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.generic = self.features.random() < _SHARE
        self.generics: list[Generic] = []

    def type_variables(self, slices: dict[str, str]) -> None:
        """One or two functions with a type variable each. One of them can be given views if some have a type that it may stand for."""
        rng = self.rng
        for number in range(rng.choice((1, 1, 2))):
            among = rng.choice((INTEGERS, FLOATS, NUMBERS))
            usual = [of for of in {*self.favourites, *slices.values()} if of in among]
            types = sorted({*usual, *rng.sample(list(among), rng.randrange(2, 5))})
            variable = f"T{number}"
            self.emit(f'{variable} = TypeVar("{variable}", {", ".join(types)})')
            made = Generic(self.new("ht"), variable, types, [variable], variable if rng.random() < 0.7 else self.type())
            for _ in range(rng.randrange(3)):
                made.parameters.append(rng.choice((variable, variable, self.type())))
            if any(of in types for of in slices.values()) and rng.random() < 0.5:
                made.parameters.append(f"Slice[{variable}]")
            self.generic_function(made)
            self.generics.append(made)

    def generic_function(self, made: Generic) -> None:
        """The text of one."""
        rng, variable = self.rng, made.variable
        scope = Scope()
        for number, of in enumerate(made.parameters):
            if of.startswith("Slice"):
                scope.slices[f"a{number}"] = variable
            else:
                scope.variables[f"a{number}"] = of
                scope.fixed.add(f"a{number}")
        annotated = ", ".join(f"a{number}: {of}" for number, of in enumerate(made.parameters))
        self.emit("@function")
        self.emit(f"def {made.name}({annotated}){f' -> {made.result}' if rng.random() < 0.7 else ''}:")
        self.indent += 1
        for _ in range(rng.randrange(4)):
            self.generic_statement(made, scope)
        value = self.of_variable(made, scope, 2)
        self.emit(f"return {value if made.result == variable else f'{made.result}({value})'}")
        self.indent -= 1

    def generic_statement(self, made: Generic, scope: Scope) -> None:
        """One statement on numbers of the variable."""
        rng, variable = self.rng, made.variable
        kind, name = rng.randrange(5), self.new("v")
        start = rng.choice((f"{name}: {variable} = {rng.randrange(3)}", f"{name} = {self.of_variable(made, scope, 1)}"))
        if kind == 0:
            self.emit(start)
        elif kind == 1:
            self.emit(start)
            self.emit(f"for {self.new('n')} in {rng.choice(('range', 'unroll'))}({rng.randrange(1, 4)}):")
            self.emit(f"    {name} {rng.choice('+-*')}= {self.of_variable(made, scope, 1)}")
        elif kind == 2:
            extent = rng.randrange(1, 5)
            array = self.new("b")
            self.emit(f"{array} = local_array({extent}, {variable})")
            self.emit(f"for q in range({extent}):")
            self.emit(f"    {array}[q] = {self.of_variable(made, scope, 1)}")
            self.emit(f"{array}[{rng.randrange(extent)}] {rng.choice('+*')}= {self.of_variable(made, scope, 1)}")
            self.emit(f"{name} = {array}[i64({self.of_variable(made, scope, 0)}) % {rng.choice((extent, 4))}]")
        elif kind == 3:  # each branch is right for its own type alone
            chosen = rng.sample(made.types, min(len(made.types), rng.choice((1, 1, 2))))
            self.emit(f"{name}: {variable} = {rng.randrange(3)}")
            for position, of in enumerate(chosen):
                concrete = Scope(variables={other: of if type_ == variable else type_ for other, type_ in scope.variables.items()})
                asked = f"{variable} is {of}" if rng.random() < 0.8 or position else f"not {variable} is not {of}"
                self.emit(f"{'el' if position else ''}if {asked}:")
                self.emit(f"    {name} = {self.expression(concrete, of, 2)}")
            if rng.random() < 0.6:
                self.emit("else:")
                self.emit(f"    {name} {rng.choice('+-')}= {self.of_variable(made, scope, 1)}")
        else:
            self.emit(start)
            self.emit(f"if {self.generic_condition(made, scope)}:")
            if rng.random() < 0.4:
                value = self.of_variable(made, scope, 1)
                self.emit(f"    return {value if made.result == variable else f'{made.result}({value})'}")
            else:
                self.emit(f"    {name} = {self.of_variable(made, scope, 1)}")
        scope.variables[name] = variable

    def generic_condition(self, made: Generic, scope: Scope) -> str:
        """Two numbers of the variable compared."""
        right = self.of_variable(made, scope, 1) if self.rng.random() < 0.7 else str(self.rng.randrange(5))
        return f"{self.of_variable(made, scope, 1)} {self.rng.choice(('<', '<=', '==', '!=', '>', '>='))} {right}"

    def of_variable(self, made: Generic, scope: Scope, depth: int) -> str:
        """An expression that has the type of the variable, whatever that is."""
        rng, variable = self.rng, made.variable
        if depth <= 0 or rng.random() < 0.15:
            others = [name for name, of in scope.variables.items() if of not in (variable, "bool")]
            kind = rng.randrange(8)
            if kind == 0 and scope.slices:
                index = f"i64({rng.choice(scope.of_type(variable))}) & 7"
                return f"{rng.choice(list(scope.slices))}[{index}]"
            if kind == 1 and others:
                return f"{variable}({rng.choice(others)})"
            if kind == 2:
                return f"{variable}({rng.randrange(8)})"
            return rng.choice(scope.of_type(variable))
        a, b = self.of_variable(made, scope, depth - 1), self.of_variable(made, scope, depth - 1)
        forms = ["({a} + {b})", "({a} - {b})", "({a} * {b})", "({a} * {b} + {c})", "max({a}, {b})", "min({a}, {b})", "abs({a})", "(-{a})"]
        forms += ["({a} + {n})", "({n} - {a})", "({a} if {condition} else {b})", "({a} // {a0})", "({a} % {a0})"]
        if made.exact:
            forms += [
                "({a} & {b})",
                "({a} | {b})",
                "({a} ^ {n})",
                "(~{a})",
                "({a} << {n})",
                "({a} >> {a0})",
                "({a} ** {n})",
                "popcount({a})",
            ]
        if made.real:
            forms += ["({a} / {b})", "sqrt({a})", "floor({a})", "rint({a})", "fma({a}, {b}, {c})", "({a} * 0.5)", "fmin({a}, {b})"]
        c = self.of_variable(made, scope, 0)
        condition = self.generic_condition(made, scope) if depth > 1 else f"{c} > {b}"
        return rng.choice(forms).format(
            a=a, b=b, c=c, n=rng.randrange(7), a0=rng.choice(scope.of_type(variable)), condition=condition
        )  # fmt: skip

    # --------------------------------------------------------------------------------------------------------------- calls

    def any_type(self, scope: Scope, of: str, depth: int) -> str | None:
        """As ever, or a call of a function with a type variable."""
        fitting = [made for made in self.generics if (of in made.types if made.result == made.variable else made.result == of)]
        if not fitting or self.rng.random() < 0.7:
            return super().any_type(scope, of, depth)
        made = self.rng.choice(fitting)
        return self.generic_call(scope, made, of if made.result == made.variable else self.rng.choice(made.types), depth - 1)

    def generic_call(self, scope: Scope, made: Generic, of: str, depth: int) -> str | None:
        """A call with one of its types; None if it is to be given a view, and there is none of that type."""
        rng = self.rng
        arguments = []
        for number, parameter in enumerate(made.parameters):
            if parameter.startswith("Slice"):
                views = [name for name, type_ in scope.slices.items() if type_ == of]
                if not views:
                    return None
                arguments.append(rng.choice(views))
            elif parameter == made.variable:
                loose = number and rng.random() < 0.2
                arguments.append(str(rng.randrange(8)) if loose else self.expression(scope, of, min(depth, 1)))
            else:
                arguments.append(self.given(scope, parameter, min(depth, 1)))
        return f"{made.name}({', '.join(arguments)})"

    def calls_with_several_types(self, scope: Scope) -> None:
        """Each function with two of its types or more, and now and then with literals alone."""
        rng = self.rng
        for made in self.generics:
            for of in rng.sample(made.types, min(len(made.types), rng.choice((2, 2, 3)))):
                call = self.generic_call(scope, made, of, 1)
                if call is not None:
                    name = self.new("v")
                    self.emit(f"{name} = {call}")
                    scope.variables[name] = of if made.result == made.variable else made.result
            alone = "f32" if made.real else "i64"
            if alone in made.types and all(parameter == made.variable for parameter in made.parameters) and rng.random() < 0.4:
                name = self.new("v")
                self.emit(f"{name} = {made.name}({', '.join(str(rng.randrange(8)) for _ in made.parameters)})")
                scope.variables[name] = alone if made.result == made.variable else made.result
