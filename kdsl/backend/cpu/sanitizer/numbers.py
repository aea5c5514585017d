"""Infinities and NaNs in instrumented code: reported where an infinity is made of finite numbers, and a NaN where none was given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu.lanes import I32, Lanes
from kdsl.backend.cpu.sanitizer.code import WORD
from kdsl.backend.cpu.sanitizer.sites import is_sum
from kdsl.backend.cpu.sanitizer.values import report
from kdsl.backend.llvm import narrow
from kdsl.ir import nodes
from kdsl.lang.intrinsics import INTRINSICS, ToExchange
from kdsl.lang.intrinsics.fragments import form_of

if TYPE_CHECKING:
    from kdsl.backend.cpu.sanitizer.emission import SanitizedEmission

_LANES: Final = nodes.WARP_SIZE


@dataclass(frozen=True)
class _Format:
    """The bits of a float, without its sign."""

    bits: int
    """How many it has, with the sign."""
    largest: int
    """The largest finite number."""
    infinity: int
    """Infinity, above which all are NaNs. e4m3 has none."""


_FORMATS: Final = {
    "f64": _Format(64, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000),
    "f32": _Format(32, 0x7F7FFFFF, 0x7F800000),
    "tf32": _Format(32, 0x7F7FFFFF, 0x7F801FFF),  # the unit does not look at the lowest bits
    "f16": _Format(16, 0x7BFF, 0x7C00),
    "bf16": _Format(16, 0x7F7F, 0x7F80),
    "e5m2": _Format(8, 0x7B, 0x7C),
    "e4m3": _Format(8, 0x7E, 0x7E),
}


@dataclass(frozen=True)
class _Found:
    """The lanes that hold such a number, as masks."""

    not_finite: Any
    not_a_number: Any


def computed(e: SanitizedEmission, op: nodes.ValueOp, result: Lanes) -> None:
    """Look at a value that has been computed."""
    sources = e.sites.sources(op) if e.options.numbers else None
    # what a region computes again it may do without the arguments of a function: then this has been looked at before
    if sources is not None and all(source in e.values for source in sources):
        given = _found(e, ((source.type.name, e.vector(source)) for source in sources))
        _report(e, op, _found(e, [(op.type.name, e.lanes.vector(result))]), given)


def changed(e: SanitizedEmission, op: nodes.Atomic, before: Lanes) -> None:
    """Look at what an atomic operation has made of an element, from what was there before."""
    if not (e.options.numbers and is_sum(op)):
        return
    b, of = e.builder, op.type
    old, value = e.lanes.vector(before), e.vector(op.arguments[-1])
    more = value if op.op == "add" else narrow.negated(b, value) if of.is_narrow_float else b.fneg(value)
    new = e.vectors.combine("add", of, old, more)
    _report(e, op, _found(e, [(of.name, new)]), _found(e, [(of.name, old), (of.name, value)]))


def exchanged(e: SanitizedEmission, op: nodes.Exchange, result: Lanes, present: Any) -> None:
    """Look at what lanes have made of their numbers together; `present` says who they are."""
    row = INTRINSICS[op.name].lowering
    assert isinstance(row, ToExchange)
    if not (e.options.numbers and op.type.is_float and row.kind in ("reduce", "scan")):
        return
    b = e.builder
    to_itself = ir.Constant(ir.VectorType(I32, _LANES), [(2 << lane) - 1 for lane in range(_LANES)])
    with_it = present if row.kind == "reduce" else b.and_(present, to_itself)

    def among(lanes: Any) -> Any:
        there = e.lanes.splat(e.masks.packed(lanes))
        return b.icmp_unsigned("!=", b.and_(there, with_it), ir.Constant(there.type, None))

    own = _found(e, [(op.type.name, e.vector(op.arguments[0]))])
    given = _Found(among(own.not_finite), among(own.not_a_number))
    _report(e, op, _found(e, [(op.type.name, e.lanes.vector(result))]), given)


def multiplied(e: SanitizedEmission, op: nodes.Instruction) -> None:
    """Look at the product of two matrices: the sums of a lane beside all numbers of the warp."""
    if not (e.options.numbers and is_sum(op)):
        return
    form = form_of(op.options)
    formats = [of for of, count in zip((form.a, form.b, form.c), form.registers, strict=True) for _ in range(count)]
    own = _found(e, zip(formats, map(e.vector, op.arguments), strict=True))

    def anywhere(lanes: Any) -> Any:
        return e.builder.select(e.masks.any(lanes), e.masks.all, e.masks.none)

    sums = _found(e, ((form.c, e.lanes.vector(result)) for result in e.results[op]))
    _report(e, op, sums, _Found(anywhere(own.not_finite), anywhere(own.not_a_number)))


def _found(e: SanitizedEmission, registers: Iterable[tuple[str, Any]]) -> _Found:
    """The lanes with such a number in one of the vectors, each given with the format of its numbers, of which a register may hold several."""
    b = e.builder
    not_finite = not_a_number = e.masks.none
    for name, vector in registers:
        of = _FORMATS[name]
        element = vector.type.element
        width = element.width if isinstance(element, ir.IntType) else of.bits
        bits = b.bitcast(vector, ir.VectorType(ir.IntType(width), e.width))

        def constant(value: int, kind: Any = bits.type) -> ir.Constant:
            return ir.Constant(kind, [value] * e.width)

        for place in range(0, width, of.bits):
            size = b.and_(b.lshr(bits, constant(place)), constant((1 << (of.bits - 1)) - 1))
            not_finite = b.or_(not_finite, b.icmp_unsigned(">", size, constant(of.largest)))
            not_a_number = b.or_(not_a_number, b.icmp_unsigned(">", size, constant(of.infinity)))
    return _Found(not_finite, not_a_number)


def _report(e: SanitizedEmission, op: nodes.Op, result: _Found, given: _Found) -> None:
    """Report infinities that arise, and NaNs; the value says which of the two it is."""
    b = e.builder
    known = b.select(result.not_a_number, given.not_a_number, given.not_finite)
    failing = e.masks.both(e.mask, b.and_(result.not_finite, b.not_(known)))
    report(e, "not a number", op, failing, b.zext(b.extract_element(result.not_a_number, e.masks.first(failing)), WORD))
