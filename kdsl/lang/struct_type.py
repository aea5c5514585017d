"""Struct types: which numbers, arrays and structs lie where in a struct. C layout: every field at its natural alignment, the size a multiple of the largest.

A `StructType` is an element type like the others, so that `Slice[Step]` and `shared_array(64, Step)` need no rules of their own. `FixedArray` is the
annotation of a field that is an array. What is not here: the classes that people write (`structs.py`).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar, TypeVarTuple, get_args, get_origin

import numpy as np
import numpy.typing as npt

from kdsl.lang.types import BOOL, DType, dtype


@dataclass(frozen=True)
class ArrayType:
    """An array of fixed shape inside a struct, row-major, as `float weights[4]` in C."""

    element: DType
    """A number or a struct."""
    shape: tuple[int, ...]
    """Elements along each dimension."""

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of all elements."""
        return self.size * self.element.itemsize

    @property
    def alignment(self) -> int:
        """Bytes that its address is a multiple of."""
        return self.element.alignment

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one index of each dimension to the next."""
        return tuple(math.prod(self.shape[d + 1 :]) * self.element.itemsize for d in range(len(self.shape)))

    def __str__(self) -> str:
        return f"FixedArray[{', '.join([self.element.name, *map(str, self.shape)])}]"


FieldType: TypeAlias = "DType | ArrayType"
"""What a field can be: a number, a struct (which is a `DType`, too), or an array of them."""


@dataclass(frozen=True)
class StructField:
    """One field of a `@struct`."""

    name: str
    """Its name."""
    type: FieldType
    """Its type."""
    doc: str
    """The docstring below it."""
    offset: int
    """Bytes from the start, C layout."""


@dataclass(frozen=True)
class Field:
    """A number within the elements of a struct type; one of many where the way to it passes through arrays, as `shape.sizes` of `p.shape.sizes[2]`."""

    path: str
    """Names on the way, joined by dots."""
    type: DType
    """Type of the number."""
    offset: int
    """Bytes from the start of the element, with every index 0."""
    shape: tuple[int, ...] = ()
    """Extents of the arrays on the way, outermost first: as many indices follow those of the element."""
    strides: tuple[int, ...] = ()
    """For each of them, bytes from one index to the next."""


@dataclass(frozen=True, eq=False, repr=False)
class StructType(DType):
    """The element type that a `@struct` class stands for."""

    fields: tuple[StructField, ...]
    """In order."""
    doc: str
    """Docstring of the class."""

    @property
    def size(self) -> int:
        """Bytes, a multiple of the alignment."""
        return self.itemsize

    @property
    def alignment(self) -> int:
        """Bytes that the address of an element is a multiple of."""
        return max(field.type.alignment for field in self.fields)

    @property
    def with_article(self) -> str:
        """Its name with its article: "a Step", "an Inner"."""
        return f"{'an' if self.name[0] in 'AEIOUaeiou' else 'a'} {self.name}"

    @functools.cached_property
    def by_name(self) -> dict[str, StructField]:
        """Fields by their names."""
        return {field.name: field for field in self.fields}

    @functools.cached_property
    def numbers(self) -> tuple[Field, ...]:
        """All numbers in it, in the order of their places; those of an array are one."""
        return tuple(_numbers(self, "", 0, (), ()))

    @functools.cached_property
    def count(self) -> int:
        """How many numbers it holds, each of an array counted."""
        return sum(math.prod(field.shape) for field in self.numbers)

    @functools.cached_property
    def members(self) -> tuple[StructField, ...]:
        """Its numbers and arrays, those of structs in it by their full names, in the order of their places: what a parameter consists of."""
        found: list[StructField] = []
        for field in self.fields:
            if isinstance(field.type, StructType):
                inner = field.type.members
                found += [StructField(f"{field.name}.{m.name}", m.type, m.doc, field.offset + m.offset) for m in inner]
            else:
                found.append(field)
        return tuple(found)

    @property
    def canonical(self) -> StructType:
        """The one struct type of this layout that arrays carry: NumPy cannot tell two classes of the same fields apart."""
        return _BY_LAYOUT.setdefault(self.numpy, self)

    def __call__(self, value: Any) -> Any:
        raise TypeError(f"{self.name} is a struct: make one with {self.name}(...), or an array with numpy.zeros(n, {self.name})")

    def __reduce__(self) -> tuple[Any, ...]:
        return (struct_of, (self.numpy,))


_BY_LAYOUT: Final[dict[np.dtype[Any], StructType]] = {}


def _numbers(of: FieldType, path: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Iterator[Field]:
    if isinstance(of, ArrayType):
        yield from _numbers(of.element, path, offset, (*shape, *of.shape), (*strides, *of.strides))
    elif isinstance(of, StructType):
        for field in of.fields:
            yield from _numbers(field.type, f"{path}.{field.name}".lstrip("."), offset + field.offset, shape, strides)
    else:
        yield Field(path, of, offset, shape, strides)


def struct_type(name: str, fields: Sequence[tuple[str, FieldType, str]], doc: str) -> StructType:
    """The struct type with these fields (name, type, docstring), laid out as C does it."""
    placed: list[StructField] = []
    end = 0
    for field, of, described in fields:
        offset = -(-end // of.alignment) * of.alignment
        placed.append(StructField(field, of, described, offset))
        end = offset + of.itemsize
    alignment = max(of.alignment for _, of, _ in fields)
    size = -(-end // alignment) * alignment
    names, formats, offsets = [f.name for f in placed], [_numpy(f.type) for f in placed], [f.offset for f in placed]
    layout: Any = {"names": names, "formats": formats, "offsets": offsets, "itemsize": size}
    return StructType(name, "struct", 8 * size, np.dtype(layout, align=True), tuple(placed), doc)


def _numpy(of: FieldType) -> Any:
    return (of.element.numpy, of.shape) if isinstance(of, ArrayType) else of.numpy


# ---------------------------------------------------------------------------------------------------------------------- from NumPy's types


def struct_of(of: np.dtype[Any]) -> StructType:
    """The struct type for a structured type of NumPy. Raises TypeError, naming the field, if C lays it out otherwise or the language lacks it."""
    found = _BY_LAYOUT.get(of)
    if found is not None:
        return found
    return _read(of, "").canonical


def _read(of: np.dtype[Any], path: str) -> StructType:
    assert of.fields is not None
    fields: list[tuple[str, FieldType, str]] = []
    for name in of.names or ():
        held = of.fields[name][0]
        full = f"{path}.{name}".lstrip(".")
        base, shape = (held.base, held.shape) if held.subdtype is not None else (held, ())
        if base.names is not None:
            element: DType = _read(base, full)
        else:
            try:
                element = dtype(base)
            except TypeError as error:
                raise TypeError(f"field {full}: {error}") from None
        fields.append((name, ArrayType(element, shape) if shape else element, ""))
    where = f"the structured type of {path}" if path else "the structured type"
    if not fields:
        raise TypeError(f"{where} has no fields")
    made = struct_type(f"struct({', '.join(f'{name}: {of}' for name, of, _ in fields)})", fields, "")
    for field in made.fields:
        lies = of.fields[field.name][1]
        if lies != field.offset:
            raise TypeError(
                f"field {f'{path}.{field.name}'.lstrip('.')} lies at byte {lies}, and a struct has it at byte {field.offset}; {_ALIGNED}"
            )
    if of.itemsize != made.itemsize:
        raise TypeError(f"{where} takes {of.itemsize} bytes, and a struct of its fields {made.itemsize}; {_ALIGNED}")
    return made


_ALIGNED: Final = "make the array with the dtype of a @struct, as in numpy.zeros(n, Step), or with numpy.dtype(..., align=True)"


def difference(wanted: StructType, got: DType) -> str:
    """In words, the first field in which a type differs from the struct that is wanted."""
    if not isinstance(got, StructType):
        return f"it holds {got}, not a struct"
    ours, theirs = wanted.by_name, got.by_name
    for field in wanted.fields:
        if field.name not in theirs:
            return f"it has no field {field.name}"
    for field in got.fields:
        if field.name not in ours:
            return f"it has a field {field.name}, and {wanted.name} has none of that name"
    for field, other in zip(wanted.fields, got.fields, strict=True):
        if field.name != other.name:
            return f"its field {other.name} stands where {wanted.name} has {field.name}"
        if isinstance(field.type, StructType) and isinstance(other.type, StructType):
            inner = difference(field.type, other.type)
            if inner:
                return f"in its field {field.name}, {inner}"
        elif str(field.type) != str(other.type):
            return f"its field {field.name} is {other.type}, and that of {wanted.name} is {field.type}"
    return ""


# ---------------------------------------------------------------------------------------------------------------------------- annotations

T = TypeVar("T")
Shape = TypeVarTuple("Shape")

if TYPE_CHECKING:

    class FixedArray(Generic[T, *Shape]):
        """An array of fixed shape, by value: a field `weights: FixedArray[f32, Literal[4]]` is C's `float weights[4]`."""

        def __getitem__(self, index: int | tuple[int, ...]) -> T: ...
        def __setitem__(self, index: int | tuple[int, ...], value: T) -> None: ...
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[T]: ...
        def __get__(self, instance: object, owner: type) -> FixedArray[T, *Shape]: ...
        def __set__(self, instance: object, value: Sequence[Any] | npt.NDArray[Any] | FixedArray[T, *Shape]) -> None: ...

else:

    class FixedArray:
        """An array of fixed shape, by value: a field `weights: FixedArray[f32, Literal[4]]` is C's `float weights[4]`."""

        def __class_getitem__(cls, given: Any) -> ArrayType:
            if not isinstance(given, tuple) or len(given) < 2:
                raise TypeError("FixedArray takes an element type and an extent, such as FixedArray[f32, Literal[4]]")
            element, *extents = given
            if isinstance(element, ArrayType):
                shape = ", ".join(f"Literal[{extent}]" for extent in (*map(_extent, extents), *element.shape))
                raise TypeError(f"an array of arrays has several dimensions: write FixedArray[{element.element}, {shape}]")
            if isinstance(element, TypeVar):
                raise TypeError(f"the elements of a FixedArray have one type; {element} is a type variable")
            return ArrayType(BOOL if element is bool else dtype(element), tuple(map(_extent, extents)))


def _extent(given: Any) -> int:
    """An extent written as `Literal[4]`, which static type checkers want, or as a plain number."""
    number = get_args(given)[0] if get_origin(given) is Literal and len(get_args(given)) == 1 else given
    try:
        extent = operator.index(number)
    except TypeError:
        extent = 0
    if extent < 1 or isinstance(number, bool):
        raise TypeError(f"an extent of a FixedArray is a positive whole number, such as Literal[4], not {given!r}")
    return extent
