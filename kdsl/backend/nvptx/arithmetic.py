"""Pure operations where PTX has one instruction with just the meaning of the language, and LLVM's general way takes several."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from kdsl.backend.llvm.arithmetic import Arithmetic, constant
from kdsl.backend.llvm.module import call_intrinsic, value_type
from kdsl.lang.types import BF16, F16, F32, F64, I32, U32, DType

_HALF: Final = ir.HalfType()
_I16: Final = ir.IntType(16)


class PtxArithmetic(Arithmetic):
    """Scalar arithmetic on the GPU. f16 and bf16 have their own instructions where those round once and keep subnormals on every target (sm_80 and later)."""

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
            return b.bitcast((b.sitofp if source.is_signed else b.uitofp)(x, _HALF), _I16)
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
        """An instruction that yields a bf16, which llvmlite has no type for."""
        kinds = [operand.type for operand in operands]
        constraints = ",".join(["=h", *("f" if isinstance(kind, ir.FloatType) else "h" for kind in kinds)])
        return self.builder.asm(ir.FunctionType(_I16, kinds), instruction, constraints, operands, False)
