"""The emission of instrumented code: that of plain code, with calls around what is to be looked at.

Groups have their usual width, loops are not split. Accesses that the kernel checks itself stay as they are, so that its failures are recorded as always; others
are left out where their indices are outside. What is not here: accesses (`arrays`, `accesses`), values and exchanges (`values`), infinities and NaNs
(`numbers`), copies (`copies`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from kdsl.backend.cpu.emission import Emission
from kdsl.backend.cpu.host import HostCpu
from kdsl.backend.cpu.lanes import Lanes
from kdsl.backend.cpu.masks import Mask
from kdsl.backend.cpu.plan import Region
from kdsl.backend.cpu.regions import Regions
from kdsl.backend.cpu.sanitizer import copies, layout, numbers, values
from kdsl.backend.cpu.sanitizer.arrays import Arrays
from kdsl.backend.cpu.sanitizer.code import POINTER, WORD, Code, word
from kdsl.backend.cpu.sanitizer.granules import Touch
from kdsl.backend.cpu.sanitizer.sites import FOUND_ONLY, Sites
from kdsl.ir import nodes
from kdsl.ir.abi import PRINT_BYTES, PRINT_DATA
from kdsl.ir.abi import layout as arguments_of

STATE_AT: int = PRINT_DATA + PRINT_BYTES
"""Bytes behind the address of the claim at which the address of the state lies."""


@dataclass(frozen=True)
class Options:
    """What else to look at."""

    numbers: bool = False
    """Whether to report where a NaN or an infinity first arises."""


class SanitizedEmission(Emission):
    """The emission of one kernel."""

    keeps_order = True

    def __init__(self, kernel: nodes.Kernel, host: HostCpu, width: int, module: ir.Module, options: Options) -> None:
        super().__init__(kernel, host, width, module)
        self.wide = None
        self.splits = {}
        self.is_fallback = True  # small code rather than fast code
        self.options = options
        self.sites = Sites(kernel)
        self.code = Code(self.builder)
        self.arrays = Arrays(self)
        self.regions: SanitizedRegions = SanitizedRegions(self)
        self.state: Any = None
        """The address of the state."""
        self.syncs_warps = any(isinstance(op, nodes.Instruction) and op.name == "sync_warp" for op in nodes.walk(kernel.body))
        self.has_copies = any(isinstance(op, nodes.Instruction) and op.name == "copy_async" for op in nodes.walk(kernel.body))

    def bits(self, mask: Mask) -> Any:
        """A mask as a word."""
        packed = self.masks.packed(mask)
        return packed if packed.type.width == 64 else self.builder.zext(packed, WORD)

    def lanes_of(self, bits: Any) -> Mask:
        """The mask of a word."""
        return self.masks.unpacked(bits if self.width == 64 else self.builder.trunc(bits, self.masks.bits))

    @contextmanager
    def only_lanes(self, bits: Any) -> Iterator[None]:
        """Emit something for those lanes only; perhaps there are none."""
        before = self.mask, self.guarded
        self.mask, self.guarded = self.lanes_of(bits), False
        yield
        self.mask, self.guarded = before

    # ------------------------------------------------------------------------------------------------------------------ blocks

    def begin(self) -> None:
        """Find the state, at the entry of the function."""
        b = self.builder
        with b.goto_entry_block():
            claim = arguments_of(self.kernel).hidden_offset("claim")
            place = b.load(b.gep(b.function.args[0], [word(claim)], source_etype=ir.IntType(8)), align=8, typ=POINTER)
            self.state = b.load(b.gep(place, [word(STATE_AT)], source_etype=ir.IntType(8)), align=8, typ=POINTER)

    def begin_block(self) -> None:
        """A block begins: nothing of it has been touched."""
        code, state = self.code, self.state
        now = self.step()
        for place in (layout.BLOCK, layout.INTERVAL, layout.WARP):
            code.store(now, state, place)
        code.store(code.load(state, layout.LAUNCH), state, layout.FLOOR)
        number = self.specials.block_number
        code.store(number, state, layout.BLOCK_NUMBER)
        code.store(now, code.load_pointer(state, layout.BLOCK_TIMES), number)
        if self.has_copies:
            copies.reset(self)

    def step(self) -> Any:
        """Let the clock go on; the new time."""
        now = self.builder.add(self.code.load(self.state, layout.NOW), word(layout.STEP))
        self.code.store(now, self.state, layout.NOW)
        return now

    # -------------------------------------------------------------------------------------------------------------- operations

    def operation(self, op: nodes.Op) -> None:
        match op:
            case nodes.Barrier():
                self.code.store(self.step(), self.state, layout.INTERVAL)
            case nodes.Store() | nodes.StoreVector() | nodes.LoadVector():
                with self._looked_at(op):
                    super().operation(op)
            case nodes.Assertion():
                values.assertion(self, op)
                if self.kernel.sites[op.site].kind not in FOUND_ONLY:
                    super().operation(op)
            case nodes.Fence():
                super().operation(op)
                if op.scope != "block":
                    self._acquire()
            case nodes.Instruction(name="sync_warp"):
                self.code.store(self.step(), self.state, layout.WARP)
            case nodes.Instruction():
                with copies.looked_at(self, op):
                    super().operation(op)
                numbers.multiplied(self, op)
            case _:
                super().operation(op)

    def define(self, op: nodes.ValueOp) -> Lanes:
        match op:
            case nodes.Load():
                with self._looked_at(op):
                    return super().define(op)
            case nodes.Atomic():
                with self._looked_at(op):
                    found = super().define(op)
                    numbers.changed(self, op, found)
                if op.order in ("acquire", "acq_rel", "seq_cst") and op.scope != "block":
                    self._acquire()
                return found
            case nodes.Check():
                indices = [self.value(i) for i in op.indices]
                self.arrays.look("bounds", self.sites.access(op), op.memory, indices, shape=op.shape, mask=self.mask)
                return super().define(op)
            case nodes.Exchange():
                present = values.exchange(self, op)
                found = super().define(op)
                numbers.exchanged(self, op, found, present)
                return found
            case _:
                found = super().define(op)
                values.converted(self, op)
                numbers.computed(self, op, found)
                return found

    @contextmanager
    def _looked_at(self, op: nodes.Access) -> Iterator[None]:
        """Look at an access; what is emitted inside makes it."""
        indices = [self.value(i) for i in op.indices]
        lanes = op.lanes if isinstance(op, nodes.LoadVector | nodes.StoreVector) else 1
        field = op.field if isinstance(op, nodes.Load | nodes.Store | nodes.Atomic) else None
        alignment = lanes * op.memory.type.itemsize if lanes > 1 and isinstance(op.memory, nodes.View) else 1
        allowed = self.arrays.look(
            _touch(op), self.sites.access(op), op.memory, indices, field=field, lanes=lanes, alignment=alignment, mask=self.mask
        )
        if op.checked:
            yield
            return
        with self.only_lanes(allowed):
            yield

    def _acquire(self) -> None:
        """What blocks have done that ran before, all of it, is ordered before what follows in this block. Those that released nothing are taken along."""
        self.code.store(self.code.load(self.state, layout.BLOCK), self.state, layout.FLOOR)


class SanitizedRegions(Regions):
    """Blocks of threads, with a note where one begins."""

    e: SanitizedEmission

    came: Any = None
    """The lanes with which the present group began its region."""

    def threads(self, block_end: Any) -> None:
        """Run all threads of a block."""
        if self.e.state is None:
            self.e.begin()
        self.e.begin_block()
        super().threads(block_end)

    def returned(self) -> None:
        """The active lanes are done."""
        values.returned(self.e)
        super().returned()

    def _group(self, region: Region, anyone: Any) -> None:
        values.begin_group(self.e)
        super()._group(region, anyone)

    def _initial_mask(self) -> Mask:
        self.came = super()._initial_mask()
        return self.came


def _touch(op: nodes.Access) -> Touch:
    match op:
        case nodes.Load() | nodes.LoadVector():
            return "read"
        case nodes.Store() | nodes.StoreVector():
            return "write"
        case _:
            return "look" if op.op == "load" else "replace" if op.op in ("store", "exchange") else "atomic"
