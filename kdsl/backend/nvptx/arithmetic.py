"""Pure operations where PTX has one instruction with just the meaning of the language, and LLVM's general way takes several."""

from __future__ import annotations

from typing import Any

from kdsl.backend.llvm.arithmetic import Arithmetic
from kdsl.backend.llvm.module import call_intrinsic, value_type
from kdsl.lang.types import F32, I32, U32, DType


class PtxArithmetic(Arithmetic):
    """Scalar arithmetic on the GPU."""

    def cast(self, source: DType, target: DType, x: Any) -> Any:
        """Conversion between element types.

        From f32 to integers of 32 bits `cvt.rzi` clamps to the range and turns NaN into 0 (PTX ISA, "cvt"); to or from 64 bits it does not do the latter.
        """
        if source is F32 and target in (I32, U32):
            name = "llvm.nvvm.f2i.rz" if target is I32 else "llvm.nvvm.f2ui.rz"
            return call_intrinsic(self.builder, name, value_type(target), x)
        return super().cast(source, target, x)
