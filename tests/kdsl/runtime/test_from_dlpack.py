"""Arrays of other libraries as ours: what is shared, for how long, and what is refused."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from producer import Producer

import kdsl
from kdsl.errors import DeviceError
from kdsl.lang.types import DTYPES
from kdsl.runtime import dlpack

CPU = kdsl.device("cpu")


class Stranger:
    """NumPy behind DLPack only."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.parametrize("wrap", [lambda x: x, Stranger], ids=["numpy", "dlpack"])
@pytest.mark.parametrize(
    "part",
    [np.s_[:], np.s_[3:], np.s_[::-1], np.s_[1:, ::-2], np.s_[:, 2], np.s_[5:5], np.s_[:, :, None]],
    ids=str,
)
def test_the_same_elements(wrap: Any, part: Any) -> None:
    host = np.arange(17 * 9, dtype=np.float32).reshape(17, 9)[part]
    array = kdsl.from_dlpack(wrap(host))
    assert (array.shape, array.dtype, array.device) == (host.shape, kdsl.f32, CPU)
    np.testing.assert_array_equal(array.numpy(), host)
    if host.size:
        assert array.address == host.ctypes.data
        assert all(s * 4 == b for s, b, n in zip(array.strides, host.strides, host.shape, strict=True) if n > 1)


@pytest.mark.parametrize("of", [t for t in DTYPES.values() if t.name != "bf16"], ids=str)
def test_element_types(of: Any) -> None:
    host = np.arange(6).astype(of.numpy)
    for given in (host, Stranger(host)):
        array = kdsl.from_dlpack(given)
        assert array.dtype is of
        np.testing.assert_array_equal(array.numpy(), host)
        np.testing.assert_array_equal(np.from_dlpack(array), host)


def test_what_only_numpy_says() -> None:
    host = np.arange(4).astype(ml_dtypes.bfloat16)
    assert kdsl.from_dlpack(host).dtype is kdsl.dtype("bf16")
    records = np.zeros(3, np.dtype([("a", np.float32), ("b", np.int32)]))
    assert kdsl.from_dlpack(records).numpy().dtype == records.dtype
    with pytest.raises(ValueError, match=r"strides are whole elements; .* strides of \(12,\) bytes, its elements have 8; pass a copy"):
        kdsl.from_dlpack(np.zeros(3, np.dtype([("a", np.float64), ("b", np.int32)]))["a"])
    with pytest.raises(ValueError, match=r"elements of f32 lie at multiples of 4 bytes; the first one lies \d behind one"):
        kdsl.from_dlpack(np.zeros(33, np.uint8)[1:][:32].view(np.float32))
    with pytest.raises(TypeError, match="no element type for NumPy's >f4"):
        kdsl.from_dlpack(np.zeros(3, ">f4"))


def test_bf16_offset_and_plain_capsules() -> None:
    host = np.arange(8).astype(ml_dtypes.bfloat16)
    for versioned in (True, False):
        array = kdsl.from_dlpack(Producer(host.ctypes.data, (3,), (-2,), code=(4, 16, 1), offset=12, versioned=versioned))
        np.testing.assert_array_equal(array.numpy(), host[[6, 4, 2]])
    repeated = kdsl.from_dlpack(Producer(host.ctypes.data, (2, 3), (0, 1), code=(4, 16, 1)))
    assert repeated.repeats
    np.testing.assert_array_equal(repeated.numpy(), [host[:3]] * 2)


def test_both_sides_see_what_is_written() -> None:
    host = np.zeros(8, np.float32)
    array = kdsl.from_dlpack(host)
    array[2:4].fill(7)
    array[4:].copy_from(np.full(4, 3, np.float32))
    np.testing.assert_array_equal(host, [0, 0, 7, 7, 3, 3, 3, 3])
    host[0] = 9
    assert array.numpy()[0] == 9
    assert kdsl.from_dlpack(array) is array


def test_the_owner_lives_as_long_as_the_array() -> None:
    host = np.ones(1000, np.float32)
    alive = weakref.ref(host)
    part = kdsl.from_dlpack(Stranger(host))[10:20]
    del host
    gc.collect()
    assert alive() is not None
    assert (part.numpy() == 1).all()
    del part
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("versioned", [True, False])
def test_the_deleter_is_called_once(versioned: bool) -> None:
    host = np.zeros(4, np.float32)
    made = Producer(host.ctypes.data, (4,), versioned=versioned)
    array = kdsl.from_dlpack(made)
    part = array[1:]
    assert repr(made.capsules[0]).startswith('<capsule object "used_dltensor')
    del array
    gc.collect()
    assert made.deleted == 0
    part.free()
    thread = threading.Thread(target=[part].clear)
    del part
    thread.start()
    thread.join()
    gc.collect()
    assert made.deleted == 1
    made.capsules.clear()
    gc.collect()
    assert made.deleted == 1


def test_the_last_reference_goes_in_another_thread() -> None:
    host = np.zeros(4, np.float32)
    made = Producer(host.ctypes.data, (4,))
    held = [kdsl.from_dlpack(made)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert made.deleted == 1


@pytest.mark.parametrize(
    ("shape", "options", "kind", "words"),
    [
        ((), {}, ValueError, r"1 to 5 dimensions, this one has 0, its shape is \(\); make it one of one element, such as x.reshape\(1\)"),
        ((1,) * 6, {}, ValueError, r"1 to 5 dimensions, this one has 6, its shape is \(1, 1, 1, 1, 1, 1\); reshape it"),
        ((4,), {"code": (5, 64, 1)}, TypeError, "no element type for DLPack's complex64; .*view it as real numbers"),
        ((4,), {"code": (2, 32, 4)}, TypeError, "no element type for DLPack's float32 x 4"),
        ((4,), {"code": (10, 8, 1)}, TypeError, "no element type for DLPack's code 10, bits 8"),
        ((4,), {"device": (10, 0)}, DeviceError, "on a device of ROCm; kdsl has the CPU and GPUs of CUDA's"),
        ((4,), {"device": (99, 0)}, DeviceError, "on a device of kind 99"),
        ((4,), {"device": (2, 63)}, DeviceError, "there is no device cuda:63"),
        ((4,), {"major": 2}, TypeError, r"comes as DLPack 2.7; kdsl knows 1.x"),
        ((4,), {"offset": 1}, ValueError, "elements of f32 lie at multiples of 4 bytes; the first one lies 1 behind one; pass a copy"),
    ],
)
def test_what_is_refused(shape: tuple[int, ...], options: dict[str, Any], kind: type[Exception], words: str) -> None:
    host = np.zeros(4, np.float32)
    made = Producer(host.ctypes.data, shape, **options)
    with pytest.raises(kind, match=words):
        kdsl.from_dlpack(made)
    gc.collect()
    assert made.deleted == (1 if "offset" in options else 0)  # what was not taken its capsule would free, if this one had a destructor


def test_what_is_no_array() -> None:
    with pytest.raises(TypeError, match="or __cuda_array_interface__; list has neither"):
        kdsl.from_dlpack([1.0])
    with pytest.raises(ValueError, match=r"the array of shape \(4,\) has no memory; was its storage freed"):
        kdsl.from_dlpack(Producer(0, (4,)))
    assert kdsl.from_dlpack(Producer(0, (0,))).size == 0
    host = Stranger(np.zeros(3))
    capsule = host.__dlpack__()
    host.__dlpack__ = lambda **_: capsule  # type: ignore[method-assign]
    array = kdsl.from_dlpack(host)
    with pytest.raises(TypeError, match="a capsule that nobody has used"):
        kdsl.from_dlpack(host)
    assert array.size == 3


def test_read_only_memory_stays_as_it_is() -> None:
    host = np.arange(4, dtype=np.float32)
    host.flags.writeable = False
    for given in (host, Stranger(host)):
        array = kdsl.from_dlpack(given)
        assert array.memory.readonly
        for write in (lambda a: a.fill(0), lambda a: a[1:].copy_from(np.zeros(3, np.float32))):
            with pytest.raises(ValueError, match="read-only in the library that it comes from"):
                write(array)
        assert not np.from_dlpack(array).flags.writeable
        with pytest.raises(BufferError, match=r"read-only, which DLPack can say from version 1\.0 on"):
            array.__dlpack__()
    np.testing.assert_array_equal(host, range(4))


# ------------------------------------------------------------------------------------------------------------------------ the other way


def test_numpy_shares_our_memory() -> None:
    array = CPU.array(np.arange(12, dtype=np.float32).reshape(3, 4))
    assert array.__dlpack_device__() == (1, 0)
    host = np.from_dlpack(array[::-1, 1:])
    np.testing.assert_array_equal(host, np.arange(12).reshape(3, 4)[::-1, 1:])
    host[0, 0] = 99
    assert array.numpy()[2, 1] == 99
    memory = weakref.ref(array.memory)
    with pytest.raises(DeviceError, match="is used by another library, and cannot be freed"):
        array.free()
    del array
    gc.collect()
    assert memory() is not None
    assert host[0, 0] == 99
    del host
    gc.collect()
    assert memory() is None


def test_a_capsule_that_nobody_takes_frees_what_it_holds() -> None:
    array = CPU.zeros(3, kdsl.f32)
    for version in (None, (1, 0), (1, 9), (2, 0), (0, 8)):
        capsule = array.__dlpack__(max_version=version)
        wanted = "dltensor" if version in (None, (0, 8)) else "dltensor_versioned"
        assert repr(capsule).startswith(f'<capsule object "{wanted}" ')
        assert array.memory.lent
        del capsule
        assert not array.memory.lent
    array.free()


def test_there_and_back() -> None:
    array = CPU.array(np.arange(5, dtype=np.float32))
    back = kdsl.from_dlpack(Stranger(array))
    assert back.address == array.address
    place, owner = dlpack.take(array.__dlpack__(max_version=(1, 0)))
    assert (place.shape, place.strides, place.dtype) == ((5,), (1,), kdsl.f32)
    owner.release()
    owner.release()
    del back, owner
    gc.collect()
    array.free()


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"stream": 1}, "arrays on the CPU have no stream"),
        ({"copy": True}, "shared, and not copied"),
        ({"dl_device": (2, 0)}, "the array is on cpu and is not copied to another device"),
    ],
)
def test_what_a_consumer_cannot_have(keywords: dict[str, Any], words: str) -> None:
    with pytest.raises(BufferError, match=words):
        CPU.zeros(3, kdsl.f32).__dlpack__(**keywords)


def test_structs_are_not_lent() -> None:
    @kdsl.struct
    class Pair:
        a: kdsl.f32
        b: kdsl.f32

    with pytest.raises(BufferError, match="DLPack knows no structs"):
        CPU.zeros(3, Pair).__dlpack__()
    assert not hasattr(CPU.zeros(3, kdsl.f32), "__cuda_array_interface__")
    with pytest.raises(TypeError, match="the CPU has no streams of other libraries"):
        CPU.stream(5)


def test_a_producer_that_nobody_else_holds() -> None:
    host = np.arange(3, dtype=np.float32)
    array = kdsl.from_dlpack(Producer(host.ctypes.data, (3,)))
    gc.collect()
    assert (array.numpy() == host).all()
    del array  # calls the producer's deleter
