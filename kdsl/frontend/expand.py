"""Calls of `@function`s: expanded in place, for the types of the call."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar, get_args, get_origin

from kdsl.frontend import structs
from kdsl.frontend.annotations import evaluated_annotations
from kdsl.frontend.captures import MISSING, is_number
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce, is_loose, materialise, type_of
from kdsl.frontend.frames import AnySlot, FixedSlot, Frame, GroupSlot, Slot
from kdsl.frontend.function import Function, Overloaded
from kdsl.frontend.source import Source
from kdsl.frontend.values import (
    ArrayRef,
    BarrierRef,
    Group,
    Literal,
    LiteralChoice,
    MapRef,
    Nothing,
    Value,
    Vector,
    ViewRef,
    describe,
    from_python,
    known_number,
)
from kdsl.frontend.variables import assign, assign_slot, new_slot, read_slot
from kdsl.frontend.vectors import coerce_vector, element_type
from kdsl.ir import nodes
from kdsl.lang.struct_type import ArrayType, StructType
from kdsl.lang.types import BOOL, F32, DType, dtype, promote
from kdsl.lang.vectors import VectorType
from kdsl.lang.views import Barriers, ConstAnnotation, ViewAnnotation, view_text

_VIEWS: Final = ("Slice", "SliceMut", "DisjointSlice")
"""Views by what they offer, as a static type checker sees them: each is a case of the one before."""
_DEEPEST: Final = 64
"""Calls within calls; deeper nesting would exhaust Python's own stack."""


def call(
    ctx: Context, function: Function | Overloaded, values: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST,
    argument_nodes: Sequence[ast.AST] = (), keyword_nodes: Mapping[str, ast.AST] | None = None,
) -> Value:  # fmt: skip
    """The value of `function(*values, **keywords)`."""
    if isinstance(function, Overloaded):
        given = [*argument_nodes, *(keyword_nodes or {}).values()] or [node] * len(values)
        function, converted = _choose(ctx, function, [*values, *keywords.values()], given, node)
        values, keywords = converted[: len(values)], dict(zip(keywords, converted[len(values) :], strict=True))
    source = function.source
    if any(frame.source is source for frame in ctx.frames):
        raise ctx.error(f"`{function.name}` calls itself; recursion is not part of the language", node, "write a loop")
    if len(ctx.frames) > _DEEPEST:
        raise ctx.error(f"more than {_DEEPEST} calls within calls", node, "call fewer functions from one another")
    source.captures.complete()  # for functions that come in as arguments; those that are captured are complete by now
    bound = _bind(ctx, source, values, keywords, node)
    places = _argument_places(source, argument_nodes, keyword_nodes or {})
    annotations = evaluated_annotations(source)
    types = _type_variables(ctx, annotations, bound, places, node)
    arguments = {
        name: _argument(ctx, source, name, value, annotations.get(name, MISSING), types, places.get(name, node))
        for name, value in bound.items()
    }
    frame = Frame(source, ctx.frame.fresh_key(function.name), ctx.locate(node), types)
    frame.result_type = _result_type(annotations.get("return", MISSING), types)
    return _expand(ctx, frame, arguments, node)


def _choose(
    ctx: Context, overloaded: Overloaded, values: Sequence[Value], places: Sequence[ast.AST], node: ast.AST
) -> tuple[Function, list[Value]]:
    """The function for the type in which the numbers among the arguments meet, and the arguments, converted to it."""
    if not values:
        raise ctx.error(f"{overloaded.name}() takes an argument", node, f"such as {overloaded.name}(x)")
    numbers = [isinstance(value, Literal | LiteralChoice | nodes.ValueOp) for value in values]
    firm = [type_of(value) for value in values if isinstance(value, Literal | LiteralChoice | nodes.ValueOp) and not is_loose(ctx, value)]
    for of in firm:
        if of not in overloaded.functions:
            raise ctx.error(*_not_for(ctx, overloaded, of, values, places, node))
    common = firm[0] if firm else F32
    for of in firm[1:]:
        common = promote(common, of) or common
    what = f"an argument of {overloaded.name}()"
    converted = [
        coerce(ctx, value, common, place, what) if is_number else value
        for value, place, is_number in zip(values, places, numbers, strict=True)
    ]
    return overloaded.functions[common], converted


def _not_for(
    ctx: Context, overloaded: Overloaded, of: DType, values: Sequence[Value], places: Sequence[ast.AST], node: ast.AST
) -> tuple[str, ast.AST, str]:
    """The error for an argument of a type that no function is for, with the call as it should be."""
    names = ", ".join(t.name for t in overloaded.functions)
    hint = f"it is there for {names}"
    if not of.is_float or of.is_narrow_float:
        texts = [
            f"f32({ctx.text(place)})" if isinstance(value, nodes.ValueOp) and value.type not in overloaded.functions else ctx.text(place)
            for value, place in zip(values, places, strict=True)
        ]
        hint = f"write {overloaded.name}({', '.join(texts)})"
    return f"{overloaded.name}() is there for {names}, not for {of}", node, hint


def _bind(ctx: Context, source: Source, values: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST) -> dict[str, Value]:
    signature = inspect.signature(source.function)
    try:
        bound = signature.bind(*values, **keywords)
    except TypeError as wrong:
        parameters = ", ".join(signature.parameters)
        raise ctx.error(
            f"the call does not fit {source.name}({parameters}): {wrong}",
            node,
            "give each parameter one value, in order or by name",
            [("it is defined here", source.definition())],
        ) from None
    result: dict[str, Value] = {}
    for name, parameter in signature.parameters.items():
        if name in bound.arguments:
            result[name] = bound.arguments[name]
        else:
            result[name] = _default(ctx, source, name, parameter.default)
    return result


def _default(ctx: Context, source: Source, name: str, default: Any) -> Value:
    if is_number(default) or default is None or isinstance(default, tuple | DType | VectorType | Function):
        return from_python(name, default)
    raise ctx.error(
        f"the default of `{name}` of {source.name} is no number", source.definition(), "a default is a number, a tuple of numbers or a type"
    )


def _argument_places(source: Source, argument_nodes: Sequence[ast.AST], keyword_nodes: Mapping[str, ast.AST]) -> dict[str, ast.AST]:
    arguments = source.tree.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    return {**dict(zip(names, argument_nodes, strict=False)), **keyword_nodes}


def _type_variables(
    ctx: Context, annotations: Mapping[str, Any], bound: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.AST
) -> dict[TypeVar, DType | VectorType]:
    """Type variables take the types of the arguments, vectors included; a literal only where nothing else decides."""
    types: dict[TypeVar, DType | VectorType] = {}
    pending: dict[TypeVar, list[tuple[str, DType]]] = {}
    for name, value in bound.items():
        annotation = annotations.get(name, MISSING)
        if isinstance(annotation, ViewAnnotation) and isinstance(annotation.element, TypeVar):
            element = element_type(value)
            if element is not None:
                _bind_type(ctx, types, annotation.element, element, name, places.get(name, node))
        elif isinstance(annotation, TypeVar) and isinstance(value, Vector):
            _bind_type(ctx, types, annotation, value.type, name, places.get(name, node))
        elif isinstance(annotation, TypeVar):
            if not isinstance(value, Literal | LiteralChoice | nodes.ValueOp):
                raise ctx.error(
                    f"`{name}` is a number of type {annotation.__name__}, not {describe(value)}", places.get(name, node), "pass a number"
                )
            if is_loose(ctx, value):
                pending.setdefault(annotation, []).append((name, type_of(value)))
            else:
                _bind_type(ctx, types, annotation, type_of(value), name, places.get(name, node))
    for variable, loose in pending.items():
        if variable not in types:  # literals alone; a float among them, or a variable of floats only, makes floats of integers
            allowed = [dtype(constraint) for constraint in variable.__constraints__]
            floats = any(of.is_float for _, of in loose) or (bool(allowed) and all(of.is_float for of in allowed))
            of = F32 if floats else loose[0][1]
            _bind_type(ctx, types, variable, of, loose[0][0], places.get(loose[0][0], node))
    return types


def _bind_type(
    ctx: Context, types: dict[TypeVar, DType | VectorType], variable: TypeVar, to: DType | VectorType, name: str, node: ast.AST
) -> None:
    known = types.setdefault(variable, to)
    if known is not to:
        raise ctx.error(
            f"{variable.__name__} is {known} by another argument, and {to} by `{name}`", node, f"convert one of them, as in {known}(...)"
        )
    allowed = [constraint if isinstance(constraint, VectorType) else dtype(constraint) for constraint in variable.__constraints__]
    if allowed and to not in allowed:
        raise ctx.error(f"{variable.__name__} is one of {', '.join(t.name for t in allowed)}, not {to}", node, "convert the argument")


def _argument(
    ctx: Context, source: Source, name: str, value: Value, annotation: Any, types: Mapping[TypeVar, DType | VectorType], node: ast.AST
) -> Value:
    """An argument, converted to what its parameter says."""
    if annotation is MISSING or annotation is Any:
        return value
    if isinstance(annotation, TypeVar):
        annotation = types.get(annotation, annotation)
    if annotation is bool:
        annotation = BOOL
    what = f"`{name}` of {source.name}"
    if isinstance(annotation, DType):
        return coerce(ctx, value, annotation, node, what)
    if isinstance(annotation, VectorType):
        return coerce_vector(ctx, value, annotation, node, what)
    if isinstance(annotation, ConstAnnotation):
        if known_number(value) is None:
            raise ctx.error(
                f"{what} is Const: its value must be known to the compiler", node, "pass a literal, a captured number or a Const parameter"
            )
        return value
    if isinstance(annotation, ViewAnnotation) and annotation.kind == "TensorMap":
        return _map_argument(ctx, value, annotation, types, what, node)
    if annotation is Barriers:
        if isinstance(value, BarrierRef):
            return value
        raise ctx.error(f"{what} are barriers, not {describe(value)}", node, "make them with shared_barriers(count)")
    if isinstance(annotation, ViewAnnotation):
        return _view_argument(ctx, value, annotation, types, what, node)
    struct = getattr(annotation, "__kdsl_struct__", annotation)
    if isinstance(struct, StructType | ArrayType):
        return structs.converted(ctx, struct, value, node, what)
    items = _tuple_types(annotation)
    if items is not None:
        if not isinstance(value, Group) or len(value.items) != len(items):
            raise ctx.error(f"{what} is a tuple of {len(items)}, not {describe(value)}", node, "pass a tuple of as many values")
        return Group(tuple(_argument(ctx, source, name, item, of, types, node) for item, of in zip(value.items, items, strict=True)))
    raise ctx.error(
        f"the annotation of {what} has no meaning in a kernel: {annotation!r}",
        source.definition(),
        "use a type such as f32, a view such as Slice[f32], a struct, a tuple such as tuple[f32, i32], a TypeVar, or none",
    )


def _map_argument(
    ctx: Context, value: Value, annotation: ViewAnnotation, types: Mapping[TypeVar, DType | VectorType], what: str, node: ast.AST
) -> Value:
    element = types.get(annotation.element) if isinstance(annotation.element, TypeVar) else annotation.element
    if isinstance(value, MapRef) and value.map.rank == annotation.rank and value.map.type is element:
        return value
    wanted = view_text("TensorMap", str(element or annotation.element), annotation.rank)
    raise ctx.error(f"{what} is {wanted}, not {describe(value)}", node, f"pass {wanted}, or annotate the parameter as what it gets")


def _view_argument(
    ctx: Context, value: Value, annotation: ViewAnnotation, types: Mapping[TypeVar, DType | VectorType], what: str, node: ast.AST
) -> Value:
    element = types.get(annotation.element) if isinstance(annotation.element, TypeVar) else annotation.element
    has = None
    if isinstance(value, ArrayRef):
        has = "Slice" if value.member or value.array.space == "constant" else "SliceMut"
    elif isinstance(value, ViewRef):
        has = value.view.kind
    # a DisjointSlice goes where a SliceMut is asked for, because its own rule still holds there; more than a view offers cannot be asked
    fits = has is not None and _VIEWS.index(annotation.kind) <= _VIEWS.index(has)
    fits = fits and (value.view.rank if isinstance(value, ViewRef) else annotation.rank) == annotation.rank
    if not isinstance(value, ViewRef | ArrayRef) or not fits or element_type(value) is not element:
        wanted = view_text(annotation.kind, str(element or annotation.element), annotation.rank, annotation.strided)
        raise ctx.error(f"{what} is {wanted}, not {describe(value)}", node, f"pass {wanted}, or annotate the parameter as what it gets")
    return dataclasses.replace(value, read_only=True) if annotation.kind == "Slice" else value


def _result_type(annotation: Any, types: Mapping[TypeVar, DType | VectorType]) -> Any:
    """The annotation of a result with its type variables replaced; `MISSING` if it says nothing."""
    if annotation is MISSING or annotation is Any:
        return MISSING
    if isinstance(annotation, TypeVar):
        return types.get(annotation, MISSING)
    if annotation is bool:
        return BOOL
    items = _tuple_types(annotation)
    if items is not None:
        return tuple(_result_type(item, types) for item in items)
    return getattr(annotation, "__kdsl_struct__", annotation)


def _tuple_types(annotation: Any) -> tuple[Any, ...] | None:
    """The types of the items of `tuple[f32, i32]`, None for anything else, `tuple[f32, ...]` included."""
    items = get_args(annotation)
    return items if get_origin(annotation) is tuple and ... not in items else None


def _expand(ctx: Context, frame: Frame, arguments: Mapping[str, Value], node: ast.AST) -> Value:
    from kdsl.frontend.statements import run_body  # statements contain calls, calls contain statements

    body = nodes.Block()
    frame.scope = nodes.Scope(location=ctx.location, body=body)
    mark = len(ctx.set_log)
    outer_location = ctx.location
    ctx.frames.append(frame)
    with ctx.nested(body):
        for name, value in arguments.items():
            place = frame.source.names.places[name][0]
            assign(ctx, name, value, place, place)
        run_body(ctx, frame.source.body)
        falls_through = frame.assigned is not None
        ctx.location = outer_location
    if frame.result is not None and falls_through and not isinstance(frame.result, Nothing):
        raise ctx.error(
            f"`{frame.source.name}` returns a value on some ways and ends without one on others",
            frame.source.definition(frame.caller),
            "return a value on every way",
            [("a value is returned here", frame.first_return or ctx.location)],
        )
    if frame.result is None and falls_through and frame.result_type not in (MISSING, None):
        raise ctx.error(
            f"`{frame.source.name}` says that it returns a value, and does not",
            frame.source.definition(frame.caller),
            "return one, or annotate `-> None`",
        )
    ctx.frames.pop()
    if frame.left_early:
        ctx.emit(frame.scope)
        ctx.forget_since(mark)
    else:
        ctx.splice(body)
    if frame.result is None:
        return Nothing()
    return read_slot(ctx, frame.result) if isinstance(frame.result, Slot | GroupSlot | FixedSlot) else frame.result


def give_back(ctx: Context, value: Value, node: ast.AST, *, last: bool) -> None:
    """`return value` in a `@function`; `last` if nothing of the function follows and no branch surrounds it."""
    frame = ctx.frame
    value = _convert_result(ctx, value, frame.result_type, node)
    frame.first_return = frame.first_return or ctx.locate(node)
    if frame.result is None and last:
        frame.result = value
        return
    key = (*frame.key, "return")
    if frame.result is None:
        frame.result = Nothing() if isinstance(value, Nothing) else new_slot(ctx, "result", value, key, node, node)
    elif isinstance(frame.result, Nothing) or isinstance(value, Nothing):
        if not (isinstance(frame.result, Nothing) and isinstance(value, Nothing)):
            raise ctx.error(f"`{frame.source.name}` returns a value in one place and none in another", node, "return a value on every way")
    else:
        slot: AnySlot = frame.result  # type: ignore[assignment]  # a value stands here only after the last return
        assign_slot(ctx, "result", slot, value, node, node)


def _convert_result(ctx: Context, value: Value, annotation: Any, node: ast.AST) -> Value:
    if annotation is MISSING:
        return value
    name = ctx.frame.source.name
    if annotation is None:
        if isinstance(value, Nothing):
            return value
        raise ctx.error(f"`{name}` is annotated `-> None` and returns {describe(value)}", node, "annotate what it returns")
    if isinstance(annotation, StructType | ArrayType):
        return structs.converted(ctx, annotation, value, node, f"the result of {name}")
    if isinstance(annotation, DType):
        return coerce(ctx, value, annotation, node, f"the result of {name}")
    if isinstance(annotation, VectorType):
        return coerce_vector(ctx, value, annotation, node, f"the result of {name}")
    if isinstance(annotation, tuple):
        if not isinstance(value, Group) or len(value.items) != len(annotation):
            raise ctx.error(
                f"`{name}` returns {describe(value)} where a tuple of {len(annotation)} is announced", node, "return as many values"
            )
        return Group(tuple(_convert_result(ctx, item, of, node) for item, of in zip(value.items, annotation, strict=True)))
    raise ctx.error(
        f"the annotation of the result of `{name}` has no meaning in a kernel: {annotation!r}",
        ctx.frame.source.definition(),
        "use a type such as f32, a struct, a TypeVar, tuple[f32, f32], or None",
    )


def library_call(ctx: Context, name: str, values: Sequence[Value], node: ast.AST) -> nodes.ValueOp:
    """A function of the frontend's own library, which is written in the language."""
    from kdsl.frontend import library

    return _number(ctx, call(ctx, getattr(library, name), values, {}, node), node)


def mathematics_call(ctx: Context, name: str, values: Sequence[Value], node: ast.AST, operator: str, instead: str) -> nodes.ValueOp:
    """A function of `kdsl.mathematics` that stands behind an operator; an error with the hint `instead` if there is none for the type."""
    import kdsl.mathematics as mathematics  # it is written in the language, so it needs the frontend

    function = getattr(mathematics, name, None)
    of = type_of(values[0]) if isinstance(values[0], nodes.ValueOp) else F32
    if not isinstance(function, Function | Overloaded) or (isinstance(function, Overloaded) and of not in function.functions):
        raise ctx.error(f"this {operator} of {of} is not part of the language", node, instead)
    return _number(ctx, call(ctx, function, values, {}, node), node)


def _number(ctx: Context, value: Value, node: ast.AST) -> nodes.ValueOp:
    assert isinstance(value, Literal | LiteralChoice | nodes.ValueOp)
    return materialise(ctx, value, node)
