"""Failed checks: the functions, out of the way of the hot code, that claim the record of `ir.abi` and fill it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from kdsl.backend.cpu.lanes import I32, I64, POINTER, LaneArithmetic, Lanes, Linear, Term
from kdsl.backend.cpu.masks import Masks
from kdsl.ir.abi import RECORD, layout

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission


class Failures:
    """Emits calls of functions that are made at their first use: one records a failure, two check the indices of a group and record one that is outside."""

    def __init__(self, emission: Emission) -> None:
        self.e = emission
        self._functions: dict[str, Any] = {}

    def _function(self, name: str, define: Callable[[Any], None], result: ir.Type, *parameters: ir.Type) -> Any:
        if name not in self._functions:
            function = ir.Function(self.e.module, ir.FunctionType(result, parameters), name)
            function.linkage = "internal"
            # the callee saves most registers, so that a check costs the hot code around it none of them
            function.calling_convention = "preserve_mostcc"
            for attribute in ("noinline", "cold"):
                function.attributes.add(attribute)
            self.e.host.mark(function)
            self._functions[name] = function
            define(function)
        return self._functions[name]

    def _recorder(self) -> Any:
        return self._function("record.failure", self._define_recorder, ir.VoidType(), POINTER, I64, I32, I32, I32, I64, I64)

    def call(self, site: int, lane: Any, dimension: Any, index: Any, extent: Any) -> None:
        """Record a failure of one lane (i32); dimension is i32, index and extent are i64."""
        e = self.e
        thread = e.builder.add(e.builder.trunc(e.specials.first_thread, I32), lane)
        arguments = [e.builder.function.args[0], e.specials.block_number, thread, ir.Constant(I32, site), dimension, index, extent]
        e.storage.touches_no_array(e.builder.call(self._recorder(), arguments))

    def check(self, site: int, dimension: int, index: Lanes, extent: Any, active: Any) -> Any:
        """The lanes of `active` (as bits) whose index is inside one dimension, after recording a failure of the first that is not."""
        e = self.e
        bits = e.masks.bits
        common = (POINTER, I64, I32, I32, I32, I64, bits)
        if isinstance(index, Linear) and index.offsets == e.lanes.iota:
            function, place = self._function("check.run", self._define_run, bits, *common, I64), index.base
        else:
            function = self._function("check.lanes", self._define_lanes, bits, *common, ir.VectorType(I64, e.width))
            place = e.lanes.vector(index)
        thread = e.builder.trunc(e.specials.first_thread, I32)
        numbers = (ir.Constant(I32, site), ir.Constant(I32, dimension))
        call = e.builder.call(function, [e.builder.function.args[0], e.specials.block_number, thread, *numbers, extent, active, place])
        e.storage.touches_no_array(call)
        return call

    def _define_run(self, function: Any) -> None:
        """Lane n has the index `place` + n."""
        lanes = self._function(
            "check.lanes", self._define_lanes, self.e.masks.bits, *(a.type for a in function.args[:-1]), ir.VectorType(I64, self.e.width)
        )
        b = ir.IRBuilder(function.append_basic_block("entry"))
        base = LaneArithmetic(b, self.e.width, narrow_compares=False)
        index = base.vector(Linear(function.args[-1], (Term(base.iota),)))
        b.ret(b.call(lanes, [*function.args[:-1], index]))

    def _define_lanes(self, function: Any) -> None:
        arguments, block, thread, site, dimension, extent, active, index = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        masks = Masks(b, self.e.width)
        inside = b.icmp_unsigned("<", index, LaneArithmetic(b, self.e.width, narrow_compares=False).splat(extent))
        outside = masks.without(masks.unpacked(active), inside)
        bad, after = function.append_basic_block("outside"), function.append_basic_block("checked")
        b.cbranch(masks.any(outside), bad, after)
        b.position_at_end(bad)
        lane = masks.first(outside)
        b.call(self._recorder(), [arguments, block, b.add(thread, lane), site, dimension, b.extract_element(index, lane), extent])
        b.branch(after)
        b.position_at_end(after)
        b.ret(b.and_(active, masks.packed(inside)))

    def _define_recorder(self, function: Any) -> None:
        e = self.e
        arguments, block, thread, site, dimension, index, extent = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        slots = layout(e.kernel)

        def argument(name: str, kind: ir.Type) -> Any:
            return b.load(b.gep(arguments, [ir.Constant(I64, slots.hidden_offset(name))], source_etype=ir.IntType(8)), typ=kind)

        claim = argument("claim", POINTER)
        exchanged = b.cmpxchg(claim, ir.Constant(I64, 0), ir.Constant(I64, 1), "acq_rel", "acquire")
        mine, theirs = function.append_basic_block("first"), function.append_basic_block("late")
        b.cbranch(b.extract_value(exchanged, 1), mine, theirs)
        b.position_at_end(theirs)
        b.ret_void()
        b.position_at_end(mine)
        record = argument("record", POINTER)

        def write(name: str, value: Any) -> None:
            b.store(value, b.gep(record, [ir.Constant(I64, RECORD[name])], source_etype=ir.IntType(8)), align=4)

        for name, value in (
            ("site", site),
            ("dimension", dimension),
            ("index", index),
            ("extent", extent),
            ("kernel", argument("kernel", I32)),
        ):
            write(name, value)
        x, y = (b.zext(argument(name, I32), I64) for name in ("grid_x", "grid_y"))
        row = b.udiv(block, x)
        for name, value in (("block_x", b.urem(block, x)), ("block_y", b.urem(row, y)), ("block_z", b.udiv(row, y))):
            write(name, b.trunc(value, I32))
        along_x, along_y, _ = (ir.Constant(I32, extent) for extent in e.kernel.block_dim)
        row = b.udiv(thread, along_x)
        for name, value in (("thread_x", b.urem(thread, along_x)), ("thread_y", b.urem(row, along_y)), ("thread_z", b.udiv(row, along_y))):
            write(name, value)
        state = b.gep(record, [ir.Constant(I64, RECORD["state"])], source_etype=ir.IntType(8))
        b.atomic_rmw("xchg", state, ir.Constant(I32, 1), "release")
        b.ret_void()
