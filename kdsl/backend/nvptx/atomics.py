"""Atomic operations, fences, clocks and sleeping, as inline PTX.

LLVM 22 drops scope and order of `atomicrmw` on this target, so the instructions are written out. Sequential consistency is a `fence.sc` in front of the
strongest other order (PTX ISA, "Memory consistency model"; Lustig et al. 2019, "A Formal Analysis of the NVIDIA PTX Memory Consistency Model", table of
C++ mappings). Every one of them is taken by LLVM as touching all memory, so that nothing moves across it. What is not here: checks of indices.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from kdsl.backend.llvm import narrow
from kdsl.backend.llvm.arithmetic import Arithmetic
from kdsl.backend.llvm.module import value_type
from kdsl.backend.nvptx import assembly
from kdsl.ir import nodes
from kdsl.lang.intrinsics import INTRINSICS, SCOPES, ToAtomic, ToClock
from kdsl.lang.types import BF16, DType

_I16: Final = ir.IntType(16)
_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
STRONGEST: Final = {"load": "acquire", "store": "release"}
"""The order that stands behind the fence of a sequentially consistent access, `acq_rel` if not named here."""
_ADDS_BF16: Final = 90
"""Least compute capability with an addition of bf16 (PTX ISA, "atom")."""


def atomic(builder: ir.IRBuilder, op: nodes.Atomic, address: Any, arguments: list[Any], capability: int) -> Any:
    """Emit the operation on the element at `address` (in the global or the shared space), for a compute capability; its old value, of the element's type."""
    lowering = INTRINSICS[op.name].lowering
    assert isinstance(lowering, ToAtomic)
    if op.op in ("add", "sub") and op.type is BF16 and capability < _ADDS_BF16:
        return _by_exchange(builder, op, address, arguments[0])
    kind, scope = lowering.types[op.type.name], SCOPES[op.scope]
    shared = "shared" if op.remote is None else "shared::cluster"
    space = shared if isinstance(op.memory, nodes.Array | nodes.SharedView) else "global"
    given = [_as_operand(builder, op.type, kind, a) for a in arguments]
    if op.op == "sub":  # there is no instruction for it
        given = [negated(builder, op.type, given[0])]
    name, _, suffix = lowering.ptx.partition(".")
    strongest = STRONGEST.get(op.op, "acq_rel")
    order = strongest if op.order == "seq_cst" else op.order
    instruction = ".".join(part for part in (name, order, scope, space, suffix, kind) if part)
    if op.order == "seq_cst":
        assembly.statement(builder, f"fence.sc.{scope};")
    place = builder.ptrtoint(address, _I64)
    if op.op == "store":
        assembly.statement(builder, f"{instruction} [$0], $1;", place, *given)
        return ir.Constant(value_type(op.type), 0)
    operands = "".join(f", ${2 + number}" for number in range(len(given)))
    result = _register(op.type, kind)
    old = assembly.value(builder, f"{instruction} $0, [$1]{operands};", result, place, *given)
    if op.type.bits == 8:
        return builder.trunc(old, value_type(op.type))
    return builder.bitcast(old, value_type(op.type)) if op.type.is_float and result != value_type(op.type) else old


def negated(builder: ir.IRBuilder, of: DType, value: Any) -> Any:
    """The value with the other sign."""
    if of.is_float and of.bits == 16:
        return narrow.negated(builder, value)
    return builder.fneg(value) if of.is_float else builder.neg(value)


def _by_exchange(builder: ir.IRBuilder, op: nodes.Atomic, address: Any, value: Any) -> Any:
    """A sum of bf16, for which there is no instruction yet: tried until nobody came between."""
    b, place = builder, builder.ptrtoint(address, _I64)
    space, scope = "shared" if isinstance(op.memory, nodes.Array | nodes.SharedView) else "global", SCOPES[op.scope]
    if op.order == "seq_cst":
        assembly.statement(b, f"fence.sc.{scope};")
    order = "acq_rel" if op.order == "seq_cst" else op.order
    arithmetic = Arithmetic(b)
    added = negated(b, op.type, value) if op.op == "sub" else value
    first = assembly.value(b, f"ld.relaxed.{scope}.{space}.b16 $0, [$1];", _I16, place)
    before, again, done = b.block, b.append_basic_block("exchange"), b.append_basic_block("exchanged")
    b.branch(again)
    b.position_at_end(again)
    seen = b.phi(_I16)
    seen.add_incoming(first, before)
    wanted = arithmetic.combine("add", op.type, seen, added)
    found = assembly.value(b, f"atom.{order}.{scope}.{space}.cas.b16 $0, [$1], $2, $3;", _I16, place, seen, wanted)
    seen.add_incoming(found, b.block)
    b.cbranch(b.icmp_unsigned("==", found, seen), done, again)
    b.position_at_end(done)
    return found


def fence(builder: ir.IRBuilder, op: nodes.Fence) -> None:
    """A fence of the scope and the order of the operation."""
    assembly.statement(builder, f"fence.{'sc' if op.order == 'seq_cst' else op.order}.{SCOPES[op.scope]};")


def clock(builder: ir.IRBuilder, name: str) -> Any:
    """A counter, i64."""
    lowering = INTRINSICS[name].lowering
    assert isinstance(lowering, ToClock)
    return assembly.value(builder, f"mov.u64 $0, %{lowering.register};", _I64)


def sleep(builder: ir.IRBuilder, nanoseconds: Any) -> None:
    """Suspend the thread."""
    assembly.statement(builder, "nanosleep.u32 $0;", nanoseconds)


def _register(of: DType, kind: str) -> ir.Type:
    """The LLVM type of an operand: PTX moves floats as bits but where it computes with them, and bytes in registers of 16 bits."""
    return value_type(of) if kind.startswith("f") else ir.IntType(max(of.bits, 16))


def _as_operand(builder: ir.IRBuilder, of: DType, kind: str, value: Any) -> Any:
    wanted = _register(of, kind)
    if of.bits == 8:
        return builder.zext(value, wanted)
    return value if value.type == wanted else builder.bitcast(value, wanted)
