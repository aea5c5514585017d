"""What native code reads of arrays: the same bytes only for what decides the same checks, and the same as Python reads."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
import pytest

import kdsl
from kdsl import DisjointSlice, Slice, elements, f32, kernel, thread_index
from kdsl.errors import LaunchError
from kdsl.launch import foreign
from kdsl.runtime import libraries, places
from kdsl.runtime.libraries import library_of
from kdsl.runtime.native_state import Layout, Table

CPU = kdsl.device("cpu")


@kernel(grid=elements("y"), block=32)
def add(y: DisjointSlice[f32], x: Slice[f32]) -> None:
    """y += x."""
    i = thread_index()
    if i in y:
        y[i] += x[i]


def differ(*arrays: Any) -> None:
    """All have states of their own, which native code has read."""
    states = [foreign.state(None, x) for x in arrays]
    assert {type(state) for state in states} == {bytes}
    assert len(set(states)) == len(states)
    assert states == [foreign.state(None, x) for x in arrays]


def test_of_numpy() -> None:
    x = np.zeros((4, 6), np.float32)
    readonly = x.view()
    readonly.flags.writeable = False
    differ(
        x, x[1:], x[:, 1:], x[:, ::-1], x.reshape(-1), x.reshape(6, 4), x.T, x.view(np.int32), x.view(">f4"), x.view(np.complex64), readonly, x.copy(),
        x.reshape(2, 2, 3, 2), x[0], x[0, :0], x[:0],
    )  # fmt: skip
    assert foreign.state(None, x) == foreign.state(None, x[:])
    assert foreign.state(None, x, readonly) != foreign.state(None, readonly, x)


@pytest.mark.parametrize("x", [np.zeros(3, [("a", "f4")]), np.zeros(3, "M8[s]"), np.zeros(3, "S4")], ids=["struct", "date", "string"])
def test_an_element_type_that_takes_more_to_tell_is_read_by_python(x: Any) -> None:
    form, host, address, *_ = foreign.state(None, x)
    assert (type(form), host, address) == (foreign.Form, -1, x.ctypes.data)


def test_six_dimensions_and_what_is_no_array() -> None:
    assert isinstance(foreign.state(None, np.zeros((1, 1, 1, 1, 1, 1))), tuple)
    of_five = [np.zeros((1, 2, 3, 4, 5)) for _ in range(3)]
    assert isinstance(foreign.state(None, *of_five), bytes)
    assert len(foreign.state(None, *of_five)) == 8 * (1 + 3 * (5 + 2 * 5))
    for given in (5, None, "x", object()):
        assert foreign.state(None, given) is False
        assert foreign.state(None, np.zeros(3), given) is False
    assert foreign.state(None, CPU.zeros(3, f32)) is False  # no array of another library
    assert foreign.state(5, np.zeros(3, np.float32)) is False  # type: ignore[arg-type]
    with pytest.raises(LaunchError, match="stream"):
        add(np.zeros(3, np.float32), np.zeros(3, np.float32), stream=5)


def test_beside_arrays_of_ours() -> None:
    x, ours = np.zeros(3, np.float32), [CPU.zeros(3, f32) for _ in range(300)]
    states = [foreign.state(None, one, x) for one in (*ours, *ours)]
    assert states[:300] == states[300:]
    assert len({*states, *(foreign.state(None, x, one) for one in ours)}) == 600
    stream = CPU.stream()
    assert foreign.state(stream, ours[0], x) == (states[0], stream.token)


def test_without_a_layout_python_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same launches, and refusals, where a library keeps things otherwise than it is known to."""
    monkeypatch.setattr(libraries, "_found", {})
    monkeypatch.setattr(places, "of_numpy", lambda: 1 / 0)
    monkeypatch.setattr(foreign, "_forms", {})
    native = functools.cache(foreign._native.__wrapped__)
    monkeypatch.setattr(foreign, "_native", native)
    monkeypatch.setattr(foreign, "state", native().read_default)
    assert library_of(np.ndarray).layout is None  # type: ignore[union-attr]
    x = np.zeros((4, 6), np.float32)
    assert isinstance(foreign.state(None, x), tuple)
    assert len({foreign.state(None, part) for part in (x, x[1:], x.T, x.view(np.int32), x.reshape(-1), x[:])}) == 5
    y, one = np.zeros(10, np.float32), np.ones(10, np.float32)
    for _ in range(4):
        add(y, one)
    with pytest.raises(LaunchError, match="stride of 2"):
        add(y, np.ones(20, np.float32)[::2])
    assert (y == 4).all()


def test_a_wrong_layout_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_HEAD", 24)
    assert places.found(places.of_numpy) is None


def test_a_table_that_is_full() -> None:
    table = Table()
    kinds = [type(f"K{number}", (), {}) for number in range(20)]
    learnt = [table.learn(kind, lambda _: Layout(1, (16,) * 6)) for kind in kinds]
    assert learnt == [True] * 16 + [False] * 4
    assert not table.learn(kinds[0], lambda _: pytest.fail("it is known"))


def test_of_torch() -> None:
    torch = pytest.importorskip("torch")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("an older release")
    x = torch.zeros(4, 6)
    whole = torch.zeros(4, dtype=torch.complex64)
    differ(
        x, x[1:], x[:, 1:], x.t(), x.reshape(-1), x.reshape(6, 4), x.view(torch.int32), x.clone(), torch._neg_view(x), torch.nn.Parameter(x),
        whole, whole.conj(), whole.imag, whole.conj().imag, whole.real, x.view(torch.bfloat16), x.view(torch.float16),
    )  # fmt: skip
    assert foreign.state(None, x) == foreign.state(None, x[:]) == foreign.state(None, x.detach())
    before = foreign.state(None, x)
    x.requires_grad = True
    assert isinstance(foreign.state(None, x), bytes)
    x = x.detach()
    x.resize_(5, 6)
    assert foreign.state(None, x) != before
    for given in (torch.zeros(3).to_sparse(), torch.zeros(3, device="meta")):
        state = foreign.state(None, given)
        assert not isinstance(state, bytes)
    assert foreign.state(None, x, np.zeros(3, np.float32)) is False  # of two libraries


def test_a_negated_view_at_the_same_place() -> None:
    torch = pytest.importorskip("torch")
    z = torch.full((10,), 1 + 2j, dtype=torch.complex64)
    y = torch.zeros(20)
    x = torch.view_as_real(z).reshape(-1)  # where `lazy` lies
    for _ in range(4):
        add(y, x)
    lazy = torch._neg_view(x)
    assert (lazy.data_ptr(), lazy.shape, lazy.stride(), lazy.dtype) == (x.data_ptr(), x.shape, x.stride(), x.dtype)
    with pytest.raises(LaunchError, match=r"(?i)neg"):
        add(y, lazy)
    assert (y == 4 * x).all()


class Capsules:
    """CuPy's function from a device to its current stream, where there is no GPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, streams: Any) -> None:
        import ctypes

        self._function = ctypes.PYFUNCTYPE(ctypes.c_ssize_t, ctypes.c_int)(self._current)
        new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))
        self._name = b"intptr_t (int)"
        self.current: dict[int, int] = {}
        made = new(ctypes.cast(self._function, ctypes.c_void_p), self._name, None)
        monkeypatch.setitem(streams.__pyx_capi__, "get_stream_ptr", made)

    def _current(self, device: int) -> int:
        return self.current.get(device, 0)


def test_of_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """With arrays in memory that is nowhere."""
    cupy = pytest.importorskip("cupy")
    capsules = Capsules(monkeypatch, sys.modules["cupy_backends.cuda.stream"])
    table = Table()
    assert table.learn(cupy.ndarray, lambda _: places.of_cupy(cupy))
    read = table.reader(lambda *_: None, default=True)

    def array(shape: tuple[int, ...], of: str, offset: int = 0, device: int = 0, strides: Any = None) -> Any:
        memory = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(1 << 32, 1 << 20, None, device), offset)
        return cupy.ndarray(shape, of, memory, strides)

    x = array((4, 6), "f4")
    arrays = [
        x,
        x.T,
        x[1:],
        x[:, ::-1],
        x.reshape(-1),
        x.reshape(6, 4),
        x.view("i4"),
        array((4, 6), "f4", 1 << 10),
        array((4, 6), "f4", device=1),
    ]
    states = [read(None, one) for one in arrays]
    assert {type(state) for state in states} == {bytes}
    assert len(set(states)) == len(states)
    assert read(None, x[:]) == states[0]
    x.shape = (24,)
    assert read(None, x) != states[0]
    assert read(None, x) == states[4]
    capsules.current = {0: 5000, 1: 7}
    assert [int.from_bytes(read(None, one)[:8], "little") for one in (x, arrays[-1])] == [5000, 7]
    assert read(None, array((2, 1, 1, 1, 1, 2), "f4")) is None
    ours, either = CPU.zeros(3, f32), table.reader(lambda *_: None, default=False)
    assert read(None, ours, x) is None  # arrays of ours are not known here
    assert table.learn(type(ours), foreign._layout)
    for given in ((ours, x), (x, ours)):
        capsules.current = {0: 5000}  # each of two streams would have to wait for the other
        assert read(None, *given) is None
        assert either(*given)[:8] == (5000).to_bytes(8, "little")
        for legacy in (0, 1):
            capsules.current = {0: legacy}
            assert read(None, *given) == either(*given)
    assert read(None, ours) is None
