"""`@struct`: small structures whose fields carry their documentation.

    @struct
    class Table:
        \"""An embedding table.\"""

        tokens: u32
        \"""Rows: the size of the vocabulary.\"""
        scales: FixedArray[f32, Literal[4]]
        \"""Factor of each group of columns.\"""

A field is a number, another struct, or a `FixedArray` of those. A struct is immutable, made by keyword or in order, and checked when it is made: a missing or
unknown field is a TypeError, an integer that the field's type cannot hold an OverflowError, an array of another shape a ValueError, each naming the field.
`Table.dtype` is the NumPy type of such elements: `numpy.zeros(n, Table)` makes an array of them. What is not here: the layout (`struct_type.py`), and
packing for a launch (`kdsl.ir.abi`).
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast, dataclass_transform, get_type_hints

import numpy as np

from kdsl.lang.numbers import described, host_number
from kdsl.lang.struct_type import ArrayType, FieldType, StructType, struct_type
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


# -------------------------------------------------------------------------------------------------------------------- values of fields


def _value(of: FieldType, value: Any, name: str, owner: str) -> Any:
    """What a field holds: Python's number, a struct, or a tuple (of tuples, for several dimensions) of those. `name` and `owner` name it in errors."""
    if isinstance(of, ArrayType):
        return _items(of, of.shape, value, name, owner)
    if isinstance(of, StructType):
        if getattr(type(value), "__kdsl_struct__", None) is of:
            return value
        hint = f"; make one: {of.name}(**...)" if isinstance(value, Mapping) else ""
        raise TypeError(f"field {name} of {owner} is a {of.name}, not {described(value)}{hint}")
    try:
        return host_number(of, value)
    except (TypeError, OverflowError) as error:
        raise type(error)(f"field {name} of {owner}: {error}") from None


def _items(of: ArrayType, shape: tuple[int, ...], value: Any, name: str, owner: str) -> tuple[Any, ...]:
    what = f"field {name} of {owner}"
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str | bytes) or (isinstance(value, np.ndarray) and not value.ndim):
        raise TypeError(f"{what} is made from a sequence or a NumPy array ({of}), not {described(value)}")
    if isinstance(value, np.ndarray) and value.shape != shape:
        raise ValueError(f"{what} takes a NumPy array of shape {shape} ({of}), not {value.shape}")
    if len(value) != shape[0]:
        raise ValueError(f"{what} takes {shape[0]} value{'s' if shape[0] > 1 else ''} ({of}), not {len(value)}")
    parts = ((item, f"{name}[{position}]", owner) for position, item in enumerate(value))
    return tuple(_items(of, shape[1:], *part) if len(shape) > 1 else _value(of.element, *part) for part in parts)


def _plain(of: FieldType, value: Any) -> Any:
    """The value of a field as NumPy takes it: structs as tuples."""
    if isinstance(of, StructType):
        return tuple(_plain(field.type, getattr(value, field.name)) for field in of.fields)
    if isinstance(of, ArrayType) and isinstance(of.element, StructType):
        return [_plain(ArrayType(of.element, of.shape[1:]) if of.shape[1:] else of.element, item) for item in value]
    return value


def record(of: DType, value: Any) -> Any:
    """A struct as NumPy's scalar of the type `of`, with 0 in the bytes between fields. Raises TypeError if it has another layout."""
    made = getattr(type(value), "__kdsl_struct__", None)
    if not isinstance(made, StructType) or made.canonical is not of.canonical:
        raise TypeError(f"a {of.name} is wanted, not {described(value)}")
    whole = np.zeros(1, made.numpy)
    whole[0] = _plain(made, value)
    return whole[0]


def _bytes(of: ArrayType, value: Any) -> bytes:
    held = np.zeros(of.shape, of.element.numpy)
    held[...] = np.array(_plain(of, value), of.element.numpy)
    return held.tobytes()


# -------------------------------------------------------------------------------------------------------------------------- the class


def _layout(cls: type, namespace: dict[str, Any]) -> StructType:
    inherited = next((base for base in cls.__mro__[1:] if inspect.get_annotations(base)), None)
    if inherited is not None:
        raise TypeError(
            f"struct {cls.__name__} inherits from {inherited.__name__}, whose fields it would not have; make one of them a field, or write its fields out"
        )
    hints = get_type_hints(cls, localns=namespace)
    docs = _field_docs(cls)
    fields: list[tuple[str, FieldType, str]] = []
    for name in inspect.get_annotations(cls):
        of = _field_type(hints[name])
        if of is None:
            raise TypeError(
                f"field {name} of struct {cls.__name__} has type {hints[name]!r}; "
                "a field is an element type such as f32 or u32, a struct, or an array of those such as FixedArray[f32, Literal[4]]"
            )
        if name in cls.__dict__:
            raise TypeError(f"field {name} of struct {cls.__name__} has a default; every field of a struct is given where it is made")
        if name == "dtype":
            raise TypeError(
                f"a field of struct {cls.__name__} cannot be called dtype: {cls.__name__}.dtype is the NumPy type of its arrays"
            )
        fields.append((name, of, docs.get(name, "")))
    if not fields:
        raise TypeError(f"struct {cls.__name__} has no fields")
    return struct_type(cls.__name__, fields, inspect.cleandoc(cls.__doc__ or ""))


def _field_type(annotation: Any) -> FieldType | None:
    of = BOOL if annotation is bool else getattr(annotation, "__kdsl_struct__", annotation)
    return of if isinstance(of, DType | ArrayType) else None


@dataclass_transform()  # not frozen: inside a kernel, fields of elements are assigned (`steps[i].rate = x`)
def struct(cls: type[C]) -> type[C]:
    """Make a class with annotated fields a struct. Raises TypeError for a field of a type that a struct cannot hold, or with a default, and for a class that
    inherits fields."""
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    layout = _layout(cls, dict(caller.f_locals) if caller is not None else {})
    by_name = layout.by_name
    arrays = {name: field.type for name, field in by_name.items() if isinstance(field.type, ArrayType)}

    def __init__(self: Any, /, *given: Any, **values: Any) -> None:
        for name, value in zip(by_name, given, strict=False):
            if name in values:
                raise TypeError(f"{layout.name}() got two values for {name}")
            values[name] = value
        missing = [name for name in by_name if name not in values]
        unknown = [name for name in values if name not in by_name]
        if len(given) > len(by_name):
            raise TypeError(f"{layout.name}() takes {len(by_name)} values, not {len(given)}; its fields are {', '.join(by_name)}")
        if missing:
            raise TypeError(f"{layout.name}() lacks {', '.join(missing)}; its fields are {', '.join(by_name)}")
        if unknown:
            raise TypeError(f"{layout.name}() has no field {', '.join(unknown)}; its fields are {', '.join(by_name)}")
        for name, field in by_name.items():
            object.__setattr__(self, name, _value(field.type, values[name], name, layout.name))
        # launches copy arrays as bytes
        object.__setattr__(self, "__kdsl_arrays__", {name: _bytes(of, getattr(self, name)) for name, of in arrays.items()})
        object.__setattr__(self, "__kdsl_bytes__", b"")  # made when a launch first needs them

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
    body.update(made, __slots__=(*by_name, "__kdsl_arrays__", "__kdsl_bytes__"), __kdsl_struct__=layout, dtype=layout.numpy)
    made_class: Any = type(cls.__name__, cls.__bases__, body)
    made_class.__qualname__ = cls.__qualname__
    _ = layout.canonical  # the first class of a layout names its arrays
    return cast("type[C]", made_class)
