"""`build`: a small builder of IR by hand, so that the tests of this folder depend on nothing but the IR and the backend.

`check`: FileCheck directives from the docstring of the test that asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kdsl.backend.nvptx import compile_ptx
from kdsl.ir import nodes
from kdsl.ir.verifier import verify
from kdsl.lang.types import BOOL, F32, I64, DType
from kdsl.testing.ptx import filecheck

FILE = "/folder/source.py"


class Builder:
    """One kernel in the making. Every operation has a line of its own, from 11 on."""

    def __init__(self, name: str = "k", *, block: tuple[int, int, int] = (256, 1, 1), rank: int = 1) -> None:
        self.line = 10
        self.kernel = nodes.Kernel(name, [], [], [], block, [], nodes.Block(), self.place(), rank)
        self.blocks = [self.kernel.body]

    def place(self, **more: Any) -> nodes.Location:
        self.line += 1
        return nodes.Location(
            **{"file": FILE, "line": self.line, "column": 4, "end_line": self.line, "end_column": 9, "function": "k", **more}
        )

    def add(self, kind: type[Any], **fields: Any) -> Any:
        op = kind(**{"location": self.place(), **fields})
        self.blocks[-1].ops.append(op)
        return op

    @contextmanager
    def inside(self, block: nodes.Block) -> Iterator[None]:
        self.blocks.append(block)
        yield
        self.blocks.pop()

    # parameters and arrays
    def view(self, name: str, of: DType = F32, kind: Any = "SliceMut", **more: Any) -> nodes.View:
        view = nodes.View(name, of, kind, **{"written": kind != "Slice", "read": True, **more})
        self.kernel.parameters.append(view)
        return view

    def scalar(self, name: str, of: DType = I64) -> Any:
        parameter = nodes.ScalarParameter(name, of)
        self.kernel.parameters.append(parameter)
        return self.add(nodes.ParameterValue, type=of, parameter=parameter)

    def array(self, name: str, of: DType, *shape: int, space: Any = "shared") -> nodes.Array:
        array = nodes.Array(name, of, shape, space)
        self.kernel.arrays.append(array)
        return array

    def variable(self, name: str, of: DType) -> nodes.Variable:
        variable = nodes.Variable(name, of)
        self.kernel.variables.append(variable)
        return variable

    # values
    def constant(self, value: Any, of: DType = I64) -> Any:
        return self.add(nodes.Constant, type=of, value=value)

    def special(self, name: str) -> Any:
        return self.add(nodes.Special, type=I64, name=name)

    def binary(self, op: str, left: Any, right: Any) -> Any:
        return self.add(nodes.Binary, type=left.type, op=op, left=left, right=right)

    def compare(self, op: str, left: Any, right: Any) -> Any:
        return self.add(nodes.Compare, type=BOOL, op=op, left=left, right=right)

    def get(self, variable: nodes.Variable) -> Any:
        return self.add(nodes.Get, type=variable.type, variable=variable)

    def exchange(self, name: str, *arguments: Any, of: DType | None = None) -> Any:
        return self.add(nodes.Exchange, type=of or arguments[0].type, name=name, arguments=arguments)

    def thread(self) -> Any:
        """The number of the thread in a linear grid of linear blocks."""
        first = self.binary("mul", self.special("block_idx.x"), self.constant(self.kernel.threads))
        return self.binary("add", first, self.special("thread_idx.x"))

    # memory and control
    def load(self, memory: nodes.Memory, *indices: Any, checked: bool = False) -> Any:
        site = self.site("load", memory) if checked else 0
        return self.add(nodes.Load, type=memory.type, memory=memory, indices=indices, checked=checked, site=site)

    def store(self, memory: nodes.Memory, *indices_and_value: Any, checked: bool = False) -> Any:
        *indices, value = indices_and_value
        site = self.site("store", memory) if checked else 0
        return self.add(nodes.Store, memory=memory, indices=tuple(indices), value=value, checked=checked, site=site)

    def site(self, kind: Any, memory: nodes.Memory) -> int:
        extents = memory.shape if isinstance(memory, nodes.Array) else None
        self.kernel.sites.append(nodes.Site(kind, memory.name, self.place(), extents))
        return len(self.kernel.sites) - 1

    def set(self, variable: nodes.Variable, value: Any) -> None:
        self.add(nodes.Set, variable=variable, value=value)

    def barrier(self) -> None:
        self.add(nodes.Barrier)

    @contextmanager
    def when(self, condition: Any) -> Iterator[nodes.If]:
        op = self.add(nodes.If, condition=condition, then=nodes.Block(), orelse=nodes.Block())
        with self.inside(op.then):
            yield op

    @contextmanager
    def loop(self, start: Any, stop: Any, step: Any) -> Iterator[nodes.ForRange]:
        counter = nodes.Counter(location=self.place(), type=I64)
        op = self.add(nodes.ForRange, counter=counter, start=start, stop=stop, step=step, body=nodes.Block(), orelse=nodes.Block())
        with self.inside(op.body):
            yield op

    def ptx(self, target: str = "sm_90", **more: Any) -> str:
        """Verify, compile."""
        verify(self.kernel)
        return compile_ptx(self.kernel, target, **more)


@pytest.fixture
def build() -> Callable[..., Builder]:
    """`build(name, block=…)` begins a kernel."""
    return Builder


@pytest.fixture
def check(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """`check(text)` matches text against the directives in the docstring of the running test."""
    directives = request.function.__doc__
    assert directives is not None
    return lambda text: filecheck(text, directives)
