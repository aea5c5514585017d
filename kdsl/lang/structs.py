"""`@struct`: small parameter structures whose fields carry their documentation.

    @struct
    class Table:
        \"""An embedding table.\"""

        tokens: u32
        \"""Rows: the size of the vocabulary.\"""

A struct is immutable, made by keyword, and checked when it is made: a missing or unknown field is a TypeError, an integer that the field's type cannot
hold an OverflowError, both naming the field. Layout is C's, with natural alignment. What is not here: packing for a launch (`kdsl.ir.abi`).
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
from typing import Any, TypeVar, cast, dataclass_transform, get_type_hints

from kdsl.lang.declaration import StructField, StructType
from kdsl.lang.numbers import host_number
from kdsl.lang.types import BOOL, DType

C = TypeVar("C")


def _field_docs(cls: type) -> dict[str, str]:
    """The string below each field; empty where the source is not to be had."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError, IndentationError):
        return {}
    body = next((node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)), [])
    docs: dict[str, str] = {}
    for statement, following in itertools.pairwise(body):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            docs[statement.target.id] = inspect.cleandoc(following.value.value)
    return docs


def _field_value(of: StructType, field: StructField, value: Any) -> bool | int | float:
    try:
        return host_number(field.type, value)
    except (TypeError, OverflowError) as error:
        raise type(error)(f"field {field.name} of {of.name}: {error}") from None


def _layout(cls: type, namespace: dict[str, Any]) -> StructType:
    hints = get_type_hints(cls, localns=namespace)
    docs = _field_docs(cls)
    fields: list[StructField] = []
    offset, alignment = 0, 1
    for name in inspect.get_annotations(cls):
        of = BOOL if hints[name] is bool else hints[name]
        if not isinstance(of, DType):
            raise TypeError(f"field {name} of struct {cls.__name__} has type {of!r}; a field takes an element type such as f32 or u32")
        if name in cls.__dict__:
            raise TypeError(f"field {name} of struct {cls.__name__} has a default; every field of a struct is given where it is made")
        offset = -(-offset // of.itemsize) * of.itemsize
        fields.append(StructField(name, of, docs.get(name, ""), offset))
        offset += of.itemsize
        alignment = max(alignment, of.itemsize)
    if not fields:
        raise TypeError(f"struct {cls.__name__} has no fields")
    return StructType(cls.__name__, tuple(fields), -(-offset // alignment) * alignment, inspect.cleandoc(cls.__doc__ or ""))


@dataclass_transform(kw_only_default=True, frozen_default=True)
def struct(cls: type[C]) -> type[C]:
    """Make a class with annotated fields a parameter struct. Raises TypeError for a field that has no element type, or a default."""
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    layout = _layout(cls, dict(caller.f_locals) if caller is not None else {})
    by_name = {field.name: field for field in layout.fields}

    def __init__(self: Any, /, **values: Any) -> None:
        missing = [name for name in by_name if name not in values]
        unknown = [name for name in values if name not in by_name]
        if missing:
            raise TypeError(f"{layout.name}() lacks {', '.join(missing)}; its fields are {', '.join(by_name)}")
        if unknown:
            raise TypeError(f"{layout.name}() has no field {', '.join(unknown)}; its fields are {', '.join(by_name)}")
        for name, field in by_name.items():
            object.__setattr__(self, name, _field_value(layout, field, values[name]))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        raise AttributeError(f"{layout.name} cannot be changed; make a new one")

    def __repr__(self: Any) -> str:
        return f"{layout.name}({', '.join(f'{name}={getattr(self, name)!r}' for name in by_name)})"

    def __eq__(self: Any, other: object) -> bool:
        return type(self) is type(other) and all(getattr(self, name) == getattr(other, name) for name in by_name)

    def __hash__(self: Any) -> int:
        return hash(tuple(getattr(self, name) for name in by_name))

    def __reduce__(self: Any) -> tuple[Any, ...]:
        return functools.partial(self.__class__, **{name: getattr(self, name) for name in by_name}), ()

    made = {f.__name__: f for f in (__init__, __setattr__, __repr__, __eq__, __hash__, __reduce__)}
    body = {key: value for key, value in cls.__dict__.items() if key not in ("__dict__", "__weakref__")}
    body.update(made, __slots__=tuple(by_name), __kdsl_struct__=layout)
    made_class: Any = type(cls.__name__, cls.__bases__, body)
    made_class.__qualname__ = cls.__qualname__
    return cast("type[C]", made_class)
