"""Kernels for the tests of launchers that no compiler has seen: a declaration, an IR without a body, and Python as the code of a block."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from kdsl.ir import abi, nodes
from kdsl.ir.places import Member, StructParameter
from kdsl.ir.shared import shared_layout
from kdsl.lang.declaration import Declaration, Parameter, StructType
from kdsl.lang.geometry import Geometry, Grid
from kdsl.lang.types import DType
from kdsl.lang.views import ConstAnnotation, ViewAnnotation
from kdsl.launch.bind import Launcher
from kdsl.launch.launchable import Specialisation
from kdsl.runtime.record import register

Entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


def _sizes(of: Any) -> tuple[Any, ...]:
    return of if isinstance(of, tuple) else (of,)


def _geometry(grid: Any) -> Geometry:
    return Grid(*_sizes(grid)) if isinstance(grid, int | str | tuple) else grid


class PythonCode:
    """Python that runs as the code of a kernel: `body(arguments, first_block, end_block)` gets the values of the slots by name."""

    scratch_bytes = 64

    def __init__(self, layout: abi.Layout, body: Callable[[dict[str, Any], int, int], None]) -> None:
        def run(arguments: int, first: int, end: int, scratch: int) -> None:
            values = struct.unpack(layout.format, ctypes.string_at(arguments, layout.size))
            body(dict(zip((slot.name for slot in layout.slots), values, strict=True)), first, end)

        self._entry = Entry(run)
        self.address = ctypes.cast(self._entry, ctypes.c_void_p).value or 0


class FakeKernel:
    """A kernel with its launcher, and a log of what ran: `runs` holds the arguments and the blocks of each call of the code."""

    def __init__(
        self, name: str, parameters: dict[str, Any], written: dict[str, str | None], read: dict[str, str | None], **options: Any
    ) -> None:
        """`parameters` by name; `written` and `read` give the witness for the views that the kernel would write or read."""
        keyword_only = options.pop("keyword_only", ())
        defaults = options.pop("defaults", {})
        declared = tuple(
            Parameter(p, getattr(of, "__kdsl_struct__", of), p in keyword_only, of if isinstance(of, type) else None, defaults.get(p))
            for p, of in parameters.items()
        )
        views = [p.type for p in declared if isinstance(p.type, ViewAnnotation)]
        variables = [p.type for p in declared if isinstance(p.type, TypeVar)] + [v.element for v in views if isinstance(v.element, TypeVar)]
        self.declaration = Declaration(
            name=name,
            module="tests",
            doc=options.get("doc", "Do nothing."),
            parameters=declared,
            geometry=_geometry(options.get("grid", 1)),
            block_dim=(*_sizes(options.get("block", 32)), 1, 1)[:3],
            requires=tuple(options.get("requires", ())),
            contract_fma=True,
            type_variables=tuple(dict.fromkeys(variables)),
        )
        self.written, self.read = written, read
        self.runs: list[tuple[dict[str, Any], int, int]] = []
        self.body: Callable[[dict[str, Any], int, int], None] = lambda *run: self.runs.append(run)
        self.compiled: list[Specialisation] = []
        self.launcher = Launcher(self.declaration, self.specialise)

    def __call__(self, *arguments: Any, **keywords: Any) -> None:
        self.launcher.function(*arguments, **keywords)

    def specialise(self, wanted: Specialisation) -> Any:
        self.compiled.append(wanted)
        ir: list[nodes.ScalarParameter | nodes.View] = []

        def decided(of: Any) -> DType:
            return wanted.types[of] if isinstance(of, TypeVar) else of

        for p in self.declaration.parameters:
            match p.type:
                case ViewAnnotation(kind=kind, element=element):
                    witness = self.written.get(p.name, self.read.get(p.name))
                    ir.append(nodes.View(p.name, decided(element), kind, p.name in self.written, p.name in self.read, witness))
                case ConstAnnotation():
                    pass
                case StructType(fields=fields):
                    owner = StructParameter(p.name, p.type)
                    ir += [nodes.ScalarParameter(f"{p.name}.{f.name}", f.type, member=Member(owner, f.offset)) for f in fields]
                case of:
                    ir.append(nodes.ScalarParameter(p.name, decided(of)))
        place = nodes.Location("fake.py", 1, 0, 1, 3, self.declaration.name)
        sites = [nodes.Site("store", "y", nodes.Location("fake.py", 7, 4, 7, 9), None)]
        kernel = nodes.Kernel(self.declaration.name, ir, [], [], self.declaration.block_dim, sites, nodes.Block(), place)
        layout = abi.layout(kernel)
        code = PythonCode(layout, lambda arguments, first, end: self.body(arguments, first, end))
        views = {v.name: v for v in ir if isinstance(v, nodes.View)}

        class Launchable:
            pass

        made: Any = Launchable()
        made.layout, made.views, made.shared, made.code, made.number = layout, views, shared_layout(()), code, register(kernel)
        return made

    @property
    def arguments(self) -> dict[str, Any]:
        """What the last run got."""
        return self.runs[-1][0]

    @property
    def blocks(self) -> int:
        """How many blocks have run in all."""
        return sum(end - first for _, first, end in self.runs)


@pytest.fixture
def fake() -> Callable[..., FakeKernel]:
    """Makes a kernel: `fake("copy", {"y": DisjointSlice[f32], "x": Slice[f32]}, written={"y": "thread_index"}, read={}, grid=elements("y"))`."""

    def make(name: str, parameters: dict[str, Any], written: Any = None, read: Any = None, **options: Any) -> FakeKernel:
        return FakeKernel(name, parameters, written or {}, read or {}, **options)

    return make
