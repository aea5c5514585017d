"""Pure operations on lanes where AVX-512 has an instruction with the meaning of the language, and LLVM's general way takes several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir

from kdsl.backend.cpu.lanes import I32
from kdsl.backend.llvm.arithmetic import Arithmetic
from kdsl.backend.llvm.module import call_intrinsic
from kdsl.lang.types import F32, F64, DType

_LARGER: Final = 0b0101
"""Of `vrangeps`: the larger of two numbers, -0 below 0 (Intel SDM volume 2, "VRANGEPS")."""
_SMALLER: Final = 0b0100
_AS_SET: Final = 4
"""Rounding as the register of floating-point control says."""


class Avx512Arithmetic(Arithmetic):
    """Arithmetic on vectors of lanes, in registers of at most so many bits."""

    def __init__(self, builder: ir.IRBuilder, width: int, vector_bits: int) -> None:
        super().__init__(builder, width)
        self._vector_bits = vector_bits

    def scale(self, of: DType, x: Any, exponent: Any) -> Any:
        """x * 2 ** exponent (`nodes.Scale`)."""
        powers = self.builder.sitofp(exponent, x.type)  # exact, where the exponent has to be what it says
        return self._by_register("scalef", x, powers) or super().scale(of, x, exponent)

    def _extreme(self, op: str, of: DType, x: Any, y: Any) -> Any:
        found = None
        if of in (F32, F64) and op in ("min", "max"):
            found = self._by_register("range", x, y, ir.Constant(I32, _SMALLER if op == "min" else _LARGER))
        if found is None:
            return super()._extreme(op, of, x, y)
        b = self.builder
        return b.select(b.fcmp_unordered("uno", x, y), b.fadd(x, y), found)  # the instruction leaves out a NaN

    def _by_register(self, name: str, x: Any, y: Any, *immediate: Any) -> Any:
        """An instruction of AVX-512 on two vectors, register by register; None if they do not fill one."""
        b, element = self.builder, x.type.element if isinstance(x.type, ir.VectorType) else None
        if element is None:
            return None
        letter, size = ("s", 32) if isinstance(element, ir.FloatType) else ("d", 64)
        count = min(x.type.count, self._vector_bits // size)
        bits = count * size
        if bits not in (128, 256, 512) or x.type.count % count:
            return None
        part = ir.VectorType(element, count)
        mask = ir.IntType(max(count, 8))
        rest = [ir.Constant(part, None), ir.Constant(mask, (1 << count) - 1)] + [ir.Constant(I32, _AS_SET)] * (bits == 512)

        def apply(first: Any, second: Any) -> Any:
            return call_intrinsic(b, f"llvm.x86.avx512.mask.{name}.p{letter}.{bits}", part, first, second, *immediate, *rest)

        return _piecewise(b, count, apply, x, y)


def _piecewise(b: ir.IRBuilder, count: int, apply: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """`apply` to pieces of `count` lanes of two vectors."""
    if x.type.count == count:
        return apply(x, y)

    def lanes(first: int, number: int) -> ir.Constant:
        return ir.Constant(ir.VectorType(I32, number), list(range(first, first + number)))

    parts = [apply(*(b.shuffle_vector(v, v, lanes(first, count)) for v in (x, y))) for first in range(0, x.type.count, count)]
    while len(parts) > 1:
        parts = [b.shuffle_vector(p, q, lanes(0, 2 * p.type.count)) for p, q in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]
