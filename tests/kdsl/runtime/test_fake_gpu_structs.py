"""Structs on a GPU that is not there: fills of patterns of any size, and structs as arguments by value."""

from __future__ import annotations

import ctypes
from typing import Any, Literal

import numpy as np
import pytest

import kdsl
from kdsl import FixedArray, f32, f64, i16, i32, struct, thread_index, u8
from kdsl.ir.abi import layout
from kdsl.launch.plan import Buffer
from kdsl.runtime.device import device
from kdsl.runtime.gpu import CudaDevice


@struct
class Three:
    """Three bytes."""

    a: u8
    """First."""
    b: FixedArray[u8, Literal[2]]
    """The rest."""


@struct
class Six:
    """Six bytes in units of two."""

    a: i16
    """First."""
    b: u8
    """Second."""
    c: i16
    """Third."""


@struct
class Wide:
    """Forty bytes."""

    a: u8
    """First."""
    b: FixedArray[f64, Literal[3]]
    """Second."""
    c: i32
    """Third."""


VALUES = [Three(1, (2, 3)), Three(7, (7, 7)), Six(-1, 2, 3), Wide(200, (0.1, -0.0, 3), -7), Wide(0, (0, 0, 0), 0)]


@pytest.fixture
def gpu(fake_driver: Any) -> CudaDevice:
    found = device("cuda:0")
    assert isinstance(found, CudaDevice)
    return found


def plain(value: Any) -> Any:
    return tuple(getattr(value, name) for name in type(value).dtype.names)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_fills(gpu: CudaDevice, value: Any) -> None:
    cls = type(value)
    wanted = np.zeros(9, cls)
    wanted[:] = plain(value)
    assert gpu.full(9, value, cls).numpy().tobytes() == wanted.tobytes()
    many = gpu.zeros(10, cls)
    with kdsl.Graph(gpu) as graph:
        many[1:].fill(value)
        made = gpu.zeros(3, cls)
    made.fill(value)
    graph.launch()
    assert many[1:].numpy().tobytes() == wanted.tobytes()
    assert not many[:1].numpy().view(np.uint8).any()
    assert not made.numpy().view(np.uint8).any()


def test_a_struct_is_one_argument() -> None:
    @kdsl.kernel(grid=1, block=32)
    def k(y: kdsl.SliceMut[f32], a: f32, p: Wide, b: u8, q: Wide) -> None:
        if thread_index() == 0:
            y[0] = a + f32(p.c) + f32(b) + f32(q.b[0])

    slots = layout(k.ir())
    assert [slot.name for slot in slots.slots[:9]] == ["y.address", "y.length", "a", "p.a", "p.b", "p.c", "b", "q.a", "q.b"]
    buffer = Buffer(slots)
    first, second = Wide(1, (2, 3, 4), 5), Wide(6, (7, 8, 9), 10)
    values = [16, 3, 0.5]
    for each, more in ((first, [255]), (second, [])):
        values += [each.a, each.__kdsl_arrays__["b"], each.c, *more]  # type: ignore[attr-defined]
    slots.packer(buffer.bytes, 0, *values, 1, 2, 3, 4, 5, 6)
    count = len(slots.arguments)
    assert count == 6 + 6
    pointers = ctypes.cast(buffer.pointers_address, ctypes.POINTER(ctypes.c_void_p * count)).contents
    for number, each in ((3, first), (5, second)):
        wanted = np.zeros(1, Wide)
        wanted[0] = plain(each)
        assert ctypes.string_at(pointers[number], 40) == wanted.tobytes()
    assert ctypes.string_at(pointers[4], 1) == b"\xff"
    assert ctypes.string_at(pointers[8], 4) == (3).to_bytes(4, "little")
