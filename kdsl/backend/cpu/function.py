"""The native functions of a kernel: the entry point, which sets the floating-point environment, and the loop over blocks."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from kdsl.backend.cpu.emission import Emission
from kdsl.backend.cpu.lanes import I32, I64, POINTER
from kdsl.backend.cpu.rounds import BLOCKS, emit_round, loop_in_turns
from kdsl.backend.llvm.module import call_intrinsic, memory_type
from kdsl.ir import nodes
from kdsl.ir.abi import extent_slot, layout

_DEFAULT_MXCSR: Final = 0x1F80
"""Round to nearest even, keep subnormals, no traps (Intel SDM volume 1, section 10.2.3)."""


def native_type() -> ir.FunctionType:
    """`void (i8* arguments, i64 first_block, i64 end_block, i8* scratch)`."""
    return ir.FunctionType(ir.VoidType(), [POINTER, I64, I64, POINTER])


def emit(emission: Emission, name: str) -> None:
    """Emit both functions into the module."""
    blocks = ir.Function(emission.module, native_type(), f"{name}.blocks")
    blocks.linkage = "internal"
    # not inlined: LLVM does not know that the floating-point environment matters to arithmetic, and would move it across
    for attribute in (
        "noinline",
        "optsize",
    ):  # for size: lanes are explicit, and copies of loops for every case of a stride cost more than they gain
        blocks.attributes.add(attribute)
    emission.host.mark(blocks)
    _block_loop(emission, blocks)
    entry = ir.Function(emission.module, native_type(), name)
    emission.host.mark(entry)
    _entry(emission, entry, blocks)


def _block_loop(emission: Emission, function: Any) -> None:
    e = emission
    b = e.builder
    arguments, first, end, _ = function.args
    b.position_at_end(function.append_basic_block("entry"))
    for slot in layout(e.kernel).slots:
        address = b.gep(arguments, [e.i64(slot.offset)], source_etype=ir.IntType(8))
        if slot.kind == "array":
            e.arguments[slot.name] = address
            continue
        is_pointer = slot.kind == "address"
        loaded = b.load(address, align=slot.type.itemsize, typ=POINTER if is_pointer else memory_type(slot.type))
        key = f".{slot.name}" if slot.kind == "hidden" else slot.name  # a parameter may be called `kernel` or `grid_x`, too
        e.arguments[key] = b.icmp_unsigned("!=", loaded, ir.Constant(loaded.type, 0)) if slot.type.is_bool else loaded
    for view in e.kernel.shared_views:
        _define(e, view, function.args[3])
    head, body, following, leave = (e.append(n) for n in ("block", "threads", "endblock", "leave"))
    entry = b.block
    b.branch(head)
    b.position_at_end(head)
    number = b.phi(I64, "block")
    number.add_incoming(first, entry)
    b.cbranch(b.icmp_signed("<", number, end), body, leave)
    b.position_at_end(body)
    loop = loop_in_turns(e)
    count: Any = e.i64(1)
    if loop is None:
        e.specials.enter_block(number)
        e.regions.threads(following)
    else:
        e.regions.prepare()
        e.specials.band = BLOCKS
        to_column, to_end = b.sub(e.i64(BLOCKS), b.and_(number, e.i64(BLOCKS - 1))), b.sub(end, number)
        count = b.select(b.icmp_signed("<", to_column, to_end), to_column, to_end)
        emit_round(e, loop, number, count)
        b.branch(following)
    b.position_at_end(following)
    number.add_incoming(b.add(number, count), following)
    b.branch(head)
    b.position_at_end(leave)
    b.ret_void()


def _define(emission: Emission, view: nodes.SharedView, scratch: Any) -> None:
    """Make a shared array whose extents the launch decides known like a parameter; the launch says where in the scratch memory it begins."""
    e = emission
    place = e.arguments[f"{view.name}.place"]
    e.arguments[f"{view.name}.address"] = e.builder.gep(scratch, [place], source_etype=ir.IntType(8))
    for dimension, extent in enumerate(view.extents):
        stride = view.fixed_stride(dimension)
        if isinstance(extent, int):
            e.arguments[extent_slot(view.name, view.rank, dimension)] = e.i64(extent)
        if stride is not None:
            e.arguments[f"{view.name}.stride.{dimension}"] = e.i64(stride)


def _entry(emission: Emission, function: Any, blocks: Any) -> None:
    b = ir.IRBuilder(function.append_basic_block("entry"))
    if emission.host.is_x86:
        before, wanted = b.alloca(I32), b.alloca(I32)
        call_intrinsic(b, "llvm.x86.sse.stmxcsr", ir.VoidType(), before)
        b.store(ir.Constant(I32, _DEFAULT_MXCSR), wanted)
        call_intrinsic(b, "llvm.x86.sse.ldmxcsr", ir.VoidType(), wanted)
        b.call(blocks, function.args)
        call_intrinsic(b, "llvm.x86.sse.ldmxcsr", ir.VoidType(), before)
    else:
        control = call_intrinsic(b, "llvm.aarch64.get.fpcr", I64)
        call_intrinsic(b, "llvm.aarch64.set.fpcr", ir.VoidType(), ir.Constant(I64, 0))
        b.call(blocks, function.args)
        call_intrinsic(b, "llvm.aarch64.set.fpcr", ir.VoidType(), control)
    b.ret_void()
