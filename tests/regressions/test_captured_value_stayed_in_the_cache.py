"""Elsewhere a kernel that captured 4 was served for one that captured 8, from memory or from the disk; or a changed list went on with its old items."""

from __future__ import annotations

import enum
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from from_text import DEVICES, module, result_of

import kdsl

F32 = kdsl.dtype("f32")
KERNEL = "@kernel(grid=1, block=1)\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = {}\n"
PROGRAM = """
import kdsl
from kdsl import Const, SliceMut, f32, i64, kernel, unroll, shared_array

def make(c, block=1, contract=True):
    @kernel(grid=1, block=block, contract=contract)
    def k(y: SliceMut[f32], *, n: Const[int] = 2) -> None:
        s = shared_array(c, f32)
        s[c - 1] = f32(c)
        t = f32(n)
        for i in unroll(c):
            t = t * 1.1 + f32(i)
        y[0] = s[c - 1] + t
    return k

device = kdsl.device("cpu")
for c in (4, 8):
    for block in (1, 2):
        for contract in (True, False):
            for n in (2, 3):
                y = device.zeros(1, f32)
                make(c, block, contract)(y, n=n)
                print(c, block, contract, n, float(y.numpy()[0]).hex())
"""


def test_each_from_a_warm_cache(tmp_path: Path) -> None:
    """The second process compiles nothing, and prints the same; all sixteen differ as they should."""
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "KDSL_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(tmp_path / "program.py")]
    texts = []
    for _ in range(2):
        texts.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120).stdout)
        entries = len(list((tmp_path / "cache").glob("*.kdsl")))
        assert entries == 16
    assert texts[0] == texts[1]
    lines = [line.split() for line in texts[0].splitlines()]
    assert len(lines) == 16
    values: dict[tuple[str, ...], float] = {tuple(line[:4]): float.fromhex(line[4]) for line in lines}
    for (c, _block, contract, n), found in values.items():
        t = np.float64(n)
        for i in range(int(c)):
            product = np.float64(np.float32(t)) * np.float64(np.float32(1.1))
            t = np.float32(product + i) if contract == "True" else np.float32(np.float32(product) + np.float32(i))
        assert found == np.float32(int(c) + np.float32(t))


@DEVICES
@pytest.mark.parametrize("change", [lambda v: v.append(1), lambda v: v.__setitem__(0, 9)], ids=["append", "item"])
def test_what_can_change_unseen_is_no_capture(device: Any, change: Any) -> None:
    """A list, a dict, an array: refused when the kernel is compiled, so that no change of them can be missed."""
    values = [1.0, 2.0]
    for captured in (values, {0: 1.0}, np.ones(2), {1.0}, bytearray(b"ab")):
        kernel = module(KERNEL.format("V[0]"), V=captured)["k"]
        with pytest.raises(kdsl.KernelError, match="captured"):
            kernel(device.zeros(1, F32))
    change(values)


class Level(enum.IntEnum):
    """Numbers with names."""

    LOW = 1
    HIGH = 3


class Odd(int):
    """A number that prints otherwise."""

    def __repr__(self) -> str:
        return "odd"

    __str__ = __repr__


@DEVICES
@pytest.mark.parametrize(
    ("value", "number"),
    [
        (np.float16(0.25), 0.25),
        (ml_dtypes.bfloat16(2.5), 2.5),
        (kdsl.dtype("bf16")(3), 3.0),
        (np.longdouble(0.5), 0.5),
        (Level.HIGH, 3.0),
        (Odd(7), 7.0),
        (np.uint64(2**63), 2.0**63),
        (np.int8(-5), -5.0),
        ((1, (2.0, Odd(9)))[1][1], 9.0),
        (float("-inf"), -np.inf),
    ],
    ids=str,
)
def test_numbers_of_every_kind_are_captured(device: Any, value: Any, number: float) -> None:
    """Among them a bfloat16, which was refused, and a long double, which stayed one in the compiler's hands."""
    space = module(KERNEL.format("f32(V + 0 * n)"), V=value, n=0)
    assert result_of(device, space["k"], 1, F32).tolist() == [number]


def test_changes_that_are_seen() -> None:
    """Of value, of type, of the sign of a zero, of one item of a tuple, to nothing at all; and a change back is none."""
    device = kdsl.device("cpu")
    for before, after in (
        (4, 8),
        (4, 4.0),
        (0.0, -0.0),
        ((1, (2, 3)), (1, (2, 4))),
        (True, 1),
        (np.float32(1), np.float64(1)),
        (1.0, [1.0]),
        (Level.LOW, 1),
    ):
        text = KERNEL.format("f32(V[0])" if isinstance(before, tuple) else "f32(V)")
        space = module(text, V=before)
        y = device.zeros(1, F32)
        space["k"](y)
        function = space["k"].__wrapped__
        function.__globals__["V"] = after
        for launch in (space["k"], space["k"].on(device.default_stream)):
            with pytest.raises(kdsl.LaunchError, match="captured value V was"):
                launch(y)
        function.__globals__["V"] = before
        space["k"](y)
        del function.__globals__["V"]
        with pytest.raises(kdsl.LaunchError, match="is nothing now"):
            space["k"](y)


def test_a_change_before_the_first_launch_is_seen_too() -> None:
    device = kdsl.device("cpu")
    space = module("N = 4\n" + KERNEL.format("f32(N)") + "N = 5\n")
    with pytest.raises(kdsl.LaunchError, match=r"captured value N was 4 .* is 5 now"):
        space["k"](device.zeros(1, F32))


def test_kernels_of_a_loop_have_their_own_numbers() -> None:
    """Each factory call makes its own kernel; a name that the loop itself changes is named."""
    device = kdsl.device("cpu")
    space = module(
        "def make(c):\n    @kernel(grid=1, block=1)\n    def k(y: SliceMut[f32]) -> None:\n        "
        "y[0] = f32(c)\n    return k\nkernels = [make(c) for c in (4, 8)]\n"
    )
    for kernel, number in zip(space["kernels"], (4.0, 8.0), strict=True):
        for _ in range(2):
            assert result_of(device, kernel, 1, F32).tolist() == [number]
