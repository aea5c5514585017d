"""What `print` in a kernel leaves for the host: words in the buffer behind the claim of the failure record (layout in `kdsl.ir.abi`).

A thread reserves its words with one addition to the cursor. Where they do not fit, nothing is written, and the cursor tells the host that something is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from llvmlite import ir

from kdsl.ir.abi import PRINT_BYTES, PRINT_CURSOR, PRINT_DATA
from kdsl.lang.types import DType

_I8: Final = ir.IntType(8)
_I64: Final = ir.IntType(64)


def word(builder: ir.IRBuilder, of: DType, value: Any) -> Any:
    """A number as a word of 64 bits: integers extended by their sign, floats by their bits."""
    if of.is_float and not isinstance(value.type, ir.IntType):
        value = builder.bitcast(value, ir.IntType(of.bits))
    if value.type == _I64:
        return value
    return builder.sext(value, _I64) if of.is_integer and of.is_signed else builder.zext(value, _I64)


def append(builder: ir.IRBuilder, claim: Any, kernel: Any, site: int, words: Sequence[Any]) -> None:
    """Write one line of output: which it is, and its numbers. `kernel` is the kernel's number, i32."""

    def at(offset: int) -> Any:
        return builder.gep(claim, [_I64(offset)], inbounds=True, source_etype=_I8)

    size = 8 * (1 + len(words))
    place = builder.atomic_rmw("add", at(PRINT_CURSOR), _I64(size), "monotonic")
    fits, done = builder.append_basic_block("print"), builder.append_basic_block("printed")
    builder.cbranch(builder.icmp_unsigned("<=", place, _I64(PRINT_BYTES - size)), fits, done)
    builder.position_at_end(fits)
    line = builder.gep(at(PRINT_DATA), [place], inbounds=True, source_etype=_I8)
    which = builder.or_(builder.shl(_I64(site), _I64(32)), builder.zext(kernel, _I64))
    for number, held in enumerate((which, *words)):
        builder.store(held, builder.gep(line, [_I64(8 * number)], inbounds=True, source_etype=_I8), align=8)
    builder.branch(done)
    builder.position_at_end(done)
