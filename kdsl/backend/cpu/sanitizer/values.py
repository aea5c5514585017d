"""Values in instrumented code: what a checked build asserts, conversions that do not fit, and who takes part in an exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu.lanes import I32, Lanes, Uniform
from kdsl.backend.cpu.masks import NOBODY
from kdsl.backend.cpu.sanitizer.code import WORD, word
from kdsl.backend.cpu.sanitizer.report import kind_and_site, reporter
from kdsl.backend.cpu.sanitizer.sites import is_conversion
from kdsl.backend.llvm import narrow
from kdsl.ir import nodes
from kdsl.lang.intrinsics import INTRINSICS, ToExchange

if TYPE_CHECKING:
    from kdsl.backend.cpu.sanitizer.emission import SanitizedEmission

_KINDS: Final = {"divide": "divide", "shift": "shift", "mask": "mask", "assert": "assertion"}
_LANES: Final = nodes.WARP_SIZE
_WORDS: Final = ir.VectorType(I32, _LANES)
"""A word of 32 bits for each lane of a warp."""


def report(e: SanitizedEmission, kind: str, op: nodes.Op, failing: Any, *values: Any) -> None:
    """Report the first of the failing lanes, a mask that may be empty. `values` (words) stand where offset, dimension and extent would."""
    b = e.builder
    bad, after = e.append("finding"), e.append("looked")
    b.cbranch(e.masks.any(failing), bad, after).set_weights([1, 1 << 16])
    b.position_at_end(bad)
    thread = b.add(e.specials.first_thread, b.zext(e.masks.first(failing), WORD))
    _enter(e, kind, e.sites.value(op), thread, *values)
    b.branch(after)
    b.position_at_end(after)


def _enter(e: SanitizedEmission, kind: str, site: int, thread: Any, offset: Any = None, dimension: Any = None, extent: Any = None) -> None:
    nothing = word(0)
    numbers = [nothing if each is None else each for each in (offset, dimension, extent)]
    call = e.builder.call(reporter(e.module), [e.state, kind_and_site(kind, site), nothing, thread, *numbers, e.state, nothing, nothing])
    e.storage.touches_no_array(call)


def _failing(e: SanitizedEmission, holds: Lanes) -> Any:
    """The active lanes in which a condition does not hold."""
    return e.masks.without(e.mask, e.lanes.vector(holds))


# ----------------------------------------------------------------------------------------------------------------------- assertions


def assertion(e: SanitizedEmission, op: nodes.Assertion) -> None:
    """Report a lane in which an assertion does not hold."""
    kind = _KINDS.get(e.kernel.sites[op.site].kind, "outside")
    failing = _failing(e, e.value(op.condition))
    if op.about is None:
        report(e, kind, op, failing)
        return
    lane = e.masks.first(failing)
    dimension, index, extent = (
        value.scalar if isinstance(value, Uniform) else e.builder.extract_element(e.lanes.vector(value), lane)
        for value in (e.value(each) for each in op.about)
    )
    report(e, kind, op, failing, index, dimension, extent)


# ------------------------------------------------------------------------------------------------------------------- conversions


def converted(e: SanitizedEmission, op: nodes.ValueOp) -> None:
    """Report a float that does not fit the integer that it is made into."""
    if isinstance(op, nodes.Cast) and is_conversion(op):
        report(e, "conversion", op, e.masks.without(e.mask, _fits(e, op)))


def _splat(kind: Any, value: float) -> ir.Constant:
    return ir.Constant(kind, [value] * kind.count)


def _fits(e: SanitizedEmission, op: nodes.Cast) -> Any:
    """Whether a float, without its fraction, is in the range of an integer type."""
    b, of = e.builder, op.type
    vector = e.vector(op.operand)
    if op.operand.type.is_narrow_float:
        vector = narrow.widened(b, op.operand.type, vector)
    exact = 1 << (24 if vector.type.element == ir.FloatType() else 53)
    low, high = float(of.minimum), float(of.maximum + 1)
    # below the smallest number by less than 1 is still it, where there are such floats
    above = (
        b.fcmp_ordered(">", vector, _splat(vector.type, low - 1))
        if -low < exact
        else b.fcmp_ordered(">=", vector, _splat(vector.type, low))
    )
    return b.and_(above, b.fcmp_ordered("<", vector, _splat(vector.type, high)))


# ------------------------------------------------------------------------------------------------------------------------ exchange


def begin_group(e: SanitizedEmission) -> None:
    """A group begins a region: nobody has returned in it."""
    if _needs_returns(e):
        e.builder.store(e.masks.none, _gone(e))


def returned(e: SanitizedEmission) -> None:
    """The active lanes return."""
    if _needs_returns(e) and e.mask is not NOBODY:
        e.builder.store(e.builder.or_(e.builder.load(_gone(e), typ=e.masks.type), e.masks.explicit(e.mask)), _gone(e))


def _needs_returns(e: SanitizedEmission) -> bool:
    return e.width == _LANES and any(isinstance(op, nodes.Exchange) and op.mask is not None for op in nodes.walk(e.kernel.body))


def _gone(e: SanitizedEmission) -> Any:
    return e.buffer(e.masks.type, "returned")


def exchange(e: SanitizedEmission, op: nodes.Exchange) -> Any:
    """Look at who takes part in an exchange, and from whom it takes. Who takes part with each lane, as a vector of bits."""
    b = e.builder
    row = INTRINSICS[op.name].lowering
    assert isinstance(row, ToExchange)
    if op.mask is None:
        present = e.lanes.splat(e.masks.packed(e.mask))
    else:
        named = e.lanes.vector(e.value(op.mask))
        present = ir.Constant(_WORDS, None)
        for lane in range(_LANES):  # who is here with the same mask
            same = b.icmp_unsigned("==", named, e.lanes.splat(b.extract_element(named, ir.Constant(I32, lane))))
            bit = b.select(
                b.extract_element(e.masks.explicit(e.mask), ir.Constant(I32, lane)), ir.Constant(I32, 1 << lane), ir.Constant(I32, 0)
            )
            present = b.or_(present, b.select(same, e.lanes.splat(bit), ir.Constant(_WORDS, None)))
        present = b.and_(present, named)
        gone = b.or_(e.masks.packed(b.load(_gone(e), typ=e.masks.type)), b.not_(e.masks.packed(e.regions.came)))
        missing = b.and_(named, b.not_(b.or_(present, e.lanes.splat(gone))))
        lanes_missing = b.icmp_unsigned("!=", missing, ir.Constant(missing.type, None))
        failing = e.masks.both(e.mask, lanes_missing)
        first = e.masks.first(failing)
        report(e, "missing lane", op, failing, b.zext(b.extract_element(missing, first), WORD))
    if row.kind == "shuffle":
        source, takes = _source(e, row.mode, e.value(op.arguments[1]), op.width)
        active = b.icmp_unsigned("!=", b.and_(b.lshr(present, source), ir.Constant(_WORDS, [1] * _LANES)), ir.Constant(_WORDS, None))
        failing = e.masks.both(e.mask, b.and_(takes, b.not_(active)))
        report(e, "inactive lane", op, failing, b.zext(b.extract_element(source, e.masks.first(failing)), WORD))
    return present


def _source(e: SanitizedEmission, mode: str, amount: Lanes, width: int) -> tuple[Any, Any]:
    """The lane that each lane takes from, and whether it takes from one at all: shuffles up and down end at their segments."""
    b = e.builder
    lanes = ir.Constant(ir.VectorType(I32, _LANES), list(range(_LANES)))
    last = ir.Constant(lanes.type, [width - 1] * _LANES)
    first = ir.Constant(lanes.type, [lane & -width for lane in range(_LANES)])
    raw = e.lanes.vector(amount)
    small = b.and_(b.trunc(raw, lanes.type) if raw.type.element.width > 32 else raw, last)
    if mode == "idx":
        return b.or_(first, small), e.masks.all
    if mode == "bfly":
        return b.xor(lanes, small), e.masks.all
    moved = b.sub(lanes, small) if mode == "up" else b.add(lanes, small)
    inside = b.icmp_unsigned("<=", b.sub(moved, first), last)
    return b.select(inside, moved, lanes), inside
