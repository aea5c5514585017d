"""What operations of the IR speak of: places in the source, parameters, arrays, variables. `kdsl.ir.nodes`, which has the operations, has these names, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from kdsl.lang.limits import ALIGNMENT
from kdsl.lang.struct_type import StructType
from kdsl.lang.types import DType
from kdsl.lang.vectors import VectorType
from kdsl.lang.views import view_text

# ---------------------------------------------------------------------------------------------------------------- places in the source


@dataclass(frozen=True)
class Location:
    """A piece of source text, and the call that led to it if it lies in a `@function`."""

    file: str
    """File name as Python reports it."""
    line: int
    """First line, from 1."""
    column: int
    """First column, from 0, in characters."""
    end_line: int
    """Last line, from 1."""
    end_column: int
    """Column after the last character."""
    function: str = ""
    """Name of the Python function that it stands in."""
    caller: Location | None = None
    """Where that function is called, None in the kernel itself."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"


# -------------------------------------------------------------------------------------------------------------- parameters and memory


@dataclass(eq=False)
class StructParameter:
    """A struct that the launch passes by value. Its numbers and arrays are parameters of the kernel, one by one, in order and next to each other."""

    name: str
    """Parameter name."""
    type: StructType
    """What it is."""


@dataclass(frozen=True, eq=False)
class Member:
    """Where a parameter lies that is part of a struct."""

    owner: StructParameter
    """The struct; its parts share this object."""
    offset: int
    """Bytes from its start."""


@dataclass(eq=False)
class ScalarParameter:
    """A number that the launch passes by value, or one field of a struct parameter."""

    name: str
    """Parameter name, with `.field` for a field of a struct."""
    type: DType
    """Its element type."""
    member: Member | None = None
    """Its place in a struct, None if it is a parameter of its own."""


@dataclass(eq=False)
class View:
    """An array parameter in device memory. Its first element travels with the launch, and its length in elements; of several dimensions, the extent of each;
    unless its elements lie side by side, the strides (elements from one index to the next, which may be negative or 0)."""

    name: str
    """Parameter name."""
    type: DType
    """Element type, a number or a struct; of vectors that of their numbers."""
    kind: Literal["Slice", "DisjointSlice", "SliceMut", "TensorMap"]
    """What the kernel may do with it."""
    written: bool = False
    """Whether the kernel stores to it."""
    read: bool = False
    """Whether the kernel loads from it."""
    witness: str | None = None
    """The witness (`thread_index`, `row_index`, `block_index`) through which every access goes, None if some access does not."""
    rank: int = 1
    """Number of dimensions, 1 to 5."""
    alignment: int = 0
    """Bytes, a power of two, to which the first element is aligned, as the launch checks; of several dimensions every row, whose elements then lie side by
    side. At least the alignment of an element, which 0 stands for when it is made."""
    strided: bool = False
    """Whether a view of rank 1 has a stride (`D1`); without one its elements lie side by side. Views of higher ranks always have strides."""
    vector: VectorType | None = None
    """What it holds in the eyes of the kernel, if that is vectors. Type, extents and strides are of numbers all the same."""

    def __post_init__(self) -> None:
        self.alignment = max(self.alignment, self.type.alignment if self.vector is None else self.vector.itemsize)

    @property
    def element(self) -> DType | VectorType:
        """What an element is in the eyes of the kernel."""
        return self.vector or self.type

    @property
    def has_strides(self) -> bool:
        """Whether its strides travel with the launch."""
        return self.strided or self.rank > 1

    @property
    def annotation(self) -> str:
        """As it is written in the kernel, such as `Slice[f32, D2]`."""
        return view_text(self.kind, self.element.name, self.rank, self.strided)


@dataclass(eq=False)
class SharedView(View):
    """A shared array whose extents the launch decides: row-major, in dynamic shared memory behind the arrays of fixed shape. It is none of the kernel's
    parameters; its place and those of its extents and strides that are no constants travel with the launch."""

    extents: tuple[int | str, ...] = ()
    """Its extents: numbers, or expressions in the language of contracts over the kernel's parameters."""
    begins_at: int = ALIGNMENT
    """Bytes at a multiple of which it begins, a power of two, 16 to 1024."""
    swizzle: int = 0
    """Span in bytes of the swizzled layout of its rows, 0 for none, as that of an array of fixed shape. Its last extent is as long, and a number."""

    @property
    def annotation(self) -> str:
        """What it is, in words."""
        return f"a shared array of {self.element} whose shape the launch decides"

    def fixed_stride(self, dimension: int) -> int | None:
        """Elements from one index of a dimension to the next, None if that is known at the launch only."""
        stride = 1
        for extent in self.extents[dimension + 1 :]:
            if isinstance(extent, str):
                return None
            stride *= extent
        return stride


@dataclass(eq=False)
class Array:
    """An array of fixed shape, row-major: shared or local, whose elements are undefined until they are written (by a `Clear`, too, if it is local); constant,
    whose elements are its content; or an array in a struct parameter. The last two are only read."""

    name: str
    """Name for people."""
    type: DType
    """Element type, a number or a struct."""
    shape: tuple[int, ...]
    """Elements along each dimension."""
    space: Literal["shared", "local", "constant", "parameter"]
    """One per block, one per thread, part of the code, or one per launch."""
    alignment: int = ALIGNMENT
    """Bytes at a multiple of which a shared array begins, a power of two, 16 to 1024."""
    swizzle: int = 0
    """Span in bytes of the swizzled layout in which the rows of a shared array lie, 0 for none (`kdsl.lang.swizzle`). A row is as long as the span."""
    content: bytes = b""
    """Of a constant array, its elements as they lie in memory."""
    member: Member | None = None
    """Its place in a struct parameter."""

    @property
    def size(self) -> int:
        """Number of elements."""
        total = 1
        for extent in self.shape:
            total *= extent
        return total


Memory: TypeAlias = View | Array


@dataclass(eq=False)
class TensorMap(View):
    """An array parameter that is reached through a tensor map: a descriptor of 128 bytes, made by the host, with which the copy engine moves boxes of the
    array. Beside it the extents travel with the launch. Its elements are touched by copies only."""

    box: tuple[int | str, ...] | None = None
    """Elements that a copy moves along each dimension, None if the kernel copies nothing with it: numbers, or what the launch decides of a shared array,
    as `SharedView.extents` has it."""
    parts: int = 0
    """Bytes of which a box is a multiple, since boxes lie side by side in shared memory; the launch checks it. 0 if the compiler has seen to it."""
    swizzle: int = 0
    """Span in bytes of the swizzled layout that boxes have in shared memory, 0 for none (`kdsl.lang.swizzle`)."""


@dataclass(eq=False)
class Variable:
    """A name that is assigned more than once. The frontend has proved that every read follows an assignment."""

    name: str
    """Name in the source."""
    type: DType
    """Its one type."""
