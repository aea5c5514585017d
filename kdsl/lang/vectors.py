"""Vector types: 2, 4, 8 or 16 numbers side by side, at most 16 bytes, that one access to memory takes.

`f32x4` is four `f32`. In a kernel a vector is made of its numbers (`f32x4(a, b, c, d)`), has them as `.x .y .z .w` or `v[0]`, and computes number by
number; in memory it is aligned to its size, the most that one load or store of a GPU thread takes (PTX ISA, "ld": `.v2`, `.v4`). On the host arrays
stay arrays of numbers: a launch sees to alignment.

To a static type checker a vector is a short sequence of numbers with arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import numpy as np

from kdsl.lang.types import DTYPES, DType

LARGEST_VECTOR: Final = 16
"""Bytes of a vector at most."""
_LANES: Final = (2, 4, 8, 16)


@dataclass(frozen=True, eq=False, repr=False)
class VectorType:
    """One vector type. There is one instance per type; compare with `is`."""

    element: DType
    """The type of its numbers."""
    lanes: int
    """How many."""

    @property
    def name(self) -> str:
        """Its name in the language, such as `f32x4`."""
        return f"{self.element.name}x{self.lanes}"

    @property
    def itemsize(self) -> int:
        """Bytes, and the alignment in memory."""
        return self.element.itemsize * self.lanes

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (_by_name, (self.name,))

    def __call__(self, *numbers: Any) -> Any:
        """On the host an array of so many numbers, each converted by the rules of the language; one number stands for all."""
        given = numbers * self.lanes if len(numbers) == 1 else numbers
        if len(given) != self.lanes:
            raise TypeError(f"{self.name}() takes {self.lanes} numbers, or one for all, not {len(numbers)}")
        return np.array([self.element(number) for number in given], self.element.numpy)


VECTORS: Final[dict[str, VectorType]] = {
    vector.name: vector
    for of in DTYPES.values()
    for vector in (VectorType(of, lanes) for lanes in _LANES)
    if not of.is_bool and vector.itemsize <= LARGEST_VECTOR
}
"""All vector types by name."""


def _by_name(name: str) -> VectorType:
    return VECTORS[name]


def vector_type(element: DType, lanes: int) -> VectorType | None:
    """The vector type of so many numbers, None if there is none."""
    return VECTORS.get(f"{element.name}x{lanes}")


if TYPE_CHECKING:
    T = TypeVar("T", int, float)

    class Vector(Generic[T]):
        """What a static type checker sees of a vector."""

        x: T
        y: T
        z: T
        w: T
        dtype: type[Any]

        def __init__(self, *numbers: T | Vector[T] | Vector[int] | Vector[float]) -> None: ...
        def __getitem__(self, index: int) -> T: ...
        def __iter__(self) -> Iterator[T]: ...
        def __len__(self) -> int: ...
        def __add__(self, other: Any) -> Vector[T]: ...
        def __sub__(self, other: Any) -> Vector[T]: ...
        def __mul__(self, other: Any) -> Vector[T]: ...
        def __truediv__(self, other: Any) -> Vector[T]: ...
        def __floordiv__(self, other: Any) -> Vector[T]: ...
        def __mod__(self, other: Any) -> Vector[T]: ...
        def __pow__(self, other: Any) -> Vector[T]: ...
        def __lshift__(self, other: Any) -> Vector[T]: ...
        def __rshift__(self, other: Any) -> Vector[T]: ...
        def __and__(self, other: Any) -> Vector[T]: ...
        def __or__(self, other: Any) -> Vector[T]: ...
        def __xor__(self, other: Any) -> Vector[T]: ...
        def __radd__(self, other: Any) -> Vector[T]: ...
        def __rsub__(self, other: Any) -> Vector[T]: ...
        def __rmul__(self, other: Any) -> Vector[T]: ...
        def __rtruediv__(self, other: Any) -> Vector[T]: ...
        def __rfloordiv__(self, other: Any) -> Vector[T]: ...
        def __rmod__(self, other: Any) -> Vector[T]: ...
        def __neg__(self) -> Vector[T]: ...
        def __invert__(self) -> Vector[T]: ...
        def __abs__(self) -> Vector[T]: ...

    _Integers: TypeAlias = Vector[int]
    _Floats: TypeAlias = Vector[float]

    # one by one: a chained assignment is no alias to a type checker
    i8x2: TypeAlias = _Integers
    i8x4: TypeAlias = _Integers
    i8x8: TypeAlias = _Integers
    i8x16: TypeAlias = _Integers
    u8x2: TypeAlias = _Integers
    u8x4: TypeAlias = _Integers
    u8x8: TypeAlias = _Integers
    u8x16: TypeAlias = _Integers
    i16x2: TypeAlias = _Integers
    i16x4: TypeAlias = _Integers
    i16x8: TypeAlias = _Integers
    u16x2: TypeAlias = _Integers
    u16x4: TypeAlias = _Integers
    u16x8: TypeAlias = _Integers
    i32x2: TypeAlias = _Integers
    i32x4: TypeAlias = _Integers
    u32x2: TypeAlias = _Integers
    u32x4: TypeAlias = _Integers
    i64x2: TypeAlias = _Integers
    u64x2: TypeAlias = _Integers
    f16x2: TypeAlias = _Floats
    f16x4: TypeAlias = _Floats
    f16x8: TypeAlias = _Floats
    bf16x2: TypeAlias = _Floats
    bf16x4: TypeAlias = _Floats
    bf16x8: TypeAlias = _Floats
    f32x2: TypeAlias = _Floats
    f32x4: TypeAlias = _Floats
    f64x2: TypeAlias = _Floats
else:
    globals().update(VECTORS)
