"""Checks of the row of an index in place of the index (`nodes.RowCheck`).

A row that fits 32 bits, as one that is read from an array of i32 does, is compared in 32 bits, and what is known of it then makes one instruction of the
product with the width.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from llvmlite import ir

from kdsl.backend.llvm.module import call_intrinsic
from kdsl.ir import nodes, ranges

_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
_END: Final = 1 << 31

Key = tuple[nodes.ValueOp, int]
"""Number of rows with which rows are compared, and in how many bits."""


@dataclass(frozen=True)
class Row:
    """A check of a row, in LLVM values."""

    row: Any
    """i32 if it fits, else i64."""
    count: Any
    """Rows as `rows_in` has them."""
    width: Any
    """i64, or i32 without a sign if it fits and the row is an i32."""
    rest: Any
    """i64."""

    @staticmethod
    def of(builder: ir.IRBuilder, check: nodes.RowCheck, use: Callable[[nodes.ValueOp], Any]) -> Row:
        """The values of a check."""
        key = key_of(check)
        row, width = _in_bits(builder, use(check.row), key[1]), use(check.width)
        if key[1] == 32 and ranges.of(check.width)[1] < 1 << 32:
            width = builder.trunc(width, _I32)
        return Row(row, rows_in(builder, key, use), width, use(check.rest))

    def holds(self, builder: ir.IRBuilder) -> Any:
        """Whether there is the row. A negative one is a large unsigned one."""
        return builder.icmp_unsigned("<", self.row, self.count)

    def start(self, builder: ir.IRBuilder) -> Any:
        """How many elements stand in front of the row, where there is the row."""
        if self.width.type.width < 64:  # LLVM sees the instruction only where it sees both factors being widened
            factors = ir.FunctionType(_I64, [_I32, _I32])
            return builder.asm(factors, "mul.wide.u32 $0, $1, $2;", "=l,r,r", [self.row, self.width], False)
        return builder.mul(builder.zext(self.row, _I64) if self.row.type.width < 64 else self.row, self.width, flags=("nuw", "nsw"))


def key_of(check: nodes.RowCheck) -> Key:
    """What a row is compared with."""
    low, high = ranges.of(check.row)
    return check.count, 32 if low >= -_END and high < _END else 64


def rows_hold(builder: ir.IRBuilder, key: Key, rows: Iterable[Any], use: Callable[[nodes.ValueOp], Any]) -> Any:
    """Whether there are all of these rows, i64."""
    of = ir.IntType(key[1])
    largest = functools.reduce(
        lambda x, y: call_intrinsic(builder, f"llvm.umax.{of}", of, x, y), (_in_bits(builder, row, key[1]) for row in rows)
    )
    return builder.icmp_unsigned("<", largest, rows_in(builder, key, use))


def _in_bits(builder: ir.IRBuilder, row: Any, bits: int) -> Any:
    return row if bits == 64 else builder.trunc(row, _I32)


def rows_in(builder: ir.IRBuilder, key: Key, use: Callable[[nodes.ValueOp], Any]) -> Any:
    """The number of rows, at most 2**31 in 32 bits: no row is above that."""
    what, bits = key
    count = use(what) if what.type.bits == 64 else builder.zext(use(what), _I64)
    if bits == 64:
        return count
    if ranges.of(what)[1] > _END:
        count = call_intrinsic(builder, "llvm.umin.i64", _I64, count, _I64(_END))
    return builder.trunc(count, _I32)
