"""Products of small matrices and what belongs to them, as `mma.sync`, `ldmatrix`, `stmatrix` and `cvt` (PTX ISA, "Warp Level Matrix Instructions").

`mma` touches no memory, so LLVM may move it, but only as a whole: it is convergent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.llvm.module import value_type
from kdsl.backend.nvptx import assembly
from kdsl.backend.nvptx.assembly import shared_address, vector
from kdsl.lang.intrinsics.fragments import form_of

if TYPE_CHECKING:
    from kdsl.backend.nvptx.instructions import Emission

_I16: Final = ir.IntType(16)
_I32: Final = ir.IntType(32)
_F32: Final = ir.FloatType()


def _matrices(e: Emission) -> str:
    """The modifiers of ldmatrix and stmatrix."""
    return f"sync.aligned.m8n8.x{e.op.options['count']}{'.trans' if e.op.options['transpose'] else ''}.shared.b16"


def _ldmatrix(e: Emission) -> Sequence[Any]:
    count = len(e.op.results)
    text = f"ldmatrix.{_matrices(e)} {vector(0, count)}, [${count}];"
    return assembly.values(e.builder, text, [_I32] * count, shared_address(e.builder, e.addresses[0]), convergent=True)


def _stmatrix(e: Emission) -> Sequence[Any]:
    text = f"stmatrix.{_matrices(e)} [$0], {vector(1, len(e.arguments))};"
    return assembly.values(e.builder, text, [], shared_address(e.builder, e.addresses[0]), *e.arguments, convergent=True)


def _mma(e: Emission) -> Sequence[Any]:
    form = form_of(e.op.options)
    a, b, c = form.registers
    saturate = ".satfinite" if e.op.options["saturate"] else ""
    vectors = ", ".join((vector(0, c), vector(c, a), vector(c + a, b), vector(c + a + b, c)))
    text = f"mma.sync.aligned.{form.shape}.row.col{saturate}.{form.c}.{form.a}.{form.b}.{form.c} {vectors};"
    return assembly.values(e.builder, text, [value_type(form.accumulator)] * c, *e.arguments, memory=False, convergent=True)


def _pack(e: Emission) -> Sequence[Any]:
    low, high = e.arguments
    kind = e.op.name.removesuffix("_bits")
    wide = value_type(e.op.results[0])
    rounding = "rn" if wide == _I32 else "rn.satfinite"
    return assembly.values(e.builder, f"cvt.{rounding}.{kind}.f32 $0, $1, $2;", [wide], high, low, memory=False)


def _unpack(e: Emission) -> Sequence[Any]:
    b, (bits,) = e.builder, e.arguments
    if e.op.name == "bits_bf16x2":
        return [b.bitcast(half, _F32) for half in (b.shl(bits, _I32(16)), b.and_(bits, _I32(-1 << 16)))]
    if bits.type == _I16:
        kind = e.op.name.removeprefix("bits_")
        (bits,) = assembly.values(b, f"cvt.rn.f16x2.{kind} $0, $1;", [_I32], bits, memory=False)
    halves = (b.trunc(bits, _I16), b.trunc(b.lshr(bits, _I32(16)), _I16))
    return [b.fpext(b.bitcast(half, ir.HalfType()), _F32) for half in halves]


EMITTERS: Final[dict[str, Callable[[Emission], Sequence[Any]]]] = {
    "ldmatrix": _ldmatrix,
    "stmatrix": _stmatrix,
    "mma": _mma,
    **{f"{kind}_bits": _pack for kind in ("f16x2", "bf16x2", "e4m3x2", "e5m2x2")},
    **{f"bits_{kind}": _unpack for kind in ("f16x2", "bf16x2", "e4m3x2", "e5m2x2")},
}
