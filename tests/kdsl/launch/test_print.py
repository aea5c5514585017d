"""`print` in kernels: the text is Python's, on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kdsl
from kdsl import Slice, SliceMut, bf16, elements, f16, f32, f64, i32, i64, kernel, thread_index, u8, u64
from kdsl.testing import devices
from kdsl.testing.ptx import assemble

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)


@kernel(grid=elements("x"), block=32)
def every_type(x: Slice[f32], y: SliceMut[i64]) -> None:
    t = thread_index()
    if t in x:
        y[t] = t
        if t == 33:
            v = x[t]
            print("values:", v, f16(v), bf16(v), f64(v), i32(v), u8(v), u64(v) << 40, v > 0.0, (t, -v), 0.5, "end")
            print(f"{v:.3f}|{i32(v):5d}|{t:x}|{-v:+.1e}", t, sep="; ", end="!\n")
            print()


@kernel(grid=1, block=1)
def long_lines(count: i64, x: Slice[f32]) -> None:
    for k in range(count):
        print(k, x[0])


@DEVICES
def test_numbers_of_every_type(device: Any, capsys: Any) -> None:
    x = np.linspace(0.1, 3.3, 40, dtype=np.float32)
    y = device.zeros(40, i64)
    every_type(device.array(x), y)
    device.synchronize()
    v = x[33]
    import ml_dtypes

    first = f"values: {v!s} {np.float16(v)!s} {ml_dtypes.bfloat16(v)!s} {np.float64(v)!s} {int(v)} {int(v)} {int(v) << 40} True (33, {-v!s}) 0.5 end\n"
    second = f"{float(v):.3f}|{int(v):5d}|{33:x}|{-float(v):+.1e}; 33!\n"
    assert capsys.readouterr().out == first + second + "\n"
    device.synchronize()
    assert capsys.readouterr().out == ""
    assert y.numpy().tolist() == list(range(40))


@DEVICES
def test_every_thread_has_its_line(device: Any, capsys: Any) -> None:
    @kernel(grid=elements("x"), block=48)
    def lines(x: Slice[i32]) -> None:
        t = thread_index()
        if t in x and x[t] % 3 == 0:
            print("thread", t, "has", x[t])

    x = np.random.default_rng(2).integers(-(2**31), 2**31, 1000).astype(np.int32)
    lines(device.array(x))
    device.synchronize()
    printed = sorted(capsys.readouterr().out.splitlines())
    assert printed == sorted(f"thread {t} has {v}" for t, v in enumerate(x) if v % 3 == 0)


@DEVICES
def test_what_does_not_fit_is_said(device: Any, capsys: Any) -> None:
    long_lines(50_000, device.array(np.ones(1, np.float32)))
    device.synchronize()
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["0 1.0", "1 1.0"]
    kept = 2**20 // 24
    assert len(lines) == kept + 1
    assert (
        lines[-1]
        == f"(kernels printed {50_000 * 24 - kept * 24:,} bytes more than the 1,048,576 that are kept between two synchronisations)"
    )
    long_lines(1, device.array(np.ones(1, np.float32)))
    device.synchronize()
    assert capsys.readouterr().out == "0 1.0\n"


@DEVICES
def test_a_graph_prints_each_time(device: Any, capsys: Any) -> None:
    x = device.array(np.ones(1, np.float32))
    long_lines(1, x)
    device.synchronize()
    with kdsl.Graph(device) as graph:
        long_lines(2, x)
    for _ in range(3):
        graph.launch()
    device.synchronize()
    assert capsys.readouterr().out == "0 1.0\n" + "0 1.0\n1 1.0\n" * 3


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
def test_it_calls_nothing_outside(target: str) -> None:
    ptx = every_type.ptx(target)
    assert ".extern" not in ptx
    assemble(ptx, target)


@pytest.mark.parametrize(("line", "message"), [
    ("print(x)", "Slice[f32] cannot be printed"),
    ("print(f'{x[0]!a}')", "`!a` has no meaning"),
    ("print(f'{x[0]:d}')", "the format 'd' does not fit"),
    ("print(f'{x[0]:{t}}')", "a format that is computed"),
    ("print(x[0], file=3)", "print() in a kernel takes values, and sep= and end="),
    ("print(x[0], sep=t)", "sep= is a string that the compiler knows"),
    ("y = f'{t}'", "an f-string is not part of the language"),
], ids=str)  # fmt: skip
def test_what_cannot_be_printed(line: str, message: str, tmp_path: Any) -> None:
    source = f"import kdsl\nfrom kdsl import *\n@kernel(grid=1)\ndef wrong(x: Slice[f32]) -> None:\n    t = thread_index()\n    {line}\n"
    path = tmp_path / "wrong.py"
    path.write_text(source)
    space: dict[str, Any] = {"__name__": "wrong"}

    def build() -> None:
        exec(compile(source, str(path), "exec"), space)
        space["wrong"].ir()

    with pytest.raises(kdsl.KernelError) as caught:
        build()
    assert message in str(caught.value)
    assert caught.value.location.line == 6
    assert caught.value.hint
