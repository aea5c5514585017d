"""How a launch hands its arguments to a kernel, and how a failed check comes back: one layout for every target.

Arguments lie in one packed buffer, each naturally aligned, in the order of the kernel's parameters (a view is its address and its length, one with
strides its address, its extents and its strides in elements; a struct has C layout), followed by the hidden ones. On the GPU each slot is one kernel
parameter, but all of a struct are one, by value; on the CPU the entry point gets the address of the buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from kdsl.ir.nodes import Array, Kernel, Member, ScalarParameter, SharedView, StructParameter, TensorMap, View
from kdsl.lang.attributes import Attributes
from kdsl.lang.types import BF16, I32, I64, U32, U64, DType, float_bits_of, round_float

SlotKind: TypeAlias = Literal["address", "length", "stride", "map", "value", "array", "hidden", "place"]

MAP_BYTES: Final = 128
MAP_ALIGNMENT: Final = 64
"""Size and alignment of the descriptor of a tensor map (CUDA Driver API, `cuTensorMapEncodeTiled`)."""

HIDDEN: Final = (("claim", U64), ("record", U64), ("kernel", U32), ("grid_x", I32), ("grid_y", I32), ("grid_z", I32))
"""Parameters that every kernel has: where a failing thread claims the record (device memory), the record (memory that the host reads), the number of the
kernel in this process, and the extents of the grid as the kernel sees it."""

LETTERS: Final = {
    "bool": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H", "u32": "I", "u64": "Q", "f16": "e", "bf16": "H",
    "f32": "f", "f64": "d",
}  # fmt: skip
"""How `struct` writes a number of each type; a bf16 as its bits (`encoded`)."""


@dataclass(frozen=True)
class Slot:
    """One packed value."""

    name: str
    """`y.address`, `y.length`, `y.shape.1`, `y.stride.1`, `y.map`, `p.rows`, or the name of a hidden parameter."""
    kind: SlotKind
    """What it holds."""
    type: DType
    """Its type; an address is u64, and so are the 16 words of a tensor map; of an array, the type of its elements."""
    offset: int
    """Bytes from the start of the buffer."""
    parameter: ScalarParameter | View | Array | None
    """The parameter that it belongs to, None for a hidden one."""
    dimension: int = 0
    """Of which dimension it is the extent or the stride."""

    @property
    def size(self) -> int:
        """Bytes."""
        if self.kind == "map":
            return MAP_BYTES
        return self.type.itemsize * (self.parameter.size if isinstance(self.parameter, Array) else 1)

    @property
    def alignment(self) -> int:
        """Bytes that its offset is a multiple of."""
        return MAP_ALIGNMENT if self.kind == "map" else self.type.alignment

    @property
    def code(self) -> str:
        """How `struct.pack` writes it: a number by its letter, an array or a tensor map as bytes."""
        return f"{self.size}s" if self.kind in ("array", "map") else LETTERS[self.type.name]


@dataclass(frozen=True)
class Argument:
    """One parameter of a kernel on the GPU: a slot, or a struct, which is several."""

    slots: tuple[Slot, ...]
    """In order."""
    struct: StructParameter | None
    """The struct, None for a single slot."""
    offset: int
    """Bytes from the start of the buffer."""


@dataclass(frozen=True)
class Layout:
    """All packed arguments of a kernel."""

    slots: tuple[Slot, ...]
    """In order."""
    size: int
    """Bytes of the buffer."""
    format: str
    """Format for `struct.pack` that takes one value per slot, as `encoded` gives it."""

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The parameters of the kernel on the GPU, in order."""
        found: list[Argument] = []
        for slot in self.slots:
            member = _member(slot.parameter)
            if member is not None and found and found[-1].struct is member.owner:
                found[-1] = Argument((*found[-1].slots, slot), member.owner, found[-1].offset)
            else:
                found.append(
                    Argument((slot,), member.owner if member is not None else None, slot.offset - (member.offset if member else 0))
                )
        return tuple(found)

    def hidden_offset(self, name: str) -> int:
        """Offset of a hidden parameter; one of the kernel's own may have the same name."""
        return next(slot.offset for slot in self.slots if slot.kind == "hidden" and slot.name == name)

    @property
    def packer(self) -> Callable[..., None]:
        """`packer(buffer, 0, *values)` packs one value per slot."""
        pack = struct.Struct(self.format).pack_into
        if all(slot.type is not BF16 for slot in self.slots):
            return pack

        def pack_encoded(buffer: Any, offset: int, *values: Any) -> None:
            pack(buffer, offset, *(encoded(slot.type, value) for slot, value in zip(self.slots, values, strict=True)))

        return pack_encoded


def encoded(of: DType, value: Any) -> Any:
    """A value as its letter of the format takes it: `struct` has no letter for a bf16, which travels as its bits. Arrays are bytes already."""
    return float_bits_of(of, round_float(of, value)) if of is BF16 and not isinstance(value, bytes) else value


def extent_slot(name: str, rank: int, dimension: int) -> str:
    """The name of the slot that holds an extent of a view."""
    return f"{name}.length" if rank == 1 else f"{name}.shape.{dimension}"


def view_slots(name: str, rank: int, *, strided: bool) -> list[str]:
    """Names of the slots of a view in order: its address, its extents, and its strides if it has some."""
    strides = [f"{name}.stride.{dimension}" for dimension in range(rank)] if strided else []
    return [f"{name}.address", *(extent_slot(name, rank, dimension) for dimension in range(rank)), *strides]


def further(attributes: Attributes) -> list[tuple[str, DType]]:
    """Names and types of the hidden parameters that only some kernels have, behind the others: the word in device memory at which the blocks of a
    cooperative launch wait for each other, which holds 0 or 2**31 between launches."""
    return [("barrier", U64)] if attributes.cooperative else []


def map_slots(name: str, rank: int) -> list[str]:
    """Names of the slots of a tensor map in order: its descriptor and the extents of its array."""
    return [f"{name}.map", *(extent_slot(name, rank, dimension) for dimension in range(rank))]


def shared_slots(view: SharedView) -> list[tuple[str, SlotKind, int]]:
    """Names, kinds and dimensions of what a launch says of a shared array whose extents it decides: where it begins, in bytes from the start of the shared
    memory (on the CPU, of the scratch memory), then its extents and its strides that are no constants."""
    found: list[tuple[str, SlotKind, int]] = [(f"{view.name}.place", "place", 0)]
    found += [(extent_slot(view.name, view.rank, d), "length", d) for d, extent in enumerate(view.extents) if isinstance(extent, str)]
    found += [(f"{view.name}.stride.{d}", "stride", d) for d in range(view.rank) if view.fixed_stride(d) is None]
    return found


def layout(kernel: Kernel) -> Layout:
    """The layout of the arguments of `kernel`."""
    wanted: list[tuple[str, SlotKind, DType, ScalarParameter | View | Array | None, int]] = []
    for parameter in kernel.parameters:
        if isinstance(parameter, TensorMap):
            descriptor, *extents = map_slots(parameter.name, parameter.rank)
            wanted.append((descriptor, "map", U64, parameter, 0))
            wanted += [(name, "length", I64, parameter, number) for number, name in enumerate(extents)]
        elif isinstance(parameter, View):
            address, *extents = view_slots(parameter.name, parameter.rank, strided=parameter.has_strides)
            wanted.append((address, "address", U64, parameter, 0))
            for number, name in enumerate(extents):
                kind: SlotKind = "length" if number < parameter.rank else "stride"
                wanted.append((name, kind, I64, parameter, number % parameter.rank))
        else:
            wanted.append((parameter.name, "array" if isinstance(parameter, Array) else "value", parameter.type, parameter, 0))
    wanted += [(name, "hidden", type, None, 0) for name, type in (*HIDDEN, *further(kernel.attributes))]
    wanted += [(name, kind, I64, view, dimension) for view in kernel.shared_views for name, kind, dimension in shared_slots(view)]
    slots: list[Slot] = []
    packing, end = "@", 0  # "@" packs with native alignment, which for numbers is the natural one on every host that is supported
    struct_start, struct_end, struct_owner = 0, 0, None
    for name, kind, type, owner, dimension in wanted:
        slot, member = Slot(name, kind, type, 0, owner, dimension), _member(owner)
        if member is None or member.owner is not struct_owner:
            free = max(end, struct_end)
            if member is None:
                struct_owner, offset = None, _aligned(free, slot.alignment)
            else:
                struct_owner, struct_start = member.owner, _aligned(free, member.owner.type.alignment)
                struct_end = struct_start + member.owner.type.size
        if member is not None:
            offset = struct_start + member.offset
        slot = replace(slot, offset=offset)
        slots.append(slot)
        by_itself = end if slot.code.endswith("s") else _aligned(end, slot.alignment)  # where "@" would put it; bytes have no alignment
        packing += "x" * (offset - end if offset != by_itself else 0) + slot.code
        end = offset + slot.size
    assert struct.calcsize(packing) == end
    return Layout(tuple(slots), end, packing)


def _member(parameter: ScalarParameter | View | Array | None) -> Member | None:
    return parameter.member if isinstance(parameter, ScalarParameter | Array) else None


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


PRINT_CURSOR: Final = 8
PRINT_DATA: Final = 16
PRINT_BYTES: Final = 1 << 20
"""Offsets behind the address of the claim, and bytes of the data: the cursor (u64) counts the bytes that threads have asked for to print, also those for which
there was no room. A line is a word (the number of the kernel, and 2**32 times that of the site) and one word per number."""

RECORD_SIZE: Final = 64
RECORD_FORMAT: Final = "=IIIIqqiiiiii"
RECORD: Final = {
    "state": 0, "kernel": 4, "site": 8, "dimension": 12, "index": 16, "extent": 24,
    "block_x": 32, "block_y": 36, "block_z": 40, "thread_x": 44, "thread_y": 48, "thread_z": 52,
}  # fmt: skip
"""Offsets in the record of the first failure. A failing thread first exchanges the claim word from 0 to 1 (atomically, device scope); only the one that
succeeds fills the record, makes it visible to the host (a fence of system scope) and then sets `state` to 1. The host reads `state` after a
synchronisation, raises, and clears both words."""
