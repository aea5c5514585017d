"""A generated program through kdsl: source → typed IR → code of the CPU target, run on packed arguments. GPUs stand in `on_gpu.py`.

The launcher is left out: it has tests of its own, and making one costs more than compiling a small kernel.
"""

from __future__ import annotations

import ctypes
import inspect
import itertools
import linecache
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt

import kdsl
from kdsl.backend.cpu import HostCpu, load
from kdsl.backend.cpu.compile import CpuObject, build_module
from kdsl.backend.cpu.machine_code import machine_code
from kdsl.backend.llvm.module import parse
from kdsl.frontend.build import build
from kdsl.frontend.declare import declare
from kdsl.frontend.source import parse as parse_function
from kdsl.ir import nodes
from kdsl.ir.abi import RECORD_SIZE, Layout, encoded, layout
from kdsl.ir.verifier import verify
from kdsl.lang.geometry import Grid
from kdsl.runtime.record import Failure
from tests.fuzz.cells import Strided
from tests.fuzz.inputs import Arguments

_numbers: Final = itertools.count()
_MARGIN: Final = 64
"""Bytes around each array that must stay as they are."""
_FILL: Final = 0xA5


@dataclass(frozen=True)
class Built:
    """A program as typed IR."""

    kernel: nodes.Kernel
    """The IR."""
    layout: Layout
    """How its arguments are packed."""


def build_program(source: str) -> Built:
    """The IR of a program's kernel. Raises KernelError if kdsl refuses it."""
    file = f"<fuzz {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    found: list[tuple[Callable[..., Any], dict[str, Any]]] = []

    def kernel(**settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            found.append((function, settings))
            return function

        return decorate

    names = {name: getattr(kdsl, name) for name in kdsl.__all__}
    try:
        exec(compile(source, file, "exec"), {**names, "kernel": kernel, "TypeVar": TypeVar, "__name__": "fuzz"})
        ((function, settings),) = found
        parsed = parse_function(function)
        grid, block = settings["grid"], settings["block"]
        x, y, z = (*((block,) if isinstance(block, int) else block), 1, 1)[:3]
        declared = declare(
            parsed,
            Grid(*((grid,) if isinstance(grid, int) else grid)),
            (x, y, z),
            settings.get("requires", ()),
            settings.get("contract", True),
        )
        parsed.captures.complete()
        constants = {p.name: p.default for p in inspect.signature(function).parameters.values() if p.default is not p.empty}
        ir = build(parsed, declared, {}, constants)
    finally:
        del linecache.cache[file]
    verify(ir)
    return Built(ir, layout(ir))


Entry: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


class OnCpu:
    """A program compiled for the CPU target at several levels of optimisation."""

    def __init__(self, built: Built, host: HostCpu, levels: Sequence[int]) -> None:
        self.built = built
        self.codes = []
        module, entry, scratch = build_module(built.kernel, host)
        parsed = parse(module)
        copies = [parsed, *(llvm.parse_bitcode(parsed.as_bitcode()) for _ in levels[1:])]
        for level, copy in zip(levels, copies, strict=True):
            code = load(CpuObject(machine_code(copy, host, level), entry, scratch))
            self.codes.append((f"{host.generation} -O{level}", code, Entry(code.address)))

    def run(self, number: int, arguments: Arguments, grid: tuple[int, int, int]) -> Outcome:
        """One version on one set of arguments."""
        _, code, entry = self.codes[number]
        image = Image(arguments)
        store = np.empty(image.size + 64, np.uint8)
        memory = store[-store.ctypes.data % 64 :][: image.size]
        image.write(memory)
        start = int(memory.ctypes.data)
        buffer = pack(self.built.layout, arguments, grid, {name: start + at for name, at in image.offsets.items()})
        scratch = np.full(code.scratch_bytes + 1024, _FILL, np.uint8)
        entry(ctypes.addressof(buffer), 0, grid[0] * grid[1] * grid[2], scratch.ctypes.data + -scratch.ctypes.data % 1024)
        return image.outcome(memory)


@dataclass
class Outcome:
    """What a run has left."""

    arrays: dict[str, npt.NDArray[Any]]
    """The views, as they are afterwards."""
    failure: Failure | None
    """The record of the first failed check."""
    overrun: str = ""
    """The array beside which memory has changed."""


def pack(slots: Layout, arguments: Arguments, grid: tuple[int, int, int], addresses: Mapping[str, int]) -> Any:
    """The buffer that a kernel's code reads its arguments from. `addresses` has those of the views, of `claim` and of `record`."""
    hidden = {
        "claim": addresses["claim"],
        "record": addresses["record"],
        "kernel": 1,
        "grid_x": grid[0],
        "grid_y": grid[1],
        "grid_z": grid[2],
    }
    values: list[Any] = []
    for slot in slots.slots:
        if slot.kind in ("value", "hidden"):
            values.append(hidden[slot.name] if slot.kind == "hidden" else arguments.numbers[slot.name])
            continue
        assert slot.parameter is not None
        name = slot.parameter.name
        array = arguments.arrays[name]
        places = arguments.places.get(name, Strided(0, (array.size,), (1,)))
        if slot.kind == "address":
            values.append(addresses[name] + places.offset * array.itemsize)
        else:
            values.append((places.shape if slot.kind == "length" else places.strides)[slot.dimension])
    buffer = ctypes.create_string_buffer(slots.size)
    struct.pack_into(slots.format, buffer, 0, *(encoded(slot.type, value) for slot, value in zip(slots.slots, values, strict=True)))
    return buffer


class Image:
    """Memory for one run: the arrays with margins, the word that a failing thread claims, the record. It lies on the host, and is copied to a GPU."""

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments
        self.offsets: dict[str, int] = {"record": 0, "claim": RECORD_SIZE}
        """Where things lie, from the start."""
        at = 256
        for name, array in arguments.arrays.items():
            self.offsets[name] = at
            at += -(-array.nbytes // _MARGIN) * _MARGIN + _MARGIN
        self.size = -(-at // 256) * 256
        """Bytes."""

    def write(self, memory: npt.NDArray[np.uint8]) -> None:
        """Fill it."""
        memory[:256] = 0
        memory[256:] = _FILL
        memory[RECORD_SIZE + 8 : 256] = _FILL
        for name, array in self.arguments.arrays.items():
            memory[self.offsets[name] : self.offsets[name] + array.nbytes] = array.view(np.uint8)

    def outcome(self, memory: npt.NDArray[np.uint8]) -> Outcome:
        """What a run has left in it."""
        arrays, overrun, before = {}, "", RECORD_SIZE + 8
        for name, given in self.arguments.arrays.items():
            at = self.offsets[name]
            if (memory[before:at] != _FILL).any():
                overrun = name
            arrays[name] = memory[at : at + given.nbytes].view(given.dtype)
            before = at + given.nbytes
        if (memory[before : self.size] != _FILL).any():
            overrun = overrun or "the last array"
        failure = Failure.unpack(memory[:RECORD_SIZE].tobytes())
        return Outcome(arrays, failure if failure.state else None, overrun)
