"""The 16-bit floats f16 and bf16 in LLVM: their bits in an i16, everything computed in f32 and rounded once.

LLVM ends the process, or calls library functions that are not there, for some operations on `half` and `bfloat` (conversions from double above all), and
llvmlite has no `bfloat`. So a value of either type is an i16 wherever it is held, stored or exchanged, and becomes an f32, exactly, where it is computed with.

Why one rounding to f32 and a second to p bits (11 for f16, 8 for bf16) never differ from one: for + - * / and the square root since 24 >= 2 p + 2
(Figueroa 1995, "When is double rounding innocuous?"). That leaves results that are subnormal, of which fewer than p bits are kept. Sums are exact there.
f16: products are exact in f32; a quotient lies at least 2**-22 of itself from the middle of two subnormals, unless it is that middle.
bf16 has the exponents of f32, so that f32 may keep fewer than 24 bits, too: products from 2**-134 are exact, and of the smaller ones only
(2**16 - 1) * 2**-150 would be misled, which is no product of two 8-bit significands; a quotient lies at least 2**-142 from the middle of two subnormals.
Everything else (`fma`, conversions from wider types) rounds to odd before the last rounding, which is as good as exact with two spare bits (Boldo and
Melquiond 2008, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd").
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kdsl.lang.types import F16, DType

_I16 = ir.IntType(16)
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)
_F32 = ir.FloatType()
_F64 = ir.DoubleType()
_UPPER_HALF = 16
_TF32_CUT = 13
"""Bits of an f32 that tf32 does not have."""
_QUIET = 0x40
"""The bit of a bf16 that makes a NaN quiet."""


def shaped(kind: ir.Type, like: Any) -> ir.Type:
    """A vector of as many elements as the value `like` has, or the type itself if that is a scalar."""
    return ir.VectorType(kind, like.type.count) if isinstance(like.type, ir.VectorType) else kind


def number(kind: ir.Type, value: int | float) -> ir.Constant:
    """A constant, the same in every element of a vector type."""
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


def negated(b: ir.IRBuilder, x: Any) -> Any:
    """The value with its sign flipped."""
    return b.xor(x, number(x.type, 0x8000))


def magnitude(b: ir.IRBuilder, x: Any) -> Any:
    """The value without its sign."""
    return b.and_(x, number(x.type, 0x7FFF))


def widened(b: ir.IRBuilder, of: DType, x: Any) -> Any:
    """The same number as an f32."""
    if of is F16:
        return b.fpext(b.bitcast(x, shaped(ir.HalfType(), x)), shaped(_F32, x))
    wide = b.zext(x, shaped(_I32, x))
    return b.bitcast(b.shl(wide, number(wide.type, _UPPER_HALF)), shaped(_F32, x))


def rounded(b: ir.IRBuilder, of: DType, x: Any) -> Any:
    """An f32 rounded to nearest even. The instructions of x86 that do it for bf16 flush subnormals, so integers do it."""
    if of is F16:
        return b.bitcast(b.fptrunc(x, shaped(ir.HalfType(), x)), shaped(_I16, x))
    bits = b.bitcast(x, shaped(_I32, x))
    place = number(bits.type, _UPPER_HALF)
    upper = b.lshr(bits, place)
    half_less_one = b.add(number(bits.type, (1 << (_UPPER_HALF - 1)) - 1), b.and_(upper, number(bits.type, 1)))
    nearest = b.lshr(b.add(bits, half_less_one), place)
    nan = b.or_(upper, number(bits.type, _QUIET))
    return b.trunc(b.select(b.fcmp_unordered("uno", x, x), nan, nearest), shaped(_I16, x))


def tf32(b: ir.IRBuilder, x: Any) -> Any:
    """An f32 rounded to tf32, ties away from 0, in the bits of an f32: a carry from the bits that go may reach the exponent, which then is the next one."""
    bits = b.bitcast(x, shaped(_I32, x))
    kept = number(bits.type, -1 << _TF32_CUT)
    nearest = b.and_(b.add(bits, number(bits.type, 1 << (_TF32_CUT - 1))), kept)
    nan = b.and_(b.or_(bits, number(bits.type, 1 << 22)), kept)
    return b.bitcast(b.select(b.fcmp_unordered("uno", x, x), nan, nearest), x.type)


def _odd(b: ir.IRBuilder, nearest: Any, is_inexact: Any, is_further: Any) -> Any:
    """A sum or conversion that was rounded to nearest, rounded to odd instead; `is_further` says that it lies further from 0 than the exact number."""
    kind = shaped(_I32 if getattr(nearest.type, "element", nearest.type) == _F32 else _I64, nearest)
    towards_zero = b.sub(b.bitcast(nearest, kind), b.zext(is_further, kind))
    return b.bitcast(b.or_(towards_zero, b.zext(is_inexact, kind)), nearest.type)


def odd_from_double(b: ir.IRBuilder, x: Any) -> Any:
    """An f64 rounded to odd to an f32: what is no f32 becomes the neighbour whose last bit is 1; NaN and infinities stay."""
    nearest = b.fptrunc(x, shaped(_F32, x))
    back = b.fpext(nearest, x.type)
    bits = shaped(_I64, x)
    without_sign = number(bits, (1 << 63) - 1)
    # magnitudes compare as integers; a NaN, which LLVM may change on its way, is kept out by the ordered comparison
    is_inexact = b.fcmp_ordered("!=", back, x)
    further = b.icmp_unsigned(">", b.and_(b.bitcast(back, bits), without_sign), b.and_(b.bitcast(x, bits), without_sign))
    return _odd(b, nearest, is_inexact, b.and_(is_inexact, further))


def double_from_integer(b: ir.IRBuilder, of: DType, x: Any) -> Any:
    """An integer of 32 or 64 bits as an f64 from which a rounding to 16 bits gives what it gives from the integer.

    32 bits are exact. Of more than 53 bits the last 12 only matter as zero or not: the middle of two neighbours of 16 bits is a multiple of 2**45 there.
    """
    kind = x.type
    if of.bits == 64:
        bound = 1 << 53
        if of.is_signed:
            is_long = b.icmp_unsigned(">", b.add(x, number(kind, bound)), number(kind, 2 * bound))
        else:
            is_long = b.icmp_unsigned(">", x, number(kind, bound))
        is_marked = b.icmp_unsigned("!=", b.and_(x, number(kind, 0xFFF)), number(kind, 0))
        mark = b.select(is_marked, number(kind, 0x800), number(kind, 0))
        x = b.select(is_long, b.or_(b.and_(x, number(kind, -0x1000)), mark), x)
    return (b.sitofp if of.is_signed else b.uitofp)(x, shaped(_F64, x))


def fma(b: ir.IRBuilder, of: DType, x: Any, y: Any, z: Any) -> Any:
    """x * y + z of f16 in f32, of bf16 in f64, where the product is exact; the sum is rounded to odd by its exact error (Knuth's two-sum)."""
    x, y, z = (widened(b, of, operand) for operand in (x, y, z))
    if of is not F16:
        x, y, z = (b.fpext(operand, shaped(_F64, operand)) for operand in (x, y, z))
    product = b.fmul(x, y)
    nearest = b.fadd(product, z)
    of_z = b.fsub(nearest, product)
    error = b.fadd(b.fsub(product, b.fsub(nearest, of_z)), b.fsub(z, of_z))
    zero = number(error.type, 0.0)
    is_inexact = b.fcmp_ordered("!=", error, zero)  # from infinities and NaNs the error is a NaN
    is_opposite = b.xor(b.fcmp_ordered("<", error, zero), b.fcmp_ordered("<", nearest, zero))
    odd = _odd(b, nearest, is_inexact, b.and_(is_inexact, is_opposite))
    return rounded(b, of, odd if of is F16 else odd_from_double(b, odd))
