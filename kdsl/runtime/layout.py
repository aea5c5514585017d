"""Shapes and strides of arrays: what they span, whether two share an element, and how slices, transposition and broadcasting change them.

Strides count elements, not bytes. Leaves out the memory and the elements (`array.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from kdsl.runtime.array import Array

MOST_DIMENSIONS: Final = 5
"""Dimensions of an array at most: what a tensor map has."""
MOST_ELEMENTS: Final = 1 << 47
"""Elements of an array at most, repeated ones counted: compiled code relies on it."""
_MOST_STEPS: Final = 256
"""Differences of indices that are tried before two arrays are taken to overlap."""

Part: TypeAlias = slice | int
"""What stands for one dimension between square brackets."""


def shape_of(given: object) -> tuple[int, ...]:
    """A shape from an int or a sequence of ints. Raises TypeError or ValueError."""
    items = tuple(given) if isinstance(given, tuple | list) else (given,)
    extents = []
    for item in items:
        try:
            extents.append(operator.index(item))
        except TypeError:
            what = "the number of elements is an int" if len(items) == 1 else "a shape is a tuple of ints"
            raise TypeError(f"{what}, not {given!r} ({type(given).__name__})") from None
    if any(extent < 0 for extent in extents):
        what = "the number of elements is" if len(items) == 1 else "each extent is"
        raise ValueError(f"{what} at least 0, not {min(extents)}")
    if not 1 <= len(extents) <= MOST_DIMENSIONS:
        raise ValueError(f"a device array has 1 to {MOST_DIMENSIONS} dimensions, not {len(extents)}: {tuple(extents)}")
    return tuple(extents)


def count(shape: Iterable[int]) -> int:
    """Number of elements of a shape."""
    total = 1
    for extent in shape:
        total *= extent
    return total


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of elements that lie side by side, the last index running fastest."""
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def is_row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements lie side by side in row-major order; strides along an extent of 1 do not matter."""
    if 0 in shape:
        return True
    return all(extent == 1 or stride == wanted for extent, stride, wanted in zip(shape, strides, row_major(shape), strict=True))


def span(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """The lowest and the highest offset of an element, in elements, from the first; (0, -1) without elements."""
    if 0 in shape:
        return 0, -1
    ends = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    return sum(end for end in ends if end < 0), sum(end for end in ends if end > 0)


def reshaped(shape: Sequence[int], wanted: Sequence[Any]) -> tuple[int, ...]:
    """The new shape of as many elements; one extent may be -1. Raises TypeError or ValueError."""
    given = wanted[0] if len(wanted) == 1 and isinstance(wanted[0], tuple | list) else wanted
    extents = [operator.index(extent) for extent in given]
    total = count(shape)
    if extents.count(-1) == 1:
        rest = count(extent for extent in extents if extent != -1)
        extents[extents.index(-1)] = total // rest if rest > 0 and total % rest == 0 else 0
    found = shape_of(tuple(extents)) if min(extents, default=0) >= 0 else ()
    if not found or count(found) != total:
        raise ValueError(f"cannot reshape {total} elements of shape {tuple(shape)} to {tuple(given)}")
    return found


def parts_of(part: object, ndim: int) -> list[Part]:
    """One slice or int for each dimension. Raises TypeError or IndexError."""
    given: list[Any] = list(part) if isinstance(part, tuple) else [part]
    if any(not isinstance(item, slice | EllipsisType) and not _is_index(item) for item in given):
        raise TypeError(f"a device array is indexed with slices, ints and `...`, not {part!r}")
    ellipses = [position for position, item in enumerate(given) if item is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("only one `...` stands in an index")
    if len(given) - len(ellipses) > ndim:
        raise IndexError(f"{len(given) - len(ellipses)} indices for an array of {ndim} dimensions")
    place = ellipses[0] if ellipses else len(given)
    behind = given[place + 1 :] if ellipses else []
    filler = [slice(None)] * (ndim - place - len(behind))
    return [item if isinstance(item, slice) else operator.index(item) for item in (*given[:place], *filler, *behind)]


def _is_index(item: object) -> bool:
    return hasattr(item, "__index__") and not isinstance(item, bool)


def sliced(shape: Sequence[int], strides: Sequence[int], parts: Sequence[Part]) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Offset of the first element, shape and strides of a slice; an int leaves its dimension out. Raises IndexError."""
    offset, new_shape, new_strides = 0, [], []
    for dimension, (part, extent, stride) in enumerate(zip(parts, shape, strides, strict=True)):
        if isinstance(part, slice):
            start, stop, step = part.indices(extent)
            chosen = len(range(start, stop, step))
            offset += start * stride if chosen else 0
            new_shape.append(chosen)
            new_strides.append(stride * step)
        else:
            if not -extent <= part < extent:
                raise IndexError(f"index {part} is outside dimension {dimension}, which has {extent} elements")
            offset += part % extent * stride
    return offset, tuple(new_shape), tuple(new_strides)


def broadcast(shape: Sequence[int], strides: Sequence[int], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Strides with which an array has the shape `wanted`: 0 where an extent of 1, or none, is repeated. Raises ValueError."""
    missing = len(wanted) - len(shape)
    if missing < 0 or any(old not in (1, new) for old, new in zip(shape, wanted[missing:], strict=True)):
        raise ValueError(f"an array of shape {tuple(shape)} cannot be broadcast to {wanted}")
    if count(wanted) > MOST_ELEMENTS:
        raise ValueError(f"an array has at most {MOST_ELEMENTS} elements, repeated ones counted; shape {wanted} has more")
    kept = [stride if old == new else 0 for old, new, stride in zip(shape, wanted[missing:], strides, strict=True)]
    return (*[0] * missing, *kept)


def is_aligned(array: Array, alignment: int) -> bool:
    """Whether every row begins at a multiple of `alignment` bytes and its elements lie side by side. Without elements nothing has to."""
    if not array.size:
        return True
    rows = [step for extent, step in zip(array.shape[:-1], array.strides[:-1], strict=True) if extent > 1]
    side_by_side = array.shape[-1] == 1 or array.strides[-1] == 1
    return side_by_side and not array.address % alignment and not any(step * array.dtype.itemsize % alignment for step in rows)


def shares_elements(a: Array, b: Array) -> bool:
    """Whether two arrays may have an element in common: exact for equal strides, else by the bytes that they span."""
    if not a.size or not b.size or a.start >= b.end or b.start >= a.end:
        return False
    distance = b.address - a.address
    if a.dtype.itemsize != b.dtype.itemsize or distance % a.dtype.itemsize or a.strides != b.strides:
        return True
    axes = sorted(zip(map(abs, a.strides), a.strides, a.shape, b.shape, strict=True), reverse=True)
    return _meets(distance // a.dtype.itemsize, [axis[1:] for axis in axes], [_MOST_STEPS])


def _meets(distance: int, axes: list[tuple[int, int, int]], left: list[int]) -> bool:
    """Whether differences of indices (of a minus of b, one for each axis: stride, extents of a and b) add up to the distance; True if it takes too long."""
    if not axes:
        return distance == 0
    (stride, ours, theirs), *rest = axes
    if stride == 0:
        return _meets(distance, rest, left)
    reach = sum(max(mine, other, 1) * abs(step) for step, mine, other in rest)
    # difference * stride must come as close to the distance as the other axes reach
    low, high = sorted(((distance - reach) // stride, (distance + reach) // stride))
    for difference in range(max(low - 1, 1 - theirs), min(high + 1, ours - 1) + 1):
        left[0] -= 1
        if left[0] < 0 or _meets(distance - difference * stride, rest, left):
            return True
    return False
