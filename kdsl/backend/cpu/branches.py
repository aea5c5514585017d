"""Branches of a group of lanes.

Where lanes agree, a branch is scalar. Where they do not, both sides run, each with its lanes and only if it has any, or, if they are short and plain, one after
the other with masks. Lanes of a wide group that should agree and do not make it give up (`wide`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from kdsl.backend.cpu.frames import Frame
from kdsl.backend.cpu.lanes import Uniform, Vector
from kdsl.backend.cpu.masks import NOBODY, Mask
from kdsl.backend.cpu.merge import Merge
from kdsl.backend.cpu.wide import Unfit
from kdsl.ir import nodes

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission


class Branches:
    """Emits `If`."""

    def __init__(self, emission: Emission) -> None:
        self.e = emission
        self.pending: list[Merge] = []
        """Where control goes on when no lane is left: the innermost place that may have others."""

    def nobody_left(self) -> None:
        """The path ends here without lanes."""
        self.pending[-1].arrive(NOBODY)

    def go_on_if_any(self) -> None:
        """Go on only if the mask has lanes."""
        e = self.e
        if e.dead or e.mask is None:
            return
        if e.mask is NOBODY:
            self.nobody_left()
            return
        rest = e.append("rest")
        self.pending[-1].branch(e.masks.any(e.mask), rest, NOBODY)
        e.builder.position_at_end(rest)

    def branch(self, op: nodes.If) -> None:
        """Emit a branch."""
        condition = self.e.value(op.condition)
        if isinstance(condition, Uniform):
            self._uniform_if(op, condition.scalar)
        elif self.e.attempt is not None and self.e.mask is None and isinstance(condition, Vector) and condition.every is not None:
            self._agreed_if(op, condition)
        elif self.e.is_uniform(op.condition):
            self._uniform_if(op, self.e.scalar(condition))
        else:
            self._varying_if(op, self.e.lanes.vector(condition))

    def _agreed_if(self, op: nodes.If, condition: Vector) -> None:
        """A branch on which the lanes of a wide group agree; if they do not, it runs with masks if it is short and plain, else the group gives up."""
        e = self.e
        assert e.attempt is not None
        mixed = e.append("mixed") if e.plan.is_flat(op) else None
        otherwise = e.attempt.otherwise if mixed is None else mixed
        if mixed is None:
            e.attempt.count()
        then, other = e.append("then"), e.append("notall")
        e.builder.cbranch(condition.every, then, other)
        e.builder.position_at_end(other)
        after = Merge(e, "endif")
        orelse = e.append("else") if op.orelse.ops else None
        if orelse is not None:
            e.builder.cbranch(condition.none, orelse, otherwise)
        else:
            after.branch(e.builder.not_(condition.none), otherwise, None)
        if mixed is None:
            self._branches(op, then, orelse, after)
            return
        before = e.attempt.state()
        e.builder.position_at_end(mixed)
        self._flat_if(op, e.masks.both(None, condition.vector), e.masks.without(None, condition.vector))
        after.arrive(None)
        final = e.attempt.resume(before)
        self._branches(op, then, orelse, after)
        e.attempt.resume(e.attempt.state() or final)

    def _uniform_if(self, op: nodes.If, condition: Any) -> None:
        e = self.e
        then, after = e.append("then"), Merge(e, "endif")
        orelse = e.append("else") if op.orelse.ops else None
        if orelse is not None:
            e.builder.cbranch(condition, then, orelse)
        else:
            after.branch(condition, then, e.mask)
        self._branches(op, then, orelse, after)

    def _branches(self, op: nodes.If, then: ir.Block, orelse: ir.Block | None, after: Merge) -> None:
        """Emit both branches at their places, and go on behind them."""
        e = self.e
        mask = e.mask
        before = e.attempt.state() if e.attempt is not None else False
        final = before
        for block, start in ((op.then, then), (op.orelse, orelse)):
            if start is None:
                continue
            e.builder.position_at_end(start)
            e.mask, e.dead = mask, False
            e.block(block)
            if not e.dead:
                after.arrive(e.mask)
            if e.attempt is not None:
                final |= e.attempt.resume(before)
        if e.attempt is not None:
            e.attempt.resume(final)
        e.mask = after.open()

    def _varying_if(self, op: nodes.If, condition: Any) -> None:
        e = self.e
        whole, frame = e.mask, e.frame
        if e.attempt is not None and not e.plan.is_flat(op):
            raise Unfit
        then, orelse = e.masks.both(whole, condition), e.masks.without(whole, condition)
        if e.plan.is_flat(op):
            self._flat_if(op, then, orelse)
            return
        jumps = e.plan.has_jumps(op)
        rest: list[Mask] = []
        for mask, block, name in ((then, op.then, "then"), (orelse, op.orelse, "else")):
            if block.ops:
                rest.append(self.side(mask, block, name, keep=jumps))
            else:
                rest.append(mask)
        e.frame = frame
        if not jumps:
            e.mask = whole
            return
        e.mask = e.masks.either(rest[0], rest[1])
        self.go_on_if_any()

    def _flat_if(self, op: nodes.If, then: Mask, orelse: Mask) -> None:
        """Run both branches one after the other with their masks, without jumps."""
        e = self.e
        before = e.mask, e.frame, e.guarded
        e.guarded = False
        for mask, block in ((then, op.then), (orelse, op.orelse)):
            if block.ops:
                e.mask, e.frame = mask, Frame()
                e.block(block)
        e.mask, e.frame, e.guarded = before

    def side(self, mask: Mask, block: nodes.Block, name: str, *, keep: bool) -> Mask:
        """Run a block if the mask has lanes; the lanes that come to its end."""
        e = self.e
        inside, after = e.append(name), Merge(e, f"end{name}")
        after.branch(e.masks.any(mask), inside, NOBODY)
        e.builder.position_at_end(inside)
        e.mask, e.frame, e.dead = mask, Frame(), False
        guarded, e.guarded = e.guarded, True
        self.pending.append(after)
        e.block(block)
        self.pending.pop()
        if not e.dead:
            after.arrive(e.mask if keep else NOBODY)
        e.guarded = guarded
        return after.open()
