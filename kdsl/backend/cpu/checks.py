"""Checks of indices and assertions: what fails is left out and recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from llvmlite import ir

from kdsl.backend.cpu.lanes import BIT, I32, I64, Lanes, Linear, Uniform, Vector
from kdsl.backend.cpu.masks import Mask
from kdsl.backend.cpu.merge import joined
from kdsl.backend.llvm.module import call_intrinsic
from kdsl.ir import nodes
from kdsl.ir.abi import extent_slot

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission

Access: TypeAlias = nodes.Access | nodes.Check
"""What has indices to be checked."""

_LARGE: Final = 1 << 60
"""Products of run-time strides and the offsets of a group up to it, two of them and no more, do not wrap between the corners."""


class Check:
    """That one index is inside its dimension."""

    def __init__(self, emission: Emission, op: nodes.ValueOp, index: Lanes, extent: Any) -> None:
        self.e = emission
        self.op = op
        self.index = index
        """The index, i64."""
        self.extent = extent
        """LLVM scalar: the number of elements."""

    def inside(self) -> Any:
        """Whether it is, as a `Uniform` or `Vector` of bools."""
        b, lanes = self.e.builder, self.e.lanes
        if isinstance(self.index, Uniform):
            return Uniform(b.icmp_unsigned("<", self.index.scalar, self.extent))
        if isinstance(self.index, Linear):
            found = lanes.below(self.index, self.extent, self.op)
            if found is not None:
                return found
        return Vector(b.icmp_unsigned("<", lanes.vector(self.index), lanes.splat(self.extent)))


class Checks:
    """Emits checks for one kernel."""

    def __init__(self, emission: Emission) -> None:
        self.e = emission

    def _checks(self, op: Access, indices: list[Lanes]) -> list[Check]:
        """What must hold, dimension by dimension."""
        e, memory = self.e, op.memory
        if isinstance(memory, nodes.View):
            extents = [e.arguments[extent_slot(memory.name, memory.rank, dimension)] for dimension in range(memory.rank)]
        else:
            extents = [e.i64(extent) for extent in memory.shape]
        extents += [e.i64(extent) for extent in nodes.extents_within(op)]
        if isinstance(op, nodes.LoadVector | nodes.StoreVector):
            extents[-1] = e.builder.udiv(extents[-1], e.i64(op.lanes))  # a shift
        return [Check(e, *each) for each in zip(op.indices, indices, extents, strict=True)]

    def checked(self, op: Access, indices: list[Lanes], access: Callable[[Mask], Any]) -> Any:
        """Run `access` with the lanes whose indices are inside, after recording a failure of the others; its result, 0 where it did not run."""
        e = self.e
        b, masks = e.builder, e.masks
        checks = self._checks(op, indices)
        if e.attempt is not None:
            if op not in e.attempt.proved:
                e.attempt.require(*(self._all_inside(check) for check in checks))
            return access(e.mask)
        if all(isinstance(check.index, Uniform) for check in checks):
            together = None
            for check in checks:
                together = check.inside().scalar if together is None else b.and_(together, check.inside().scalar)
            good, bad, after = e.append("inside"), e.append("outside"), e.append("accessed")
            b.cbranch(together, good, bad).set_weights([1 << 16, 1])
            b.position_at_end(good)
            result = access(e.mask)
            good_end = b.block
            b.branch(after)
            b.position_at_end(bad)
            self._record(op, checks)
            b.branch(after)
            bad_end = b.block
            b.position_at_end(after)
            return joined(b, [(result, good_end), (_nothing(result), bad_end)])
        return access(masks.both(e.mask, self._inside_mask(op, checks)))

    def all_inside(self, op: Access, indices: list[Lanes]) -> list[Any]:
        """For a wide group: i1s that together say that all lanes are inside."""
        return [self._all_inside(check) for check in self._checks(op, indices)]

    def inside(self, op: nodes.Check) -> Lanes:
        """Whether all indices are inside, after recording a failure of lanes for which they are not."""
        e = self.e
        checks = self._checks(op, [e.value(i) for i in op.indices])
        if e.attempt is not None:
            e.attempt.require(*(self._all_inside(check) for check in checks))
            return Uniform(ir.Constant(BIT, 1))
        if not all(isinstance(check.index, Uniform) for check in checks):
            return Vector(self._inside_mask(op, checks))
        b = e.builder
        together = checks[0].inside().scalar
        for check in checks[1:]:
            together = b.and_(together, check.inside().scalar)
        bad, after = e.append("outside"), e.append("checked")
        b.cbranch(together, after, bad).set_weights([1 << 16, 1])
        b.position_at_end(bad)
        self._record(op, checks)
        b.branch(after)
        b.position_at_end(after)
        return Uniform(together)

    def _inside_mask(self, op: Access, checks: list[Check]) -> Any:
        """The lanes that are inside, after recording a failure of active ones that are not; mostly found out by comparing scalars."""
        e = self.e
        b, masks = e.builder, e.masks
        slow, after = e.append("check"), e.append("checked")
        whole = [self._surely(check) for check in checks]
        inside: Any = None
        if all(sure is not None for sure in whole):
            inside = whole[0]
            for sure in whole[1:]:
                inside = b.and_(inside, sure)
            before = b.block
            b.cbranch(inside, after, slow).set_weights([1 << 10, 1])
            b.position_at_end(slow)
            found = masks.unpacked(self._inside_bits(op, checks))
            end = b.block
            b.branch(after)
            b.position_at_end(after)
            phi = b.phi(masks.type)
            phi.add_incoming(masks.all, before)
            phi.add_incoming(found, end)
            return phi
        for check in checks:
            vector = e.lanes.vector(check.inside())
            inside = vector if inside is None else masks.both(inside, vector)
        b.cbranch(masks.any(masks.without(e.mask, inside)), slow, after).set_weights([1, 1 << 16])
        b.position_at_end(slow)
        self._inside_bits(op, checks)
        b.branch(after)
        b.position_at_end(after)
        return inside

    def _inside_bits(self, op: Access, checks: list[Check]) -> Any:
        """The active lanes that are inside, as bits, found by calls out of the way, which record failures of the others."""
        e = self.e
        bits = e.masks.packed(e.mask)
        for dimension, check in enumerate(checks):
            bits = e.failures.check(op.site, dimension, check.index, check.extent, bits)
        return bits

    def _all_inside(self, check: Check) -> Any:
        """i1: a condition under which all active lanes are inside."""
        e = self.e
        sure = self._surely(check)
        if sure is not None:
            return sure
        outside = e.masks.without(e.mask, e.lanes.vector(check.inside()))
        return e.builder.not_(e.masks.any(outside))

    def _surely(self, check: Check) -> Any:
        """i1: a condition on scalars under which all lanes are inside, None if there is no cheap one."""
        e = self.e
        b = e.builder
        if isinstance(check.index, Uniform):
            return check.inside().scalar
        if not isinstance(check.index, Linear):
            return None
        plain = check.index.offsets
        if plain is not None:
            low, high = min(plain), max(plain)
            room = call_intrinsic(b, "llvm.smax.i64", I64, b.sub(check.extent, e.i64(high - low)), e.i64(0))
            first = b.add(check.index.base, e.i64(low)) if low else check.index.base
            return b.icmp_unsigned("<", first, room)
        # every lane lies between the corners, if the strides are not so large that they wrap
        corners = [check.index.base]
        conditions = []
        for term in check.index.terms:
            low, high = (e.i64(limit(term.offsets)) for limit in (min, max))
            if term.coefficient is not None:
                most = _LARGE // max(map(abs, term.offsets))
                conditions.append(b.icmp_unsigned("<", b.add(term.coefficient, e.i64(most)), e.i64(2 * most)))
                low, high = b.mul(term.coefficient, low), b.mul(term.coefficient, high)
            corners = [b.add(corner, place) for corner in corners for place in (low, high)]
        conditions += [b.icmp_unsigned("<", corner, check.extent) for corner in corners]
        together = conditions[0]
        for condition in conditions[1:]:
            together = b.and_(together, condition)
        return together

    def _record(self, op: Access, checks: list[Check]) -> None:
        """Record that indices that all lanes share are outside, in the first dimension that is."""
        e = self.e
        b = e.builder

        def scalar(check: Check) -> Any:
            return e.scalar(check.index)

        dimension: Any = ir.Constant(I32, len(checks) - 1)
        index, extent = scalar(checks[-1]), checks[-1].extent
        for number in reversed(range(len(checks) - 1)):
            inside = checks[number].inside().scalar
            dimension = b.select(inside, dimension, ir.Constant(I32, number))
            index = b.select(inside, index, scalar(checks[number]))
            extent = b.select(inside, extent, checks[number].extent)

        def record() -> None:
            e.failures.call(op.site, e.masks.first(e.mask), dimension, index, extent)

        if e.guarded or e.mask is None:
            record()
        else:  # perhaps there is no lane at all
            self.if_any(e.mask, record, None)

    def assertion(self, op: nodes.Assertion) -> None:
        """Record a failure of some lane for which the condition does not hold."""
        e = self.e
        condition = e.value(op.condition)
        bad, after = e.append("failed"), e.append("asserted")
        if isinstance(condition, Uniform):
            failing = e.mask
            e.builder.cbranch(condition.scalar, after, bad).set_weights([1 << 16, 1])
        else:
            failing = e.masks.without(e.mask, e.lanes.vector(condition))
            e.builder.cbranch(e.masks.any(failing), bad, after).set_weights([1, 1 << 16])
        e.builder.position_at_end(bad)
        lane = e.masks.first(failing)
        dimension, index, extent = (self._of_lane(e.value(value), lane) for value in op.about) if op.about else (e.i64(0),) * 3
        e.failures.call(op.site, lane, e.builder.trunc(dimension, I32), index, extent)
        e.builder.branch(after)
        e.builder.position_at_end(after)

    def _of_lane(self, value: Lanes, lane: Any) -> Any:
        """The value of one lane."""
        return value.scalar if isinstance(value, Uniform) else self.e.builder.extract_element(self.e.lanes.vector(value), lane)

    def if_any(self, mask: Mask, action: Callable[[], Any], otherwise: Any) -> Any:
        """Run an action if the mask has lanes; its result, else `otherwise`."""
        e = self.e
        b = e.builder
        inside, after, before = e.append("any"), e.append("done"), b.block
        b.cbranch(e.masks.any(mask), inside, after)
        b.position_at_end(inside)
        result = action()
        end = b.block
        b.branch(after)
        b.position_at_end(after)
        return joined(b, [(otherwise, before), (result, end)])


def _nothing(result: Any) -> Any:
    """What an access yields that is left out."""
    if isinstance(result, list):
        return [_nothing(each) for each in result]
    return None if result is None else ir.Constant(result.type, None)
