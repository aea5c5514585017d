"""Annotations of array parameters: `Slice[f32]`, `DisjointSlice[f32]`, `SliceMut[f32]`, `Slice[f32x4]`, `Slice[f32, D2]`, and `Const[int]`.

At run time `Slice[f32]` is a `ViewAnnotation`; to a static type checker the classes are generic sequences, so that kernel bodies type-check.
No instance is ever made: inside a kernel the compiler gives them their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from kdsl.lang.types import DType, dtype
from kdsl.lang.vectors import VectorType

T = TypeVar("T")


@dataclass(frozen=True)
class ViewAnnotation:
    """The run-time value of `Slice[f32]`."""

    kind: Literal["Slice", "DisjointSlice", "SliceMut", "TensorMap"]
    """Which view."""
    element: DType | VectorType | TypeVar
    """Element type, or a type variable that the launch decides."""
    rank: int = 1
    """Number of dimensions, 1 to 5."""
    strided: bool = False
    """Whether its one dimension may have any stride (`D1`)."""

    @property
    def has_strides(self) -> bool:
        """Whether its elements need not lie side by side."""
        return self.strided or self.rank > 1

    def __str__(self) -> str:
        name = self.element.__name__ if isinstance(self.element, TypeVar) else self.element.name
        return view_text(self.kind, name, self.rank, self.strided)


@dataclass(frozen=True)
class Rank:
    """The run-time value of `D1` to `D5`: how many dimensions a view has, each with any stride."""

    dimensions: int
    """Number of dimensions."""

    def __repr__(self) -> str:
        return f"D{self.dimensions}"


def view_text(kind: str, element: str, rank: int, strided: bool = False) -> str:
    """A view as it is written in a kernel, such as `Slice[f32, D2]`."""
    return f"{kind}[{element}, D{rank}]" if rank > 1 or strided else f"{kind}[{element}]"


@dataclass(frozen=True)
class ConstAnnotation:
    """The run-time value of `Const[int]`."""

    python_type: type
    """int, float or bool."""


def _annotation(kind: Literal["Slice", "DisjointSlice", "SliceMut", "TensorMap"], element: Any) -> ViewAnnotation:
    rank, strided = 1, False
    if isinstance(element, tuple):
        if len(element) != 2 or not isinstance(element[1], Rank):
            raise TypeError(f"{kind} takes an element type, and D1, D2, D3, D4 or D5 for dimensions with strides, such as {kind}[f32, D2]")
        element, rank = element[0], element[1].dimensions
        strided = rank == 1
    if element is float or element is int:
        widths = ("f32", "f64") if element is float else ("i32", "i64")
        raise TypeError(f"{kind}[{element.__name__}] does not say how wide an element is: write {kind}[{widths[0]}] or {kind}[{widths[1]}]")
    if isinstance(element, VectorType):
        if strided:
            raise TypeError(f"vectors lie side by side: write {kind}[{element}] without D1")
        return ViewAnnotation(kind, element, rank)
    of = element if isinstance(element, TypeVar) else dtype(element)
    if kind == "TensorMap" and isinstance(of, DType) and of.kind == "struct":
        raise TypeError(f"a TensorMap is of numbers, which the copy engine moves, not of {of}")
    return ViewAnnotation(kind, of, rank, strided)


if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultedTypeVar

    class D1:
        """One dimension: the default, and written out one with any stride."""

    class D2:
        """Two dimensions."""

    class D3:
        """Three dimensions."""

    class D4:
        """Four dimensions."""

    class D5:
        """Five dimensions."""

    D = DefaultedTypeVar("D", default=D1)

    class Slice(Generic[T, D]):
        """An array that the kernel reads, with every index checked."""

        dtype: type[T]
        """Its element type, which converts when called."""
        shape: tuple[int, ...]
        """Its extents."""

        def __getitem__(self, index: int | tuple[int, ...]) -> T: ...
        def __contains__(self, index: int) -> bool: ...
        def __len__(self) -> int: ...

    class SliceMut(Slice[T, D]):
        """An array that the kernel reads and writes anywhere, with every index checked; races are the author's to avoid."""

        def __setitem__(self, index: int | tuple[int, ...], value: T) -> None: ...

    class DisjointSlice(SliceMut[T, D]):
        """An array of which every element belongs to one thread: accesses take a witness, so that no two threads touch one element."""

    class TensorMap(Generic[T, D]):
        """A descriptor of an array for asynchronous copies of boxes (`tma_load`, `tma_store`); `kdsl.tensor_map` makes one."""

        dtype: type[T]
        """Its element type."""
        shape: tuple[int, ...]
        """The extents of its array."""

        def __len__(self) -> int: ...

    class Barriers:
        """Barriers in shared memory, as a parameter of a `@function`."""

    Const: TypeAlias = Annotated[T, "const"]  # to a type checker, `Const[int]` is `int`

else:
    D1, D2, D3, D4, D5 = map(Rank, range(1, 6))

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

    class TensorMap:
        """A descriptor of an array for asynchronous copies of boxes (`tma_load`, `tma_store`); `kdsl.tensor_map` makes one."""

        __slots__ = ()

        def __class_getitem__(cls, element: Any) -> ViewAnnotation:
            return _annotation("TensorMap", element)

    class Barriers:
        """Barriers in shared memory, as a parameter of a `@function`."""

    class Const:
        """A compile-time constant parameter: `Const[int]`, `Const[float]` or `Const[bool]`."""

        def __class_getitem__(cls, python_type: Any) -> ConstAnnotation:
            if python_type not in (int, float, bool):
                raise TypeError(f"Const takes int, float or bool, not {python_type!r}")
            return ConstAnnotation(python_type)
