"""Failed checks: the function, out of the way of the hot code, that claims the record of `ir.abi` and fills it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu.lanes import I32, I64
from kdsl.ir.abi import RECORD, layout

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission

_NAME: Final = "record.failure"


class Failures:
    """Emits calls of the recording function, which is made at the first of them."""

    def __init__(self, emission: Emission) -> None:
        self.e = emission
        self.function: Any = None

    def call(self, site: int, lane: Any, dimension: Any, index: Any, extent: Any) -> None:
        """Record a failure of one lane (i32); dimension is i32, index and extent are i64."""
        e = self.e
        if self.function is None:
            self.function = self._define()
        thread = e.builder.add(e.builder.trunc(e.specials.first_thread, I32), lane)
        arguments = e.builder.function.args[0]
        call = e.builder.call(self.function, [arguments, e.specials.block_number, thread, ir.Constant(I32, site), dimension, index, extent])
        e.storage.touches_no_array(call)

    def _define(self) -> Any:
        e = self.e
        pointer = ir.PointerType()
        function = ir.Function(e.module, ir.FunctionType(ir.VoidType(), [pointer, I64, I32, I32, I32, I64, I64]), _NAME)
        function.linkage = "internal"
        for attribute in ("noinline", "cold", "nounwind"):
            function.attributes.add(attribute)
        arguments, block, thread, site, dimension, index, extent = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        slots = layout(e.kernel)

        def argument(name: str, kind: ir.Type) -> Any:
            return b.load(b.gep(arguments, [ir.Constant(I64, slots.offset(name))], source_etype=ir.IntType(8)), typ=kind)

        claim = argument("claim", pointer)
        exchanged = b.cmpxchg(claim, ir.Constant(I64, 0), ir.Constant(I64, 1), "acq_rel", "acquire")
        mine, theirs = function.append_basic_block("first"), function.append_basic_block("late")
        b.cbranch(b.extract_value(exchanged, 1), mine, theirs)
        b.position_at_end(theirs)
        b.ret_void()
        b.position_at_end(mine)
        record = argument("record", pointer)

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
        return function
