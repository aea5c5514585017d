"""`copy.deepcopy` and `pickle` of an array kept the address of the first one's memory: once that was freed, a launch ended the process."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES

import kdsl
from kdsl import SliceMut, elements, f32, function, kernel, struct, thread_index


@kernel(grid=elements("y"))
def doubled(y: SliceMut[f32]) -> None:
    """Each element twice."""
    i = thread_index()
    if i in y:
        y[i] = twice(y[i])


@function
def twice(x: f32) -> f32:
    """Two of it."""
    return x * 2


@struct
class Point:
    """A place."""

    x: f32
    """It."""


@DEVICES
def test_what_belongs_to_a_process_is_not_pickled(device: Any) -> None:
    y = device.full(4, 1.0, f32)
    with kdsl.Graph(device) as graph:
        doubled(y)
    for held in (y, y[1:], y.reshape(2, 2).T, device.stream(), device.event(), graph, {"inside": [y]}):
        for act in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match=r"neither pickled nor copied"):
                act(held)
    shared = copy.copy(y)  # another name for the same memory, which keeps it
    del y
    doubled(shared)
    assert shared.numpy().tolist() == [2.0] * 4


@DEVICES
def test_what_has_a_name_is_pickled_by_it(device: Any) -> None:
    """Devices, kernels, functions and types are found again; a struct is its numbers."""
    for held in (device, doubled, twice, f32, kdsl.dtype("bf16")):
        assert pickle.loads(pickle.dumps(held)) is held
        assert copy.deepcopy(held) is held
    point = Point(x=1.5)
    for copied in (pickle.loads(pickle.dumps(point)), copy.deepcopy(point), copy.copy(point)):
        assert (type(copied), copied) == (Point, point)

    @kernel(grid=1)
    def local(y: SliceMut[f32]) -> None:
        y[0] = 1.0

    with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
        pickle.dumps(local)


def in_another_process(kernel: Any, host: Any) -> Any:
    y = kdsl.device("cpu").array(host)
    kernel(y)
    return y.numpy()


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_kernel_can_be_handed_to_another_process(method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("the system cannot")
    with multiprocessing.get_context(method).Pool(1) as pool:
        found = pool.apply(in_another_process, (doubled, np.arange(4, dtype=np.float32)))
    assert found.tolist() == [0, 2, 4, 6]
