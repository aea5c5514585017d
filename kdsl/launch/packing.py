"""Packing what changes from launch to launch into arguments that lie ready: structs as bytes, and runs of neighbouring scalars and structs."""

from __future__ import annotations

import functools
import operator
import struct
from collections.abc import Callable, Sequence
from typing import Any

from kdsl.ir.abi import LETTERS, Argument, Layout, encoded
from kdsl.lang.struct_type import ArrayType, FieldType, StructType
from kdsl.lang.types import BF16
from kdsl.launch import refuse


def struct_bytes(kernel: str, parameter: str, value: Any) -> bytes:
    """A struct as a kernel gets it: all its bytes, in C layout, those between fields 0. They are kept in it, since a struct does not change.

    Raises ArgumentError for one that was tampered with, so that a field holds what it cannot.
    """
    found: bytes = value.__kdsl_bytes__
    if not found:
        of: StructType = type(value).__kdsl_struct__
        try:
            found = _packer(of)(value)
        except (struct.error, OverflowError, TypeError):
            _refuse(kernel, parameter, of, value)
            raise
        object.__setattr__(value, "__kdsl_bytes__", found)
    return found


def _refuse(kernel: str, parameter: str, of: StructType, value: Any) -> None:
    """Name the field that does not fit."""
    for member in of.members:
        if not isinstance(member.type, ArrayType):
            held = operator.attrgetter(member.name)(value)
            try:
                struct.pack(LETTERS[member.type.name], encoded(member.type, held))
            except (struct.error, OverflowError, TypeError) as error:
                refuse.unpackable(kernel, f"{parameter}.{member.name}", member.type, held, error)


@functools.cache
def _packer(of: StructType) -> Callable[[Any], bytes]:
    written, end = "=", 0
    for member in of.members:
        written += "x" * (member.offset - end) + (
            f"{member.type.itemsize}s" if isinstance(member.type, ArrayType) else LETTERS[member.type.name]
        )
        end = member.offset + member.type.itemsize
    pack = struct.Struct(written + "x" * (of.size - end)).pack
    if len(of.members) > 1 and not any(isinstance(member.type, ArrayType) or member.type is BF16 for member in of.members):
        every = operator.attrgetter(*(member.name for member in of.members))
        return lambda value: pack(*every(value))
    readers = [_reader(member.name, member.type) for member in of.members]
    return lambda value: pack(*[read(value) for read in readers])


def _reader(path: str, of: FieldType) -> Callable[[Any], Any]:
    """What reads a member of a struct as `struct.pack` takes it."""
    owner, _, name = path.rpartition(".")
    if isinstance(of, ArrayType):
        held = operator.attrgetter(f"{owner}.__kdsl_arrays__".lstrip("."))
        return lambda value: held(value)[name]
    found = operator.attrgetter(path)
    return lambda value: encoded(of, found(value))


def arguments_by_name(layout: Layout) -> dict[str, Argument]:
    """The scalar and struct parameters of a kernel by their names."""
    found: dict[str, Argument] = {}
    for argument in layout.arguments:
        slot = argument.slots[0]
        if argument.struct is not None:
            found[argument.struct.name] = argument
        elif slot.kind == "value":
            found[slot.name] = argument
    return found


def run_packer(layout: Layout, names: Sequence[str]) -> tuple[Callable[..., None], int]:
    """`pack(buffer, offset, *values)` and its offset, for neighbouring parameters: a value for each scalar, the bytes of each struct."""
    known = arguments_by_name(layout)
    chosen = [known[name] for name in names]
    start = end = chosen[0].offset
    written, scalars = "=", []
    for argument in chosen:
        slot = argument.slots[0]
        size = argument.struct.type.size if argument.struct is not None else slot.size
        written += "x" * (argument.offset - end) + (f"{size}s" if argument.struct is not None else slot.code)
        scalars.append(slot.type if argument.struct is None else None)
        end = argument.offset + size
    pack = struct.Struct(written).pack_into
    if BF16 not in scalars:
        return pack, start

    def pack_encoded(buffer: Any, offset: int, *values: Any) -> None:
        pack(buffer, offset, *(value if of is None else encoded(of, value) for of, value in zip(scalars, values, strict=True)))

    return pack_encoded, start
