"""Pure operations where PTX has one instruction with just the meaning of the language, and LLVM's general way takes several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from llvmlite import ir

from kdsl.backend.llvm.arithmetic import Arithmetic, constant, shift_in_range
from kdsl.backend.llvm.module import call_intrinsic, value_type
from kdsl.backend.nvptx import assembly
from kdsl.ir import nodes
from kdsl.lang.intrinsics import INTRINSICS, ToApproximation
from kdsl.lang.types import BF16, F16, F32, F64, I32, U32, DType

_HALF: Final = ir.HalfType()
_I16: Final = ir.IntType(16)
_I32: Final = ir.IntType(32)


class PtxArithmetic(Arithmetic):
    """Scalar arithmetic on the GPU. f16 and bf16 have their own instructions where those round once and keep subnormals on every target (sm_80 and later)."""

    def emit(self, op: nodes.ValueOp, *operands: Any) -> Any:
        """The value of a pure operation; the bits of a float are moved into a register of their own.

        LLVM stores the low half of such bits straight from the register that a float instruction has written, and ptxas 13.0 (13.5 no more) makes that
        `st.b32` a conversion of the float to an integer: `u32(double_bits(3.0))` was 3.
        """
        if isinstance(op, nodes.Bitcast) and op.operand.type.is_float:
            kind, register = value_type(op.type), {16: "h", 32: "r", 64: "l"}[op.type.bits]
            bits = self.builder.bitcast(operands[0], kind)
            return self.builder.asm(ir.FunctionType(kind, [kind]), f"mov.b{op.type.bits} $0, $1;", f"={register},{register}", [bits], False)
        if isinstance(op, nodes.Approximation):
            return self._approximation(op, operands)
        return super().emit(op, *operands)

    def _approximation(self, op: nodes.Approximation, operands: Sequence[Any]) -> Any:
        """The instructions of a row."""
        lowering = INTRINSICS[op.name].lowering
        assert isinstance(lowering, ToApproximation)
        (made,) = assembly.values(self.builder, lowering.ptx[op.type.name], [value_type(op.type)], *operands, memory=False)
        return made

    def unary(self, op: nodes.UnaryName, of: DType, x: Any) -> Any:
        """`op` of a value; the short integers in 32 bits (see `binary`)."""
        if of.is_integer and of.bits < 32 and op in ("neg", "abs"):
            wide = I32 if of.is_signed else U32
            return self._cut(of, super().unary(op, wide, self._widened(of, x)))
        if op == "tf32":
            b, kinds = self.builder, ir.FunctionType(_I32, [ir.FloatType()])
            nearest = b.bitcast(b.asm(kinds, "cvt.rna.tf32.f32 $0, $1;", "=r,f", [x], False), ir.FloatType())
            # The H200 cuts a NaN, too, and one of which only low bits are set becomes an infinity
            return b.select(b.fcmp_unordered("uno", x, x), ir.Constant(x.type, float("nan")), nearest)
        return super().unary(op, of, x)

    def binary(self, op: nodes.Binary, x: Any, y: Any) -> Any:
        """A binary operation; sums, products and quotients of integers of 8 and 16 bits are computed in 32 and cut.

        ptxas 13.0 and 13.5 take the result of `neg.s16` for sign-extended, which it is not for the smallest integer: `cvt.s64.s16` behind it then does
        nothing, and -(-32768) becomes 32768.
        """
        of = op.type
        if of.is_integer and of.bits < 32 and op.op in ("add", "sub", "mul", "floordiv", "mod"):
            wide = replace(op, type=I32 if of.is_signed else U32)
            return self._cut(of, super().binary(wide, self._widened(of, x), self._widened(of, y)))
        return super().binary(op, x, y)

    def _shift(self, op: nodes.Binary, x: Any, y: Any) -> Any:
        """A shift by an amount that may be out of range: PTX clamps it to the width, which gives 0 or the sign (PTX ISA, "shl" and "shr").

        LLVM 22 would also find that out, but cuts a 64-bit amount to 32 bits without looking at the rest: `4 << -2**63` becomes 4.
        """
        b, of = self.builder, op.type
        if shift_in_range(op) or isinstance(op.right, nodes.Constant):
            return super()._shift(op, x, y)
        inside = b.icmp_unsigned("<", y, self.constant(of, of.bits))  # a negative amount is a large unsigned one
        clamped = b.select(inside, y, self.constant(of, of.bits))
        amount = b.trunc(clamped, _I32) if of.bits == 64 else clamped if of.bits == 32 else b.zext(clamped, _I32)
        wide = x if of.bits >= 32 else self._widened(of, x)
        name = f"shl.b{wide.type.width}" if op.op == "shl" else f"shr.{'s' if of.is_signed else 'u'}{wide.type.width}"
        register = "l" if of.bits == 64 else "r"
        kinds = ir.FunctionType(wide.type, [wide.type, _I32])
        shifted = b.asm(kinds, f"{name} $0, $1, $2;", f"={register},{register},r", [wide, amount], False)
        return shifted if of.bits >= 32 else b.trunc(shifted, value_type(of))

    def _widened(self, of: DType, x: Any) -> Any:
        """A short integer in 32 bits."""
        return (self.builder.sext if of.is_signed else self.builder.zext)(x, _I32)

    def _cut(self, of: DType, x: Any) -> Any:
        """The low bits of a result of 32 bits; the instruction in between keeps LLVM from computing in 16 after all."""
        opaque = self.builder.asm(ir.FunctionType(_I32, [_I32]), "mov.b32 $0, $1;", "=r,r", [x], False)
        return self.builder.trunc(opaque, value_type(of))

    def cast(self, source: DType, target: DType, x: Any) -> Any:
        """Conversion between element types.

        From f32 to integers of 32 bits `cvt.rzi` clamps to the range and turns NaN into 0 (PTX ISA, "cvt"); to or from 64 bits it does not do the latter.
        `cvt.rn.f16` rounds once from f64 and from every integer.
        """
        b = self.builder
        if source is F32 and target in (I32, U32):
            name = "llvm.nvvm.f2i.rz" if target is I32 else "llvm.nvvm.f2ui.rz"
            return call_intrinsic(b, name, value_type(target), x)
        if target is F16 and source is F64:
            return b.bitcast(b.fptrunc(x, _HALF), _I16)
        if target is F16 and source.is_integer:
            half = b.bitcast((b.sitofp if source.is_signed else b.uitofp)(x, _HALF), _I16)
            # LLVM would widen the integer itself where its bits fit the mantissa, and forget that 2**63 is infinite as an f16
            return self._ptx("mov.b16 $0, $1;", half)
        return super().cast(source, target, x)

    def floats(self, op: str, of: DType, x: Any, y: Any) -> Any:
        """A binary operation on two floats, correctly rounded."""
        b = self.builder
        if of is F16 and op in ("add", "sub", "mul"):
            emit = {"add": b.fadd, "sub": b.fsub, "mul": b.fmul}[op]
            return b.bitcast(emit(b.bitcast(x, _HALF), b.bitcast(y, _HALF)), _I16)
        if of is BF16:  # below sm_90 there are no sums and products of bf16, but there is the fma, which gives the same
            match op:
                case "add":
                    return self.fma(of, x, constant(of, 1.0), y)
                case "sub":
                    return self.fma(of, y, constant(of, -1.0), x)
                case "mul":
                    return self.fma(of, x, y, constant(of, -0.0))
        return super().floats(op, of, x, y)

    def fma(self, of: DType, x: Any, y: Any, z: Any) -> Any:
        """x * y + z, rounded once."""
        if of is F16:
            return self.builder.bitcast(self._intrinsic("fma", *(self.builder.bitcast(o, _HALF) for o in (x, y, z))), _I16)
        return self._ptx("fma.rn.bf16 $0, $1, $2, $3;", x, y, z) if of is BF16 else super().fma(of, x, y, z)

    def rounded(self, of: DType, x: Any) -> Any:
        """An f32 rounded to nearest even to an f16 or bf16."""
        return self._ptx("cvt.rn.bf16.f32 $0, $1;", x) if of is BF16 else super().rounded(of, x)

    def _ptx(self, instruction: str, *operands: Any) -> Any:
        """An instruction that yields the 16 bits of an f16 or bf16."""
        kinds = [operand.type for operand in operands]
        constraints = ",".join(["=h", *("f" if isinstance(kind, ir.FloatType) else "h" for kind in kinds)])
        return self.builder.asm(ir.FunctionType(_I16, kinds), instruction, constraints, operands, False)
