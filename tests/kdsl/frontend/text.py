"""Kernels from text, so that one test can run over many expressions."""

from __future__ import annotations

import itertools
import linecache
from typing import Any

import kdsl
from kdsl.ir import nodes
from kdsl.ir.verifier import verify

_NUMBERS = itertools.count()


def define(text: str, **names: Any) -> dict[str, Any]:
    """Run a module of this text, with everything of kdsl in its globals."""
    file = f"<text {next(_NUMBERS)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space: dict[str, Any] = {**{name: getattr(kdsl, name) for name in dir(kdsl) if not name.startswith("_")}, "__name__": "text", **names}
    exec(compile(text, file, "exec"), space)
    return space


def kernel_of(body: str, parameters: str, options: str = "grid=1, block=32", /, **names: Any) -> nodes.Kernel:
    """The IR of a kernel with this body (its lines) and these parameters."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    ir: nodes.Kernel = define(f"@kernel({options})\ndef tested({parameters}) -> None:\n{lines}", **names)["tested"].ir()
    verify(ir)
    return ir


def ops(kernel: nodes.Kernel, kind: type[nodes.Op]) -> list[Any]:
    """All operations of one class."""
    return [op for op in nodes.walk(kernel.body) if isinstance(op, kind)]
