"""Elsewhere a kernel called δ ended the process inside LLVM, two names became one when their letters were replaced, and carets stood beside what they meant."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, module

import kdsl
from kdsl import f32
from kdsl.backend.nvptx import compile_module
from kdsl.frontend.errors import display_width
from kdsl.testing.ptx import assemble

LETTERS = [
    "δ",
    "größe",
    "日本語",
    "café",
    "e\u0301",
    "ﬁ",
    "µ",
    "\U0001d431",
    "ñ_1",
    "_",
    "__x__",
    "kdsl",
    "ret",
    "reg",
    "WARP_SZ",
    "tid",
    "main",
    "exp",
    "k" * 300,
]
"""Among them letters that Python itself replaces (NFKC), words of PTX, and names that LLVM or C have."""


def named(name: str, local: str = "φ") -> dict[str, Any]:
    """A kernel, a function, parameters, a struct, arrays and locals of that name."""
    return module(
        f'@struct\nclass {name}_s:\n    """Größen."""\n    {name}: f32\n    """日本語."""\n'
        f"@function\ndef {name}_f({name}):\n    {local} = {name} * 2\n    return {local}\n"
        f"@kernel(grid=elements('{name}_y'), requires=('len({name}_y) > 0',))\ndef {name}({name}_y: SliceMut[f32], {name}_p: {name}_s) -> None:\n"
        f"    {name}_i = thread_index()\n    {local} = shared_array(4, f32)\n    {local}[0] = {name}_p.{name}\n    if {name}_i in {name}_y:\n"
        f"        {name}_y[{name}_i] += {name}_f({local}[0])  # コメント\n    assert {name}_p.{name} < 100.0, '日本語 \"😀\"'\n"
    )


@DEVICES
@pytest.mark.parametrize("name", LETTERS)
def test_it_compiles_and_runs(device: Any, name: str) -> None:
    space = named(name)
    found = next(kernel for key, kernel in space.items() if isinstance(kernel, kdsl.Kernel))
    struct = found.declaration.parameters[1].python_class
    (field,) = (f.name for f in struct.__kdsl_struct__.fields)
    y = device.full(3, 1.0, f32)
    found(y, struct(**{field: 4.0}))
    assert y.numpy().tolist() == [9.0] * 3
    found(**{p.name: value for p, value in zip(found.declaration.parameters, (y, struct(**{field: 200.0})), strict=True)})
    with pytest.raises(kdsl.BoundsError, match='日本語 "😀"'):
        y.numpy()


@pytest.mark.parametrize("name", LETTERS)
def test_ptx_is_ascii(name: str) -> None:
    found = next(kernel for kernel in named(name).values() if isinstance(kernel, kdsl.Kernel))
    ptx = found.ptx("sm_90")
    assert ptx.isascii()
    (entry,) = re.findall(r"\.visible \.entry (\S+)\(", ptx)
    assert re.fullmatch(r"[A-Za-z][\w$]*|[_$%][\w$]+", entry, re.ASCII)
    assemble(ptx, "sm_90")


def test_names_that_would_become_one_stay_two() -> None:
    """In one module of PTX, and in one process on the CPU."""
    names = ["δ", "π", "ä", "a", "a_", "δ_", "日", "本"]
    kernels = {}
    for number, name in enumerate(names):
        kernels[name] = module(f"@kernel(grid=1, block=1)\ndef {name}(y: SliceMut[f32]) -> None:\n    y[0] = {number}.0\n")[name]
    ptx = compile_module([k.ir() for k in kernels.values()], "sm_90")
    entries = re.findall(r"\.visible \.entry (\S+)\(", ptx)
    assert len(set(entries)) == len(names)
    assemble(ptx, "sm_90")
    device = kdsl.device("cpu")
    for number, kernel in enumerate(kernels.values()):
        y = device.zeros(1, np.float32)
        kernel(y)
        assert y.numpy()[0] == number


@pytest.mark.parametrize(
    ("line", "marked"),
    [
        ("φ = '日本語' if False else 2.0; y[0] = φ + ω", "ω"),
        ("\tdelta = 1.0; y[0] = delta + missing", "missing"),
        ("é = 1.0; e\u0301e = é; y[0] = e\u0301e + fehlt", "fehlt"),
        ("'😀😀😀'; y[0] = 日本 + 1.0", "日本"),
        ("y[0] = 1.0 + \\\n      ωω", "ωω"),
        ("y[0] = ﬁn + 1.0", "ﬁn"),
        ("y[0] = (1.0 +\n  # コメント\n\x0c  fehlt)", "fehlt"),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_carets_stand_under_what_they_mean(tmp_path: Path, line: str, marked: str, ending: str) -> None:
    indent = "\t" if line.startswith("\t") else "    "
    text = f"# ä\nfrom kdsl import *\n@kernel(grid=1)\ndef k(y: SliceMut[f32]) -> None:\n{indent}{line.lstrip(chr(9))}\n".replace(
        "\n", ending
    )
    path = tmp_path / "größe.py"
    path.write_bytes(text.encode())
    space: dict[str, Any] = {"__name__": "m"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), space)
    with pytest.raises(kdsl.KernelError, match="is not defined") as caught:
        space["k"].ir()
    shown, carets = str(caught.value).splitlines()[1:3]
    start = shown.index(marked)
    before = re.match(r" *", carets)
    assert before is not None
    assert before.end() == display_width(shown[:start])
    assert carets.count("^") == display_width(marked)
