"""Every kernel gives the same bits on every device, and on the CPU with any number of threads and in any order of blocks.

The tests of `test_kernels_match_reference` are run again, whole, once per device; everything that they read back must be equal byte for byte. None of
these kernels is among the exceptions that the language makes (tensor cores, `fast.*`, atomic additions of floats). Where the others are compared stands below.
"""

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl.runtime.pool import threads
from tests.staleynet import test_kernels_match_reference as numerics


def cases() -> Iterator[Any]:
    """Each test with each choice of its parameters, but for the device."""
    for name, function in vars(numerics).items():
        if not name.startswith("test_"):
            continue
        marks = [mark for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
        names = [[n.strip() for n in mark.args[0].split(",")] if isinstance(mark.args[0], str) else list(mark.args[0]) for mark in marks]
        for number, values in enumerate(itertools.product(*(mark.args[1] for mark in marks))):
            chosen: dict[str, Any] = {}
            for these, value in zip(names, values, strict=True):
                chosen.update({these[0]: value} if len(these) == 1 else dict(zip(these, value, strict=True)))
            yield pytest.param(function, chosen, id=f"{name.removeprefix('test_')}-{number}")


def read_back(monkeypatch: pytest.MonkeyPatch, run: Callable[[], None]) -> list[bytes]:
    """All that `run` copies to the host, in order, with every NaN as the same one."""
    found: list[bytes] = []
    original = kdsl.Array.numpy

    def recording(array: kdsl.Array) -> Any:
        values = original(array)
        plain = np.where(np.isnan(values), np.float32(np.nan), values) if values.dtype.kind == "f" else values
        found.append(plain.tobytes())
        return values

    with monkeypatch.context() as patch:
        patch.setattr(kdsl.Array, "numpy", recording)
        run()
    return found


@pytest.mark.parametrize(("function", "chosen"), list(cases()))
def test_same_bits(monkeypatch: pytest.MonkeyPatch, function: Callable[..., None], chosen: dict[str, Any]) -> None:
    wanted = inspect.signature(function).parameters

    def run_on(device: kdsl.Device) -> list[bytes]:
        fixtures = {"device": device, "rng": np.random.default_rng(21)}
        given = {name: value for name, value in fixtures.items() if name in wanted}
        return read_back(monkeypatch, lambda: function(**given, **chosen))

    cpu, *others = kdsl.testing.devices()
    usual = threads()
    kdsl.set_threads(1)
    try:
        expected = run_on(cpu)
        kdsl.set_threads(3)
        assert run_on(cpu) == expected, "three threads give other bits than one"
        with kdsl.testing.shuffled_blocks(len(expected)):
            assert run_on(cpu) == expected, "another order of blocks gives other bits"
    finally:
        kdsl.set_threads(usual)
    for device in others:
        assert run_on(device) == expected, f"{device} gives other bits than the CPU"
