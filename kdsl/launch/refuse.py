"""What launchers say when they refuse a launch. All but `device_of` only raise: they are called on failure, so they may take their time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Never

from kdsl.errors import ArgumentError, LaunchError
from kdsl.lang.attributes import PORTABLE_CLUSTER
from kdsl.lang.numbers import described
from kdsl.lang.struct_type import StructType, difference
from kdsl.lang.types import DType
from kdsl.runtime.array import Array
from kdsl.runtime.device import Device
from kdsl.runtime.gpu_code import CudaFunction
from kdsl.runtime.stream import Stream
from kdsl.runtime.tensor_map import DeviceTensorMap, Form

BLOCKS_LIMIT = 2**31 - 1
"""Most blocks of a one-dimensional grid (CUDA C++ Programming Guide, compute capabilities)."""


def array(kernel: str, parameter: str, annotation: str, element: DType | None, got: object) -> Never:
    """The argument for a view is not an array of elements of `element` (None: of any type)."""
    if isinstance(got, Array) and isinstance(element, StructType):
        raise ArgumentError(
            f"{kernel}: parameter {parameter} is {annotation}; the argument is an array of {got.dtype}: {difference(element, got.dtype)}"
        )
    if isinstance(got, Array):
        wanted = element.name if element is not None else "another element type"
        raise ArgumentError(
            f"{kernel}: parameter {parameter} is {annotation}, an array of {wanted}; the argument is an array of {got.dtype}"
        )
    raise ArgumentError(
        f"{kernel}: parameter {parameter} is {annotation}, an array on a device or of another library; the argument is {described(got)}"
    )


def foreign(kernel: str, parameter: str, annotation: str, got: object, error: Exception) -> Never:
    """An array of another library that cannot be one of ours."""
    kind = f"{type(got).__module__.partition('.')[0]}.{type(got).__qualname__}"
    raise ArgumentError(f"{kernel}: parameter {parameter} is {annotation}; the argument, a {kind}, cannot be taken: {error}") from error


def readonly(kernel: str, parameter: str, annotation: str, got: Array) -> Never:
    """An array that another library does not let us write to."""
    raise ArgumentError(
        f"{kernel}: parameter {parameter} is {annotation}, whose elements may be written; the argument is read-only in the library that it comes from "
        f"(shape {got.shape}); pass a copy, or declare the parameter as a Slice"
    )


def layout(kernel: str, parameter: str, annotation: str, rank: int, got: Array) -> Never:
    """An array of another number of dimensions than the parameter, or whose elements lie otherwise than it takes them."""
    start = f"{kernel}: parameter {parameter} is {annotation}, which has {rank} dimension{'s' if rank > 1 else ''}"
    if got.ndim != rank:
        if rank == 1:
            hint = f"pass {parameter}.reshape(-1)" if got.contiguous else f"pass a copy: device.array({parameter}.numpy().reshape(-1))"
        elif got.contiguous:
            hint = f"give it {rank} dimensions with .reshape(...)"
        else:
            hint = f"index or slice it to {rank} dimensions"
        raise ArgumentError(f"{start}; the argument has {got.ndim}, its shape is {got.shape}; {hint}")
    if rank == 1 and not annotation.endswith("D1]"):
        strided = "" if f"[{got.dtype}x" in annotation else f"declare it as {annotation[:-1]}, D1], or "
        raise ArgumentError(
            f"{start} and elements side by side; the argument has a stride of {got.strides[0]} elements; "
            f"{strided}pass a copy: device.array({parameter}.numpy())"
        )
    raise ArgumentError(
        f"{kernel}: parameter {parameter} is {annotation}, whose elements may be written; the argument repeats elements "
        f"(shape {got.shape}, strides {got.strides}); pass a copy: device.array({parameter}.numpy())"
    )


def form(kernel: str, parameter: str, got: DeviceTensorMap, wanted: Form) -> Never:
    """A tensor map whose boxes are others than the kernel copies."""
    swizzle = f", swizzle={wanted.swizzle}" if wanted.swizzle else ""
    raise LaunchError(
        f"{kernel}: the tensor map for {parameter} is cut into {got.form}, and the kernel copies {wanted}; "
        f"make it with tensor_map(array, {wanted.box}{swizzle}), or pass the array itself"
    )


def unknown_box(kernel: str, parameter: str, annotation: str) -> Never:
    """An array for a parameter that is a tensor map with which the kernel copies nothing, so that nothing says how to cut it."""
    raise ArgumentError(
        f"{kernel}: parameter {parameter} is {annotation}, and the kernel copies no box with it; pass tensor_map(array, box)"
    )


def box(kernel: str, parameter: str, written: Sequence[int | str], error: ValueError) -> Never:
    """Boxes of extents that the launch decides, which the copy engine cannot move."""
    raise LaunchError(f"{kernel}: the kernel copies boxes of shape {_shape(written)} of {parameter}: {error}") from error


def parts(kernel: str, parameter: str, written: Sequence[int | str], got: Form, of: DType, multiple: int) -> Never:
    """Boxes that lie side by side in a shared array, where not all of them would begin at such a multiple of bytes."""
    nbytes = math.prod(got.box) * of.itemsize
    raise LaunchError(
        f"{kernel}: the kernel copies boxes of shape {_shape(written)} of {parameter}, here {_shape(got.box)}, to a shared array of several; they take "
        f"{nbytes} bytes each, and have to begin at multiples of {multiple}"
    )


def unmappable(kernel: str, parameter: str, annotation: str, error: ValueError) -> Never:
    """An array of which there is no tensor map."""
    raise ArgumentError(f"{kernel}: parameter {parameter} is {annotation}: {error}") from error


def vectors(kernel: str, parameter: str, annotation: str, lanes: int, got: Array) -> Never:
    """An array of numbers that do not make up whole vectors of `lanes`."""
    last = got.shape[-1]
    has, dots = ("elements", "") if got.ndim == 1 else ("elements in a row", "..., ")
    raise ArgumentError(
        f"{kernel}: parameter {parameter} is {annotation}, {lanes} {got.dtype} to an element; the argument has {last} {has}, no multiple of {lanes}; "
        f"pad it, or pass {parameter}[{dots}:{last - last % lanes}]"
    )


def type_variable(kernel: str, parameter: str, variable: str, allowed: tuple[DType, ...], got: DType) -> Never:
    """An element type that the type variable does not allow."""
    choices = ", ".join(of.name for of in allowed)
    raise ArgumentError(
        f"{kernel}: parameter {parameter} has elements of {variable}, which is one of {choices}; the argument has elements of {got}"
    )


def inconsistent(kernel: str, first: str, first_array: Array, parameter: str, other: Array, variable: str) -> Never:
    """Two arrays whose element types should be the same."""
    raise ArgumentError(
        f"{kernel}: parameters {first} and {parameter} have the same element type {variable}; "
        f"the arguments have {first_array.dtype} ({first}) and {other.dtype} ({parameter})"
    )


def struct(kernel: str, parameter: str, wanted: type, got: object) -> Never:
    """The argument for a struct is something else."""
    name = wanted.__qualname__
    hint = ""
    if isinstance(got, Mapping):
        hint = f"; make one: {wanted.__name__}(**...)"
    elif type(got).__name__ == wanted.__name__:
        hint = " of another definition; was its module loaded twice?"
    raise ArgumentError(f"{kernel}: parameter {parameter} is a {name}; the argument is {described(got)}{hint}")


def devices(kernel: str, first: str, first_array: Array, parameter: str, other: Array) -> Never:
    """Two arrays on different devices."""
    raise LaunchError(
        f"{kernel}: all arrays of a launch live on one device; {first} is on {first_array.device}, {parameter} on {other.device}. "
        f"Copy one: {first_array.device.name!r} has .array({parameter}.numpy())"
    )


def device_of(kernel: str, chosen: object) -> Device:
    """The device of the stream that a launch was given. Raises ArgumentError if it is none."""
    if isinstance(chosen, Stream):
        return chosen.device
    raise ArgumentError(f"{kernel}: a launch takes a stream of a device, such as device.stream(), not {described(chosen)}")


def stream(kernel: str, chosen: Stream, device: Device) -> Never:
    """The stream belongs to another device than the arrays."""
    raise LaunchError(f"{kernel}: the arrays are on {device}, the stream belongs to {chosen.device}")


def freed(kernel: str, parameter: str) -> Never:
    """The memory of an argument has been given back."""
    raise LaunchError(f"{kernel}: the array for {parameter} has been freed")


def relation(kernel: str, text: str, part: str, values: Mapping[str, int]) -> Never:
    """A relation of the contract does not hold."""
    failing = "" if part == text else f" (its part {part})"
    sides = ", ".join(f"{name} is {value}" for name, value in values.items())
    raise LaunchError(f"{kernel}: the launch contract does not hold: {text}{failing}" + (f"; {sides}" if sides else ""))


def division_by_zero(kernel: str, text: str) -> Never:
    """An expression of the contract or the grid divides by zero."""
    raise LaunchError(f"{kernel}: the launch contract cannot be evaluated: {text} divides by zero")


def size(kernel: str, what: str, text: str, value: int) -> Never:
    """A size of the grid is negative."""
    raise LaunchError(f"{kernel}: the grid has a negative size: {what} = {text} is {value}")


def grid(kernel: str, x: int, y: int, z: int) -> Never:
    """More blocks than a grid can have."""
    product = f" ({x} x {y} x {z})" if y != 1 or z != 1 else ""
    raise LaunchError(
        f"{kernel}: the grid would have {x * y * z} blocks{product}; it can have {BLOCKS_LIMIT}. Launch it in parts, or let threads sweep"
    )


def cluster(kernel: str, blocks: tuple[int, int, int], of: tuple[int, int, int]) -> Never:
    """A grid that does not consist of whole clusters."""
    raise LaunchError(
        f"{kernel}: a grid of {_product(blocks)} blocks does not consist of whole clusters of {_product(of)}; "
        f"make it a multiple of the cluster in every direction"
    )


def large_cluster(kernel: str, blocks: int, function: CudaFunction, threads: int, shared: int) -> Never:
    """A cluster that is larger than what every GPU takes, and than what this one has room for."""
    raise LaunchError(
        f"{kernel}: {function.device} has no room for a cluster of {blocks} blocks, of {_taken(function, threads, shared)}. "
        f"Declare @kernel(cluster=…) of at most {PORTABLE_CLUSTER} blocks, which every GPU with clusters takes, or make the blocks smaller"
    )


def _taken(function: CudaFunction, threads: int, shared: int) -> str:
    registers, static = function.attribute("NUM_REGS"), function.attribute("SHARED_SIZE_BYTES")
    return f"{threads} threads with {registers} registers and {shared + static} bytes of shared memory"


def _product(extents: tuple[int, int, int]) -> str:
    return " x ".join(map(str, extents))


def cooperative(kernel: str, blocks: int, most: int, function: CudaFunction, threads: int, shared: int) -> Never:
    """More blocks than the device runs at the same time, of a launch whose blocks wait for each other."""
    device = function.device
    raise LaunchError(
        f"{kernel}: the {blocks} blocks of a cooperative launch all have to run at the same time; {device} runs {most}: "
        f"{device.multiprocessors} multiprocessors with {most // device.multiprocessors} blocks each, of {_taken(function, threads, shared)}. "
        f"Launch at most so many, and let them sweep over the data"
    )


def negative_extent(kernel: str, array: str, written: Sequence[int | str], shape: Sequence[int]) -> Never:
    """A shared array whose shape, which the launch decides, has a negative extent."""
    raise LaunchError(f"{kernel}: the shared array {array} of shape {_shape(written)} would have a negative extent: {_shape(shape)}")


def too_much_shared(
    kernel: str, array: str, written: Sequence[int | str], shape: Sequence[int], itemsize: int, taken: int, most: int, device: Device
) -> Never:
    """A shared array that makes the shared memory of a block too large."""
    own = itemsize
    for length in shape:
        own *= length
    raise LaunchError(
        f"{kernel}: the shared array {array} of shape {_shape(written)}, here {_shape(shape)}, takes {own} bytes; up to it the shared arrays take {taken}, "
        f"and a block has at most {most} on {device}"
    )


def large_extent(kernel: str, array: str, written: Sequence[int | str], shape: Sequence[int], most: int) -> Never:
    """A shared array without elements, one of whose extents no array could have."""
    raise LaunchError(f"{kernel}: the shared array {array} of shape {_shape(written)}, here {_shape(shape)}, has an extent above {most}")


def _shape(extents: Sequence[int | str]) -> str:
    return f"({', '.join(map(str, extents))}{',' if len(extents) == 1 else ''})"


def overlap(kernel: str, written: str, written_array: Array, other: str, other_array: Array, why: str) -> Never:
    """A written array shares memory with another argument."""
    first = max(written_array.start, other_array.start)
    shared = min(written_array.end, other_array.end) - first
    raise LaunchError(
        f"{kernel}: the arguments for {written} and {other} overlap ({shared} bytes), and the kernel writes to {written}. {why}; use a copy of one of them"
    )


def alignment(kernel: str, parameter: str, got: Array, bytes_: int) -> Never:
    """An array whose rows begin where the kernel cannot move several elements at once."""
    start = f"{kernel}: the kernel moves {bytes_} bytes of {parameter} at once"
    copy = f"pass a copy: device.array({parameter}.numpy())"
    if got.shape[-1] > 1 and got.strides[-1] != 1:
        raise LaunchError(f"{start}, so the elements of a row lie side by side; the argument has a stride of {got.strides[-1]}; {copy}")
    if got.address % bytes_:
        raise LaunchError(
            f"{start}, so its first element lies at a multiple of {bytes_} bytes; that of the argument lies {got.address % bytes_} behind one; {copy}"
        )
    count = bytes_ // got.dtype.itemsize
    raise LaunchError(
        f"{start}, so each row begins at a multiple of {bytes_} bytes; the strides of the argument, {got.strides}, are no multiples of {count} elements; "
        f"copy it to an array whose rows have a multiple of {count} elements, and pass a slice of that"
    )


def unpackable(kernel: str, parameter: str, of: DType, value: Any, error: Exception) -> Never:
    """A value that does not fit its slot; structs check theirs when they are made, so this one was tampered with."""
    raise ArgumentError(f"{kernel}: {parameter} is of type {of}, which cannot hold {described(value)}: {error}")
