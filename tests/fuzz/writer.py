"""Random expressions of a wanted type, over all operators and functions of the language."""

from __future__ import annotations

import random

from tests.fuzz.arithmetic import BITS, FLOATS, INTEGERS, NUMBERS, TYPES, promote
from tests.fuzz.scope import COMPARABLE, NARROWER, PAIRS, Helper, Scope, amount_literal, firm_literal, literal

_COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")


class ExpressionWriter:
    """Writes expressions. `helpers` are the functions that can be called, `constants` literals that are captured."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.helpers: list[Helper] = []
        self.integer_constants: list[str] = []
        self.float_constants: list[str] = []
        self.favourites = self.rng.sample(NUMBERS, 3)
        self.atoms_of_place = (
            "thread_idx.x",
            "block_idx.x",
            "block_dim.x",
            "grid_dim.x",
            "lane_index()",
            "warp_index()",
            "block_index()",
            "thread_index()",
        )
        self.exchanges = False

    def type(self) -> str:
        """A type; a program has some that are frequent."""
        if self.rng.random() < 0.7:
            return self.rng.choice(self.favourites)
        return self.rng.choice(TYPES)

    def integer_type(self, *, index: bool = False) -> str:
        """An integer type; for an index one that becomes an i64."""
        of = self.rng.choice([t for t in self.favourites if t in INTEGERS] or INTEGERS)
        return "i32" if index and of == "u64" else of

    # ------------------------------------------------------------------------------------------------------------ operands

    def operand(self, scope: Scope, of: str, depth: int) -> str:
        """An expression or a literal, which takes the type of the other operand."""
        if of != "bool" and self.rng.random() < 0.2:
            constants = self.integer_constants if of in INTEGERS else self.float_constants
            return self.rng.choice(constants) if constants and self.rng.random() < 0.2 else literal(self.rng, of)
        return self.expression(scope, of, depth)

    def pair(self, scope: Scope, of: str, depth: int) -> tuple[str, str]:
        """Two operands that meet in a type."""
        rng = self.rng
        kind = rng.randrange(6)
        if kind == 0 and of != "bool":
            return self.expression(scope, of, depth), self.operand(scope, of, depth)
        if kind == 1 and of != "bool":
            return self.operand_literal(of), self.expression(scope, of, depth)
        if kind < 4:
            return self.expression(scope, of, depth), self.expression(scope, of, depth)
        a, b = rng.choice(PAIRS[of])
        return self.expression(scope, a, depth), self.expression(scope, b, depth)

    def operand_literal(self, of: str) -> str:
        """A literal for an operand."""
        constants = self.integer_constants if of in INTEGERS else self.float_constants
        return self.rng.choice(constants) if constants and self.rng.random() < 0.2 else literal(self.rng, of)

    def given(self, scope: Scope, to: str, depth: int) -> str:
        """Something that can be given to a name or element of a type: it becomes it by itself."""
        if self.rng.random() < 0.1:
            return literal(self.rng, to)
        of = self.rng.choice(NARROWER[to]) if self.rng.random() < 0.2 else to
        return self.expression(scope, of, depth)

    # ----------------------------------------------------------------------------------------------------------- expressions

    def expression(self, scope: Scope, of: str, depth: int) -> str:
        """An expression that has the type, and no literal."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.12:
            return self.atom(scope, of)
        if rng.random() < 0.3:
            found = self.any_type(scope, of, depth)
            if found is not None:
                return found
        if of == "bool":
            return self.condition(scope, depth)
        return self.integer(scope, of, depth) if of in INTEGERS else self.real(scope, of, depth)

    def atom(self, scope: Scope, of: str) -> str:
        """A name, an element, a literal with its type."""
        rng = self.rng
        names = scope.of_type(of)
        if names and rng.random() < 0.75:
            return rng.choice(names)
        views = [name for name, type_ in scope.slices.items() if type_ == of]
        if views and rng.random() < 0.7:
            return f"{rng.choice(views)}[{self.index(scope)}]"
        several = [name for name, (type_, _) in scope.many.items() if type_ == of]
        if several and rng.random() < 0.8:
            name = rng.choice(several)
            return self.dimensions(scope, name, scope.many[name][1])
        if of == "i64" and scope.in_kernel and rng.random() < 0.5:
            return self.extent(scope) if scope.many and rng.random() < 0.3 else rng.choice(self.atoms_of_place)  # type: ignore[return-value]
        if of == "bool" and rng.random() < 0.8:
            other = rng.choice([t for t in (*scope.variables.values(),) if t in NUMBERS] or ["i32"])
            return f"({self.atom(scope, other)} {rng.choice(_COMPARISONS)} {self.atom(scope, other)})"
        others = [name for name, type_ in scope.variables.items() if type_ != of]
        if others and rng.random() < 0.6:
            return f"{of}({rng.choice(others)})"
        return firm_literal(rng, of)

    def index(self, scope: Scope, extent: int = 0) -> str:
        """An index for an array whose elements may all be read; sometimes outside."""
        rng = self.rng
        kind = rng.randrange(7)
        names = [n for n in scope.variables if scope.variables[n] in INTEGERS and scope.variables[n] != "u64"]
        if kind < 2 and scope.in_kernel:
            return rng.choice(
                ("i", "i", "t", f"i + {rng.randrange(1, 9)}", f"t * {rng.randrange(1, 4)}", "t - 1", f"(i ^ {rng.randrange(1, 7)})")
            )
        if kind < 5 and names:
            name = rng.choice(names)
            bound = extent or rng.choice((3, 5, 8, 16))
            return rng.choice(
                (
                    name,
                    f"{name} % {bound}",
                    f"({name} & {7 if extent == 0 else 3})",
                    f"abs({name}) % {bound}",
                    f"{name} + {rng.randrange(5)}",
                    f"{name} - 2",
                )
            )
        if names and rng.random() < 0.7:
            return f"{rng.choice(names)} % {extent or 8}"
        return str(rng.randrange(extent or 6))

    def any_type(self, scope: Scope, of: str, depth: int) -> str | None:
        """Kinds of expressions that every type has."""
        rng = self.rng
        match rng.randrange(9):
            case 0 | 1:
                quiet = scope.inner(convergent=False)
                if (
                    scope.slices and rng.random() < 0.15
                ):  # sides of two types, where the condition is certainly none that the compiler knows
                    narrow = self.expression(quiet, rng.choice(NARROWER[of]), depth - 1)
                    return (
                        f"({narrow} if {rng.choice(list(scope.slices))}[{self.index(scope)}] else {self.expression(quiet, of, depth - 1)})"
                    )
                condition = self.condition(scope, depth - 1)
                return f"({self.expression(quiet, of, depth - 1)} if {condition} else {self.expression(quiet, of, depth - 1)})"
            case 2 | 3:
                helpers = [h for h in self.callable(scope) if h.results == [of]]
                if helpers:
                    return self.call(scope, rng.choice(helpers), depth - 1)
                groups = [h for h in self.callable(scope) if len(h.results) > 1 and of in h.results]
                if groups:
                    helper = rng.choice(groups)
                    positions = [p for p, result in enumerate(helper.results) if result == of]
                    return f"{self.call(scope, helper, depth - 1)}[{rng.choice(positions)}]"
            case 4:
                arrays = [(name, shape) for name, (type_, shape) in scope.local.items() if type_ == of]
                if arrays:
                    name, shape = rng.choice(arrays)
                    return f"{name}[{', '.join(self.index(scope, extent) for extent in shape)}]"
            case 5:
                shared = [(name, extent) for name, (type_, extent) in scope.shared.items() if type_ == of]
                if shared:
                    name, extent = rng.choice(shared)
                    return f"{name}[{self.index(scope, extent) if scope.shared_readable else 't'}]"
            case 6:
                own = [name for name, type_ in scope.own.items() if type_ == of]
                if own:
                    return f"{rng.choice(own)}[{self.own_place(scope)}]"
                rows = [(name, rank) for name, (type_, rank) in scope.rows.items() if type_ == of]
                if rows:
                    return self.own_row(scope, *rng.choice(rows))
                disjoint = [name for name, type_ in scope.disjoint.items() if type_ == of]
                if disjoint:
                    return f"{rng.choice(disjoint)}[i]"
            case 7:
                if scope.convergent and self.exchanges:
                    return self.exchange(scope, of, depth - 1)
            case 8:
                if of != "bool":
                    a, b = self.pair(scope, of, depth - 1)
                    return (
                        f"{rng.choice(('min', 'max'))}({a}, {b}{', ' + self.operand(scope, of, depth - 1) if rng.random() < 0.2 else ''})"
                    )
        return None

    def own_place(self, scope: Scope, *, outside: bool = True) -> str:
        """An index of an element that no other thread touches, or of none."""
        rng = self.rng
        names = [n for n in scope.variables if scope.variables[n] in ("i8", "i16", "i32", "i64", "u8", "u16", "u32")]
        kind = rng.randrange(10)
        if kind < 5 or not names:
            return f"i * 4 + {rng.randrange(4)}"
        if kind < 8 or not outside:
            return f"i * 4 + {rng.choice(names)} % 4"
        return rng.choice(
            (f"-1 - i - abs({rng.choice(names)}) % 5", f"i + {4 * 4096}", f"i64(9223372036854775807) - i64({rng.choice(names)}) % 3")
        )

    def own_row(self, scope: Scope, name: str, rank: int) -> str:
        """An element of a view of several dimensions that is the thread's own."""
        return f"{name}[i, {', '.join(self.index(scope, self.rng.choice((1, 2, 3))) for _ in range(rank - 1))}]"

    def views(self, scope: Scope) -> dict[str, str]:
        """The views that a helper can be given, with their annotations."""
        found = {name: f"Slice[{of}]" for name, of in scope.slices.items()}
        return {**found, **{name: f"Slice[{of}, D{rank}]" for name, (of, rank) in scope.many.items()}}

    def callable(self, scope: Scope) -> list[Helper]:
        """Helpers for which there are arguments here."""
        views = set(self.views(scope).values())
        return [h for h in self.helpers if all(p in views for p in h.parameters if p.startswith("Slice"))]

    def call(self, scope: Scope, helper: Helper, depth: int) -> str:
        """A call of a helper."""
        arguments = []
        for parameter in helper.parameters:
            if parameter.startswith("Slice"):
                arguments.append(self.rng.choice([n for n, of in self.views(scope).items() if of == parameter]))
            elif parameter.startswith("any "):
                arguments.append(self.expression(scope, parameter[4:], min(depth, 1)))
            else:
                arguments.append(self.given(scope, parameter, min(depth, 1)))
        return f"{helper.name}({', '.join(arguments)})"

    def exchange(self, scope: Scope, of: str, depth: int) -> str | None:
        """An exchange between lanes; only where all of the warp come."""
        raise NotImplementedError

    def dimensions(self, scope: Scope, name: str, rank: int) -> str:
        """An element of a view of several dimensions."""
        return f"{name}[{', '.join(self.index(scope, self.rng.choice((2, 3, 4))) for _ in range(rank))}]"

    def extent(self, scope: Scope) -> str | None:
        """An extent of a view of several dimensions."""
        if not scope.many:
            return None
        name = self.rng.choice(list(scope.many))
        return f"{name}.shape[{self.rng.randrange(scope.many[name][1])}]"

    # --------------------------------------------------------------------------------------------------------------- by type

    def integer(self, scope: Scope, of: str, depth: int) -> str:
        """An expression of an integer type."""
        rng = self.rng
        match rng.randrange(15):
            case 0 | 1 | 2:
                a, b = self.pair(scope, of, depth - 1)
                return f"({a} {rng.choice('+-*')} {b})"
            case 3 | 4:
                if rng.random() < 0.4:
                    divisor = rng.choice(
                        ("1", "2", "3", "4", "7", "8", "16", "100", "(-1)", "(-2)", "(-3)", "(-8)")[: 8 if of[0] == "u" else 12]
                    )
                    return f"({self.expression(scope, of, depth - 1)} {rng.choice(('//', '%'))} {divisor})"
                a, b = self.pair(scope, of, depth - 1)
                return f"({a} {rng.choice(('//', '%'))} {self.not_literal(scope, of, b)})"
            case 5:
                a, b = self.pair(scope, of, depth - 1)
                return f"({a} {rng.choice('&|^')} {b})"
            case 6 | 7:
                if rng.random() < 0.4:
                    return f"({self.expression(scope, of, depth - 1)} {rng.choice(('<<', '>>'))} {amount_literal(rng, of)})"
                a, b = self.pair(scope, of, depth - 1)
                b = self.not_literal(scope, of, b)
                return f"({a} {rng.choice(('<<', '>>'))} {f'({b} & {BITS[of] - 1})' if rng.random() < 0.4 else b})"
            case 8:
                return f"({rng.choice('-~+')}{self.expression(scope, of, depth - 1)})"
            case 9:
                return f"abs({self.expression(scope, of, depth - 1)})"
            case 10:
                base = self.expression(scope, of, depth - 1)
                exponent = str(rng.randrange(7)) if rng.random() < 0.6 else f"({self.expression(scope, self.integer_type(), 1)} & 7)"
                return f"({base} ** {exponent})"
            case 12 if rng.random() < 0.5:
                x = self.expression(scope, of, depth - 1)
                if rng.random() < 0.3:
                    return f"multiply_high({x}, {self.expression(scope, of, depth - 1)})"
                return f"{rng.choice(('popcount', 'leading_zeros', 'trailing_zeros', 'reverse_bits'))}({x})"
            case 11 if of in ("i32", "i64"):
                source = "f32" if of == "i32" else "f64"
                names = scope.of_type(source)
                if names:
                    name = rng.choice(names)
                    return f"{'float_bits' if of == 'i32' else 'double_bits'}({name} if {name} == {name} else 1.5)"
                return self.atom(scope, of)
            case _:
                return f"{of}({self.expression(scope, self.type(), depth - 1)})"

    def not_literal(self, scope: Scope, of: str, code: str) -> str:
        """A right operand that is no literal: a literal zero divisor and a literal amount outside are errors."""
        digits = code.strip("()-")
        return self.atom(scope, of) if digits[:1].isdigit() or digits.startswith(("max(", "C")) else code

    def real(self, scope: Scope, of: str, depth: int) -> str:
        """An expression of a float type."""
        rng = self.rng
        match rng.randrange(16):
            case 0 | 1 | 2:
                a, b = self.pair(scope, of, depth - 1)
                return f"({a} {rng.choice('+-*/')} {b})"
            case 3 | 4:
                a, b = self.pair(scope, of, depth - 1)
                c, d = self.pair(scope, of, depth - 1)
                form = rng.choice(
                    (
                        "({a} * {b} + {c})",
                        "({c} - {a} * {b})",
                        "({a} * {b} - {c})",
                        "({c} + {a} * {b})",
                        "({a} * {b} - {c} * {d})",
                        "({a} * {b} + {c} * {d})",
                    )
                )
                return form.format(a=a, b=b, c=self.expression(scope, of, 0) if "* {d}" not in form else c, d=d)
            case 5:
                a, b = self.pair(scope, of, depth - 1)
                return f"({a} {rng.choice(('//', '%'))} {self.not_literal(scope, of, b)})"
            case 6:
                return f"({self.expression(scope, of, depth - 1)} ** {rng.choice(('0', '1', '2', '3', '5', '(-1)', '(-2)', '2.0', '8'))})"
            case 7:
                a, b = (
                    self.expression(scope, of, depth - 1),
                    self.operand(scope, rng.choice([t for t in NARROWER[of] if t in FLOATS]), depth - 1),
                )
                return f"{rng.choice(('fmin', 'fmax'))}({a}, {b})"
            case 8:
                return f"{rng.choice(('abs', 'sqrt', 'floor', 'ceil', 'trunc', 'rint'))}({self.expression(scope, of, depth - 1)})"
            case 9:
                a, b = self.expression(scope, of, depth - 1), self.operand(scope, of, depth - 1)
                return f"fma({a}, {b}, {self.operand(scope, of, depth - 1)})"
            case 10:
                return f"({rng.choice('-+')}{self.expression(scope, of, depth - 1)})"
            case 11 if of in ("f32", "f64"):
                source, name = ("i32", "bits_float") if of == "f32" else ("i64", "bits_double")
                return f"{name}({self.expression(scope, source, depth - 1)})"
            case _:
                return f"{of}({self.expression(scope, self.type(), depth - 1)})"

    def condition(self, scope: Scope, depth: int, *, asked: bool = False) -> str:
        """A `bool`, or if only its truth is `asked` for, what may be made of numbers that count as one."""
        rng = self.rng
        kind = rng.randrange(12) if depth > 0 else rng.randrange(4)
        if kind < 4:
            return self.comparison(scope, depth - 1)
        scope = scope.inner(convergent=False)  # some of it may be left out
        match kind:
            case 4:
                return f"(not {self.truth(scope, depth - 1)})"
            case 5 | 6 | 7:
                word = rng.choice((" and ", " or "))
                return f"({word.join(self.truth(scope, depth - 1, asked=asked) for _ in range(rng.randrange(2, 4)))})"
            case 8:
                return f"({self.condition(scope, depth - 1)} {rng.choice('&|^')} {self.condition(scope, depth - 1)})"
            case 9:
                return f"bool({self.expression(scope, self.rng.choice(NUMBERS), depth - 1)})"
            case 10:
                views = [*scope.slices, *scope.own, *scope.disjoint]
                if views:
                    return f"({self.index(scope)} {rng.choice(('in', 'not in'))} {rng.choice(views)})"
                return self.comparison(scope, depth - 1)
            case _:
                a, b = rng.choice(COMPARABLE)
                c = rng.choice([t for t in NUMBERS if promote(b, t)] or [b]) if b != "bool" else "bool"
                first, second, third = (self.expression(scope, of, depth - 1) for of in (a, b, c))
                return f"({first} {rng.choice(_COMPARISONS)} {second} {rng.choice(_COMPARISONS)} {third})"

    def truth(self, scope: Scope, depth: int, *, asked: bool = True) -> str:
        """A condition, or a number that counts as one: by itself if only the truth is asked for."""
        if self.rng.random() < 0.12:
            atom = self.atom(scope, self.type())
            return atom if asked else f"bool({atom})"
        return self.condition(scope, depth, asked=asked)

    def comparison(self, scope: Scope, depth: int) -> str:
        """Two numbers compared."""
        rng = self.rng
        a, b = rng.choice(COMPARABLE) if rng.random() < 0.4 else (self.type(),) * 2
        right = self.expression(scope, b, depth)
        if a == b and a != "bool" and rng.random() < 0.35:
            right = self.operand_literal(a)
        return f"({self.expression(scope, a, depth)} {rng.choice(_COMPARISONS)} {right})"
