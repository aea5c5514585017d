"""Tensor maps against a stand-in for the driver: what is encoded, what is refused before the driver sees it, and launches that get them."""

from __future__ import annotations

import ctypes
import struct
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
import pytest

import kdsl
from kdsl import (
    D2,
    D3,
    D4,
    D5,
    LaunchError,
    Slice,
    SliceMut,
    TensorMap,
    barrier_arrive_expect,
    barrier_init,
    barrier_wait,
    bf16,
    block_idx,
    bulk_load,
    commit_stores,
    f16,
    f32,
    f64,
    i8,
    i32,
    i64,
    is_first_thread,
    kernel,
    shared_array,
    shared_barriers,
    sync_threads,
    tensor_map,
    tma_load,
    tma_store,
    u16,
    u32,
    wait_stores,
)
from kdsl.ir.abi import layout
from kdsl.runtime import tensor_map as tensor_maps
from kdsl.runtime.device import device
from kdsl.runtime.gpu import CudaDevice

T = TypeVar("T", f32, bf16)


@pytest.fixture
def gpu(fake_driver: Any) -> CudaDevice:
    tensor_maps._encoded.cache_clear()  # addresses of an earlier stand-in
    found = device()
    assert isinstance(found, CudaDevice)
    return found


def encoded(fake_driver: Any) -> tuple[Any, ...]:
    """The arguments of the last encoding, as plain numbers and names."""
    kind, rank, address, extents, strides, box, _, _, swizzle, promotion, _ = fake_driver.called("cuTensorMapEncodeTiled")[-1]
    numbers = tuple([int(n) for n in part] for part in (extents, strides, box))
    return (kind.name.removeprefix("CU_TENSOR_MAP_DATA_TYPE_"), rank, int(address), *numbers, int(swizzle), int(promotion))


@pytest.mark.parametrize(
    ("of", "name"),
    [(f32, "FLOAT32"), (bf16, "BFLOAT16"), (f16, "FLOAT16"), (f64, "FLOAT64"), (i8, "UINT8"), (u16, "UINT16"), (i32, "INT32"), (u32, "UINT32"), (i64, "INT64")],
)  # fmt: skip
def test_dimensions_go_to_the_driver_innermost_first(gpu: CudaDevice, fake_driver: Any, of: Any, name: str) -> None:
    array = gpu.zeros((3, 5, 64), of)
    made = tensor_map(array, (1, 5, 16))
    item = of.itemsize
    assert encoded(fake_driver) == (name, 3, array.address, [64, 5, 3], [64 * item, 320 * item], [16, 5, 1], 0, 3)
    assert len(made.bytes) == 128
    assert int.from_bytes(made.bytes[:8], "little") == array.address
    assert made.array is array


def test_a_part_of_an_array(gpu: CudaDevice, fake_driver: Any) -> None:
    array = gpu.zeros((40, 64), bf16)
    part = array[8:24:2, 16:48]
    tensor_map(part, (8, 32), swizzle=64, l2_promotion=128)
    assert encoded(fake_driver) == ("BFLOAT16", 2, array.address + (8 * 64 + 16) * 2, [32, 8], [256], [32, 8], 2, 2)
    tensor_map(array.reshape(-1)[64:], (128,), l2_promotion=0)
    assert encoded(fake_driver) == ("BFLOAT16", 1, array.address + 128, [39 * 64], [16], [128], 0, 0)


def test_five_dimensions(gpu: CudaDevice, fake_driver: Any) -> None:
    array = gpu.zeros((2, 3, 5, 7, 64), f32)
    tensor_map(array, (1, 2, 1, 7, 32), swizzle=128)
    assert encoded(fake_driver) == (
        "FLOAT32", 5, array.address, [64, 7, 5, 3, 2], [256, 1792, 8960, 26880], [32, 7, 1, 2, 1], 3, 3,
    )  # fmt: skip
    tensor_map(array.transpose(1, 3, 0, 2, 4)[:, 1:3], (2, 1, 1, 1, 8))
    assert encoded(fake_driver)[2:6] == (array.address + 256, [64, 5, 2, 2, 3], [1792, 26880, 256, 8960], [8, 1, 1, 1, 2])


@pytest.mark.parametrize(
    ("make", "box", "options", "message"),
    [
        (lambda a: a, (1, 1, 1, 8), {}, r"the box \(1, 1, 1, 8\) has 4 dimensions, the array 5"),
        (lambda a: a, (1, 1, 1, 1, 1, 8), {}, r"has 6 dimensions, the array 5"),
        (lambda a: a, (257, 1, 1, 1, 8), {}, r"an extent outside of 1 to 256"),
        (lambda a: a, (1, 1, 0, 1, 8), {}, r"an extent outside of 1 to 256"),
        (lambda a: a, (1, 1, 1, 1, 6), {}, r"is 24 bytes of f32; it is a multiple of 16"),
        (lambda a: a, (1, 1, 1, 1, 16), {"swizzle": 32}, r"is 64 bytes of f32; with swizzle 32 it is at most 32"),
        (lambda a: a[:, :, :, :, 1:], (1, 1, 1, 1, 8), {}, r"begins 4 bytes behind a multiple of 16"),
        (lambda a: a[:, ::-1], (1, 1, 1, 1, 8), {}, r"the stride of dimension 1 is -"),
        (lambda a: a[:, :, :1].broadcast_to((2, 3, 5, 4, 12)), (1, 1, 1, 1, 8), {}, r"the stride of dimension 2 is 0 bytes"),
        (lambda a: a.transpose(4, 3, 2, 1, 0), (1, 1, 1, 1, 4), {}, r"the last dimension of a tensor map lies side by side"),
        (lambda a: a.reshape(-1)[: 240 * 2 * 3].reshape(2, 3, 4, 6, 10), (1, 1, 1, 1, 8), {}, r"stride of dimension 3 is 40 bytes"),
    ],
)  # fmt: skip
def test_limits_of_five_dimensions(gpu: CudaDevice, fake_driver: Any, make: Any, box: Any, options: Any, message: str) -> None:
    array = make(gpu.zeros((2, 3, 5, 4, 12), f32))
    with pytest.raises(ValueError, match=message):
        tensor_map(array, box, **options)
    assert not fake_driver.called("cuTensorMapEncodeTiled")


def test_there_are_no_six_dimensions(gpu: CudaDevice) -> None:
    with pytest.raises(ValueError, match="1 to 5 dimensions, not 6"):
        gpu.zeros((1, 1, 1, 1, 1, 8), f32)


@pytest.mark.parametrize(("span", "code"), [(32, 1), (64, 2), (128, 3)])
def test_swizzles_and_rounding(gpu: CudaDevice, fake_driver: Any, span: int, code: int) -> None:
    array = gpu.zeros((16, 64), f32)
    tensor_map(array, (8, span // 4), swizzle=span, tf32=True)
    assert encoded(fake_driver)[0] == "TFLOAT32"
    assert encoded(fake_driver)[6] == code


def test_a_stride_that_is_never_taken_does_not_matter(gpu: CudaDevice, fake_driver: Any) -> None:
    tensor_map(gpu.zeros((1, 1030), bf16), (1, 64))
    assert encoded(fake_driver)[3:5] == ([1030, 1], [2064])
    tensor_map(gpu.zeros((4, 8), f32)[:, :1], (4, 4))
    assert encoded(fake_driver)[3:5] == ([1, 4], [32])


def test_equal_maps_are_encoded_once(gpu: CudaDevice, fake_driver: Any) -> None:
    array = gpu.zeros((40, 64), bf16)
    first = tensor_map(array, (8, 64))
    again = tensor_map(array[:, :], (8, 64))
    assert first.bytes is again.bytes
    assert len(fake_driver.called("cuTensorMapEncodeTiled")) == 1
    for other in (tensor_map(array, (16, 64)), tensor_map(array, (8, 64), swizzle=128), tensor_map(array[:39], (8, 64))):
        assert other.bytes != first.bytes
    assert len(fake_driver.called("cuTensorMapEncodeTiled")) == 4


@pytest.mark.parametrize(
    ("make", "box", "options", "message"),
    [
        (lambda a: a, (8,), {}, r"the box \(8,\) has 1 dimensions, the array 2"),
        (lambda a: a, (8, 0), {}, r"an extent outside of 1 to 256"),
        (lambda a: a, (257, 8), {}, r"an extent outside of 1 to 256"),
        (lambda a: a, (8, 4), {}, r"is 8 bytes of bf16; it is a multiple of 16"),
        (lambda a: a, (8, 64), {"swizzle": 64}, r"is 128 bytes of bf16; with swizzle 64 it is at most 64"),
        (lambda a: a, (8, 64), {"swizzle": 96}, r"swizzle is 0, 32, 64, 128 \(bytes\), not 96"),
        (lambda a: a, (8, 64), {"l2_promotion": 32}, r"l2_promotion is one of 0, 64, 128, 256, not 32"),
        (lambda a: a, (8, 64), {"tf32": True}, r"tf32 rounds f32 elements; the array holds bf16"),
        (lambda a: a[:, 1:], (8, 16), {}, r"begins 2 bytes behind a multiple of 16"),
        (lambda a: a.T, (8, 8), {}, r"strides \(1, 72\).*pass its transpose"),
        (lambda a: a[:, ::2], (8, 8), {}, r"strides \(72, 2\).*pass a copy"),
        (lambda a: a[::-1], (8, 8), {}, r"the stride of dimension 0 is -144 bytes"),
        (lambda a: a[:1].broadcast_to((4, 72)), (4, 8), {}, r"the stride of dimension 0 is 0 bytes"),
        (lambda a: a.reshape(-1)[: 35 * 70].reshape(35, 70), (8, 8), {}, r"stride of dimension 0 is 140 bytes.*make the rows longer"),
        (lambda a: a[:0], (8, 8), {}, r"without elements has no tensor map"),
    ],
)  # fmt: skip
def test_what_the_copy_engine_cannot_do_is_refused(
    gpu: CudaDevice, fake_driver: Any, make: Any, box: Any, options: Any, message: str
) -> None:
    array = make(gpu.zeros((40, 72), bf16))
    with pytest.raises(ValueError, match=message):
        tensor_map(array, box, **options)
    assert not fake_driver.called("cuTensorMapEncodeTiled")


def test_wrong_kinds_of_arguments(gpu: CudaDevice) -> None:
    with pytest.raises(TypeError, match="of an array on a GPU, not of"):
        tensor_map(np.zeros((8, 8)), (8, 8))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a tuple of whole numbers"):
        tensor_map(gpu.zeros((8, 8), f32), (8, 8.0))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="of an array on a GPU; this one is on cpu"):
        tensor_map(device("cpu").zeros((8, 8), f32), (8, 8))
    array = gpu.zeros((8, 8), f32)
    array.free()
    with pytest.raises(kdsl.DeviceError, match="freed"):
        tensor_map(array, (8, 8))


# -------------------------------------------------------------------------------------------------------------------------- launches


@kernel(grid=("a.shape[0] // 8",), block=32, requires=("a.shape[1] == 32", "len(c) >= len(a)"))
def copy_boxes(n: i32, a: TensorMap[f32, D2], c: TensorMap[f32, D2]) -> None:
    """Copy boxes of 8 x 32 elements from one array to another."""
    tile = shared_array((8, 32), f32, swizzle=128)
    full = shared_barriers(1)
    if is_first_thread():
        barrier_init(full, 0, 1)
        barrier_arrive_expect(full, 0, tile.nbytes)
        tma_load(tile, (), a, (8 * block_idx.x, 0), full, 0)
        barrier_wait(full, 0, 0)
        tma_store(c, (8 * block_idx.x, i64(n)), tile, ())
        commit_stores()
        wait_stores()


@kernel(grid=1, block=32)
def read_both(a: TensorMap[T, D2], b: TensorMap[T, D3], y: SliceMut[f32]) -> None:
    tile = shared_array((2, 8, 16), a.dtype)
    full = shared_barriers(1)
    if is_first_thread():
        barrier_init(full, 0, 1)
        tma_load(tile, 0, a, (0, 0), full, 0)
        tma_load(tile, 1, b, (0, 0, 0), full, 0)
    sync_threads()
    y[0] = f32(b.shape[2])


class Run:
    """What a kernel was launched with, by slot."""

    def __init__(self, fake_driver: Any, of: Any, **settings: Any) -> None:
        slots = layout(of.ir(**settings)).slots
        self.arguments: dict[str, Any] = {}
        self.blocks = 0

        def entry(blocks: int, block: tuple[int, ...], parameters: int) -> None:
            pointers = (ctypes.c_uint64 * len(slots)).from_address(parameters)
            self.blocks = blocks
            for slot, place in zip(slots, pointers, strict=True):
                self.arguments[slot.name] = struct.unpack(slot.code, ctypes.string_at(place, struct.calcsize(slot.code)))[0]

        fake_driver.kernels[of.name] = entry


def test_a_launch_passes_the_descriptor_and_the_extents(gpu: CudaDevice, fake_driver: Any) -> None:
    run = Run(fake_driver, copy_boxes)
    a, c = gpu.zeros((40, 32), f32), gpu.zeros((48, 32), f32)
    maps = [tensor_map(array, (8, 32), swizzle=128) for array in (a, c)]
    copy_boxes(3, *maps)
    assert run.blocks == 5
    assert {name: run.arguments[name] for name in ("n", "a.shape.0", "a.shape.1", "c.shape.0", "c.shape.1")} == {
        "n": 3, "a.shape.0": 40, "a.shape.1": 32, "c.shape.0": 48, "c.shape.1": 32,
    }  # fmt: skip
    assert run.arguments["a.map"] == maps[0].bytes
    assert run.arguments["c.map"] == maps[1].bytes
    run.arguments.clear()
    copy_boxes(3, a, maps[1])  # an array is mapped as the kernel copies it
    assert run.arguments["a.map"] == maps[0].bytes
    slot = next(slot for slot in layout(copy_boxes.ir()).slots if slot.name == "c.map")
    assert slot.offset % 64 == 0


def test_what_the_kernel_copies_is_compared(gpu: CudaDevice, fake_driver: Any) -> None:
    Run(fake_driver, copy_boxes)
    a, c = gpu.zeros((40, 32), f32), gpu.zeros((40, 32), f32)
    with pytest.raises(
        LaunchError,
        match=r"the tensor map for c is cut into boxes of 8 x 32, and the kernel copies boxes of 8 x 32 with swizzle 128; "
        r"make it with tensor_map\(array, \(8, 32\), swizzle=128\)",
    ):
        copy_boxes(0, a, tensor_map(c, (8, 32)))
    with pytest.raises(LaunchError, match=r"the tensor map for a is cut into boxes of 4 x 32 with swizzle 128"):
        copy_boxes(0, tensor_map(a, (4, 32), swizzle=128), c)
    with pytest.raises(LaunchError, match=r"parameter a is TensorMap\[f32, D2\], an array of f32; the argument is an array of bf16"):
        copy_boxes(0, gpu.zeros((40, 32), bf16), c)
    with pytest.raises(LaunchError, match=r"parameter a is TensorMap\[f32, D2\], which has 2 dimensions; the argument has 1"):
        copy_boxes(0, gpu.zeros(40, f32), c)
    with pytest.raises(LaunchError, match=r"parameter a is TensorMap\[f32, D2\]: the array begins 4 bytes behind"):
        copy_boxes(0, gpu.zeros((41, 33), f32)[:40, 1:], c)
    with pytest.raises(LaunchError, match=r"the launch contract does not hold: a.shape\[1\] == 32"):
        copy_boxes(0, gpu.zeros((40, 36), f32), c)
    with pytest.raises(LaunchError, match=r"parameter a is TensorMap.*the argument is 3 "):
        copy_boxes(0, 3, c)


def test_overlap_devices_and_lifetime_are_those_of_arrays(gpu: CudaDevice, fake_driver: Any) -> None:
    Run(fake_driver, copy_boxes)
    a, c = gpu.zeros((40, 32), f32), gpu.zeros((40, 32), f32)
    with pytest.raises(LaunchError, match=r"the arguments for a and c overlap|the arguments for c and a overlap"):
        copy_boxes(0, a, a)
    with pytest.raises(LaunchError, match="all arrays of a launch live on one device"):
        copy_boxes(0, a, device("cpu").zeros((40, 32), f32))
    stream = gpu.stream()
    mapped = tensor_map(c, (8, 32), swizzle=128)
    copy_boxes.on(stream)(0, a, mapped)
    assert a.memory.others == c.memory.others == {stream}
    before = len(fake_driver.memory)
    del c
    assert len(fake_driver.memory) == before  # the map keeps it
    mapped.array.free()
    with pytest.raises(LaunchError, match="the array for c has been freed"):
        copy_boxes(0, a, mapped)


def test_maps_that_are_only_read_may_overlap_and_share_a_type_variable(gpu: CudaDevice, fake_driver: Any) -> None:
    run = Run(fake_driver, read_both, T=bf16)
    a = gpu.array(np.zeros((2, 16, 32), ml_dtypes.bfloat16))
    y = gpu.zeros(1, f32)
    read_both(a[0], a, y)
    assert run.arguments["b.shape.2"] == 32
    with pytest.raises(LaunchError, match="the same element type T"):
        read_both(a[0], gpu.zeros((2, 16, 32), f32), y)


def test_a_graph_keeps_maps_and_exchanges_them(gpu: CudaDevice, fake_driver: Any) -> None:
    run = Run(fake_driver, copy_boxes)
    a, c, other = (gpu.zeros((40, 32), f32) for _ in range(3))
    mapped = tensor_map(c, (8, 32), swizzle=128)
    with kdsl.Graph(gpu) as graph:
        step = copy_boxes(1, a, mapped)
    graph.launch()
    assert run.arguments["c.map"] == mapped.bytes
    assert graph.arguments(step)["c"] is mapped
    graph.update(step, c=other)
    graph.launch()
    assert int.from_bytes(run.arguments["c.map"][:8], "little") == other.address
    with pytest.raises(LaunchError, match="overlap"):
        graph.update(step, c=a)
    other.free()
    with pytest.raises(LaunchError, match="the array for c in step 0 of the graph has been freed"):
        graph.launch()


@kernel(grid=1, block=32, requires="rows >= 1")
def launched(x: TensorMap[f32, D2], y: TensorMap[f32, D2], rows: i32, p: i32) -> None:
    """A box whose shape the launch decides, by the extents of another map, too."""
    tile = shared_array((2, rows, y.shape[1]), f32)
    full = shared_barriers(1)
    if is_first_thread():
        barrier_init(full, 0, 1)
        barrier_arrive_expect(full, 0, tile.nbytes)
        tma_load(tile, p % 2, x, (0, 0), full, 0)
        tma_store(y, (0, 0), tile, 1)


def test_boxes_whose_shape_the_launch_decides(gpu: CudaDevice, fake_driver: Any) -> None:
    run = Run(fake_driver, launched)
    x, y, narrow = gpu.zeros((40, 32), f32), gpu.zeros((20, 64), f32), gpu.zeros((20, 16), f32)
    for _ in range(3):  # the long way each time
        launched(x, y, 4, 0)
    assert encoded(fake_driver)[5] == [64, 4]
    assert len(fake_driver.called("cuTensorMapEncodeTiled")) == 2
    assert run.arguments["rows"] == 4
    launched(x, narrow, 8, 0)
    assert encoded(fake_driver)[5] == [16, 8]
    given = tensor_map(x, (8, 16))
    launched(given, narrow, 8, 0)
    assert run.arguments["x.map"] == given.bytes
    with pytest.raises(
        LaunchError, match=r"cut into boxes of 8 x 16, and the kernel copies boxes of 4 x 16; make it with tensor_map\(array, \(4, 16\)\)"
    ):
        launched(given, narrow, 4, 0)
    for other, rows, why in (
        (narrow, 257, r"boxes of shape \(rows, y.shape\[1\]\) of x: the box \(257, 16\) has an extent outside of 1 to 256"),
        (
            gpu.zeros((20, 20), f32),
            1,
            "here \\(1, 20\\), to a shared array of several; they take 80 bytes each, and have to begin at multiples of 128",
        ),
        (gpu.zeros((20, 24), f32)[:, :6], 4, r"the box \(4, 6\) is 24 bytes of f32; it is a multiple of 16"),
    ):
        with pytest.raises(LaunchError, match=why):
            launched(x, other, rows, 0)


def test_prepared_and_captured_launches_evaluate_boxes_again(gpu: CudaDevice, fake_driver: Any) -> None:
    run = Run(fake_driver, launched)
    x, y = gpu.zeros((40, 32), f32), gpu.zeros((20, 64), f32)
    prepared = launched.prepare(x, y, 4, 0)
    prepared()
    prepared(rows=2)
    assert encoded(fake_driver)[5] == [64, 2]
    with pytest.raises(LaunchError, match="an extent outside of 1 to 256"):
        prepared(rows=300)
    with kdsl.Graph(gpu) as graph:
        step = launched(x, y, 6, 0)
    graph.update(step, rows=10)
    graph.launch()
    assert encoded(fake_driver)[5] == [64, 10]
    assert run.arguments["rows"] == 10


@kernel(grid=1, block=32)
def four(a: TensorMap[f32, D4], y: SliceMut[f32]) -> None:
    y[0] = f32(a.shape[3])


def test_a_map_with_which_nothing_is_copied(gpu: CudaDevice, fake_driver: Any) -> None:
    run = Run(fake_driver, four)
    a, y = gpu.zeros((2, 3, 4, 8), f32), gpu.zeros(1, f32)
    with pytest.raises(LaunchError, match=r"the kernel copies no box with it; pass tensor_map\(array, box\)"):
        four(a, y)
    four(tensor_map(a, (1, 1, 4, 8)), y)
    assert run.arguments["a.shape.3"] == 8


@kernel(grid=1, block=32)
def of_five(a: TensorMap[f32, D5], x: i32) -> None:
    tile = shared_array((2, 3, 4, 8), f32)
    full = shared_barriers(1)
    if is_first_thread():
        barrier_init(full, 0, 1)
        barrier_arrive_expect(full, 0, tile.nbytes)
        tma_load(tile, (), a, (x, 0, 1, 2, 4), full, 0)


def test_a_launch_cuts_boxes_of_five_dimensions(gpu: CudaDevice, fake_driver: Any) -> None:
    run = Run(fake_driver, of_five)
    a = gpu.zeros((6, 5, 4, 3, 16), f32)
    for _ in range(3):
        of_five(a, 1)
    assert encoded(fake_driver)[3:6] == ([16, 3, 4, 5, 6], [64, 192, 768, 3840], [8, 4, 3, 2, 1])
    assert [run.arguments[f"a.shape.{d}"] for d in range(5)] == [6, 5, 4, 3, 16]
    with pytest.raises(LaunchError, match=r"TensorMap\[f32, D5\], which has 5 dimensions; the argument has 4"):
        of_five(a[0], 1)
    with pytest.raises(LaunchError, match=r"the stride of dimension 2 is 72 bytes"):
        of_five(gpu.zeros((6, 5, 4, 3, 6), f32), 1)


@kernel(grid=1, block=32)
def run_of(x: Slice[f32]) -> None:
    s = shared_array(64, f32)
    full = shared_barriers(1)
    if is_first_thread():
        bulk_load(s, 0, x, 4, 64, full, 0)


def test_runs_begin_at_multiples_of_16_bytes_of_memory(gpu: CudaDevice, fake_driver: Any) -> None:
    Run(fake_driver, run_of)
    x = gpu.zeros(100, f32)
    run_of(x)
    run_of(x[4:])
    with pytest.raises(LaunchError, match="16 bytes"):
        run_of(x[1:])
