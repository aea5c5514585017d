"""Emission of the pure operations of the IR, for scalars and for vectors of lanes with one and the same code.

The meanings stand in `kdsl.ir.nodes`; LLVM's own differ in places (division by zero, shift amounts, conversions out of range are undefined there),
and those places are spelt out here so that no undefined value can arise, in no lane, whatever the operands of inactive lanes hold.
What is not here: memory, control, lane exchange.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from kdsl.backend.llvm import bits, narrow
from kdsl.backend.llvm.module import call_intrinsic, freeze, mangled, value_type
from kdsl.ir import nodes
from kdsl.lang.types import F32, F64, I32, I64, DType, float_bits_of


def constant(of: DType, value: bool | int | float, width: int | None = None) -> ir.Constant:
    """A number of the type, the same in every lane."""
    scalar: Any = float_bits_of(of, value) if of.is_narrow_float else float(value) if of.is_float else int(value)
    kind = value_type(of, width)
    return ir.Constant(kind, scalar if width is None else [scalar] * width)


def known_not_negative(value: nodes.ValueOp) -> bool:
    """Whether an integer value cannot be negative."""
    return value.type.kind == "unsigned" or (value.range is not None and value.range[0] >= 0)


def _bounds(value: nodes.ValueOp) -> tuple[int, int]:
    if isinstance(value, nodes.Constant) and not isinstance(value.value, float):
        return int(value.value), int(value.value)
    return value.range or (value.type.minimum, value.type.maximum)


def shift_in_range(op: nodes.Binary) -> bool:
    """Whether the amount of a shift is known to be neither negative nor as much as the width."""
    low, high = _bounds(op.right)
    return low >= 0 and high < op.type.bits


class Arithmetic:
    """Emits pure operations with a builder. `width` None means scalars, else vectors of so many lanes."""

    def __init__(self, builder: ir.IRBuilder, width: int | None = None) -> None:
        self.builder = builder
        self.width = width

    def emit(self, op: nodes.ValueOp, *operands: Any) -> Any:
        """The value of a pure operation whose operands have been emitted (in the order of `nodes.operands`)."""
        match op:
            case nodes.Constant():
                return constant(op.type, op.value, self.width)
            case nodes.Unary():
                return self.unary(op.op, op.type, *operands)
            case nodes.Binary():
                return self.binary(op, *operands)
            case nodes.Ternary():
                return self.ternary(op, *operands)
            case nodes.Fma():
                return self.fma(op.type, *operands)
            case nodes.Scale():
                return self.scale(op.type, *operands)
            case nodes.Compare():
                return self.compare(op.op, op.left.type, *operands)
            case nodes.Select():
                return self.builder.select(*operands)
            case nodes.Cast():
                return self.cast(op.operand.type, op.type, *operands)
            case nodes.Bitcast():
                return self.builder.bitcast(operands[0], value_type(op.type, self.width))
            case _:
                raise TypeError(f"{type(op).__name__} is not a pure operation")

    def constant(self, of: DType, value: bool | int | float) -> ir.Constant:
        """A number of the type, in every lane."""
        return constant(of, value, self.width)

    def _intrinsic(self, name: str, *operands: Any) -> Any:
        kind = operands[0].type
        return call_intrinsic(self.builder, f"llvm.{name}.{mangled(kind)}", kind, *operands)

    # ------------------------------------------------------------------------------------------------------------ one operand

    def unary(self, op: nodes.UnaryName, of: DType, x: Any) -> Any:
        """`op` of a value of type `of`."""
        b = self.builder
        if of.is_narrow_float:
            match op:
                case "neg":
                    return narrow.negated(b, x)
                case "abs":
                    return narrow.magnitude(b, x)
                case _:
                    return self.rounded(of, self.unary(op, F32, self._fenced(of, x)))
        match op:
            case "neg":
                return b.fneg(x) if of.is_float else b.sub(self.constant(of, 0), x)
            case "invert" | "not":
                return b.xor(x, self.constant(of, -1 if op == "invert" else 1))
            case "abs":
                if of.is_float:
                    return self._intrinsic("fabs", x)
                if not of.is_signed:
                    return x
                return b.select(b.icmp_signed("<", x, self.constant(of, 0)), b.sub(self.constant(of, 0), x), x)
            case "rint":
                return self._intrinsic("roundeven", x)
            case "sqrt" | "floor" | "ceil" | "trunc":
                return self._intrinsic(op, x)
            case "tf32":
                return narrow.tf32(b, x)
            case "popcount" | "leading_zeros" | "trailing_zeros" | "reverse_bits":
                return bits.unary(b, op, of, x)

    # ----------------------------------------------------------------------------------------------------------- two operands

    def binary(self, op: nodes.Binary, x: Any, y: Any) -> Any:
        """A binary operation."""
        b, of = self.builder, op.type
        if of.is_float:
            return self.floats(op.op, of, x, y)
        match op.op:
            case "add":
                return b.add(x, y)
            case "sub":
                return b.sub(x, y)
            case "mul":
                return b.mul(x, y)
            case "floordiv":
                return self._divide(op, x, y)[0]
            case "mod":
                return self._divide(op, x, y)[1]
            case "and":
                return b.and_(x, y)
            case "or":
                return b.or_(x, y)
            case "xor":
                return b.xor(x, y)
            case "shl" | "shr":
                return self._shift(op, x, y)
            case "min" | "max":
                return self._extreme(op.op, of, x, y)
            case "multiply_high":
                return bits.multiply_high(b, of, x, y)
            case _:
                raise TypeError(f"{op.op} of {of}")

    def ternary(self, op: nodes.Ternary, x: Any, y: Any, z: Any) -> Any:
        """An operation on three integers of 32 bits."""
        match op.op:
            case "funnel_left":
                return self._intrinsic("fshl", y, x, z)
            case "funnel_right":
                return self._intrinsic("fshr", y, x, z)
            case "permute":
                return bits.permuted(self.builder, x, y, z)
            case "dot":
                return bits.dot(self.builder, (op.a.type.is_signed, op.b.type.is_signed), x, y, z)

    def floats(self, op: str, of: DType, x: Any, y: Any) -> Any:
        """A binary operation on two floats, correctly rounded."""
        b = self.builder
        if of.is_narrow_float:
            if op in ("add", "sub", "mul", "div"):
                return self.rounded(of, self.floats(op, F32, narrow.widened(b, of, x), narrow.widened(b, of, y)))
            return self.rounded(of, self.floats(op, F32, self._fenced(of, x), self._fenced(of, y)))
        match op:
            case "add":
                return b.fadd(x, y)
            case "sub":
                return b.fsub(x, y)
            case "mul":
                return b.fmul(x, y)
            case "div":
                return b.fdiv(x, y)
            case "min" | "max" | "fmin" | "fmax":
                return self._extreme(op, of, x, y)
            case _:
                raise TypeError(f"{op} of {of}")

    def fma(self, of: DType, x: Any, y: Any, z: Any) -> Any:
        """x * y + z, rounded once."""
        return narrow.fma(self.builder, of, x, y, z) if of.is_narrow_float else self._intrinsic("fma", x, y, z)

    def scale(self, of: DType, x: Any, exponent: Any) -> Any:
        """x * 2 ** exponent (`nodes.Scale`), in two steps, since 2 ** exponent may be out of range where the result is not; only the second rounds."""
        b = self.builder
        integer = I32 if of is F32 else I64

        def by_power(y: Any, n: Any) -> Any:
            biased = b.add(n, self.constant(integer, 127 if of is F32 else 1023))
            return b.fmul(y, b.bitcast(b.shl(biased, self.constant(integer, 23 if of is F32 else 52)), y.type))

        half = b.ashr(bits.opaque(b, exponent), self.constant(integer, 1))
        halfway = by_power(x, half)
        return by_power(halfway, b.sub(exponent, half))

    def rounded(self, of: DType, x: Any) -> Any:
        """An f32 rounded to nearest even to an f16 or bf16."""
        return narrow.rounded(self.builder, of, x)

    def extreme(self, op: str, of: DType, x: Any, y: Any) -> Any:
        """`min` or `max` of two values, for reductions."""
        return self.combine(op, of, x, y)

    def _fenced(self, of: DType, x: Any) -> Any:
        """A 16-bit float as an f32 of which LLVM does not see that. It would compute these operations in `half`, and processors without it lane by lane."""
        return self._intrinsic("arithmetic.fence", narrow.widened(self.builder, of, x))

    def combine(self, op: str, of: DType, x: Any, y: Any) -> Any:
        """`add`, `min`, `max`, `and`, `or` or `xor` of two values, for reductions."""
        if of.is_float:
            return self.floats(op, of, x, y)
        if op in ("and", "or", "xor"):
            return {"and": self.builder.and_, "or": self.builder.or_, "xor": self.builder.xor}[op](x, y)
        return self.builder.add(x, y) if op == "add" else self._extreme(op, of, x, y)

    def _extreme(self, op: str, of: DType, x: Any, y: Any) -> Any:
        b = self.builder
        least = op.endswith("min")
        if not of.is_float:
            compare = b.icmp_signed if of.is_signed else b.icmp_unsigned
            return b.select(compare("<" if least else ">", x, y), x, y)
        both = self._intrinsic("minimum" if least else "maximum", x, y)
        if op in ("min", "max"):
            return both
        # llvm.minnum leaves the order of the zeros open, so the NaNs are sorted out by hand
        return b.select(b.fcmp_unordered("uno", x, x), y, b.select(b.fcmp_unordered("uno", y, y), x, both))

    def _shift(self, op: nodes.Binary, x: Any, y: Any) -> Any:
        b, of = self.builder, op.type
        arithmetic = op.op == "shr" and of.is_signed and not known_not_negative(op.left)
        if op.op == "shr":
            x = bits.opaque(b, x)
        if shift_in_range(op):
            return (b.shl if op.op == "shl" else b.ashr if arithmetic else b.lshr)(x, y)
        inside = b.icmp_unsigned("<", y, self.constant(of, of.bits))  # a negative amount is a large unsigned one
        if arithmetic:
            return b.ashr(x, b.select(inside, y, self.constant(of, of.bits - 1)))
        safe = b.select(inside, y, self.constant(of, 0))
        shifted = b.shl(x, safe) if op.op == "shl" else b.lshr(x, safe)
        return b.select(inside, shifted, self.constant(of, 0))

    def _divide(self, op: nodes.Binary, x: Any, y: Any) -> tuple[Any, Any]:
        """Quotient towards minus infinity, and remainder; only the one that is used survives optimisation."""
        b, of = self.builder, op.type
        low, high = _bounds(op.right)
        if low == high and low > 0 and low & (low - 1) == 0:  # by a power of two: shifting and masking floor for every sign
            shift = b.lshr if known_not_negative(op.left) else b.ashr
            return shift(bits.opaque(b, x), self.constant(of, low.bit_length() - 1)), b.and_(x, self.constant(of, low - 1))
        zero, one = self.constant(of, 0), self.constant(of, 1)
        may_be_zero, may_be_minus_one = low <= 0 <= high, low <= -1 <= high
        safe, is_zero, is_minus_one = y, None, None
        if may_be_zero:
            is_zero = b.icmp_signed("==", y, zero)
            safe = b.select(is_zero, one, safe)
        if known_not_negative(op.left) and known_not_negative(op.right):
            quotient, remainder = self._divide_unsigned(op, x, safe)
        else:
            if may_be_minus_one:  # the smallest integer divided by -1 traps on x86
                is_minus_one = b.icmp_signed("==", y, self.constant(of, -1))
                safe = b.select(is_minus_one, one, safe)
            truncated = b.sdiv(x, safe)
            if not isinstance(safe, ir.Constant):
                # of lanes whose divisor turns out to be constant LLVM's code generator with AVX-512 makes sums and "or" of one another without end
                truncated = bits.fenced(b, truncated)
            rest = b.sub(x, b.mul(truncated, safe))
            opposite = b.and_(b.icmp_signed("!=", rest, zero), b.icmp_signed("<", b.xor(rest, safe), zero))
            quotient = b.select(opposite, b.sub(truncated, one), truncated)
            remainder = b.select(opposite, b.add(rest, safe), rest)
            if is_minus_one is not None:
                quotient = b.select(is_minus_one, b.sub(zero, x), quotient)
        if is_zero is not None:
            quotient, remainder = b.select(is_zero, zero, quotient), b.select(is_zero, zero, remainder)
        return quotient, remainder

    def _divide_unsigned(self, op: nodes.Binary, x: Any, y: Any) -> tuple[Any, Any]:
        b = self.builder
        if isinstance(x.type, ir.VectorType) and op.type.bits == 64 and max(_bounds(op.left)[1], _bounds(op.right)[1]) < 1 << 51:
            # No processor divides vectors of integers. Both operands are exact doubles, and the rounded quotient is at most one too large.
            doubles = ir.VectorType(ir.DoubleType(), x.type.count)
            rough = b.fptosi(b.fdiv(b.sitofp(x, doubles), b.sitofp(y, doubles)), x.type)
            rest = b.sub(x, b.mul(rough, y))
            too_large = b.icmp_signed("<", rest, ir.Constant(x.type, [0] * x.type.count))
            one = ir.Constant(x.type, [1] * x.type.count)
            return b.select(too_large, b.sub(rough, one), rough), b.select(too_large, b.add(rest, y), rest)
        if isinstance(x.type, ir.VectorType) and not isinstance(y, ir.Constant):
            # With AVX-512, LLVM's code generator makes `c ? x : x / z` of `x / (c ? 1 : z)` where z is "never 0", as `-2 >> n` is to it: it forgets that z is
            # undefined where n is too large, whatever c says there, and the processor divides by 0. Of what is frozen it knows no such thing.
            y = freeze(b, y)
        quotient = b.udiv(x, y)
        return quotient, b.sub(x, b.mul(quotient, y))

    # -------------------------------------------------------------------------------------------------- comparison, conversion

    def compare(self, op: nodes.CompareName, of: DType, x: Any, y: Any) -> Any:
        """A `bool` from two values of type `of`."""
        b = self.builder
        symbol = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}[op]
        if of.is_narrow_float:
            return self.compare(op, F32, narrow.widened(b, of, x), narrow.widened(b, of, y))
        if of.is_float:
            return b.fcmp_unordered("!=", x, y) if op == "ne" else b.fcmp_ordered(symbol, x, y)
        return (b.icmp_signed if of.is_signed else b.icmp_unsigned)(symbol, x, y)

    def cast(self, source: DType, target: DType, x: Any) -> Any:
        """Conversion between element types."""
        b, kind = self.builder, value_type(target, self.width)
        if source is target:
            return x
        if source.is_narrow_float:
            return self.cast(F32, target, narrow.widened(b, source, x))
        if target.is_narrow_float:
            near = self._before_narrowing(source, x)
            if source.is_integer:
                # LLVM widens an integer that went through `half` straight away where its bits fit the mantissa, and forgets that 2**63 is infinite there
                near = self._intrinsic("arithmetic.fence", near)
            return self.rounded(target, near)
        if target.is_bool:
            zero = self.constant(source, 0)
            return b.fcmp_unordered("!=", x, zero) if source.is_float else b.icmp_unsigned("!=", x, zero)
        if source.is_float:
            if target.is_float:
                return b.fpext(x, kind) if target.bits > source.bits else b.fptrunc(x, kind)
            if self.width is not None:
                return self._saturate(source, target, x)
            name = f"llvm.fpto{'s' if target.is_signed else 'u'}i.sat.{mangled(kind)}.{mangled(x.type)}"
            return call_intrinsic(b, name, kind, x)
        if target.is_float:
            return (b.sitofp if source.is_signed else b.uitofp)(x, kind)
        if target.bits < source.bits:
            return b.trunc(x, kind)
        if target.bits == source.bits:
            return x
        return (b.sext if source.is_signed else b.zext)(x, kind)

    def _before_narrowing(self, source: DType, x: Any) -> Any:
        """A number as an f32 that rounds to 16 bits as the number itself does."""
        if source is not F64 and (source.is_float or source.bits <= 16):
            return self.cast(source, F32, x)
        return narrow.odd_from_double(self.builder, x if source is F64 else narrow.double_from_integer(self.builder, source, x))

    def _saturate(self, source: DType, target: DType, x: Any) -> Any:
        """Float to integer for vectors: `llvm.fptosi.sat` is right there too, but x86 does it lane by lane."""
        b, kind = self.builder, value_type(target, self.width)
        bound = 2.0 ** (target.bits - target.is_signed)  # the first number too large
        is_exact = target.maximum.bit_length() <= source.mantissa_bits
        highest = target.maximum if is_exact else float(np.nextafter(source.numpy.type(bound), source.numpy.type(0)))
        low, high = self.constant(source, target.minimum), self.constant(source, highest)
        limited = b.select(b.fcmp_ordered(">", x, low), x, low)  # a NaN becomes the lowest number
        limited = b.select(b.fcmp_ordered("<", limited, high), limited, high)
        if target.is_signed:
            result = b.fptosi(limited, kind)
        elif is_exact and target.bits < 64:  # not by fptoui: LLVM's code generator ends the process on the minimum of one and 0
            wide = value_type(I32 if target.bits < 32 else I64, self.width)
            result = b.trunc(b.fptosi(limited, wide), kind)
        else:
            result = b.fptoui(limited, kind)
        if not is_exact:
            result = b.select(b.fcmp_ordered(">=", x, self.constant(source, bound)), self.constant(target, target.maximum), result)
        if target.is_signed:
            result = b.select(b.fcmp_unordered("uno", x, x), self.constant(target, 0), result)
        return result
