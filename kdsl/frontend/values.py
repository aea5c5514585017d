"""What an expression can stand for while a kernel is compiled: a number of the IR, a literal, an array, a struct, a function …

Numbers of the IR are its `ValueOp`s; element types, `Function`, `Overloaded`, `Intrinsic` and `IndexTriple` stand for themselves.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final, TypeAlias

import numpy as np

from kdsl.frontend.captures import is_number
from kdsl.frontend.function import Function, Overloaded
from kdsl.ir import nodes
from kdsl.lang.caching import CacheHint
from kdsl.lang.constants import ConstantArray
from kdsl.lang.intrinsics import IndexTriple, Intrinsic
from kdsl.lang.struct_type import FieldType, StructType
from kdsl.lang.types import BOOL, F32, I64, DType
from kdsl.lang.vectors import VectorType

LARGEST_LITERAL: Final = 512
"""Bits of an integer literal: far more than any type holds, and few enough that folding is quick and never leaves the range of a float."""


@dataclass(frozen=True)
class Literal:
    """A number that the compiler knows and that has no type yet: written in the source, captured, or a `Const` parameter."""

    value: bool | int | float
    """The number."""


@dataclass(frozen=True, eq=False)
class LiteralChoice:
    """A conditional expression of two literals, which takes its type where it is used."""

    condition: nodes.ValueOp
    """Which of them."""
    then: Literal | LiteralChoice
    """If it holds."""
    orelse: Literal | LiteralChoice
    """If it does not."""


@dataclass(frozen=True, eq=False)
class ViewRef:
    """An array parameter."""

    view: nodes.View
    """The parameter."""
    unchecked: bool = False
    """Whether it was written `.unchecked`."""
    read_only: bool = False
    """Whether a function got it as a Slice."""
    vector: VectorType | None = None
    """What its elements are, if they are vectors: as declared, or by `as_vectors`."""
    cache: CacheHint | None = None
    """What its plain reads and writes tell the caches, by `cached`."""


@dataclass(frozen=True, eq=False)
class ArrayRef:
    """A shared or local array."""

    array: nodes.Array
    """The array."""
    unchecked: bool = False
    """Whether it was written `.unchecked`."""
    registers: dict[tuple[object, ...], nodes.Variable] | None = None
    """The variables that hold its elements, if all its indices are known to the compiler: by their indices, and of structs the path to the number."""
    key: tuple[object, ...] = ()
    """Its key among the decisions of the compilation."""
    read_only: bool = False
    """Whether a function got it as a Slice."""
    member: bool = False
    """Whether it is an array in a struct, which is only read."""
    vector: VectorType | None = None
    """What its elements are, if they are vectors; the array itself is one of their numbers."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each dimension."""
        *outer, last = self.array.shape
        return (*outer, last // (self.vector.lanes if self.vector else 1))


@dataclass(frozen=True, eq=False)
class RemoteRef:
    """A shared array of another block of the cluster."""

    own: ArrayRef | ViewRef
    """The array of this block."""
    rank: nodes.ValueOp
    """Which block of the cluster, i64."""

    @property
    def memory(self) -> nodes.Memory:
        """The array in the IR."""
        return self.own.view if isinstance(self.own, ViewRef) else self.own.array


@dataclass(frozen=True, eq=False)
class BarrierRef:
    """Barriers in shared memory, which only the functions on barriers touch."""

    array: nodes.Array
    """Where they are: a shared array of u64."""
    unchecked: bool = False
    """Whether it was written `.unchecked`."""


@dataclass(frozen=True, eq=False)
class MapRef:
    """A tensor map parameter, which only copies use."""

    map: nodes.TensorMap
    """The parameter."""


@dataclass(frozen=True, eq=False)
class Place:
    """An element of struct type, or a part of one, that is neither read nor written yet: `steps[i]`, `steps[i].weights`. It stands only within an expression or
    on the left of an assignment; what a name stands for is a value."""

    base: ViewRef | ArrayRef | RemoteRef
    """The array."""
    indices: tuple[nodes.ValueOp, ...]
    """Those of the element, then those of arrays within it."""
    node: ast.Subscript | None
    """Where the element is named, None in an array of the thread's own."""
    type: FieldType
    """What lies there."""
    path: str = ""
    """Names of the fields on the way, joined by dots."""
    offset: int = 0
    """Bytes from the start of the element, with the indices within it 0."""
    shape: tuple[int, ...] = ()
    """Extents of the arrays within it that are indexed."""
    strides: tuple[int, ...] = ()
    """For each of them, bytes from one index to the next."""

    @property
    def memory(self) -> nodes.Memory:
        """The array in the IR."""
        own = self.base.own if isinstance(self.base, RemoteRef) else self.base
        return own.view if isinstance(own, ViewRef) else own.array

    @property
    def remote(self) -> nodes.ValueOp | None:
        """Which block of the cluster has it, None for this one."""
        return self.base.rank if isinstance(self.base, RemoteRef) else None

    @property
    def unchecked(self) -> bool:
        """Whether the array was written `.unchecked`."""
        return (self.base.own if isinstance(self.base, RemoteRef) else self.base).unchecked

    @property
    def label(self) -> str:
        """Its array and the way into an element, for people."""
        return f"{self.memory.name}[].{self.path}" if self.path else f"{self.memory.name}[]"

    @property
    def name(self) -> str:
        """What its indices are those of, in records of failed checks."""
        return self.label if self.shape else self.memory.name


@dataclass(frozen=True, eq=False)
class Record:
    """A struct, or the tile of `tile_index()`. An array in a struct is an `ArrayRef` that is only read."""

    name: str
    """What it is."""
    fields: dict[str, Value]
    """Its fields."""
    struct: StructType | None = None
    """The struct, None for a tile."""


@dataclass(frozen=True, eq=False)
class Group:
    """A tuple."""

    items: tuple[Value, ...]
    """Its items."""


@dataclass(frozen=True, eq=False)
class Vector:
    """A vector."""

    type: VectorType
    """Its type."""
    items: tuple[nodes.ValueOp, ...]
    """Its numbers."""


@dataclass(frozen=True)
class Text:
    """A string; only `f32("inf")` and the message of an assertion use one."""

    value: str
    """Its characters."""


@dataclass(frozen=True)
class Nothing:
    """None, or the result of a call that returns nothing."""


@dataclass(frozen=True, eq=False)
class Module:
    """A Python module."""

    module: ModuleType
    """The module."""
    path: str
    """The name by which the function knows it."""


@dataclass(frozen=True)
class Builtin:
    """A built-in function of Python that the language has too."""

    name: str
    """Its name."""


@dataclass(frozen=True, eq=False)
class Foreign:
    """Anything else that Python has; an error as soon as it is used."""

    name: str
    """The name by which the function knows it."""
    value: Any = field(repr=False)
    """The Python object."""


Scalar: TypeAlias = Literal | LiteralChoice | nodes.ValueOp
Number: TypeAlias = Scalar | Vector
Value: TypeAlias = (
    Literal | LiteralChoice | nodes.ValueOp | ViewRef | ArrayRef | RemoteRef | BarrierRef | MapRef | Place | Record | Group | Vector | Text
    | Nothing | Module | Builtin | Foreign
    | DType | VectorType | Function | Overloaded | Intrinsic | IndexTriple | ConstantArray
)  # fmt: skip

_BUILTINS: dict[Callable[..., Any] | type, str] = {
    len: "len", range: "range", min: "min", max: "max", abs: "abs", int: "int", float: "float", bool: "bool", print: "print",
}  # fmt: skip


def _plain(number: Any) -> bool | int | float:
    """Python's own number for NumPy's, or for one of a class of its own such as an IntEnum."""
    if isinstance(number, bool | np.bool_):
        return bool(number)
    return int(number) if isinstance(number, int | np.integer) else float(number)


def from_python(name: str, value: Any) -> Value:
    """The meaning of a captured Python object."""
    if is_number(value) and not (isinstance(value, int) and value.bit_length() > LARGEST_LITERAL):
        return Literal(_plain(value))
    if value is None:
        return Nothing()
    if isinstance(value, DType | VectorType | Function | Overloaded | Intrinsic | IndexTriple | ConstantArray):
        return value
    if isinstance(value, type) and isinstance(struct := getattr(value, "__kdsl_struct__", None), StructType):
        return struct
    if isinstance(value, ModuleType):
        return Module(value, name)
    if isinstance(value, tuple):
        return Group(tuple(from_python(f"{name}[{index}]", item) for index, item in enumerate(value)))
    if isinstance(value, str):
        return Text(value)
    try:
        builtin = _BUILTINS.get(value)
    except TypeError:  # not hashable
        builtin = None
    return Builtin(builtin) if builtin is not None else Foreign(name, value)


def default_type(value: Literal | LiteralChoice) -> DType:
    """The type of a literal that stands alone."""
    if isinstance(value, LiteralChoice):
        types = (default_type(value.then), default_type(value.orelse))
        return F32 if F32 in types and BOOL not in types else types[0]
    return BOOL if isinstance(value.value, bool) else I64 if isinstance(value.value, int) else F32


def as_type(value: Value) -> Value:
    """Python's `bool` stands for the type where a type is meant."""
    return BOOL if isinstance(value, Builtin) and value.name == "bool" else value


def known_number(value: Value) -> bool | int | float | None:
    """The number, if the compiler knows it."""
    if isinstance(value, Literal | nodes.Constant):
        return value.value
    return None


def describe(value: Value) -> str:
    """What a value is, for messages."""
    match value:
        case Literal():
            return f"the literal {value.value}"
        case LiteralChoice():
            return f"a literal ({default_type(value)})"
        case nodes.ValueOp():
            return str(value.type)
        case ViewRef():
            return value.view.annotation + (f" as {value.vector}" if value.vector is not value.view.vector else "")
        case ArrayRef(member=True):
            return f"an array of {value.array.type} in a struct"
        case ArrayRef():
            return f"a {value.array.space} array of {value.vector or value.array.type}"
        case RemoteRef():
            return f"{describe(value.own)} of another block"
        case BarrierRef():
            return f"{value.array.size} barriers"
        case MapRef():
            return value.map.annotation
        case Place():
            return f"a part of `{value.memory.name}` ({value.type})"
        case Vector():
            return value.type.name
        case Record():
            return f"a {value.name}" if value.struct is None else value.struct.with_article
        case Group():
            return f"a tuple of {len(value.items)}"
        case Text():
            return f"the string {value.value!r}"
        case Nothing():
            return "None"
        case Module():
            return f"the module {value.path}"
        case Builtin():
            return f"the built-in function {value.name}"
        case Foreign():
            return f"the Python object {value.name} ({type(value.value).__name__})"
        case DType() | VectorType():
            return f"the type {value.name}"
        case ConstantArray():
            return f"a constant array of {value.dtype}"
        case IndexTriple():
            return f"{value.name} (use .x, .y or .z)"
        case _:
            return f"the function {value.name}"
