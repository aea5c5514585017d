"""The reference: kernels as Python runs them.

The syntax tree of a kernel is turned into a Python function with the same statements, in which each operator is the exact arithmetic of the language
(`arithmetic.py`). So control flow is Python's own. It shares nothing with kdsl's compiler but the source text, and follows `docs/language.md` alone. The
threads of a block run one after the other, or in lockstep from one barrier or exchange to the next (`Block`).
"""

from __future__ import annotations

import ast
import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.fuzz import arithmetic, kinds, specified
from tests.fuzz.arithmetic import promote
from tests.fuzz.cells import Cells, Strided, new_cells, table
from tests.fuzz.expressions import SYMBOLS, Expressions, firm_number, tuple_code
from tests.fuzz.kinds import Fields, Fixed, Kind
from tests.fuzz.known import known, stands_for
from tests.fuzz.lockstep import run_block
from tests.fuzz.values import (
    Choice,
    IllTyped,
    Items,
    Literal,
    Memory,
    Nothing,
    Struct,
    Tuple,
    Type,
    Typed,
    Value,
    Vector,
    alone,
    as_vector,
    coerce,
    each,
    field_of,
    firm,
    is_loose,
    lifted,
    number,
    part,
    part_code,
    vector_of,
)


@dataclass
class Parameter:
    """A parameter of a kernel, fields of a struct one by one."""

    name: str
    """Its name, `p.field` for a field."""
    type: str
    """Element type."""
    view: str
    """`Slice`, `SliceMut`, `DisjointSlice`, or empty for a number."""
    rank: int = 1
    """Dimensions of a view."""
    lanes: int = 1
    """Numbers of an element of a view, which is a vector if they are several."""
    fields: Fields = ()
    """Of an element that is a struct."""


class Program:
    """The kernel of a module, with the functions and numbers that it uses."""

    def __init__(self, source: str) -> None:
        """Raises IllTyped if the page does not give the program a meaning."""
        tree = ast.parse(source)
        self.functions: dict[str, ast.FunctionDef] = {}
        self.globals: dict[str, Literal | Memory] = {}
        tables: dict[str, Cells] = {}
        self.variables: dict[str, tuple[str, ...]] = {}
        self.structs: dict[str, Fields] = {}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _id(node.value.func) == "constant_array":
                name, of = _id(node.targets[0]), _id(node.value.args[1])
                tables[name] = table(of, ast.literal_eval(node.value.args[0]))
                self.globals[name] = Memory(of, name, tables[name].shape)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):  # a type variable, with the types that it may stand for
                self.variables[_id(node.targets[0])] = tuple(map(_id, node.value.args[1:]))
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.globals[node.targets[0].id] = Literal(ast.literal_eval(node.value))
            elif isinstance(node, ast.ClassDef):
                self.structs[node.name] = tuple(
                    (_id(f.target), kinds.kind_of(f.annotation, self.structs)) for f in node.body if isinstance(f, ast.AnnAssign)
                )
        self.kernel = next(f for f in self.functions.values() if isinstance(f.decorator_list[0], ast.Call))
        decorator = self.kernel.decorator_list[0]
        assert isinstance(decorator, ast.Call)
        settings: dict[str, Any] = {str(k.arg): ast.literal_eval(k.value) for k in decorator.keywords}
        self.grid: tuple[int, int, int] = _three(settings["grid"])
        self.block: tuple[int, int, int] = _three(settings["block"])
        self.contract: bool = settings.get("contract", True)
        self.requires: tuple[str, ...] = settings.get("requires", ())
        self.parameters: list[Parameter] = []
        arguments = self.kernel.args.args
        defaults = self.kernel.args.defaults  # of `Const` parameters, which come last
        constants: dict[str, Value] = {
            argument.arg: Literal(ast.literal_eval(default))
            for argument, default in zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True)
        }
        for argument in arguments[: len(arguments) - len(defaults)]:
            if isinstance(argument.annotation, ast.Subscript):
                what, rank = argument.annotation.slice, 1
                if isinstance(what, ast.Tuple):
                    what, rank = what.elts[0], int(_id(what.elts[1])[1:])
                of, lanes = vector_of(_id(what)) or (_id(what), 1)
                view = _id(argument.annotation.value)
                self.parameters.append(Parameter(argument.arg, of, view, rank, lanes, self.structs.get(of, ())))
            elif _id(argument.annotation) in self.structs:
                self.parameters += [
                    Parameter(f"{argument.arg}.{name}", of, "")
                    for name, of in self.structs[_id(argument.annotation)]
                    if isinstance(of, str)
                ]
            else:
                self.parameters.append(Parameter(argument.arg, _id(argument.annotation), ""))
        self.instances: dict[Any, tuple[str, Value]] = {}
        self.expansions = 0
        self.suspends = False
        self.lines: list[str] = []
        names = constants | {
            p.name: Memory(p.type, f"_args[{p.name!r}]", None, p.rank, p.lanes, p.fields) if p.view else Typed(p.type, f"_args[{p.name!r}]")
            for p in self.parameters
        }
        body = translate(self, self.kernel, names, "kernel")
        self.lines += body.lines
        namespace = _namespace() | tables
        exec("\n".join(self.lines), namespace)
        self._run = namespace["kernel"]

    def run(
        self, arguments: dict[str, Any], places: dict[str, Strided] | None = None
    ) -> list[tuple[int, int, int, tuple[int, int, int], tuple[int, int, int]]]:
        """Run on lists (views) and numbers. Lists are changed in place; `places` says where the elements of a view of several dimensions lie in its list.
        Failed checks come back as (line, index, extent, block, thread)."""
        failures: list[Any] = []
        names = {p.name: p for p in self.parameters}
        where = places or {}
        given = {
            name: Cells(names[name].type, value, where.get(name), names[name].fields) if isinstance(value, list) else value
            for name, value in arguments.items()
        }
        x, y, z = self.grid
        for number_ in range(x * y * z):
            place = (number_ % x, number_ // x % y, number_ // x // y)
            run_block(functools.partial(self._run, _args=given), self.suspends, place, number_, self.grid, self.block, failures)
        return failures


def _three(value: int | tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = ((value,) if isinstance(value, int) else value) + (1,) * (2 if isinstance(value, int) else 3 - len(value))
    return x, y, z


def _id(node: ast.expr | None) -> str:
    assert isinstance(node, ast.Name)
    return node.id


def translate(program: Program, node: ast.FunctionDef, names: dict[str, Value], python_name: str) -> Body:
    """A function for one choice of argument types. Repeated until the types of names that start as literals have settled."""
    types: dict[str, NameType] = {}
    while True:
        body = Body(program, node, dict(names), types, python_name)
        error: IllTyped | None = None
        try:
            body.block(node.body)
        except IllTyped as caught:  # counts only if nothing is left to learn
            error = caught
        found = {**types, **{name: known for name, known in body.types.items() if known.from_literal}}
        if found != types and error is None:
            types = found
        elif any(known.weak for known in found.values()):  # what has met literals only
            types = {name: NameType(known.value, False, True) for name, known in found.items()}
        elif error is not None:
            raise error
        else:
            return body


@dataclass(frozen=True)
class NameType:
    """What is known of a name that is assigned."""

    value: Value
    """Its type, as a value of it."""
    weak: bool
    """Whether only literals were assigned."""
    from_literal: bool
    """Whether a literal was assigned first."""


class Body(Expressions):
    """One function as Python."""

    def __init__(
        self, program: Program, node: ast.FunctionDef, names: dict[str, Value], known: dict[str, NameType], python_name: str
    ) -> None:
        self.program = program
        self.contract = program.contract
        self.names = names
        self.known = known
        self.types: dict[str, NameType] = {}
        self.result: Value | None = None
        self.lines: list[str] = []
        self.depth = 1
        self.temporaries = 0
        bindings = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        self.once = {name for name in bindings if bindings.count(name) == 1 and name not in names}
        self.returns = node.returns
        parameters = "".join(f", {a.arg}" for a in node.args.args) if python_name != "kernel" else ", _args"
        self.lines.append(f"def {python_name}(_T{parameters}):")

    # ---------------------------------------------------------------------------------------------------------- names, calls

    def name(self, node: ast.Name) -> Value:
        if node.id in self.names:
            return self.names[node.id]
        if node.id in self.program.globals:
            return self.program.globals[node.id]
        raise IllTyped(f"{node.id} is not defined")

    def is_function(self, name: str) -> bool:
        return name in self.program.functions

    def type_named(self, name: str) -> str:
        found = self.names.get(name)
        return found.name if isinstance(found, Type) else name

    def is_vector(self, name: str) -> bool:
        return isinstance(self.names.get(name), Vector)

    def is_struct(self, name: str) -> bool:
        return isinstance(self.names.get(name), Struct)

    def fields_of(self, name: str) -> Fields:
        return self.program.structs.get(name, ())

    def suspend(self) -> None:
        self.program.suspends = True

    def call_function(self, name: str, arguments: list[Value]) -> Value:
        node = self.program.functions[name]
        names: dict[str, Value] = dict(self.type_variables(node, arguments))
        codes = []
        value: Value
        for parameter, given in zip(node.args.args, arguments, strict=True):
            if isinstance(given, Memory):
                names[parameter.arg] = _named(given, parameter.arg)
                codes.append(given.code)
                continue
            if parameter.annotation is None:
                value = firm(given)
            else:  # a literal may be one of the parameter's type only
                of = names.get(_id(parameter.annotation))
                value = _as(given, of.name if isinstance(of, Type) else _id(parameter.annotation))
            names[parameter.arg] = _named(value, parameter.arg)
            codes.append(_code(value))
        key = (name, *((k, repr(v)) for k, v in names.items()))
        if key not in self.program.instances:
            self.program.expansions += 1
            python_name = f"{name}_{self.program.expansions}"
            body = translate(self.program, node, names, python_name)
            self.program.lines += body.lines
            self.program.instances[key] = (python_name, body.result or Nothing(""))
        python_name, result = self.program.instances[key]
        return _named(result, f"{python_name}(_T, {', '.join(codes)})")

    def type_variables(self, node: ast.FunctionDef, arguments: Sequence[Value]) -> dict[str, Type]:
        """What the type variables of a function stand for in a call."""
        given: dict[str, list[Value]] = {}
        for parameter, argument in zip(node.args.args, arguments, strict=True):
            of = parameter.annotation.slice if isinstance(parameter.annotation, ast.Subscript) else parameter.annotation
            if isinstance(of, ast.Name) and of.id in self.program.variables:
                given.setdefault(of.id, []).append(argument)
        return {name: Type(stands_for(name, self.program.variables[name], values)) for name, values in given.items()}

    # ------------------------------------------------------------------------------------------------------------ assignment

    def bind(self, name: str, value: Value, code: str | None = None) -> str:
        """The code of a value as the name takes it; afterwards the name has a type. (`code` replaces the value's own.)"""
        # what is known is of names that start as literals; one that did in an earlier pass may start with a number of its own type by now
        before = self.types.get(name) or (self.known.get(name) if isinstance(value, Literal | Choice) else None)
        if before is None and name in self.names and name not in self.program.globals:
            before = NameType(self.names[name], False, False)  # a parameter
        if isinstance(value, Vector) and before is not None:
            if not isinstance(before.value, Vector):
                raise IllTyped(f"{name} changes its kind")
            value = as_vector(value, (before.value.type, before.value.lanes))
        if isinstance(value, Memory | Tuple | Vector | Struct | Items):
            found: Value = firm(value)
            self.types[name] = NameType(_named(found, name), False, False)
        else:
            loose = is_loose(number(value))
            of = alone(number(value))
            if before is None:
                after = NameType(Typed(of, name), loose, loose)
            else:
                after = self._joined(name, before, of, loose)
            self.types[name] = after
            found = after.value
        self.names[name] = _named(found, name)
        if self.types[name].weak:  # in this pass it is like a literal; a later one knows its type
            assert isinstance(found, Typed)
            self.names[name] = Literal(1.0 if found.type == "f32" else 1)
        if isinstance(found, Typed):
            return code if code is not None else coerce(value, found.type)
        return code if code is not None else _code(firm(value))

    def _joined(self, name: str, before: NameType, of: str, loose: bool) -> NameType:
        if not isinstance(before.value, Typed):
            raise IllTyped(f"{name} changes its kind")
        has = before.value.type
        if loose:
            if before.weak and of == "f32" and has == "i64":
                return NameType(Typed("f32", name), True, True)
            return before
        if before.weak:
            return NameType(Typed(of, name), False, True)
        if has != of:
            joined = promote(has, of)
            if not before.from_literal or joined is None:
                raise IllTyped(f"{name} would have two types")
            return NameType(Typed(joined, name), False, True)
        return before

    def assign(self, target: ast.expr, value: Value, code: str | None = None) -> None:
        """`target = value`."""
        match target:
            case ast.Name():
                if isinstance(value, Literal) and target.id in self.once and code is None:
                    self.names[target.id] = value  # it stands for the literal
                    self.emit("pass")
                    return
                self.emit(f"{target.id} = {self.bind(target.id, value, code)}")
            case ast.Tuple():
                if isinstance(value, Vector):
                    value = Tuple((Typed(value.type, ""),) * value.lanes, value.code)
                if not isinstance(value, Tuple):
                    raise IllTyped("this is no tuple")
                names = [self.temporary() for _ in target.elts]
                self.emit(f"{', '.join(names)}, = {code or tuple_code(firm_items(value, target.elts, self))}")
                for part, item, temporary in zip(target.elts, value.items, names, strict=True):
                    self.assign(part, _named(item, temporary) if isinstance(item, Typed | Tuple) else item, temporary)
            case ast.Subscript() | ast.Attribute() if (inner := self.part_of(target)) is not None:
                memory, place, steps, kind = inner
                self.emit(f"{memory.code}.store_part({place}, {steps}, {kind!r}, {part_code(value, kind)}, {target.lineno}, _T)")
            case ast.Subscript():
                memory = self.memory(target.value)
                place = self.place(memory, target.slice)
                if isinstance(value, Struct):
                    self.emit(f"{memory.code}.store({place}, {value.code}, {target.lineno}, _T)")
                    return
                if memory.lanes > 1:
                    given = as_vector(value, (memory.type, memory.lanes))
                    self.emit(f"{memory.code}.store_vector({place}, {given.code}, {target.lineno}, _T)")
                    return
                taken = code if code is not None and isinstance(value, Literal) else coerce(value, memory.type)
                self.emit(f"{memory.code}.store({place}, {taken}, {target.lineno}, _T)")
            case _:
                raise IllTyped("a target")

    def part_of(self, node: ast.expr) -> tuple[Memory, str, str, Kind] | None:
        """A part of an element that is a struct, as a place to write to: the array, code of the index and of the steps from there, its kind."""
        behind: list[ast.Subscript | ast.Attribute] = []
        while isinstance(node, ast.Subscript | ast.Attribute) and not (
            isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
        ):
            behind.append(node)
            node = node.value
        if not behind or not isinstance(node, ast.Subscript):
            return None
        memory = self.memory(node.value)
        kind: Kind = memory.fields
        steps = []
        for step in reversed(behind):
            if isinstance(step, ast.Attribute):
                position, kind = field_of(kind, step.attr)
                steps.append(str(position))
            elif isinstance(kind, Fixed):
                steps.append(f"({kind.shape!r}, {self.indices(step.slice)})")
                kind = kind.of
            else:
                raise IllTyped("no elements")
        return memory, self.place(memory, node.slice), f"({', '.join(steps)},)", kind

    def memory(self, node: ast.expr) -> Memory:
        """An array."""
        found = self.value(node)
        if not isinstance(found, Memory):
            raise IllTyped("no array")
        return found

    def temporary(self) -> str:
        """A new name."""
        self.temporaries += 1
        return f"_t{self.temporaries}"

    # ------------------------------------------------------------------------------------------------------------- statements

    def emit(self, line: str) -> None:
        """A line of Python."""
        self.lines.append("    " * self.depth + line)

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Statements, in order."""
        for statement in statements:
            self.statement(statement)

    def nested(self, head: str, statements: Sequence[ast.stmt]) -> None:
        """A compound statement's part."""
        self.emit(head)
        self.depth += 1
        self.emit("pass")
        self.block(statements)
        self.depth -= 1

    def statement(self, node: ast.stmt) -> None:
        """One statement; the structure is kept as it is."""
        match node:
            case ast.Assign():
                value = self.allocation(node.value) or self.value(node.value)
                if len(node.targets) > 1:
                    value = firm(value) if not all(isinstance(t, ast.Name) for t in node.targets) else value
                    if not isinstance(value, Literal):
                        temporary = self.temporary()
                        self.emit(f"{temporary} = {_code(firm(value))}")
                        value = _named(firm(value), temporary)
                for target in node.targets:
                    self.assign(target, value)
            case ast.AugAssign():
                self.augmented(node)
            case ast.AnnAssign():
                of = self.type_named(_id(node.annotation))
                if node.value is not None:
                    code = coerce(self.value(node.value), of)
                    self.emit(f"{_id(node.target)} = {code}")
                self.types[_id(node.target)] = NameType(Typed(of, _id(node.target)), False, False)
                self.names[_id(node.target)] = Typed(of, _id(node.target))
            case ast.If():
                decided = known(node.test, self.value)
                if decided is not None:  # the other branch is not part of the program
                    self.emit("pass")
                    self.block(node.body if decided else node.orelse)
                    return
                self.nested(f"if {self.truth(node.test)}:", node.body)
                if node.orelse:
                    self.nested("else:", node.orelse)
            case ast.While():
                self.nested(f"while {self.truth(node.test)}:", node.body)
                if node.orelse:
                    self.nested("else:", node.orelse)
            case ast.For():
                self.loop(node)
            case ast.Break():
                self.emit("break")
            case ast.Continue():
                self.emit("continue")
            case ast.Pass():
                self.emit("pass")
            case ast.Return():
                self.give_back(node)
            case ast.Assert():
                self.emit(f"_T.check({self.truth(node.test)}, {node.lineno})")
            case ast.Expr():
                self.expression(node.value)
            case _:
                raise IllTyped(ast.dump(node))

    def expression(self, node: ast.expr) -> None:
        """A call for its effect, or a documenting string."""
        if isinstance(node, ast.Constant):
            return
        if isinstance(node, ast.Call) and _id(node.func) == "sync_threads":
            self.suspend()
            self.emit("yield None")
            return
        if isinstance(node, ast.Call) and _id(node.func) == "static_assert":
            return
        self.emit(_code(firm(self.value(node))))

    def allocation(self, node: ast.expr) -> Memory | None:
        """`shared_array(…)` and `local_array(…)`."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("shared_array", "local_array")):
            return None
        extents = self.value(node.args[0])
        shape = tuple(int(i.value) for i in (extents.items if isinstance(extents, Tuple) else (extents,)) if isinstance(i, Literal))
        named = self.type_named(_id(node.args[1]))
        of, lanes = vector_of(named) or (named, 1)
        fields = self.fields_of(of)
        cells = f"_Cells({of!r}, {(*shape[:-1], shape[-1] * lanes)!r}, {fields!r})"
        if node.func.id == "shared_array":
            cells = f"_T.shared.setdefault({node.lineno}, {cells})"
        return Memory(of, cells, shape, 1, lanes, fields)

    def augmented(self, node: ast.AugAssign) -> None:
        """`a += b`: the place is evaluated once."""
        symbol = SYMBOLS[type(node.op)]
        if isinstance(node.target, ast.Name):
            old = self.value(ast.Name(node.target.id, ast.Load()))
            self.assign(node.target, self._combined(symbol, old, node.value))
        elif (inner := self.part_of(node.target)) is not None:
            memory, code, steps, kind = inner
            place, path, before = self.temporary(), self.temporary(), self.temporary()
            self.emit(f"{place} = {code}")
            self.emit(f"{path} = {steps}")
            self.emit(f"{before} = {memory.code}.load_part({place}, {path}, {kind!r}, {node.lineno}, _T)")
            changed = part_code(self._combined(symbol, part(kind, before), node.value), kind)
            self.emit(f"{memory.code}.store_part({place}, {path}, {kind!r}, {changed}, {node.lineno}, _T)")
        elif isinstance(node.target, ast.Subscript):
            memory = self.memory(node.target.value)
            place, before = self.temporary(), self.temporary()
            self.emit(f"{place} = {self.place(memory, node.target.slice)}")
            if memory.lanes > 1:
                self.emit(f"{before} = {memory.code}.load_vector({place}, {memory.lanes}, {node.lineno}, _T)")
                both = as_vector(self._combined(symbol, Vector(memory.type, memory.lanes, before), node.value), (memory.type, memory.lanes))
                self.emit(f"{memory.code}.store_vector({place}, {both.code}, {node.lineno}, _T)")
                return
            self.emit(f"{before} = {memory.code}.load({place}, {node.lineno}, _T)")
            new = self._combined(symbol, Typed(memory.type, before), node.value)
            self.emit(f"{memory.code}.store({place}, {coerce(new, memory.type)}, {node.lineno}, _T)")

    def _combined(self, symbol: str, old: Value, right: ast.expr) -> Value:
        if symbol in "+-":
            return self.sum(symbol, old, right)
        return lifted([old, self.value(right)], lambda a, b: self.binary(symbol, a, b))

    def loop(self, node: ast.For) -> None:
        """`for` over `range` or `unroll`: a step of 0 makes no trip."""
        assert isinstance(node.iter, ast.Call)
        bounds = [coerce(self.value(argument), "i64") for argument in node.iter.args]
        target = _id(node.target)
        run = f"range({', '.join(bounds)})" if len(bounds) < 3 else f"_range({', '.join(bounds)})"
        self.bind(target, Typed("i64", target))
        self.nested(f"for {target} in {run}:", node.body)
        if node.orelse:
            self.nested("else:", node.orelse)

    def give_back(self, node: ast.Return) -> None:
        """`return`."""
        if node.value is None:
            self.emit("return")
            return
        value = firm(self.value(node.value))
        if isinstance(self.returns, ast.Name):
            value = _as(value, self.type_named(self.returns.id))
        elif isinstance(self.returns, ast.Subscript) and isinstance(self.returns.slice, ast.Tuple) and isinstance(value, Tuple):
            wanted = [_id(of) for of in self.returns.slice.elts]
            if value.code:
                if [alone(number(item)) for item in value.items] != wanted:
                    raise IllTyped("another tuple")
            else:
                value = Tuple(tuple(Typed(of, coerce(item, of)) for item, of in zip(value.items, wanted, strict=True)))
        if self.result is not None and _shape(self.result) != _shape(value):
            raise IllTyped("two types of results")
        self.result = value
        self.emit(f"return {_code(value)}")


def firm_items(value: Tuple, targets: Sequence[ast.expr], body: Body) -> Tuple:
    """The items as their targets take them: a literal becomes what the name or element is."""
    if value.code:
        return value
    items: list[Value] = []
    for item, target in zip(value.items, targets, strict=True):
        if isinstance(item, Literal | Typed) or not isinstance(item, Tuple):
            of = None
            if isinstance(target, ast.Subscript):
                of = body.memory(target.value).type
            elif isinstance(target, ast.Name) and isinstance(item, Literal):
                known = body.types.get(target.id) or body.known.get(target.id)
                of = known.value.type if known is not None and isinstance(known.value, Typed) else None
            items.append(item if of is None else Typed(of, coerce(item, of)))
        else:
            items.append(item)
    return Tuple(tuple(items))


def _as(value: Value, of: str) -> Typed | Vector:
    """The value as the type that an annotation names, by the conversions that happen unasked."""
    vector = vector_of(of)
    return Typed(of, coerce(value, of)) if vector is None else as_vector(value, vector)


def _shape(value: Value) -> Any:
    if isinstance(value, Vector):
        return value.type, value.lanes
    return tuple(map(_shape, value.items)) if isinstance(value, Tuple) else alone(number(value))


def _named(value: Value, name: str) -> Value:
    """A value that Python code `name` yields."""
    match value:
        case Typed():
            return Typed(value.type, name)
        case Tuple():
            return Tuple(tuple(Typed(alone(number(item)), "") for item in value.items), name)
        case Vector():
            return Vector(value.type, value.lanes, name)
        case Memory():
            return Memory(value.type, name, value.shape, value.rank, value.lanes, value.fields)
        case Struct():
            return Struct(value.fields, name)
        case Items():
            return Items(value.kind, name)
        case Nothing():
            return Nothing(name)
        case _:
            return value


def _code(value: Value) -> str:
    if isinstance(value, Tuple):
        return tuple_code(value)
    if isinstance(value, Memory | Nothing | Vector | Struct | Items):
        return value.code
    return firm_number(number(value)).code


def _range(start: int, stop: int, step: int) -> Any:
    return range(start, stop, step) if step else ()


def _bits(takes: str, gives: str, value: Any) -> Any:
    codes = {"f32": "f", "i32": "i", "f64": "d", "i64": "q"}
    return struct.unpack(f"<{codes[gives]}", struct.pack(f"<{codes[takes]}", value))[0]


def _namespace() -> dict[str, Any]:
    functions = (
        "convert", "rounded", "floor_divide_integers", "modulo_integers", "shift_left", "shift_right", "power_integers", "divide", "modulo",
        "floor_divide", "fused", "power", "square_root", "integral", "extreme", "popcount", "leading_zeros", "trailing_zeros", "reverse_bits",
        "multiply_high",
    )  # fmt: skip
    made: dict[str, Any] = {f"_{name}": getattr(arithmetic, name) for name in functions}
    made |= {f"_{name}": function for name, function in specified.FUNCTIONS.items()}
    return {
        **made,
        "_range": _range,
        "_bits": _bits,
        "_Cells": new_cells,
        "_each": each,
        "_item": kinds.item,
        "Fixed": Fixed,
        "inf": float("inf"),
        "nan": float("nan"),
    }
