"""Expressions of the language as typed Python code: the reference interpreter's half without statements.

Each operator does what `docs/language.md` says; evaluation order, short circuits and chains are Python's own. Statements stand in `interpret.py`.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.fuzz import specified
from tests.fuzz.arithmetic import BITS, FLOATS, INTEGERS
from tests.fuzz.kinds import Fields
from tests.fuzz.known import known
from tests.fuzz.values import (
    Choice,
    IllTyped,
    Items,
    Literal,
    Memory,
    Number,
    Struct,
    Tuple,
    Typed,
    Value,
    Vector,
    alone,
    as_vector,
    coerce,
    converted,
    field_of,
    firm,
    is_loose,
    join,
    lifted,
    number,
    part,
    part_code,
    vector_of,
)

SYMBOLS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_FOLD: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod, "**": operator.pow,
    "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_, "|": operator.or_, "^": operator.xor, "min": min, "max": max,
}  # fmt: skip
_ON_INTEGERS: Final = {"//": "_floor_divide_integers", "%": "_modulo_integers", "<<": "_shift_left", ">>": "_shift_right"}
_ON_FLOATS: Final = {"//": "_floor_divide", "%": "_modulo"}
_PLACES: Final = {
    "thread_index": ("i64", "_T.index"),
    "block_index": ("i64", "_T.block_rank"),
    "row_index": ("i64", "_T.row"),
    "lane_index": ("i64", "_T.rank % 32"),
    "warp_index": ("i64", "_T.rank // 32"),
    "is_first_lane": ("bool", "_T.rank % 32 == 0"),
    "is_first_thread": ("bool", "_T.rank == 0"),
}
_BITS: Final = {"float_bits": ("f32", "i32"), "bits_float": ("i32", "f32"), "double_bits": ("f64", "i64"), "bits_double": ("i64", "f64")}
EXCHANGES: Final = (
    "warp_sum",
    "warp_max",
    "warp_min",
    "shuffle",
    "shuffle_xor",
    "shuffle_up",
    "shuffle_down",
    "warp_any",
    "warp_all",
    "warp_ballot",
    "warp_and",
    "warp_or",
    "warp_xor",
    "warp_prefix_sum",
    "warp_match_any",
    "warp_match_all",
    "block_sum",
    "block_max",
    "block_min",
    "block_prefix_sum",
)
_OF_BITS: Final = ("popcount", "leading_zeros", "trailing_zeros", "reverse_bits", "multiply_high")
_GIVES: Final = {"warp_match_any": "u32", "warp_match_all": "bool"}


def wrapped(to: str, code: str) -> str:
    """Code that wraps an integer."""
    mask = (1 << BITS[to]) - 1
    if to[0] == "u":
        return f"(({code}) & {mask})"
    half = 1 << (BITS[to] - 1)
    return f"(((({code}) + {half}) & {mask}) - {half})"


def _rounded(to: str, code: str) -> str:
    return f"({code})" if to == "f64" else f"_rounded({to!r}, {code})"


class Expressions:
    """Translates expressions of one function. Names and calls come from the translator of the function (`interpret.Body`)."""

    contract: bool
    """Whether products fuse with sums."""

    def name(self, node: ast.Name) -> Value:
        """The value of a name."""
        raise NotImplementedError

    def call_function(self, name: str, arguments: list[Value]) -> Value:
        """A call of a `@function`."""
        raise NotImplementedError

    def is_function(self, name: str) -> bool:
        """Whether the name is that of a `@function`."""
        raise NotImplementedError

    def type_named(self, name: str) -> str:
        """What a type variable stands for; any other name as it is."""
        raise NotImplementedError

    def is_vector(self, name: str) -> bool:
        """Whether a name holds a vector."""
        raise NotImplementedError

    def is_struct(self, name: str) -> bool:
        """Whether a name holds a struct."""
        raise NotImplementedError

    def fields_of(self, name: str) -> Fields:
        """Names and kinds of the fields of a struct; none if the name is of something else."""
        raise NotImplementedError

    def suspend(self) -> None:
        """Note that threads wait for one another here."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------------------ dispatch

    def value(self, node: ast.expr) -> Value:
        """The value of an expression."""
        match node:
            case ast.Constant():
                if isinstance(node.value, bool | int | float):
                    return Literal(node.value)
            case ast.Name():
                return self.name(node)
            case ast.Tuple():
                return Tuple(tuple(self.value(item) for item in node.elts))
            case ast.BinOp():
                return self.binary_node(node)
            case ast.UnaryOp():
                return self.unary(node)
            case ast.BoolOp():
                decided = known(node, self.value)
                if decided is not None:
                    return Literal(decided)
                values = [number(self.value(item)) for item in node.values]
                if any(alone(value) != "bool" for value in values):
                    raise IllTyped("the value of `and` or `or` of a number")
                return Typed("bool", _joined(node, [_truth(value) for value in values]))
            case ast.Compare():
                return self.compare(node)
            case ast.IfExp():
                return self.conditional(node)
            case ast.Subscript():
                return self.element(node)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.call(node)
        raise IllTyped(ast.dump(node))

    def truth(self, node: ast.expr) -> str:
        """Code for whether an expression counts as true: a number does, unless it is 0."""
        decided = known(node, self.value)
        if decided is not None:
            return repr(decided)
        if isinstance(node, ast.BoolOp):
            return _joined(node, [self.truth(item) for item in node.values])
        return _truth(number(self.value(node)))

    # ----------------------------------------------------------------------------------------------------------- operators

    def binary_node(self, node: ast.BinOp) -> Value:
        """`a + b` and its kin."""
        symbol = SYMBOLS[type(node.op)]
        if symbol in "+-":
            return self.sum(symbol, node.left, node.right)
        return lifted([self.value(node.left), self.value(node.right)], lambda a, b: self.binary(symbol, a, b))

    def sum(self, symbol: str, left: ast.expr | Value, right: ast.expr) -> Value:
        """A sum or difference; with a product of floats as an operand it is one rounding. Of two such products only the left one can fuse."""
        first, second = self._factors(left), self._factors(right)
        return lifted([*first, *second], lambda *given: self._sum(symbol, given[: len(first)], given[len(first) :]))

    def _sum(self, symbol: str, left: Sequence[Number], right: Sequence[Number]) -> Number:
        a = left[0] if len(left) == 1 else self.binary("*", *left)
        b = right[0] if len(right) == 1 else self.binary("*", *right)
        chosen, other, product, sign = left, b, a, "left"
        if not (len(chosen) == 2 and alone(product) in FLOATS):
            chosen, other, product, sign = right, a, b, "right"
        if not self.contract or len(chosen) == 1 or alone(product) not in FLOATS or isinstance(product, Literal):
            return self.binary(symbol, a, b)
        of = join(product, other)
        if alone(product) != of and not is_loose(product):
            return self.binary(symbol, a, b)  # the product is rounded to its narrower type first
        x, y, z = coerce(chosen[0], of), coerce(chosen[1], of), coerce(other, of)
        if symbol == "-":
            x, z = (x, f"-{z}") if sign == "left" else (f"-{x}", z)
        return Typed(of, f"_fused({of!r}, {x}, {y}, {z})")

    def _factors(self, node: ast.expr | Value) -> list[Value]:
        """The two factors of a product, or the value alone."""
        if not isinstance(node, ast.expr):
            return [node]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            return [self.value(node.left), self.value(node.right)]
        return [self.value(node)]

    def binary(self, symbol: str, a: Number, b: Number) -> Number:
        """A binary operator, `min` or `max`."""
        if isinstance(a, Literal) and isinstance(b, Literal):
            return _fold(symbol, a.value, b.value)
        if symbol == "**":
            return _power(a, b)
        of = join(a, b)
        x, y = coerce(a, of), coerce(b, of)
        if of == "bool":
            if symbol not in "&|^":
                raise IllTyped(f"{symbol} of bool")
            return Typed(of, f"({x} {symbol} {y})")
        if of in INTEGERS:
            if symbol in "+-*":
                return Typed(of, wrapped(of, f"{x} {symbol} {y}"))
            if symbol in "&|^":
                return Typed(of, f"({x} {symbol} {y})")
            if symbol in ("min", "max"):
                return Typed(of, f"{symbol}({x}, {y})")
            return Typed(of, f"{_ON_INTEGERS[symbol]}({of!r}, {x}, {y})")
        if symbol in "+-*":
            return Typed(of, _rounded(of, f"{x} {symbol} {y}"))
        if symbol == "/":
            return Typed(of, _rounded(of, f"_divide({x}, {y})"))
        if symbol in ("min", "max"):
            return Typed(of, f"_extreme({symbol!r}, {x}, {y})")
        return Typed(of, f"{_ON_FLOATS[symbol]}({of!r}, {x}, {y})")

    def unary(self, node: ast.UnaryOp) -> Value:
        """`-x`, `+x`, `~x`, `not x`."""
        if isinstance(node.op, ast.Not):
            decided = known(node, self.value)
            return Literal(decided) if decided is not None else Typed("bool", f"(not {self.truth(node.operand)})")
        return lifted([self.value(node.operand)], lambda x: self._signed(node, x))

    def _signed(self, node: ast.UnaryOp, x: Number) -> Number:
        if isinstance(x, Literal) and not isinstance(x.value, bool):
            return Literal(-x.value if isinstance(node.op, ast.USub) else ~int(x.value) if isinstance(node.op, ast.Invert) else x.value)
        x = firm_number(x)
        if x.type == "bool" or (isinstance(node.op, ast.Invert) and x.type in FLOATS):
            raise IllTyped(f"a sign before a {x.type}")
        if isinstance(node.op, ast.UAdd):
            return x
        if isinstance(node.op, ast.Invert):
            return Typed(x.type, wrapped(x.type, f"~{x.code}"))
        return Typed(x.type, f"(-{x.code})" if x.type in FLOATS else wrapped(x.type, f"-{x.code}"))

    def compare(self, node: ast.Compare) -> Literal | Typed:
        """A chain of comparisons, which is Python's own chain; only literals need the type of their neighbour. One of literals alone is a literal,
        and so is `T is f32`."""
        if isinstance(node.ops[0], ast.Is | ast.IsNot):
            first, second = (self.type_named(side.id) for side in (node.left, node.comparators[0]) if isinstance(side, ast.Name))
            return Literal((first == second) == isinstance(node.ops[0], ast.Is))
        values: list[Value] = [self.value(node.left)]
        parts = []
        for position, (op, right_node) in enumerate(zip(node.ops, node.comparators, strict=True)):
            right = self.value(right_node)
            if isinstance(op, ast.In | ast.NotIn):
                if len(node.ops) > 1 or not isinstance(right, Memory):
                    raise IllTyped("`in` stands alone, before an array")
                extent = self.extent(right, Literal(0))
                inside = f"(0 <= {coerce(values[0], 'i64')} < {coerce(extent, 'i64')})"
                return Typed("bool", inside if isinstance(op, ast.In) else f"(not {inside})")
            left = number(values[-1])
            of = join(left, number(right))
            if isinstance(left, Literal) and isinstance(right, Literal) and of != "bool":
                of = "f64" if "f32" in (alone(left), alone(right)) else "i64"
            if position and is_loose(left):  # a literal has another type on each side
                parts += ["and", coerce(left, of)]
            parts += [coerce(left, of)] if not position else []
            parts += [SYMBOLS[type(op)], coerce(right, of)]
            values.append(right)
        code = f"({' '.join(parts)})"
        return Literal(bool(eval(code))) if all(isinstance(value, Literal) for value in values) else Typed("bool", code)

    def conditional(self, node: ast.IfExp) -> Value:
        """Evaluates only the side that it takes."""
        decided = known(node.test, self.value)
        if decided is not None:
            return self.value(node.body if decided else node.orelse)
        condition = self.truth(node.test)
        then, orelse = self.value(node.body), self.value(node.orelse)
        if isinstance(then, Tuple) and isinstance(orelse, Tuple):
            first, second = firm(then), firm(orelse)
            return _as_tuple(_types(first), f"({tuple_code(first)} if {condition} else {tuple_code(second)})")
        if isinstance(then, Vector) and isinstance(orelse, Vector):
            if (then.type, then.lanes) != (orelse.type, orelse.lanes):
                raise IllTyped("two types of vectors")
            return Vector(then.type, then.lanes, f"({then.code} if {condition} else {orelse.code})")
        if isinstance(then, Struct) and isinstance(orelse, Struct):
            if then.fields != orelse.fields:
                raise IllTyped("two structs")
            return Struct(then.fields, f"({then.code} if {condition} else {orelse.code})")
        a, b = number(then), number(orelse)
        if not isinstance(a, Typed) and not isinstance(b, Typed):
            return Choice(condition, a, b)
        of = join(a, b)
        return Typed(of, f"({coerce(a, of)} if {condition} else {coerce(b, of)})")

    # -------------------------------------------------------------------------------------------------------------- memory

    def place(self, memory: Memory, node: ast.expr) -> str:
        """Code of an index."""
        index = self.value(node)
        if isinstance(index, Tuple):
            return f"({', '.join(coerce(item, 'i64') for item in index.items)},)"
        return coerce(index, "i64")

    def indices(self, node: ast.expr) -> str:
        """Code of the indices for an array in a struct, a tuple."""
        nodes = node.elts if isinstance(node, ast.Tuple) else [node]
        return f"({', '.join(coerce(self.value(index), 'i64') for index in nodes)},)"

    def element(self, node: ast.Subscript) -> Value:
        """`a[i]` of an array, or `t[0]` of a tuple."""
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return self.extent(self.value(node.value.value), self.value(node.slice))
        base = self.value(node.value)
        if isinstance(base, Tuple):
            position = self.value(node.slice)
            if not isinstance(position, Literal):
                raise IllTyped("a tuple is indexed by a literal")
            chosen = base.items[int(position.value)]
            return Typed(number_type(chosen), f"{base.code}[{int(position.value)}]") if base.code else chosen
        if isinstance(base, Vector):
            position = self.value(node.slice)
            if not isinstance(position, Literal):
                raise IllTyped("a vector is indexed by a literal")
            return Typed(base.type, f"{base.code}[{int(position.value)}]")
        if isinstance(base, Items):
            return part(base.kind.of, f"_item({base.kind!r}, {base.code}, {self.indices(node.slice)}, {node.lineno}, _T)")
        if not isinstance(base, Memory):
            raise IllTyped("no elements")
        if base.fields:
            return Struct(base.fields, f"{base.code}.load({self.place(base, node.slice)}, {node.lineno}, _T)")
        if base.lanes > 1:
            return Vector(
                base.type, base.lanes, f"{base.code}.load_vector({self.place(base, node.slice)}, {base.lanes}, {node.lineno}, _T)"
            )
        return Typed(base.type, f"{base.code}.load({self.place(base, node.slice)}, {node.lineno}, _T)")

    def extent(self, array: Value, dimension: Value) -> Value:
        """`a.shape[1]`."""
        if not isinstance(array, Memory) or not isinstance(dimension, Literal):
            raise IllTyped("an extent")
        at = int(dimension.value)
        parts = f" // {array.lanes}" if array.lanes > 1 else ""
        return Literal(array.shape[at]) if array.shape else Typed("i64", f"({array.code}.shape[{at}]{parts})")

    def attribute(self, node: ast.Attribute) -> Value:
        """`thread_idx.x`, `block_dim.y`, and fields of structs."""
        if not isinstance(node.value, ast.Name) or self.is_struct(node.value.id) or self.is_vector(node.value.id):
            whole = self.value(node.value)
            if isinstance(whole, Vector):
                position = "xyzw"[: whole.lanes if whole.lanes <= 4 else 0].find(node.attr)
                if position < 0:
                    raise IllTyped(f"a vector has no {node.attr}")
                return Typed(whole.type, f"{whole.code}[{position}]")
            if not isinstance(whole, Struct):
                raise IllTyped("an attribute of an expression")
            place, of = field_of(whole.fields, node.attr)
            return part(of, f"{whole.code}[{place}]")
        owner = node.value.id
        if owner in ("thread_idx", "block_idx", "block_dim", "grid_dim"):
            return Typed("i64", f"_T.{owner}[{'xyz'.index(node.attr)}]")
        return self.name(ast.Name(f"{owner}.{node.attr}", ast.Load()))

    # --------------------------------------------------------------------------------------------------------------- calls

    def call(self, node: ast.Call) -> Value:
        """Conversions, built-in functions, intrinsics, `@function`s."""
        if not isinstance(node.func, ast.Name):
            raise IllTyped("a call of an expression")
        name = self.type_named(node.func.id)
        if name in BITS:
            if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                return Typed(name, {"inf": "inf", "-inf": "(-inf)", "nan": "nan"}[node.args[0].value])
            if name == "bool":
                return Typed("bool", self.truth(node.args[0]))
            return converted(self.value(node.args[0]), name)
        vector = vector_of(name)
        if vector is not None:
            return self.vector(*vector, [self.value(argument) for argument in node.args])
        fields = self.fields_of(name)
        if fields:
            given = dict(zip((field for field, _ in fields), (self.value(argument) for argument in node.args), strict=False))
            given |= {str(keyword.arg): self.value(keyword.value) for keyword in node.keywords}
            return Struct(fields, f"({', '.join(part_code(given[field], of) for field, of in fields)},)")
        if name == "as_vectors":
            return self.as_vectors(node)
        if name in _PLACES:
            of, code = _PLACES[name]
            return Typed(of, f"({code})")
        if name == "len":
            memory = self.value(node.args[0])
            if isinstance(memory, Vector):
                return Literal(memory.lanes)
            if not isinstance(memory, Memory):
                raise IllTyped("len() of no array")
            return self.extent(memory, Literal(0))
        if self.is_function(name):
            return self.call_function(name, [self.value(argument) for argument in node.args])
        if name.startswith("atomic_"):
            return self.atomic(name.removeprefix("atomic_"), node)
        arguments = [self.value(argument) for argument in node.args]
        if name in ("min", "max") and len(arguments) == 1 and isinstance(arguments[0], Vector):
            given = arguments[0]
            smallest = self.intrinsic(name, [Typed(given.type, f"_v[{lane}]") for lane in range(given.lanes)], node)
            return Typed(given.type, f"(lambda _v: {firm_number(number(smallest)).code})({given.code})")
        if name in ("min", "max") and len(arguments) < 2:
            raise IllTyped(f"{name}() of one number")
        return lifted(arguments, lambda *numbers: self.intrinsic(name, list(numbers), node))

    def vector(self, of: str, lanes: int, arguments: list[Value]) -> Vector:
        """`f32x4(a, b, c, d)`, `f32x4(a)`, `f32x4(v)`."""
        if len(arguments) == 1 and isinstance(arguments[0], Vector):
            made = lifted(arguments, lambda value: converted(value, of))
            return as_vector(made, (of, lanes))
        codes = [converted(argument, of).code for argument in arguments]
        if len(codes) == 1:
            return Vector(of, lanes, f"(({codes[0]},) * {lanes})")
        if len(codes) != lanes:
            raise IllTyped("so many numbers")
        return Vector(of, lanes, f"({', '.join(codes)})")

    def as_vectors(self, node: ast.Call) -> Memory:
        """`as_vectors(array, f32x4)` or `as_vectors(array, 4)`, of an array of one dimension."""
        array, wanted = self.value(node.args[0]), node.args[1]
        if not isinstance(array, Memory) or array.lanes > 1 or array.rank > 1 or (array.shape and len(array.shape) > 1):
            raise IllTyped("an array of numbers is wanted")
        named = vector_of(wanted.id) if isinstance(wanted, ast.Name) else (array.type, int(ast.literal_eval(wanted)))
        if named is None or named[0] != array.type:
            raise IllTyped("vectors of another type")
        return Memory(array.type, array.code, (array.shape[0] // named[1],) if array.shape else None, 1, named[1])

    def atomic(self, name: str, node: ast.Call) -> Typed:
        """An atomic operation. Threads run one after the other, so scope and order say nothing."""
        array = self.value(node.args[0])
        if not isinstance(array, Memory):
            raise IllTyped("an atomic operation on no array")
        value = coerce(self.value(node.args[2]), array.type)
        return Typed(array.type, f"{array.code}.atomic({name!r}, {self.place(array, node.args[1])}, {value}, {node.lineno}, _T)")

    def intrinsic(self, name: str, arguments: list[Number], node: ast.Call) -> Value:
        """What kdsl provides."""
        if name in ("min", "max"):
            result = arguments[0]
            for following in arguments[1:]:
                result = self.binary(name, result, following)
            return result
        if name == "abs":
            if isinstance(arguments[0], Literal):
                return Literal(abs(arguments[0].value))
            x = firm_number(arguments[0])
            return Typed(x.type, f"abs({x.code})" if x.type in FLOATS else wrapped(x.type, f"abs({x.code})"))
        if name in EXCHANGES:
            return self.exchange(name, arguments, node)
        words = specified.on_words(name, arguments)
        if words is not None:
            return words
        if name in _OF_BITS:
            x = firm_number(arguments[0])
            if x.type not in INTEGERS:
                raise IllTyped(f"{name} of {x.type}")
            others = "".join(f", {coerce(other, x.type)}" for other in arguments[1:])
            return Typed(x.type, f"_{name}({x.type!r}, {x.code}{others})")
        if name in _BITS:
            takes, gives = _BITS[name]
            return Typed(gives, f"_bits({takes!r}, {gives!r}, {coerce(arguments[0], takes)})")
        of = alone(arguments[0]) if len(arguments) == 1 else ""
        for following in arguments[1:]:
            of = of if of in FLOATS and is_loose(following) else join(arguments[0] if not of else Typed(of, ""), following)
        if of not in FLOATS:
            of = "f32"
        codes = [coerce(argument, of) for argument in arguments]
        if name in specified.FLOATS_TO and of in ("f32", "f64"):  # as of all mathematical functions
            return Typed(specified.FLOATS_TO[name] or of, f"_{name}({', '.join(codes)})")
        match name:
            case "fma":
                return Typed(of, f"_fused({of!r}, {', '.join(codes)})")
            case "fmin" | "fmax":
                return Typed(of, f"_extreme({name!r}, {', '.join(codes)})")
            case "sqrt":
                return Typed(of, f"_square_root({of!r}, {codes[0]})")
            case "floor" | "ceil" | "trunc" | "rint":
                return Typed(of, f"_integral({name!r}, {codes[0]})")
        raise IllTyped(name)

    def exchange(self, name: str, arguments: list[Number], node: ast.Call) -> Typed:
        """A value from several lanes: the thread waits until all lanes of its warp that take part have come."""
        self.suspend()
        mask = next((coerce(self.value(k.value), "u32") for k in node.keywords if k.arg == "mask"), "0xFFFFFFFF")
        if name in ("warp_any", "warp_all", "warp_ballot"):
            of = "u32" if name == "warp_ballot" else "bool"
            return Typed(of, f"(yield ({name!r}, 'bool', {self.truth(node.args[0])}, 0, 32, {mask}))")
        value = firm_number(arguments[0])
        amount = coerce(arguments[1], "i64") if len(arguments) > 1 else "0"
        width = next((ast.literal_eval(k.value) for k in node.keywords if k.arg == "width"), 32)
        return Typed(_GIVES.get(name, value.type), f"(yield ({name!r}, {value.type!r}, {value.code}, {amount}, {width}, {mask}))")


def _truth(value: Number) -> str:
    """Code for whether a number counts as true."""
    if isinstance(value, Literal):
        return repr(bool(value.value))
    return firm_number(value).code if alone(value) == "bool" else f"({firm_number(value).code} != 0)"


def _joined(node: ast.BoolOp, parts: list[str]) -> str:
    word = " and " if isinstance(node.op, ast.And) else " or "
    return f"({word.join(parts)})"


def firm_number(value: Number) -> Typed:
    """A number with the type that it has alone."""
    result = firm(value)
    assert isinstance(result, Typed)
    return result


def number_type(value: Value) -> str:
    """The type of an item."""
    return alone(number(value))


def _types(value: Value) -> list[str]:
    if not isinstance(value, Tuple):
        raise IllTyped("a tuple is wanted")
    return [number_type(item) for item in value.items]


def _as_tuple(types: list[str], code: str) -> Tuple:
    """A tuple that is the value of some code."""
    return Tuple(tuple(Typed(of, "") for of in types), code)


def tuple_code(value: Value) -> str:
    """Code of a tuple."""
    if not isinstance(value, Tuple):
        raise IllTyped("a tuple is wanted")
    return value.code or f"({', '.join(coerce(item, number_type(item)) for item in value.items)},)"


def _fold(symbol: str, a: Any, b: Any) -> Literal:
    """Two literals: as Python computes it."""
    if isinstance(a, bool) and isinstance(b, bool) and symbol in "&|^":
        return Literal(_FOLD[symbol](a, b))
    if isinstance(a, bool) or isinstance(b, bool) or (symbol == "/" and isinstance(a, int) and isinstance(b, int)):
        raise IllTyped(f"{symbol} of literals")
    if symbol == "**" and not (isinstance(a, int) and isinstance(b, int)):
        return Literal(math.pow(a, b))
    if symbol in ("min", "max") and isinstance(a, float) != isinstance(b, float):
        a, b = float(a), float(b)
    try:
        return Literal(_FOLD[symbol](a, b))
    except (ArithmeticError, ValueError) as error:  # a literal shift by a negative amount is an error of the language, too
        raise IllTyped(str(error)) from None


def _power(a: Number, b: Number) -> Typed:
    base = firm_number(a)
    if base.type in INTEGERS:
        if isinstance(b, Literal):
            return Typed(base.type, f"_power_integers({base.type!r}, {base.code}, {int(b.value)})")
        exponent = firm_number(b)
        if exponent.type not in INTEGERS:
            raise IllTyped("a power")
        return Typed(base.type, f"_power_integers({base.type!r}, {base.code}, {exponent.code})")
    if not isinstance(b, Literal) or float(b.value) != int(b.value) or abs(b.value) > 16:
        raise IllTyped("a power")
    return Typed(base.type, f"_power({base.type!r}, {base.code}, {int(b.value)})")
