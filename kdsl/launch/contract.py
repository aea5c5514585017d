"""The small language of `requires=` and of grid sizes, read when a kernel is declared and turned into Python for its launcher.

Integers only: `len(y)`, `y.shape[1]`, integer parameters and fields (`n`, `p.rows`, `p.shape.sizes[2]`), literals, `+ - * //`, and
`extent((count, stride), ...)`. A
relation compares such values (chains too) and joins comparisons with `and` and `or`. Everything else is refused with its place in the string.
Evaluation is exact, in Python's integers. Leaves out the grids themselves (`geometry.py`) and the launcher (`generate.py`).
"""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kdsl.errors import ContractError
from kdsl.lang.struct_type import ArrayType, FieldType, StructType
from kdsl.launch.refuse import division_by_zero

LONGEST: Final = 4096
"""Characters of an expression; Python's parser recurses, so there is a limit."""

_COMPARISONS: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_OPERATORS: Final = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)


def extent(*axes: tuple[int, int]) -> int:
    """One more than the largest offset that indices of `(count, stride)` axes reach, counted from offset 0; 0 if a count is 0."""
    last = 0
    for count, stride in axes:
        if count <= 0:
            return 0
        if stride > 0:
            last += (count - 1) * stride
    return last + 1


def quotient(dividend: int, divisor: int, kernel: str, text: str) -> int:
    """`dividend // divisor` of the expression `text`. Raises LaunchError if the divisor is 0."""
    if divisor == 0:
        division_by_zero(kernel, text)
    return dividend // divisor


def quoted(text: str) -> str:
    """A Python string literal in double quotes."""
    return json.dumps(text, ensure_ascii=False)


@dataclass(frozen=True)
class Names:
    """What expressions may name, and the Python names under which the launcher holds the values."""

    lengths: Mapping[str, str]
    """Array parameter to the name that holds its length; of several dimensions, its first extent."""
    values: Mapping[str, str]
    """Integer parameter (`n`) or field (`p.rows`) to the name that holds its value."""
    others: Mapping[str, str]
    """Any other parameter or field to what it is, such as `a float (f32)`."""
    shapes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Array parameter to the names that hold its extents."""
    structs: Mapping[str, StructType] = field(default_factory=dict)
    """Struct parameter to what it is, for elements of arrays in it."""
    extent: str = "extent"
    """Name of the function `extent`."""
    quotient: str = "quotient"
    """Name of the function `quotient`."""
    kernel: str = "KERNEL"
    """Name that holds the kernel's name."""


@dataclass(frozen=True)
class Operand:
    """A value that a relation compares."""

    text: str
    """As written."""
    source: str
    """As Python, over the launcher's names."""


@dataclass(frozen=True)
class Relation:
    """One condition of a contract; a relation joined by `and` is several."""

    text: str
    """The whole relation, as written."""
    part: str
    """This condition, as written."""
    source: str
    """As a Python expression over the launcher's names."""
    operands: tuple[Operand, ...]
    """What it compares, literals left out."""


def relations(text: str, names: Names, what: str) -> tuple[Relation, ...]:
    """The conditions of a relation. `what` says where it stands, such as `requires[0] of kernel f`. Raises ContractError."""
    reader = _Reader(text, names, what)
    top = reader.parsed()
    parts = top.values if isinstance(top, ast.BoolOp) and isinstance(top.op, ast.And) else [top]
    return tuple(Relation(text, reader.text_of(part), reader.condition(part), tuple(reader.operands(part))) for part in parts)


def size(text: str, names: Names, what: str) -> str:
    """An integer expression as Python source over the launcher's names. Raises ContractError."""
    reader = _Reader(text, names, what)
    return reader.value(reader.parsed())


_DEEPEST: Final = 100
"""Nesting that is read; the interpreter's own limit differs between versions."""


def _depth(tree: ast.AST) -> int:
    """How deep a tree is, found without recursion."""
    depth, level = 0, [tree]
    while level:
        depth, level = depth + 1, [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def _root(node: ast.expr) -> ast.Name | None:
    """The name that a dotted name begins with."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _path(node: ast.expr) -> str:
    """The dotted name that an expression is, empty if it is something else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=owner, attr=field) if path := _path(owner):
            return f"{path}.{field}"
    return ""


class _Reader:
    """Reads one expression. Conditions and values are kept apart: `and` joins comparisons, `+` joins integers."""

    def __init__(self, text: str, names: Names, what: str) -> None:
        if not isinstance(text, str):
            raise ContractError(f"{what} is a string such as 'len(x) >= len(y)', not {text!r}")
        if len(text) > LONGEST:
            raise ContractError(f"{what} has {len(text)} characters; it can have {LONGEST}")
        self._text = " ".join(text.splitlines()) if "\n" in text or "\r" in text else text
        self._names = names
        self._what = what

    def parsed(self) -> ast.expr:
        """The syntax tree."""
        try:
            tree = ast.parse(self._text.strip(), mode="eval").body
            if _depth(tree) > _DEEPEST:
                raise ValueError(f"it is nested more than {_DEEPEST} deep")
            return tree
        except SyntaxError as error:
            column = (error.offset or 1) - 1 + self._indent()
            raise self._error(f"cannot be read: {error.msg}", column, column + 1) from None
        except (RecursionError, MemoryError, ValueError) as error:
            raise ContractError(f"{self._what} cannot be read: {error}") from None

    def text_of(self, node: ast.expr) -> str:
        """The text of a part."""
        first, end = self._columns(node)
        return self._text[first:end]

    def condition(self, node: ast.expr) -> str:
        """A condition as Python source."""
        match node:
            case ast.BoolOp(op=joint, values=values):
                word = " and " if isinstance(joint, ast.And) else " or "
                return word.join(f"({self.condition(v)})" if isinstance(v, ast.BoolOp) else self.condition(v) for v in values)
            case ast.Compare(left=left, ops=operators, comparators=others):
                pieces = [self.value(left)]
                for operator, other in zip(operators, others, strict=True):
                    if not isinstance(operator, _COMPARISONS):
                        raise self._refused(node, "only < <= > >= == != compare integers")
                    pieces += [_SYMBOLS[type(operator)], self.value(other)]
                return " ".join(pieces)
            case _:
                raise self._refused(node, "a relation compares integers, such as len(x) >= len(y)")

    def operands(self, node: ast.expr) -> list[Operand]:
        """The values that a condition compares, each once, without literals."""
        found: dict[str, Operand] = {}
        for part in ast.walk(node):
            if isinstance(part, ast.Compare):
                for side in (part.left, *part.comparators):
                    if not isinstance(side, ast.Constant):
                        text = self.text_of(side)
                        found.setdefault(text, Operand(text, self.value(side)))
        return list(found.values())

    def value(self, node: ast.expr) -> str:
        """An integer as Python source."""
        match node:
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return str(number)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"-{self._nested(operand)}"
            case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, _OPERATORS):
                if isinstance(operator, ast.FloorDiv):
                    return self._division(node, left, right)
                return f"{self._left(left, operator)} {_SYMBOLS[type(operator)]} {self._nested(right)}"
            case ast.Name(id=name) if name in self._names.values:
                return self._names.values[name]
            case ast.Attribute() if (path := _path(node)) in self._names.values:
                return self._names.values[path]
            case ast.Attribute() | ast.Subscript() if found := self._member(node):
                return self._number(node, *found)
            case ast.Call(func=ast.Name(id="len"), args=[array], keywords=[]) if (found := self._member(array)) and isinstance(
                found[1], ArrayType
            ):
                return str(found[1].shape[0])
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)], keywords=[]) if name in self._names.lengths:
                return self._names.lengths[name]
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=index) if name in self._names.shapes:
                return self._extent(node, name, index)
            case ast.Call(func=ast.Name(id="extent"), args=axes, keywords=[]) if axes:
                return f"{self._names.extent}({', '.join(self._axis(axis) for axis in axes)})"
            case _:
                raise self._unknown(node)

    def _division(self, node: ast.expr, left: ast.expr, right: ast.expr) -> str:
        if isinstance(right, ast.Constant):
            if right.value == 0:
                raise self._refused(right, "division by zero")
            return f"{self._left(left, ast.Mult())} // {self._nested(right)}"
        arguments = (self.value(left), self.value(right), self._names.kernel, quoted(self.text_of(node)))
        return f"{self._names.quotient}({', '.join(arguments)})"

    def _extent(self, node: ast.expr, name: str, index: ast.expr) -> str:
        extents = self._names.shapes[name]
        match index:
            case ast.Constant(value=int(dimension)) if not isinstance(dimension, bool) and dimension < len(extents):
                return extents[dimension]
        last = len(extents) - 1
        raise self._refused(node, f"the extents of {name} are {name}.shape[0]" + (f" to {name}.shape[{last}]" if last else ""))

    def _member(self, node: ast.expr) -> tuple[str, FieldType] | None:
        """Where a struct parameter or something in it is found, and what it is; None for anything else."""
        match node:
            case ast.Name(id=name) if name in self._names.structs:
                return name, self._names.structs[name]
            case ast.Attribute(value=owner, attr=name) if found := self._member(owner):
                source, of = found
                if isinstance(of, StructType) and name in of.by_name:
                    return f"{source}.{name}", of.by_name[name].type
            case ast.Subscript(value=owner, slice=index) if (found := self._member(owner)) and isinstance(found[1], ArrayType):
                return self._element(node, *found, index)
        return None

    def _element(self, node: ast.expr, source: str, of: FieldType, index: ast.expr) -> tuple[str, FieldType]:
        assert isinstance(of, ArrayType)
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        numbers = [part.value for part in parts if isinstance(part, ast.Constant) and type(part.value) is int]
        if len(numbers) == len(parts) == len(of.shape) and all(map(operator.lt, numbers, of.shape)):
            return source + "".join(f"[{number}]" for number in numbers), of.element
        last = ", ".join(str(extent - 1) for extent in of.shape)
        raise self._refused(node, f"elements of {source} are {source}[{', '.join('0' for _ in of.shape)}] to {source}[{last}]")

    def _number(self, node: ast.expr, source: str, of: FieldType) -> str:
        """A number in a struct as Python source."""
        text = self.text_of(node)
        if isinstance(of, StructType):
            raise self._refused(node, f"{text} is a struct; name one of its fields: {', '.join(of.by_name)}")
        if isinstance(of, ArrayType):
            raise self._refused(node, f"{text} is an array; name an element, such as {text}[{', '.join('0' for _ in of.shape)}]")
        if of.is_float:
            raise self._refused(node, f"{text} is a float ({of}); contracts are about integers")
        return source

    def _axis(self, node: ast.expr) -> str:
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            return f"({self.value(node.elts[0])}, {self.value(node.elts[1])})"
        raise self._refused(node, "extent takes pairs (count, stride)")

    def _nested(self, node: ast.expr) -> str:
        source = self.value(node)
        return f"({source})" if isinstance(node, ast.BinOp | ast.UnaryOp) else source

    def _left(self, node: ast.expr, operator: ast.operator) -> str:
        weaker = isinstance(operator, ast.Mult) and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)
        return f"({self.value(node)})" if weaker else self.value(node)

    # ------------------------------------------------------------------------------------------------------------------------- errors

    def _unknown(self, node: ast.expr) -> ContractError:
        names = self._names
        match node:
            case ast.Name(id=name) if name in names.lengths:
                return self._refused(node, f"{name} is an array; its length is len({name})")
            case ast.Name() | ast.Attribute() if self._fields(path := _path(node)):
                return self._refused(node, f"{path} is a struct; name one of its fields: {self._fields(path)}")
            case ast.Name(id=name) if name in names.others:
                return self._refused(node, f"{name} is {names.others[name]}; contracts are about integers")
            case ast.Name(id=name):
                return self._refused(node, f"{name} is not a parameter; the parameters are {self._parameters()}")
            case ast.Attribute() if (path := _path(node)) in names.others:
                return self._refused(node, f"{path} is {names.others[path]}; contracts are about integers")
            case ast.Attribute(value=owner, attr=field) if (found := self._member(owner)) and isinstance(found[1], StructType):
                return self._refused(node, f"{found[0]} has no field {field}; its fields are {', '.join(found[1].by_name)}")
            case ast.Attribute(value=owner, attr=field) if fields := self._fields(path := _path(owner)):
                return self._refused(node, f"{path} has no field {field}; its fields are {fields}")
            case ast.Attribute(value=ast.Name(id=name), attr="shape") if name in names.shapes:
                each = " and ".join(f"{name}.shape[{d}]" for d in range(len(names.shapes[name])))
                return self._refused(node, f"{name}.shape is a tuple, and contracts are about integers: say it of {each}")
            case ast.Attribute(value=ast.Name(id=name)) if name in names.lengths:
                return self._refused(node, f"{name} is an array; its length is len({name})")
            case ast.Attribute() if (root := _root(node)) and root.id not in (*names.values, *names.others):
                return self._refused(root, f"{root.id} is not a parameter; the parameters are {self._parameters()}")
            case ast.Call(func=ast.Name(id="len")):
                return self._refused(node, f"len takes an array parameter: {', '.join(names.lengths) or 'there is none'}")
            case ast.Call(func=ast.Name(id="extent")):
                return self._refused(node, "extent takes pairs (count, stride), such as extent((p.rows, p.stride), (p.columns, 1))")
            case ast.Constant():
                return self._refused(node, "literals are whole numbers")
            case ast.BoolOp() | ast.Compare():
                return self._refused(node, "an integer is wanted here, not a condition")
            case _:
                return self._refused(
                    node, "only len, parameters, fields, shape, whole numbers, + - * //, comparisons, and, or, extent are understood"
                )

    def _fields(self, struct: str) -> str:
        prefix = f"{struct}."
        every = (*self._names.values, *self._names.others)
        return ", ".join(n.removeprefix(prefix) for n in every if n.startswith(prefix)) if struct else ""

    def _parameters(self) -> str:
        every = (*self._names.lengths, *self._names.values, *self._names.others, *self._names.structs)
        return ", ".join(dict.fromkeys(name.split(".")[0] for name in every)) or "none"

    def _indent(self) -> int:
        return len(self._text) - len(self._text.lstrip())

    def _columns(self, node: ast.expr) -> tuple[int, int]:
        """First column and the one behind the last, in characters; the syntax tree counts bytes."""
        line = self._text.strip().encode()
        first, end = (len(line[:offset].decode()) for offset in (node.col_offset, node.end_col_offset or 0))
        return first + self._indent(), end + self._indent()

    def _refused(self, node: ast.expr, why: str) -> ContractError:
        return self._error(why, *self._columns(node))

    def _error(self, why: str, first: int, end: int) -> ContractError:
        return ContractError(f"{self._what}: {why}\n    {self._text}\n    {' ' * first}{'^' * max(end - first, 1)}")


_SYMBOLS: Final[dict[type[ast.AST], str]] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//",
}  # fmt: skip
