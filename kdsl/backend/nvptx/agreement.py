"""Checked builds: one value for all threads of a block, or lanes of a warp, of which each brings its own (`nodes.Agreed`).

In a block all write theirs to one word of shared memory, and all read what is left there; which one that is does not matter. In a warp all take the value of
the first lane that takes part. What is not here: the comparison with the own value.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from kdsl.backend.llvm.module import call_intrinsic, intrinsic
from kdsl.backend.nvptx.entry import SHARED, opaque
from kdsl.backend.nvptx.symbols import internal

_I1: Final = ir.IntType(1)
_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
_SYMBOL: Final = internal("agreed", 0)


def of_block(builder: ir.IRBuilder, value: Any) -> Any:
    """The value of one thread of the block."""
    word = builder.module.globals.get(_SYMBOL)
    if word is None:
        word = ir.GlobalVariable(builder.module, _I64, _SYMBOL, addrspace=SHARED)
        word.linkage = "internal"
        word.initializer = ir.Constant(_I64, ir.Undefined)
        word.align = 8
    place = opaque(word)
    builder.store(_widened(builder, value), place, align=8)
    _barrier(builder)
    taken = builder.load(place, align=8, typ=_I64)
    _barrier(builder)  # so that the word may be used again
    return taken if value.type == _I64 else builder.trunc(taken, value.type)


def of_warp(builder: ir.IRBuilder, value: Any) -> Any:
    """The value of the first lane that takes part."""
    full = _I32(0xFFFFFFFF)
    present = call_intrinsic(builder, "llvm.nvvm.vote.ballot.sync", _I32, full, _I1(1))
    first = call_intrinsic(builder, "llvm.cttz.i32", _I32, present, _I1(1))
    wide = _widened(builder, value)
    halves = [builder.trunc(wide, _I32), builder.trunc(builder.lshr(wide, _I64(32)), _I32)]
    low, high = (call_intrinsic(builder, "llvm.nvvm.shfl.sync.idx.i32", _I32, full, half, first, _I32(31)) for half in halves)
    taken = builder.or_(builder.zext(low, _I64), builder.shl(builder.zext(high, _I64), _I64(32)))
    return taken if value.type == _I64 else builder.trunc(taken, value.type)


def _widened(builder: ir.IRBuilder, value: Any) -> Any:
    return value if value.type == _I64 else builder.zext(value, _I64)


def _barrier(builder: ir.IRBuilder) -> None:
    name = "llvm.nvvm.barrier.cta.sync.aligned.all"
    builder.call(intrinsic(builder.module, name, ir.VoidType(), [_I32], convergent=True), [_I32(0)])
