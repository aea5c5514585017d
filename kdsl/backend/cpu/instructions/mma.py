"""`mma` on the CPU: one function per form, which takes the fragments of a warp from memory and multiplies them as vectors of 32 lanes.

The accumulation that the language documents: the exact products are added to the accumulator one by one in ascending order of k, each sum rounded to the
nearest f32 (f64 products to f64); f16 accumulators are rounded to f16 at the end; integers are exact and wrap, or are clamped, at the end.
Where each number lies stands in `kdsl.lang.intrinsics.fragments`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu.lanes import I32, I64, POINTER, Lanes, Vector
from kdsl.backend.llvm import float8, narrow
from kdsl.backend.llvm.module import call_intrinsic, mangled, value_type
from kdsl.backend.llvm.narrow import number
from kdsl.ir import nodes
from kdsl.lang.intrinsics.fragments import Form, form_of
from kdsl.lang.types import BF16, F16
from kdsl.lang.types import I32 as INTEGER

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission

_LANES: Final = nodes.WARP_SIZE
_I8: Final = ir.IntType(8)
_I16: Final = ir.IntType(16)
_F32: Final = ir.FloatType()
_TF32_BITS: Final = -1 << 13
"""The bits of an f32 that a tf32 has; the unit does not look at the others."""


def _mma(emission: Emission, op: nodes.Instruction) -> Sequence[Lanes]:
    e = emission
    b = e.builder
    form, saturate = form_of(op.options), bool(op.options["saturate"])
    function = _function(e, form, saturate)
    memory = []
    taken = 0
    for name, count, of in zip("abc", form.registers, (form.operand, form.operand, form.accumulator), strict=True):
        kind = value_type(of, _LANES)
        buffer = e.buffer(ir.ArrayType(kind, count), ("mma", name, count, of.name))
        for number_, argument in enumerate(op.arguments[taken : taken + count]):
            b.store(e.vector(argument), _register(b, buffer, kind, number_))
        taken += count
        memory.append(buffer)
    e.storage.touches_no_array(b.call(function, memory))
    kind = value_type(form.accumulator, _LANES)
    return [Vector(b.load(_register(b, memory[2], kind, i), typ=kind)) for i in range(form.registers[2])]


def _register(b: ir.IRBuilder, buffer: Any, kind: ir.Type, position: int) -> Any:
    return b.gep(buffer, [ir.Constant(I64, position)], source_etype=kind)


def _function(e: Emission, form: Form, saturate: bool) -> Any:
    """`void (a*, b*, c*)`: adds the product to c."""
    name = f"mma.{form.shape}.{form.a}.{form.b}.{form.c}{'.satfinite' if saturate else ''}"
    if name in e.module.globals:
        return e.module.globals[name]
    function = ir.Function(e.module, ir.FunctionType(ir.VoidType(), [POINTER] * 3), name)
    function.linkage = "internal"
    function.attributes.add("noinline")  # hundreds of instructions, and many calls
    for argument in function.args:
        argument.add_attribute("noalias")
    e.host.mark(function)
    _Product(ir.IRBuilder(function.append_basic_block("entry")), form, saturate).emit(*function.args)
    return function


class _Product:
    """The body of one function."""

    def __init__(self, builder: ir.IRBuilder, form: Form, saturate: bool) -> None:
        self.b = builder
        self.form = form
        self.saturate = saturate

    def emit(self, a: Any, b: Any, c: Any) -> None:
        """C += A B; then return."""
        of_a, of_b = self._numbers(a, self.form.a, self.form.registers[0]), self._numbers(b, self.form.b, self.form.registers[1])
        starts = self._sums(c)
        rows = [self._rows(of_a, half) for half in range(self.form.m // 8)]
        columns = [self._columns(of_b, side) for side in (0, 1)]
        integers = self.form.c == "s32"
        sums = [ir.Constant(start.type, None) if integers else start for start in starts]
        for k in range(self.form.k):
            for i in range(self.form.sums):
                x, y = rows[i // 2][k], columns[i % 2][k]
                sums[i] = self.b.add(self.b.mul(x, y), sums[i]) if integers else self._fma(x, y, sums[i])
        self._store(c, [self._added(start, total) for start, total in zip(starts, sums, strict=True)] if integers else sums)
        self.b.ret_void()

    # ----------------------------------------------------------------------------------------------------------------- operands

    def _numbers(self, buffer: Any, kind: str, count: int) -> list[list[Any]]:
        """The numbers of each register, as f32, f64 or i32."""
        of = value_type(self.form.operand, _LANES)
        return [_UNPACKED[kind](self.b, self.b.load(_register(self.b, buffer, of, r), typ=of)) for r in range(count)]

    def _rows(self, registers: list[list[Any]], half: int) -> list[Any]:
        """For each k, that of A which a lane multiplies: in its row lane // 4, in the upper or lower half of A."""
        height, packed = self.form.m // 8, self.form.packed
        return [
            self._permuted(
                registers[half + height * (k // (4 * packed))][k % packed], [lane // 4 * 4 + k // packed % 4 for lane in range(_LANES)]
            )
            for k in range(self.form.k)
        ]

    def _columns(self, registers: list[list[Any]], side: int) -> list[Any]:
        """For each k, that of B which a lane multiplies: in its column 2 * (lane % 4), or in the next."""
        packed = self.form.packed
        return [
            self._permuted(
                registers[k // (4 * packed)][k % packed], [(lane % 4 * 2 + side) * 4 + k // packed % 4 for lane in range(_LANES)]
            )
            for k in range(self.form.k)
        ]

    def _permuted(self, vector: Any, sources: list[int]) -> Any:
        return self.b.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), ir.Constant(ir.VectorType(I32, _LANES), sources))

    # --------------------------------------------------------------------------------------------------------------------- sums

    def _sums(self, buffer: Any) -> list[Any]:
        of = value_type(self.form.accumulator, _LANES)
        held = [self.b.load(_register(self.b, buffer, of, r), typ=of) for r in range(self.form.registers[2])]
        return [half for pair in held for half in _UNPACKED["f16"](self.b, pair)] if self.form.c == "f16" else held

    def _fma(self, x: Any, y: Any, z: Any) -> Any:
        return call_intrinsic(self.b, f"llvm.fma.{mangled(x.type)}", x.type, x, y, z)

    def _added(self, start: Any, total: Any) -> Any:
        """An integer sum, which wraps or is clamped."""
        b = self.b
        if not self.saturate:
            return b.add(start, total)
        wide = ir.VectorType(I64, _LANES)
        result = b.add(b.sext(start, wide), b.sext(total, wide))
        for name, limit in (("smax", INTEGER.minimum), ("smin", INTEGER.maximum)):
            result = call_intrinsic(b, f"llvm.{name}.{mangled(wide)}", wide, result, number(wide, limit))
        return b.trunc(result, start.type)

    def _store(self, buffer: Any, sums: list[Any]) -> None:
        b = self.b
        if self.form.c == "f16":
            halves = [narrow.rounded(b, F16, x) for x in sums]
            sums = [_joined(b, *halves[i : i + 2]) for i in range(0, len(halves), 2)]
        for r, x in enumerate(sums):
            b.store(x, _register(b, buffer, x.type, r))


def _joined(b: ir.IRBuilder, low: Any, high: Any) -> Any:
    wide = ir.VectorType(I32, _LANES)
    return b.or_(b.zext(low, wide), b.shl(b.zext(high, wide), number(wide, 16)))


def _parts(b: ir.IRBuilder, x: Any, kind: ir.IntType) -> list[Any]:
    """The parts of a register, the lowest first."""
    part = ir.VectorType(kind, _LANES)
    return [b.trunc(b.lshr(x, number(x.type, place)), part) for place in range(0, 32, kind.width)]


def _words(signed: bool) -> Callable[[ir.IRBuilder, Any], list[Any]]:
    return lambda b, x: [(b.sext if signed else b.zext)(part, x.type) for part in _parts(b, x, _I8)]


_UNPACKED: Final[dict[str, Callable[[ir.IRBuilder, Any], list[Any]]]] = {
    "f16": lambda b, x: [narrow.widened(b, F16, part) for part in _parts(b, x, _I16)],
    "bf16": lambda b, x: [narrow.widened(b, BF16, part) for part in _parts(b, x, _I16)],
    "tf32": lambda b, x: [b.bitcast(b.and_(x, number(x.type, _TF32_BITS)), ir.VectorType(_F32, _LANES))],
    "f64": lambda b, x: [x],
    "s8": _words(signed=True),
    "u8": _words(signed=False),
    "e4m3": lambda b, x: [float8.widened(b, float8.E4M3, part) for part in _parts(b, x, _I8)],
    "e5m2": lambda b, x: [float8.widened(b, float8.E5M2, part) for part in _parts(b, x, _I8)],
}
"""The numbers of a register, by the type of the operand."""

EMITTERS: Final[dict[str, Callable[[Emission, nodes.Instruction], Sequence[Lanes]]]] = {"mma": _mma}
