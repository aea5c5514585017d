"""Arrays of several dimensions on a GPU, against a stand-in for the driver: copies, and what a launch packs for strided views."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np
import pytest

from kdsl.ir import abi, nodes
from kdsl.ir.shared import shared_layout
from kdsl.lang.declaration import Declaration, Parameter
from kdsl.lang.geometry import Grid
from kdsl.lang.types import F64, I16, f64, i16
from kdsl.lang.views import ViewAnnotation
from kdsl.launch.bind import Launcher
from kdsl.launch.launchable import Specialisation
from kdsl.runtime.device import device
from kdsl.runtime.gpu import CudaDevice
from kdsl.runtime.gpu_code import CudaFunction


@pytest.fixture
def gpu(fake_driver: Any) -> CudaDevice:
    found = device()
    assert isinstance(found, CudaDevice)
    return found


def test_arrays_with_shapes(gpu: CudaDevice) -> None:
    host = np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6)
    array = gpu.array(np.asfortranarray(host))
    np.testing.assert_array_equal(array.numpy(), host)
    np.testing.assert_array_equal(array[::-2, 1:, ::3].T.numpy(), host[::-2, 1:, ::3].T)
    np.testing.assert_array_equal(array[2].broadcast_to((2, 5, 6)).numpy(), np.broadcast_to(host[2], (2, 5, 6)))
    other = gpu.full((6, 5, 4), 7, i16)
    np.testing.assert_array_equal(other.numpy(), np.full((6, 5, 4), 7))
    other.copy_from(array.T)
    np.testing.assert_array_equal(other.numpy(), host.T)
    other.copy_from(device("cpu").array(host)[::-1].T)
    np.testing.assert_array_equal(other.numpy(), host[::-1].T)
    array[1:].copy_from(array[:3])  # which overlap
    np.testing.assert_array_equal(array.numpy()[1:], host[:3])
    np.testing.assert_array_equal(gpu.zeros((0, 3), f64).numpy(), np.zeros((0, 3)))


def test_a_launch_packs_extents_and_strides(gpu: CudaDevice, fake_driver: Any) -> None:
    got: list[dict[str, Any]] = []
    views = [nodes.View("y", F64, "SliceMut", written=True, rank=2), nodes.View("x", I16, "Slice", read=True, rank=3)]
    place = nodes.Location("fake.py", 1, 0, 1, 3)
    layout = abi.layout(nodes.Kernel("move", [*views], [], [], (32, 1, 1), [], nodes.Block(), place))

    def entry(blocks: int, block: tuple[int, ...], parameters: int) -> None:
        pointers = (ctypes.c_uint64 * len(layout.slots)).from_address(parameters)
        codes = layout.format.lstrip("@")
        values = [struct.unpack(code, ctypes.string_at(p, struct.calcsize(code)))[0] for code, p in zip(codes, pointers, strict=True)]
        got.append({slot.name: value for slot, value in zip(layout.slots, values, strict=True) if slot.kind != "hidden"})

    fake_driver.kernels["move"] = entry

    class Launchable:
        pass

    def specialise(wanted: Specialisation) -> Any:
        made: Any = Launchable()
        made.shared = shared_layout(())
        made.layout, made.views, made.number = layout, {view.name: view for view in views}, 43
        made.code = CudaFunction(gpu, "", "move")
        return made

    parameters = (Parameter("y", ViewAnnotation("SliceMut", F64, 2), False), Parameter("x", ViewAnnotation("Slice", I16, 3), False))
    declaration = Declaration("move", "tests", "", parameters, Grid("y.shape[1]", 1, 1), (32, 1, 1), ("len(x) == len(y)",), True)
    y, x = gpu.zeros((6, 8), f64), gpu.zeros((3, 4, 5), i16)
    Launcher(declaration, specialise).function(y[::-2, 1:], x[:, ::-1].broadcast_to((3, 4, 5)).transpose(0, 2, 1))
    assert got == [
        {
            "y.address": y.address + 5 * 8 * 8 + 8, "y.shape.0": 3, "y.shape.1": 7, "y.stride.0": -16, "y.stride.1": 1,
            "x.address": x.address + 3 * 5 * 2, "x.shape.0": 3, "x.shape.1": 5, "x.shape.2": 4,
            "x.stride.0": 20, "x.stride.1": 1, "x.stride.2": -5,
        }
    ]  # fmt: skip
