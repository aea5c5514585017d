"""Launches of instrumented kernels: blocks one after the other on the calling thread, with the shadows of all arrays at hand."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kdsl.backend.cpu.jit import CpuCode
from kdsl.backend.cpu.sanitizer import STATE_AT, layout
from kdsl.backend.cpu.sanitizer.sites import Sites, granule, is_global, memories
from kdsl.ir import nodes
from kdsl.ir.abi import Layout, extent_slot
from kdsl.ir.abi import layout as arguments_of
from kdsl.runtime.cpu import CpuFunction
from kdsl.runtime.sanitizer.describe import Launched, Where, findings
from kdsl.runtime.sanitizer.session import Session
from kdsl.runtime.sanitizer.session import session as current
from kdsl.runtime.sanitizer.shadow import Shadow, shadow_at


@dataclass(frozen=True)
class InstrumentedCode:
    """Instrumented code of one kernel (`kdsl.runtime.cpu.CpuCode`)."""

    code: CpuCode
    """The code."""
    kernel: nodes.Kernel
    """What it was made from."""
    session: Session
    """Where findings go when the sanitizer has been stopped."""

    @property
    def address(self) -> int:
        """Of the entry point."""
        return self.code.address

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory of a running thread."""
        return self.code.scratch_bytes


class _Arguments:
    """The packed arguments of a launch."""

    def __init__(self, of: Layout, address: int) -> None:
        self._bytes = ctypes.string_at(address, of.size)
        self._offsets = {slot.name: slot.offset for slot in of.slots if slot.kind != "hidden"}
        self._hidden = {slot.name: slot.offset for slot in of.slots if slot.kind == "hidden"}

    def word(self, name: str) -> int:
        """An address."""
        return int(struct.unpack_from("=Q", self._bytes, self._offsets[name])[0])

    def number(self, name: str) -> int:
        """An extent or a stride."""
        return int(struct.unpack_from("=q", self._bytes, self._offsets[name])[0])

    def has(self, name: str) -> bool:
        """Whether it is there."""
        return name in self._offsets

    def grid(self) -> tuple[int, int, int]:
        """Extents of the grid."""
        x, y, z = (struct.unpack_from("=i", self._bytes, self._hidden[f"grid_{axis}"])[0] for axis in "xyz")
        return x, y, z

    def claim(self) -> int:
        """The address behind which the address of the state lies."""
        return int(struct.unpack_from("=Q", self._bytes, self._hidden["claim"])[0])


_Words = npt.NDArray[np.uint64]
_NOWHERE: Final = np.zeros(layout.WORDS, np.uint64)
"""A shadow for arrays without elements."""


class SanitizedFunction(CpuFunction):
    """An instrumented kernel, to be run any number of times."""

    def __init__(self, code: InstrumentedCode) -> None:
        super().__init__(code)
        self._instrumented = code
        self._layout = arguments_of(code.kernel)
        self._sites = Sites(code.kernel)
        self._memories = memories(code.kernel)
        self._own: dict[int, _Words] = {}
        self._copies = np.empty(0, np.uint64)
        if any(isinstance(op, nodes.Instruction) and op.name == "copy_async" for op in nodes.walk(code.kernel.body)):
            self._copies = np.zeros(code.kernel.threads * layout.QUEUE_WORDS, np.uint64)

    def run(self, arguments: int, blocks: int, scratch: int = 0) -> None:
        """Run all blocks, in order; take up what was found."""
        session = current() or self._instrumented.session
        state = session.state
        with session.lock:
            given = _Arguments(self._layout, arguments)
            held: list[Any] = []  # what the code reads and writes meanwhile
            where = [self._place(number, memory, given, held) for number, memory in enumerate(self._memories)]
            for number, place in enumerate(where):
                state[layout.MEMORIES + number] = place.shadow
            times = np.zeros(blocks, np.uint64)
            state[layout.BLOCK_TIMES], state[layout.COPIES] = times.ctypes.data, self._copies.ctypes.data
            now = Session.now + layout.STEP
            state[layout.NOW] = state[layout.LAUNCH] = state[layout.FLOOR] = now
            ctypes.c_uint64.from_address(given.claim() + STATE_AT).value = state.ctypes.data
            self._call(arguments, 0, blocks, max(scratch, self._scratch_bytes))
            Session.now = int(state[layout.NOW])
            session.launches += 1
            session.kernels.add(self._instrumented.kernel.name)
            if state[layout.FOUND] or state[layout.LOST]:
                launched = Launched(
                    self._instrumented.kernel, self._sites.places, self._memories, where, given.grid(), times, self._sites.deciding()
                )
                for finding in findings(launched, session.table):
                    session.add(finding)
                if state[layout.LOST]:
                    session.skip(f"kernel {self._instrumented.kernel.name}: so much was found in one launch that a part was not recorded")
                session.table[:] = 0
                state[layout.FOUND] = state[layout.LOST] = 0

    def _place(self, number: int, memory: nodes.Memory, given: _Arguments, held: list[Any]) -> Where:
        """Where the shadow of an array is for this launch."""
        size = granule(memory.type)
        if is_global(memory):
            assert isinstance(memory, nodes.View)
            address = given.word(f"{memory.name}.address")
            shadow = shadow_at(address) or self._unknown(memory, address, given)
            if not shadow.nbytes:
                return Where(_NOWHERE.ctypes.data, address, shadow)
            words = shadow.words_for(size)
            held.append(words)
            return Where(words.ctypes.data + (address - shadow.address) // size * words.strides[0], address, shadow)
        count = memory.type.itemsize // size
        if isinstance(memory, nodes.SharedView):
            for dimension, extent in enumerate(memory.extents):
                count *= given.number(extent_slot(memory.name, memory.rank, dimension)) if isinstance(extent, str) else extent
            count *= layout.WORDS
        elif isinstance(memory, nodes.Array) and memory.space == "shared":
            count *= memory.size * layout.WORDS
        elif isinstance(memory, nodes.Array) and memory.space == "local":
            count *= memory.size * self._instrumented.kernel.threads
        else:
            count = 0
        known = self._own.get(number)
        if known is None or len(known) < count:
            known = self._own[number] = np.zeros(count, np.uint64)  # later launches find old times there
        return Where(known.ctypes.data, 0, None)

    def _unknown(self, view: nodes.View, address: int, given: _Arguments) -> Shadow:
        """Of memory that was there before the sanitizer: all that the view spans counts as written."""
        low = high = 0
        for dimension in range(view.rank):
            extent = given.number(extent_slot(view.name, view.rank, dimension))
            stride = given.number(f"{view.name}.stride.{dimension}") if view.has_strides else 1
            if not extent:
                return Shadow(address, 0, written=True)
            end = (extent - 1) * stride
            low, high = low + min(end, 0), high + max(end, 0)
        item = view.type.itemsize
        return Shadow(address + low * item, (high - low + 1) * item, written=True)
