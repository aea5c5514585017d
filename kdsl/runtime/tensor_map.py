"""Tensor maps on the host: descriptors with which the copy engine of a GPU moves boxes of an array to and from shared memory.

The rules are the driver's (CUDA Driver API, `cuTensorMapEncodeTiled`); they are checked here first, with the numbers. A descriptor depends on nothing but the
place and shape of the array and on how boxes are cut, so equal ones are encoded once. Leaves out how a kernel uses it.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final, NamedTuple

from kdsl.lang import swizzle as layouts
from kdsl.lang.numbers import described
from kdsl.lang.types import DType
from kdsl.lang.views import TensorMap
from kdsl.runtime import cuda
from kdsl.runtime.array import Array
from kdsl.runtime.gpu import CudaDevice
from kdsl.runtime.token import tokens

MOST_ELEMENTS: Final = 256
"""Elements of a box along a dimension."""
_STEP: Final = 16
"""Bytes of which addresses, strides and rows of a box are multiples."""
_LARGEST_STRIDE: Final = 1 << 40
_LARGEST_EXTENT: Final = (1 << 31) - 1
"""What coordinates, which are signed, can reach."""
_PROMOTIONS: Final = {0: "NONE", 64: "L2_64B", 128: "L2_128B", 256: "L2_256B"}
_TYPES: Final = {
    "bool": "UINT8", "i8": "UINT8", "u8": "UINT8", "i16": "UINT16", "u16": "UINT16", "i32": "INT32", "u32": "UINT32", "i64": "INT64", "u64": "UINT64",
    "f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64", "tf32": "TFLOAT32",
}  # fmt: skip
"""The driver's names; of short integers only the width matters."""


class Form(NamedTuple):
    """What a kernel has to know of a map."""

    box: tuple[int, ...]
    """Elements of a box along each dimension."""
    swizzle: int
    """Span of the swizzle in bytes, 0 for none."""

    def __str__(self) -> str:
        return f"boxes of {' x '.join(map(str, self.box))}" + (f" with swizzle {self.swizzle}" if self.swizzle else "")


class DeviceTensorMap(TensorMap):  # type: ignore[type-arg]  # its element type is known when the program runs
    """A tensor map of an array on a GPU, which it keeps alive. Made by `tensor_map`."""

    __slots__ = ("array", "bytes", "form", "token")

    def __init__(self, array: Array, form: Form, descriptor: bytes) -> None:
        self.array = array
        """The array."""
        self.form = form
        """How its boxes are cut."""
        self.bytes = descriptor
        """The descriptor, 128 bytes."""
        self.token = next(tokens)
        """What stands for it in memories of launches, as an array's."""

    def __repr__(self) -> str:
        return f"<tensor map of {self.array!r}, {self.form}>"


def tensor_map(array: Array, box: tuple[int, ...], *, swizzle: int = 0, l2_promotion: int = 256, tf32: bool = False) -> DeviceTensorMap:
    """A tensor map of `array` for copies of boxes of `box` elements along each dimension, in the order of the array's dimensions.

    `swizzle` is the span in bytes of the swizzled layout that boxes have in shared memory (32, 64, 128, or 0 for none), `l2_promotion` how many bytes the
    level-2 cache fetches at least (0, 64, 128, 256). `tf32` rounds f32 elements to tf32, to nearest, when they are copied to shared memory. What lies
    outside of the array reads as 0 and is not written.

    Raises ValueError for what the copy engine cannot do: the array begins at a multiple of 16 bytes, its last dimension lies side by side, the other strides
    are multiples of 16 bytes; a box has at most 256 elements along each dimension, its last extent is a multiple of 16 bytes and at most the span of the
    swizzle. Raises TypeError for other arguments.
    """
    if not isinstance(array, Array):
        raise TypeError(f"a tensor map is of an array on a GPU, not of {described(array)}")
    if isinstance(box, int):
        box = (box,)
    if not isinstance(box, tuple | list) or not all(isinstance(extent, int) and not isinstance(extent, bool) for extent in box):
        raise TypeError(f"a box is a tuple of whole numbers, one per dimension of the array, not {described(box)}")
    array.memory.alive()
    of = _element(array, tf32)
    form = Form(tuple(box), swizzle)
    _check_array(array)
    if len(form.box) != array.ndim:
        raise ValueError(f"the box {form.box} has {len(form.box)} dimensions, the array {array.ndim}")
    check_box(form, array.dtype)
    if l2_promotion not in _PROMOTIONS:
        raise ValueError(f"l2_promotion is one of {', '.join(map(str, _PROMOTIONS))}, not {l2_promotion!r}")
    assert isinstance(array.device, CudaDevice)
    array.device.attach()
    strides = tuple(_stride(array, dimension) for dimension in range(array.ndim - 1))
    return DeviceTensorMap(array, form, _encoded(of, array.address, array.shape, strides, form, l2_promotion))


def _element(array: Array, tf32: bool) -> str:
    if not tf32:
        return array.dtype.name
    if array.dtype.name != "f32":
        raise ValueError(f"tf32 rounds f32 elements; the array holds {array.dtype}")
    return "tf32"


def _check_array(array: Array) -> None:
    if not isinstance(array.device, CudaDevice):
        raise ValueError(f"a tensor map is of an array on a GPU; this one is on {array.device}")
    if 0 in array.shape:
        raise ValueError(f"an array without elements has no tensor map; its shape is {array.shape}")
    if array.address % _STEP:
        raise ValueError(
            f"the array begins {array.address % _STEP} bytes behind a multiple of {_STEP}, where a tensor map cannot begin; pass a copy"
        )
    if array.shape[-1] > 1 and array.strides[-1] != 1:
        raise ValueError(
            f"the last dimension of a tensor map lies side by side; the array has strides {array.strides} (in elements)"
            + ("; pass its transpose" if 1 in array.strides else "; pass a copy")
        )
    for dimension, (extent, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        if extent > _LARGEST_EXTENT:
            raise ValueError(f"dimension {dimension} has {extent} elements; coordinates reach {_LARGEST_EXTENT}")
        nbytes = stride * array.dtype.itemsize
        if dimension == array.ndim - 1 or extent == 1:
            continue
        if nbytes <= 0 or nbytes % _STEP or nbytes >= _LARGEST_STRIDE:
            raise ValueError(
                f"the stride of dimension {dimension} is {nbytes} bytes; a tensor map takes positive multiples of {_STEP} below {_LARGEST_STRIDE}"
                + ("; make the rows longer, so that each begins at such a multiple" if nbytes > 0 else "")
            )


def _stride(array: Array, dimension: int) -> int:
    """Bytes from one index of a dimension to the next; where there is only one index any will do."""
    if array.shape[dimension] > 1:
        return array.strides[dimension] * array.dtype.itemsize
    nbytes = math.prod(array.shape[dimension + 1 :]) * array.dtype.itemsize
    return -(-nbytes // _STEP) * _STEP


def check_box(form: Form, of: DType) -> None:
    """Raise ValueError for boxes of elements of a type that the copy engine cannot move."""
    box, span = form
    if span not in (0, *layouts.SPANS):
        raise ValueError(f"swizzle is 0, {', '.join(map(str, layouts.SPANS))} (bytes), not {span!r}")
    if not all(1 <= extent <= MOST_ELEMENTS for extent in box):
        raise ValueError(f"the box {box} has an extent outside of 1 to {MOST_ELEMENTS}")
    row = box[-1] * of.itemsize
    if row % _STEP:
        raise ValueError(f"the last extent of the box {box} is {row} bytes of {of}; it is a multiple of {_STEP}")
    if span and row > span:
        raise ValueError(f"the last extent of the box {box} is {row} bytes of {of}; with swizzle {span} it is at most {span}")


@functools.lru_cache(maxsize=4096)
def _encoded(of: str, address: int, shape: tuple[int, ...], strides: tuple[int, ...], form: Form, promotion: int) -> bytes:
    """The descriptor. The driver counts dimensions from the innermost."""
    driver = cuda.driver()
    swizzle = f"SWIZZLE_{form.swizzle}B" if form.swizzle else "SWIZZLE_NONE"
    rank = len(shape)
    found: Any = cuda.call(
        "cuTensorMapEncodeTiled",
        _named(driver.CUtensorMapDataType, f"DATA_TYPE_{_TYPES[of]}"),
        rank,
        address,
        [driver.cuuint64_t(extent) for extent in reversed(shape)],
        # The driver refuses an empty list, though a map of one dimension has no strides
        [driver.cuuint64_t(stride) for stride in reversed(strides)] or [driver.cuuint64_t(_STEP)],
        [driver.cuuint32_t(extent) for extent in reversed(form.box)],
        [driver.cuuint32_t(1)] * rank,
        _named(driver.CUtensorMapInterleave, "INTERLEAVE_NONE"),
        _named(driver.CUtensorMapSwizzle, swizzle),
        _named(driver.CUtensorMapL2promotion, f"L2_PROMOTION_{_PROMOTIONS[promotion]}"),
        _named(driver.CUtensorMapFloatOOBfill, "FLOAT_OOB_FILL_NONE"),
    )
    return b"".join(int(word).to_bytes(8, "little") for word in found.opaque)


def _named(enumeration: Any, name: str) -> Any:
    return getattr(enumeration, f"CU_TENSOR_MAP_{name}")
