"""Operations on the bits of integers, for scalars and vectors: counts of bits, their reversal, the upper half of a product.

Integers narrower than 32 bits are computed in 32, so that only forms reach LLVM that every target selects.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from kdsl.backend.llvm.module import call_intrinsic, mangled
from kdsl.lang.types import DType

NAMES: Final = frozenset(("popcount", "leading_zeros", "trailing_zeros", "reverse_bits"))
"""The operations on one operand (`kdsl.ir.nodes.UNARY`)."""
_FALSE: Final = ir.Constant(ir.IntType(1), 0)


def unary(builder: ir.IRBuilder, op: str, of: DType, x: Any) -> Any:
    """`op` of a scalar or vector of type `of`."""
    kind = x.type
    wide = _resized(kind, max(of.bits, 32))
    spare = _bits(wide) - of.bits
    value = builder.zext(x, wide) if spare else x
    match op:
        case "popcount":
            result = _call(builder, "ctpop", value)
        case "leading_zeros":
            result = _call(builder, "ctlz", value, _FALSE)
            if spare:
                result = builder.sub(result, _constant(wide, spare))
        case "trailing_zeros":
            if spare:  # a bit behind the last one ends the count
                value = builder.or_(value, _constant(wide, 1 << of.bits))
            result = _call(builder, "cttz", value, _FALSE)
        case _:
            result = _call(builder, "bitreverse", value)
            if spare:
                result = builder.lshr(result, _constant(wide, spare))
    return builder.trunc(result, kind) if spare else result


def multiply_high(builder: ir.IRBuilder, of: DType, x: Any, y: Any) -> Any:
    """The upper half of the full product."""
    kind = x.type
    if of.bits == 64 and isinstance(kind, ir.VectorType):
        return _multiply_high_in_halves(builder, of, x, y)
    wide = _resized(kind, 2 * of.bits)
    extend = builder.sext if of.is_signed else builder.zext
    product = opaque(builder, builder.mul(extend(x, wide), extend(y, wide)))
    return builder.trunc(builder.lshr(product, _constant(wide, of.bits)), kind)


def opaque(builder: ir.IRBuilder, x: Any) -> Any:
    """A vector of 64-bit integers of whose origin LLVM sees nothing; another value as it is. For what is shifted to the right.

    Of `trunc(x * y >> n)` to 16 bits, where x and y fit in 16, LLVM's code generator for x86 makes a product of which it keeps the upper 16 bits,
    shifted by n - 16: without a value for n of 32 and more, and with zeros for signs if the product is signed; also where the shift was several in
    the program. What hides the product is no instruction.
    """
    return fenced(builder, x) if _bits(x.type) == 64 else x


def fenced(builder: ir.IRBuilder, x: Any) -> Any:
    """A vector of integers of 32 or 64 bits of whose origin LLVM's code generator sees nothing, which takes no instruction; another value as it is."""
    kind = x.type
    if not isinstance(kind, ir.VectorType) or _bits(kind) < 32 or isinstance(x, ir.Constant):
        return x
    floats = ir.VectorType(ir.DoubleType() if _bits(kind) == 64 else ir.FloatType(), kind.count)
    return builder.bitcast(_call(builder, "arithmetic.fence", builder.bitcast(x, floats)), kind)


def _multiply_high_in_halves(builder: ir.IRBuilder, of: DType, x: Any, y: Any) -> Any:
    """For vectors of 64 bits, whose product of 128 no processor has: four products of halves (Warren, Hacker's Delight, 8-2)."""
    b, kind, x, y = builder, x.type, opaque(builder, x), opaque(builder, y)
    low, half = _constant(kind, 0xFFFFFFFF), _constant(kind, 32)
    x_low, x_high, y_low, y_high = b.and_(x, low), b.lshr(x, half), b.and_(y, low), b.lshr(y, half)
    carried = b.add(b.mul(x_high, y_low), b.lshr(b.mul(x_low, y_low), half))
    middle = b.add(b.mul(x_low, y_high), b.and_(carried, low))
    high = b.add(b.mul(x_high, y_high), b.add(b.lshr(carried, half), b.lshr(middle, half)))
    if of.is_signed:  # a negative factor was taken as 2 ** 64 more
        sign = _constant(kind, 63)
        high = b.sub(high, b.add(b.and_(b.ashr(x, sign), y), b.and_(b.ashr(y, sign), x)))
    return high


def permuted(builder: ir.IRBuilder, a: Any, b: Any, selector: Any) -> Any:
    """Four bytes of the eight of two words, each named by four bits of a third (`nodes.TERNARY`)."""
    wide, kind = _resized(a.type, 64), a.type
    pair = opaque(builder, builder.or_(builder.zext(a, wide), builder.shl(builder.zext(b, wide), _constant(wide, 32))))
    result = None
    for place in range(4):
        which = builder.lshr(selector, _constant(kind, 4 * place))
        first = builder.shl(builder.and_(which, _constant(kind, 7)), _constant(kind, 3))
        byte = builder.and_(builder.trunc(builder.lshr(pair, builder.zext(first, wide)), kind), _constant(kind, 0xFF))
        sign = builder.mul(builder.lshr(byte, _constant(kind, 7)), _constant(kind, 0xFF))
        is_sign = builder.icmp_unsigned("!=", builder.and_(which, _constant(kind, 8)), _constant(kind, 0))
        part = builder.shl(builder.select(is_sign, sign, byte), _constant(kind, 8 * place))
        result = part if result is None else builder.or_(result, part)
    return result


def dot(builder: ir.IRBuilder, signed: tuple[bool, bool], a: Any, b: Any, c: Any) -> Any:
    """c and the products of the bytes of a and b, which are signed or not."""
    kind, high = c.type, _constant(c.type, 24)
    for place in range(4):
        up = _constant(kind, 24 - 8 * place)
        factors = [
            (builder.ashr if has_sign else builder.lshr)(builder.shl(word, up), high) for word, has_sign in zip((a, b), signed, strict=True)
        ]
        c = builder.add(c, builder.mul(*factors))
    return c


def _bits(kind: Any) -> int:
    """Bits of a scalar or of a vector's element."""
    return int(kind.element.width if isinstance(kind, ir.VectorType) else kind.width)


def _resized(kind: Any, bits: int) -> Any:
    scalar = ir.IntType(bits)
    return ir.VectorType(scalar, kind.count) if isinstance(kind, ir.VectorType) else scalar


def _constant(kind: Any, value: int) -> Any:
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


def _call(builder: ir.IRBuilder, name: str, value: Any, *more: Any) -> Any:
    return call_intrinsic(builder, f"llvm.{name}.{mangled(value.type)}", value.type, value, *more)
