"""What fields of structs are: numbers, structs, arrays of fixed shape; and their values, which are tuples in tuples.

A struct is the tuple of its fields, an array the tuple of its elements row by row, a bool in either is a byte: 0 or not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.fuzz.arithmetic import INTEGERS

Fields: TypeAlias = "tuple[tuple[str, Kind], ...]"
"""Names and kinds of the fields of a struct."""
Kind: TypeAlias = "str | Fields | Fixed"
"""The name of a number's type, a struct, or an array."""


@dataclass(frozen=True)
class Fixed:
    """`FixedArray[…]`."""

    of: Kind
    """An element."""
    shape: tuple[int, ...]
    """Extents."""

    @property
    def size(self) -> int:
        """Elements in all."""
        size = 1
        for extent in self.shape:
            size *= extent
        return size


def kind_of(node: ast.expr, structs: Mapping[str, Fields]) -> Kind:
    """The kind that the annotation of a field names."""
    if isinstance(node, ast.Name):
        return structs.get(node.id, node.id)
    assert isinstance(node, ast.Subscript)
    assert isinstance(node.slice, ast.Tuple)
    of, *extents = node.slice.elts
    return Fixed(kind_of(of, structs), tuple(int(ast.literal_eval(extent)) for extent in extents))


def zero(kind: Kind) -> Any:
    """All bytes 0."""
    if isinstance(kind, str):
        return 0 if kind == "bool" or kind in INTEGERS else 0.0
    if isinstance(kind, Fixed):
        return (zero(kind.of),) * kind.size
    return tuple(zero(of) for _, of in kind)


def normal(kind: Kind, value: Any) -> Any:
    """The value as it is stored: a bool is 0 or 1."""
    if isinstance(kind, str):
        return int(value != 0) if kind == "bool" else value
    if isinstance(kind, Fixed):
        return tuple(normal(kind.of, item) for item in value)
    return tuple(normal(of, item) for (_, of), item in zip(kind, value, strict=True))


def replaced(whole: Any, places: Sequence[int], value: Any) -> Any:
    """A tuple of tuples with one place changed."""
    if not places:
        return value
    at = places[0]
    return (*whole[:at], replaced(whole[at], places[1:], value), *whole[at + 1 :])


def flat_index(shape: Sequence[int], indices: Sequence[int], line: int, thread: Any) -> int | None:
    """The place of an element of an array; None, and a failure, if an index is outside."""
    at = 0
    for index, extent in zip(indices, shape, strict=True):
        if not 0 <= index < extent:
            thread.fail(line, index, extent)
            return None
        at = at * extent + index
    return at


def item(kind: Fixed, value: Any, indices: Sequence[int], line: int, thread: Any) -> Any:
    """An element of an array, 0 outside."""
    at = flat_index(kind.shape, indices, line, thread)
    return zero(kind.of) if at is None else value[at]


def numbers(kind: Kind) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """The numbers of a value: what is written behind it, with a {} for each index, the extents for these, and the type."""
    if isinstance(kind, str):
        yield "", (), kind
    elif isinstance(kind, Fixed):
        for rest, extents, of in numbers(kind.of):
            yield f"[{', '.join('{}' for _ in kind.shape)}]{rest}", (*kind.shape, *extents), of
    else:
        for name, field in kind:
            for rest, extents, of in numbers(field):
                yield f".{name}{rest}", extents, of
