"""PyTorch and CuPy themselves, where they are installed: on a GPU what they put on their current stream and what we launch is in order."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kdsl
from kdsl import DisjointSlice, Slice, elements, f32, i32, kernel, thread_index
from kdsl.runtime.device import gpu_count

torch: Any = pytest.importorskip("torch")
needs_gpu = pytest.mark.skipif(not gpu_count() or not torch.cuda.is_available(), reason="needs a GPU")
PLACES = ["cpu", pytest.param("cuda", marks=needs_gpu)]
COUNT = 1 << 16


@kernel(grid=elements("y"), requires=("len(x) == len(y)",))
def add_scaled(y: DisjointSlice[f32], x: Slice[f32], a: f32) -> None:
    """y += a x."""
    i = thread_index()
    if i in y:
        y[i] += a * x[i]


@kernel(grid=elements("y"))
def slowly(y: DisjointSlice[f32], x: Slice[f32], n: i32) -> None:
    """y = x + 1, after a while."""
    i = thread_index()
    if i in y:
        v = x[i]
        for _ in range(n):
            v = v * 1.0000001 + 0.0
        y[i] = x[i] + 1.0 + (v - v)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("of", ["float32", "float16", "bfloat16", "float64", "bool", "int8", "int64", "uint8"])
def test_both_ways(place: str, of: str) -> None:
    tensor = torch.arange(12, device=place).reshape(3, 4).to(getattr(torch, of))
    array = kdsl.from_dlpack(tensor)
    assert (array.address, array.device.name.partition(":")[0]) == (tensor.data_ptr(), place)
    back = torch.from_dlpack(array)
    assert back.dtype == tensor.dtype
    assert back.data_ptr() == tensor.data_ptr()
    assert torch.equal(back, tensor)
    parts = tensor.t()[1:, ::2]
    np.testing.assert_array_equal(kdsl.from_dlpack(parts).numpy().astype(np.float32), parts.float().cpu().numpy())


@pytest.mark.parametrize("place", PLACES)
def test_memory_of_ours(place: str) -> None:
    array = kdsl.device(place).array(np.arange(12, dtype=np.float32).reshape(3, 4))
    tensor = torch.from_dlpack(array[:, ::2])
    tensor += 1
    assert array.numpy()[1, 2] == 7
    with pytest.raises(kdsl.DeviceError, match="used by another library"):
        array.free()
    del tensor
    gc.collect()
    array.free()


@pytest.mark.parametrize("place", PLACES)
def test_launches(place: str) -> None:
    y, x = torch.zeros(100, device=place), torch.nn.Parameter(torch.ones(100, device=place))
    for _ in range(4):
        add_scaled(y, x, 1.0)
    assert (y == 4).all()
    x.data = torch.full((100,), 5.0, device=place)
    add_scaled(y, x, 1.0)
    assert (y == 9).all()
    y.resize_(200)
    with pytest.raises(kdsl.LaunchError, match=r"len\(x\) is 100, len\(y\) is 200"):
        add_scaled(y, x, 1.0)
    with pytest.raises(Exception, match="grad"):
        kdsl.from_dlpack(x)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda at: torch.ones(3, dtype=torch.complex64, device=at), "complex64"),
        (lambda at: torch.ones((), device=at), "1 to 5 dimensions, this one has 0"),
        (lambda at: torch.ones(1, 1, 1, 1, 1, 1, device=at), "1 to 5 dimensions, this one has 6"),
        (lambda at: torch._neg_view(torch.ones(3, device=at)), "(?i)neg"),
        (lambda at: torch.ones(3, device=at).to_sparse(), "(?i)sparse|layout"),
    ],
)
def test_what_is_refused(place: str, make: Callable[[str], Any], words: str) -> None:
    given = make(place)
    for _ in range(3):
        with pytest.raises(kdsl.LaunchError, match=words):
            add_scaled(torch.zeros(3, device=place), given, 1.0)


# --------------------------------------------------------------------------------------------------------------------------- on a GPU


def in_order(launch: Callable[[Any, Any], None]) -> None:
    y, x = torch.zeros(COUNT, device="cuda"), torch.zeros(COUNT, device="cuda")
    for number in range(20):
        x.fill_(number)
        launch(y, x)
        after = y.clone()
        x.fill_(-1)
        assert (after == number + 1).all()


@needs_gpu
@pytest.mark.parametrize("aside", [False, True], ids=["legacy", "another"])
@pytest.mark.parametrize("how", ["call", "stream of ours", "their stream", "beside ours", "a new tensor"])
def test_the_current_stream(how: str, aside: bool) -> None:
    device = kdsl.device("cuda")
    stream, ours, between = torch.cuda.Stream(), device.stream(), device.zeros(COUNT, f32)

    def launch(y: Any, x: Any) -> None:
        match how:
            case "call":
                slowly(y, x, 20000)
            case "stream of ours":
                slowly.on(ours)(y, x, 20000)
            case "their stream":
                slowly.on(device.stream(torch.cuda.current_stream()))(y, x, 20000)
            case "beside ours":
                slowly(between, x, 20000)
                slowly(y, between, 20000)
                y -= 1
            case "a new tensor":
                slowly(y, x + 0, 20000)

    with torch.cuda.stream(stream) if aside else contextlib.nullcontext():
        in_order(launch)


@needs_gpu
def test_the_legacy_stream_and_the_default_one() -> None:
    y, x = torch.zeros(COUNT, device="cuda"), torch.zeros(COUNT, device="cuda")
    arrays, prepared = (kdsl.from_dlpack(y), kdsl.from_dlpack(x)), slowly.prepare(y, x, 20000)
    with kdsl.Graph(kdsl.device("cuda")) as graph:
        slowly(y, x, 20000)
    for launch in (lambda: slowly(*arrays, 20000), prepared, graph.launch):
        for number in range(20):
            x.fill_(number)
            launch()
            after = y.clone()
            x.fill_(-1)
            assert (after == number + 1).all()


@needs_gpu
def test_a_graph_of_pytorchs() -> None:
    y, x = torch.zeros(100, device="cuda"), torch.ones(100, device="cuda")
    for _ in range(3):
        add_scaled(y, x, 1.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add_scaled(y, x, 1.0)
        x += 1
    y.zero_()
    x.fill_(1)
    graph.replay()
    graph.replay()
    assert (y == 3).all()


@needs_gpu
def test_memory_goes_back() -> None:
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    tensor = torch.ones(1 << 20, device="cuda")
    array = kdsl.from_dlpack(tensor)
    del tensor
    gc.collect()
    assert torch.cuda.memory_allocated() > before
    assert (array.numpy() == 1).all()
    del array
    gc.collect()
    assert torch.cuda.memory_allocated() == before


@needs_gpu
def test_cupy() -> None:
    cupy = pytest.importorskip("cupy")
    y, x = cupy.zeros(100, cupy.float32), cupy.ones(100, cupy.float32)
    for _ in range(4):
        add_scaled(y, x, 1.0)
    assert (y == 4).all()
    with cupy.cuda.Stream(non_blocking=True):
        for _ in range(4):
            add_scaled(y, x, 1.0)
        assert (y == 8).all()
    cupy.cuda.Device().synchronize()
    assert (cupy.from_dlpack(kdsl.from_dlpack(y)) == 8).all()
    assert (cupy.asarray(kdsl.device("cuda").array(np.ones(3, np.float32))) == 1).all()
