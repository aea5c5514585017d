"""Which lanes of a warp hold the same bits: `warp_match_any` and `warp_match_all`. Lanes that take no part match nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from kdsl.backend.cpu.lanes import I32, Lanes, Uniform, Vector
from kdsl.ir import nodes
from kdsl.lang.types import DType

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission

_LANES = nodes.WARP_SIZE


def match(emission: Emission, mode: str, of: DType, value: Lanes) -> Lanes:
    """The lanes that hold what the lane holds, as bits (`any`), or whether all lanes hold the same (`all`)."""
    e = emission
    b, masks = e.builder, e.masks
    active = masks.packed(e.mask)
    if isinstance(value, Uniform):
        return Vector(e.lanes.splat(active)) if mode == "any" else Uniform(ir.Constant(ir.IntType(1), 1))
    vector = e.lanes.vector(value)
    if of.is_float:
        vector = b.bitcast(vector, ir.VectorType(ir.IntType(of.bits), _LANES))
    if mode == "all":
        same = b.icmp_unsigned("==", vector, e.lanes.splat(masks.lane(vector, e.mask)))
        return Uniform(b.icmp_unsigned("==", masks.packed(masks.without(e.mask, same)), ir.Constant(masks.bits, 0)))
    found: Any = ir.Constant(ir.VectorType(I32, _LANES), None)
    for lane in range(_LANES):
        same = b.icmp_unsigned("==", vector, e.lanes.splat(b.extract_element(vector, ir.Constant(I32, lane))))
        bit = ir.Constant(found.type, [(1 << lane)] * _LANES)
        found = b.or_(found, b.select(same, bit, ir.Constant(found.type, None)))
    return Vector(b.and_(found, e.lanes.splat(active)))
