"""The 8-bit floats e4m3 and e5m2 in LLVM: conversion of their bits to and from f32 (OCP 8-bit Floating Point Specification, revision 1.0).

Nothing is computed in them. e5m2 is the upper byte of an f16; e4m3 has no infinities and one NaN per sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from llvmlite import ir

from kdsl.backend.llvm import narrow
from kdsl.backend.llvm.narrow import number, shaped
from kdsl.lang.types import F16

_I8: Final = ir.IntType(8)
_I16: Final = ir.IntType(16)
_I32: Final = ir.IntType(32)
_F32: Final = ir.FloatType()
_BIAS_F32: Final = 127
_MANTISSA_F32: Final = 23
_NAN: Final = 0x7F
"""The magnitude bits of a NaN: the only ones of e4m3, one of several of e5m2."""


@dataclass(frozen=True)
class Format:
    """One of the two."""

    mantissa_bits: int
    """Bits behind the binary point."""
    bias: int
    """What is added to the exponent."""
    largest: float
    """The largest finite number."""


E4M3: Final = Format(3, 7, 448.0)
E5M2: Final = Format(2, 15, 57344.0)


def widened(b: ir.IRBuilder, of: Format, x: Any) -> Any:
    """The bits of a number (i8) as an f32."""
    if of is E5M2:
        return narrow.widened(b, F16, b.shl(b.zext(x, shaped(_I16, x)), number(shaped(_I16, x), 8)))
    wide = b.zext(x, shaped(_I32, x))
    magnitude = b.and_(wide, number(wide.type, 0x7F))
    # as bits of an f32 it is too small by the difference of the biases, subnormal or not
    small = b.bitcast(b.shl(magnitude, number(wide.type, _MANTISSA_F32 - of.mantissa_bits)), shaped(_F32, x))
    value = b.fmul(small, number(small.type, 2.0 ** (_BIAS_F32 - of.bias)))
    sign = b.shl(b.and_(wide, number(wide.type, 0x80)), number(wide.type, 24))
    is_nan = b.icmp_unsigned("==", magnitude, number(wide.type, _NAN))
    bits = b.select(is_nan, number(wide.type, 0x7FC00000), b.bitcast(value, wide.type))
    return b.bitcast(b.or_(bits, sign), small.type)


def rounded(b: ir.IRBuilder, of: Format, x: Any) -> Any:
    """An f32 rounded to nearest even, as bits (i8). What is larger than the largest number becomes that."""
    bits = b.bitcast(x, shaped(_I32, x))
    kind = bits.type
    magnitude = b.bitcast(b.and_(bits, number(kind, 0x7FFFFFFF)), x.type)
    is_large = b.fcmp_ordered(">", magnitude, number(x.type, of.largest))
    limited = b.select(is_large, number(x.type, of.largest), magnitude)
    code = b.select(b.fcmp_ordered("<", limited, number(x.type, 2.0 ** (1 - of.bias))), _subnormal(b, of, limited), _normal(b, of, limited))
    code = b.select(b.fcmp_unordered("uno", x, x), number(kind, _NAN), code)
    sign = b.lshr(b.and_(bits, number(kind, -(1 << 31))), number(kind, 24))
    return b.trunc(b.or_(code, sign), shaped(_I8, x))


def _normal(b: ir.IRBuilder, of: Format, x: Any) -> Any:
    """The code of a number with a hidden 1: a carry from the bits that go reaches the exponent."""
    bits = b.bitcast(x, shaped(_I32, x))
    cut = _MANTISSA_F32 - of.mantissa_bits
    last = b.and_(b.lshr(bits, number(bits.type, cut)), number(bits.type, 1))
    nearest = b.lshr(b.add(bits, b.add(number(bits.type, (1 << (cut - 1)) - 1), last)), number(bits.type, cut))
    return b.sub(nearest, number(bits.type, (_BIAS_F32 - of.bias) << of.mantissa_bits))


def _subnormal(b: ir.IRBuilder, of: Format, x: Any) -> Any:
    """The code of a smaller one: a multiple of the smallest number, to which the sum with a number of just that unit rounds it."""
    unit_exponent = 1 - of.bias - of.mantissa_bits
    anchor = number(x.type, 2.0 ** (unit_exponent + _MANTISSA_F32))
    kind = shaped(_I32, x)
    return b.sub(b.bitcast(b.fadd(x, anchor), kind), b.bitcast(anchor, kind))
