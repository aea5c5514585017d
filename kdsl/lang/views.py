"""Annotations of array parameters: `Slice[f32]`, `DisjointSlice[f32]`, `SliceMut[f32]`, and `Const[int]`.

At run time `Slice[f32]` is a `ViewAnnotation`; to a static type checker the classes are generic sequences, so that kernel bodies type-check.
No instance is ever made: inside a kernel the compiler gives them their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from kdsl.lang.types import DType, dtype

T = TypeVar("T")


@dataclass(frozen=True)
class ViewAnnotation:
    """The run-time value of `Slice[f32]`."""

    kind: Literal["Slice", "DisjointSlice", "SliceMut"]
    """Which view."""
    element: DType | TypeVar
    """Element type, or a type variable that the launch decides."""


@dataclass(frozen=True)
class ConstAnnotation:
    """The run-time value of `Const[int]`."""

    python_type: type
    """int, float or bool."""


def _annotation(kind: Literal["Slice", "DisjointSlice", "SliceMut"], element: Any) -> ViewAnnotation:
    return ViewAnnotation(kind, element if isinstance(element, TypeVar) else dtype(element))


if TYPE_CHECKING:

    class Slice(Generic[T]):
        """An array that the kernel reads, with every index checked."""

        dtype: type[T]
        """Its element type, which converts when called."""

        def __getitem__(self, index: int) -> T: ...
        def __contains__(self, index: int) -> bool: ...
        def __len__(self) -> int: ...

    class SliceMut(Slice[T]):
        """An array that the kernel reads and writes anywhere, with every index checked; races are the author's to avoid."""

        def __setitem__(self, index: int, value: T) -> None: ...

    class DisjointSlice(SliceMut[T]):
        """An array of which every element belongs to one thread: accesses take a witness, so that no two threads touch one element."""

    Const: TypeAlias = Annotated[T, "const"]  # to a type checker, `Const[int]` is `int`

else:

    class Slice:
        """An array that the kernel reads, with every index checked."""

        def __class_getitem__(cls, element: Any) -> ViewAnnotation:
            return _annotation("Slice", element)

    class SliceMut:
        """An array that the kernel reads and writes anywhere, with every index checked; races are the author's to avoid."""

        def __class_getitem__(cls, element: Any) -> ViewAnnotation:
            return _annotation("SliceMut", element)

    class DisjointSlice:
        """An array of which every element belongs to one thread: accesses take a witness, so that no two threads touch one element."""

        def __class_getitem__(cls, element: Any) -> ViewAnnotation:
            return _annotation("DisjointSlice", element)

    class Const:
        """A compile-time constant parameter: `Const[int]`, `Const[float]` or `Const[bool]`."""

        def __class_getitem__(cls, python_type: Any) -> ConstAnnotation:
            if python_type not in (int, float, bool):
                raise TypeError(f"Const takes int, float or bool, not {python_type!r}")
            return ConstAnnotation(python_type)
