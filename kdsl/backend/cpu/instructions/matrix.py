"""`ldmatrix` and `stmatrix` on the CPU, as gathers and scatters of words, and packed numbers. A group is a whole warp wherever these are used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu.lanes import I32, Lanes, Vector
from kdsl.backend.llvm import float8, narrow
from kdsl.backend.llvm.module import call_intrinsic, mangled
from kdsl.ir import nodes
from kdsl.lang.types import BF16, F16

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission

_LANES: Final = nodes.WARP_SIZE
_I8: Final = ir.IntType(8)
_I16: Final = ir.IntType(16)


def _pointers(emission: Emission, element: nodes.Element, matrix: int, row: Callable[[int], int], byte: Callable[[int], int]) -> Any:
    """Where each lane finds its part of a matrix: `byte` bytes behind the start of the row that lane 8 * matrix + `row` names."""
    e = emission
    b = e.builder
    index = e.lanes.vector(e.storage.index(element.memory, [e.value(i) for i in element.indices]))
    lanes = [8 * matrix + row(lane) for lane in range(_LANES)]
    named = b.shuffle_vector(index, ir.Constant(index.type, ir.Undefined), ir.Constant(ir.VectorType(I32, _LANES), lanes))
    size = ir.Constant(index.type, [element.memory.type.itemsize] * _LANES)
    offsets = ir.Constant(index.type, [byte(lane) for lane in range(_LANES)])
    pointers = b.gep(e.storage.start(element.memory), [b.add(b.mul(named, size), offsets)], source_etype=_I8)
    pointers.type = ir.VectorType(ir.PointerType(), _LANES)  # which llvmlite does not see
    return pointers


def _places(emission: Emission, op: nodes.Instruction, matrix: int) -> list[tuple[Any, ir.Type]]:
    """The addresses of what register `matrix` of each lane holds, and its type: a word of a row, or two elements of a column, one below the other."""
    element = op.elements[0]
    if not op.options["transpose"]:
        return [(_pointers(emission, element, matrix, lambda lane: lane // 4, lambda lane: lane % 4 * 4), I32)]
    return [
        (_pointers(emission, element, matrix, lambda lane, half=half: lane % 4 * 2 + half, lambda lane: lane // 4 * 2), _I16)  # type: ignore[misc]
        for half in (0, 1)
    ]


def _ldmatrix(emission: Emission, op: nodes.Instruction) -> Sequence[Lanes]:
    e = emission
    b = e.builder
    results: list[Lanes] = []
    for matrix in range(len(op.results)):
        parts = []
        for pointers, of in _places(e, op, matrix):
            kind = ir.VectorType(of, _LANES)
            alignment, mask, zero = ir.Constant(I32, of.width // 8), e.masks.explicit(e.mask), ir.Constant(kind, None)
            loaded = call_intrinsic(b, f"llvm.masked.gather.{mangled(kind)}.v{_LANES}p0", kind, pointers, alignment, mask, zero)
            e.storage.mark(loaded, op.elements[0].memory)
            parts.append(loaded)
        results.append(Vector(parts[0] if len(parts) == 1 else _joined(b, *parts)))
    return results


def _stmatrix(emission: Emission, op: nodes.Instruction) -> Sequence[Lanes]:
    e = emission
    b = e.builder
    for matrix, argument in enumerate(op.arguments):
        register = e.vector(argument)
        places = _places(e, op, matrix)
        parts = [register] if len(places) == 1 else _halves(b, register)
        for (pointers, of), part in zip(places, parts, strict=True):
            name = f"llvm.masked.scatter.{mangled(part.type)}.v{_LANES}p0"
            alignment = ir.Constant(I32, of.width // 8)
            stored = call_intrinsic(b, name, ir.VoidType(), part, pointers, alignment, e.masks.explicit(e.mask))
            e.storage.mark(stored, op.elements[0].memory)
    return ()


def _joined(b: ir.IRBuilder, low: Any, high: Any) -> Any:
    """Two halves of twice as many bits."""
    wide = ir.VectorType(ir.IntType(2 * low.type.element.width), low.type.count)
    return b.or_(b.zext(low, wide), b.shl(b.zext(high, wide), narrow.number(wide, low.type.element.width)))


def _halves(b: ir.IRBuilder, x: Any) -> list[Any]:
    """The lower and the upper half of the bits."""
    width = x.type.element.width // 2
    half = ir.VectorType(ir.IntType(width), x.type.count)
    return [b.trunc(x, half), b.trunc(b.lshr(x, narrow.number(x.type, width)), half)]


_ROUNDED: Final[dict[str, Callable[[ir.IRBuilder, Any], Any]]] = {
    "f16x2": lambda b, x: narrow.rounded(b, F16, x),
    "bf16x2": lambda b, x: narrow.rounded(b, BF16, x),
    "e4m3x2": lambda b, x: float8.rounded(b, float8.E4M3, x),
    "e5m2x2": lambda b, x: float8.rounded(b, float8.E5M2, x),
}
_WIDENED: Final[dict[str, Callable[[ir.IRBuilder, Any], Any]]] = {
    "f16x2": lambda b, x: narrow.widened(b, F16, x),
    "bf16x2": lambda b, x: narrow.widened(b, BF16, x),
    "e4m3x2": lambda b, x: float8.widened(b, float8.E4M3, x),
    "e5m2x2": lambda b, x: float8.widened(b, float8.E5M2, x),
}


def _pack(emission: Emission, op: nodes.Instruction) -> Sequence[Lanes]:
    b, convert = emission.builder, _ROUNDED[op.name.removesuffix("_bits")]
    return [Vector(_joined(b, *(convert(b, emission.vector(argument)) for argument in op.arguments)))]


def _unpack(emission: Emission, op: nodes.Instruction) -> Sequence[Lanes]:
    b, convert = emission.builder, _WIDENED[op.name.removeprefix("bits_")]
    return [Vector(convert(b, half)) for half in _halves(b, emission.vector(op.arguments[0]))]


EMITTERS: Final[dict[str, Callable[[Emission, nodes.Instruction], Sequence[Lanes]]]] = {
    "ldmatrix": _ldmatrix,
    "stmatrix": _stmatrix,
    **{f"{kind}_bits": _pack for kind in _ROUNDED},
    **{f"bits_{kind}": _unpack for kind in _WIDENED},
}
