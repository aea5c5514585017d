"""Structured control for a group of lanes: branches, loops, scopes and jumps with masks.

Where threads agree, control is scalar. Where they do not, both sides of a branch run, each with its lanes and only if it has any, and a loop runs until no
lane is left in it. Jumps take lanes out of the mask; `pending` says where control goes on when a path has no lane left.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from kdsl.backend.cpu.addresses import Anchors
from kdsl.backend.cpu.ahead import hint_next_strip
from kdsl.backend.cpu.branches import Branches
from kdsl.backend.cpu.frames import Frame
from kdsl.backend.cpu.hoist import prove
from kdsl.backend.cpu.lanes import Lanes, Uniform
from kdsl.backend.cpu.masks import NOBODY, Mask
from kdsl.backend.cpu.merge import Merge
from kdsl.backend.cpu.strips import Strips
from kdsl.backend.cpu.trips import Trips, trips_together
from kdsl.backend.cpu.wide import Unfit
from kdsl.backend.llvm.module import loop_that_stays
from kdsl.ir import nodes

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission
    from kdsl.backend.cpu.packed import Packed, Source


@dataclass
class Target:
    """Where jumps of one loop or scope go."""

    leave: Merge
    """Place of Break and Leave."""
    again: Merge | None
    """Place of Continue."""
    left: Any = None
    """Slot that collects the lanes of Break and Leave, None if control just goes to `leave`."""
    skipped: Any = None
    """Slot that collects the lanes of Continue."""


class Control(Branches):
    """Emits control operations."""

    def __init__(self, emission: Emission) -> None:
        super().__init__(emission)
        self.targets: dict[nodes.Op, Target] = {}
        self.bounds: dict[nodes.ForRange, tuple[Lanes, Lanes]] = {}
        """Where a loop starts and stops that is not run as a whole (`rounds`)."""

    def operation(self, op: nodes.Op) -> None:
        """Emit one control operation."""
        match op:
            case nodes.If():
                self.branch(op)
            case nodes.While():
                self._while(op)
            case nodes.ForRange():
                self._for(op)
            case nodes.Scope():
                self._scope(op)
            case nodes.Break() | nodes.Continue() | nodes.Leave() | nodes.Return():
                self._jump(op)
            case _:
                raise TypeError(f"{type(op).__name__} is not an operation that the CPU target knows")

    # ------------------------------------------------------------------------------------------------------------------- jumps

    def collect(self, slot: Any, mask: Mask) -> None:
        """Add lanes to a slot."""
        e = self.e
        e.builder.store(e.masks.explicit(e.masks.either(e.builder.load(slot, typ=e.masks.type), mask)), slot)

    def _jump(self, op: nodes.Op) -> None:
        e = self.e
        if isinstance(op, nodes.Return):
            e.regions.returned()
            return
        goal = e.plan.target(op)
        target = self.targets[goal]
        slot = target.skipped if isinstance(op, nodes.Continue) else target.left
        if slot is not None:
            self.collect(slot, e.mask)
            self.nobody_left()
        elif isinstance(op, nodes.Continue):
            assert target.again is not None
            target.again.arrive(e.mask)
        else:
            target.leave.arrive(e.mask)

    # ------------------------------------------------------------------------------------------------------------------- scopes

    def _scope(self, op: nodes.Scope) -> None:
        e = self.e
        end = Merge(e, "endscope")
        if not e.plan.is_divergent(op):
            self.targets[op] = Target(end, None)
            e.block(op.body)
            if not e.dead:
                end.arrive(e.mask)
            e.mask = end.open()
            return
        whole, frame = e.mask, e.frame
        left = e.allocate(e.masks.type, "left")
        e.builder.store(e.masks.none, left)
        self.targets[op] = Target(end, None, left)
        e.frame = Frame()
        self.pending.append(end)
        e.block(op.body)
        self.pending.pop()
        if not e.dead:
            end.arrive(e.mask)
        arrived = end.open()
        e.frame = frame
        self._resume(op, whole, arrived, left)

    def _resume(self, op: nodes.Op, whole: Mask, *parts: Any) -> None:
        """Go on behind `op`: with the lanes that came, or with those that arrived or are in slots if some went elsewhere."""
        e = self.e
        if e.dead:
            return
        if not e.plan.has_jumps(op):
            e.mask = whole
            return
        total: Mask = NOBODY
        for part in parts:
            if isinstance(part, ir.AllocaInstr):
                part = e.builder.load(part, typ=e.masks.type)
            total = e.masks.either(total, part)
        e.mask = total
        self.go_on_if_any()

    # -------------------------------------------------------------------------------------------------------------------- loops

    def _while(self, op: nodes.While) -> None:
        if self.e.plan.is_divergent(op):
            self._divergent_while(op)
        else:
            self._uniform_while(op)

    def _uniform_while(self, op: nodes.While) -> None:
        e = self.e
        whole = e.mask
        head, leave = Merge(e, "while"), Merge(e, "endwhile")
        head.arrive(whole)
        self.targets[op] = Target(leave, head)
        e.mask = head.open()
        e.block(op.head)
        if e.dead:
            e.mask = leave.open()
            return
        body, orelse = e.append("do"), e.append("exhausted")
        e.builder.cbranch(e.scalar(e.value(op.condition)), body, orelse)
        mask = e.mask
        e.builder.position_at_end(body)
        e.block(op.body)
        if not e.dead:
            head.arrive(e.mask)
        e.builder.position_at_end(orelse)
        e.mask, e.dead = mask, False
        e.block(op.orelse)
        if not e.dead:
            leave.arrive(e.mask)
        e.mask = leave.open()

    def _divergent_while(self, op: nodes.While) -> None:
        e = self.e
        b, masks = e.builder, e.masks
        whole, frame = e.mask, e.frame
        track = e.plan.has_jumps(op) or bool(op.orelse.ops)
        left, skipped, running, done = (e.allocate(masks.type, n) for n in ("left", "skipped", "running", "done"))
        b.store(masks.explicit(whole), running)
        b.store(masks.none, left)
        b.store(masks.none, done)
        head, body, leave = e.append("while"), e.append("do"), Merge(e, "endwhile")
        latch = Merge(e, "again")
        b.branch(head)
        b.position_at_end(head)
        e.mask, e.frame = b.load(running, typ=masks.type), Frame()
        self.pending.append(leave)
        e.block(op.head)
        self.pending.pop()
        if not e.dead:
            condition = e.value(op.condition)
            now = e.mask
            if isinstance(condition, Uniform):
                stopped = e.append("stopped")
                b.cbranch(condition.scalar, body, stopped)
                b.position_at_end(stopped)
                if track:
                    self.collect(done, now)
                leave.arrive(NOBODY)
                going = now
            else:
                vector = e.lanes.vector(condition)
                going = masks.both(now, vector)
                if track:
                    self.collect(done, masks.without(now, vector))
                leave.branch(masks.any(going), body, NOBODY)
            b.position_at_end(body)
            e.mask, e.dead = going, False
            b.store(masks.none, skipped)
            self.targets[op] = Target(leave, latch, left, skipped)
            self.pending.append(latch)
            e.block(op.body)
            self.pending.pop()
            if not e.dead:
                latch.arrive(e.mask)
            rest = latch.open()
            if not e.dead:
                rest = masks.either(rest, b.load(skipped, typ=masks.type))
                b.store(masks.explicit(rest), running)
                leave.branch(masks.any(rest), head, NOBODY)
        else:
            b.position_at_end(body)
            b.unreachable()
            b.position_at_end(latch.block)
            b.unreachable()
        self._after_loop(op, whole, frame, leave, done, left)

    def _after_loop(self, op: nodes.While | nodes.ForRange, whole: Mask, frame: Frame, leave: Merge, done: Any, left: Any) -> None:
        e = self.e
        leave.open()
        finished: Mask = NOBODY
        if not e.dead and op.orelse.ops:
            finished = self.side(e.builder.load(done, typ=e.masks.type), op.orelse, "exhausted", keep=True)
        elif not e.dead:
            finished = done
        e.frame = frame
        self._resume(op, whole, finished, left)

    def _for(self, op: nodes.ForRange) -> None:
        e = self.e
        start, stop = self.bounds.get(op) or (e.value(op.start), e.value(op.stop))
        step = e.value(op.step)
        if (
            e.attempt is not None
        ):  # what is known at this place decides: that the analysis, which knows less, calls it divergent does not matter
            if not all(isinstance(v, Uniform) for v in (start, stop, step)):
                raise Unfit
            self._parts(op, start, stop, step)
        elif e.plan.is_divergent(op) or not all(isinstance(v, Uniform) for v in (start, stop, step)):
            self._divergent_for(op, start, stop, step)
        else:
            self._parts(op, start, stop, step)

    def _parts(self, op: nodes.ForRange, start: Lanes, stop: Lanes, step: Lanes) -> None:
        """A loop on which lanes agree, part after part if it is split."""
        e = self.e
        if op not in e.splits:
            self._uniform_for(op, start, stop, step)
            return
        outside = e.values
        for part in e.splits[op]:
            e.only, e.values = part, dict(outside)  # what a part computes in its loop is not there in the next one
            e.regions.fetch(part)
            self._uniform_for(op, start, stop, step, rolled=True)
            e.regions.keep(part)
        e.only, e.values = None, outside

    def _uniform_for(self, op: nodes.ForRange, start: Lanes, stop: Lanes, step: Lanes, *, rolled: bool = False) -> None:
        e = self.e
        b = e.builder
        whole = e.mask
        trips = Trips(e, op, start, stop, step)
        body, exhausted = e.append("for"), e.append("exhausted")
        leave = Merge(e, "endfor")
        b.cbranch(e.scalar(trips.first()), body, exhausted)
        b.position_at_end(body)
        if e.attempt is None:
            self._run(op, trips, leave, exhausted, rolled)
        else:
            known = set(e.attempt.proved), set(e.attempt.units)
            sources = prove(e, op, start, stop)
            if any(isinstance(control, Strips) for control in e.uniformity.path(op)):
                self._strip(op, trips, sources, (e.scalar(start), e.scalar(stop)), leave, exhausted, rolled)
            else:
                self._run(op, trips, leave, exhausted, rolled)
            e.attempt.proved, e.attempt.units = known
        b.position_at_end(exhausted)
        e.mask, e.dead = whole, False
        e.block(op.orelse)
        if not e.dead:
            leave.arrive(e.mask)
        e.mask = leave.open()

    def _run(self, op: nodes.ForRange, trips: Trips, leave: Merge, exhausted: ir.Block, rolled: bool) -> None:
        """The trips of a loop that surely makes one; behind the last it goes on at `exhausted`."""
        e = self.e
        b = e.builder
        body, latch = e.append("trip"), Merge(e, "next")
        if e.attempt is not None:
            e.attempt.enter_loop()
        b.branch(body)
        b.position_at_end(body)
        e.values[op.counter] = trips.counter()
        self.targets[op] = Target(leave, latch)
        rolled |= self._earlier_trips(op, trips)
        e.block(op.body)
        if not e.dead:
            latch.arrive(e.mask)
        latch.open()
        if not e.dead:
            going = e.scalar(trips.next())
            back = b.cbranch(going, body, exhausted)
            if rolled:  # LLVM would unroll it, and keep what several trips read in registers that are not there
                back.set_metadata("llvm.loop", loop_that_stays(e.module))
        if e.attempt is not None:
            e.attempt.leave_loop()

    def _earlier_trips(self, op: nodes.ForRange, trips: Trips) -> bool:
        """Of trips that run together, all but the last; whether there are such."""
        e = self.e
        count = trips_together(e, op)
        if count == 1 or e.attempt is None:
            return False
        e.attempt.anchors = Anchors(e)
        for _ in range(count - 1):
            e.block(op.body)
            trips.step_once()
            e.values[op.counter] = trips.counter()
        return True

    def _strip(
        self,
        op: nodes.ForRange,
        trips: Trips,
        sources: list[Source],
        ends: tuple[Any, Any],
        leave: Merge,
        exhausted: ir.Block,
        rolled: bool,
    ) -> None:
        """The same for a strip of a wide group, of which it is known what it reads: with copies of that where they are worth it, and with hints."""
        e = self.e
        b, attempt = e.builder, e.attempt
        assert attempt is not None
        for source in sources:
            hint_next_strip(e, source.op, source.first, source.rise)
        chosen = [source for source in sources if source.is_worth_a_copy]

        def with_copies(distances: list[Any], copy: Callable[[Source], Packed]) -> None:
            """The trips with copies if all those distances are 1; goes on where they are not."""
            if not chosen or any(distance is None for distance in distances):
                return
            near, far, outside = e.append("packs"), e.append("reads"), dict(e.values)
            b.cbranch(functools.reduce(b.and_, (b.icmp_signed("==", distance, e.i64(1)) for distance in distances)), near, far)
            b.position_at_end(near)
            attempt.packed = {source.op: copy(source) for source in chosen}
            self._run(op, trips, leave, exhausted, rolled)
            attempt.packed, e.values = {}, outside
            b.position_at_end(far)

        with_copies([source.rise for source in chosen], lambda source: source.copied(e, op, *ends))
        with_copies([source.row_stride for source in chosen], lambda source: source.copied_by_trips(e, op, *ends))
        self._run(op, trips, leave, exhausted, rolled)

    def _whole_trips(self, op: nodes.ForRange, trips: Trips) -> None:
        """Run the trips in which every lane takes part, without masks; the last one, and what is left, are for others."""
        e = self.e
        head, body, rest = e.append("whole"), e.append("wholetrip"), e.append("rest")
        e.builder.branch(head)
        e.builder.position_at_end(head)
        e.values[op.counter] = trips.counter()
        e.builder.cbranch(trips.is_whole(), body, rest)
        e.builder.position_at_end(body)
        e.block(op.body)
        trips.step_once()
        e.builder.branch(head)
        e.builder.position_at_end(rest)

    def _divergent_for(self, op: nodes.ForRange, start: Lanes, stop: Lanes, step: Lanes) -> None:
        e = self.e
        b, masks = e.builder, e.masks
        whole, frame = e.mask, e.frame
        track = e.plan.has_jumps(op) or bool(op.orelse.ops)
        left, skipped, running, done = (e.allocate(masks.type, n) for n in ("left", "skipped", "running", "done"))
        b.store(masks.none, left)
        b.store(masks.none, done)
        trips = Trips(e, op, start, stop, step)
        head, body = e.append("for"), e.append("trip")
        latch, leave = Merge(e, "next"), Merge(e, "endfor")

        def divide(mask: Mask, condition: Lanes) -> None:
            vector = e.lanes.vector(condition)
            b.store(masks.both(masks.explicit(mask) if isinstance(condition, Uniform) else mask, vector), running)
            if track:
                self.collect(done, masks.without(mask, vector))

        if whole is None and trips.has_whole_ones():
            self._whole_trips(op, trips)
            divide(whole, trips.still())
        else:
            divide(whole, trips.first())
        b.branch(head)
        b.position_at_end(head)
        going = b.load(running, typ=masks.type)
        leave.branch(masks.any(going), body, NOBODY)
        b.position_at_end(body)
        e.mask, e.frame = going, Frame()
        e.values[op.counter] = trips.counter()
        b.store(masks.none, skipped)
        self.targets[op] = Target(leave, latch, left, skipped)
        self.pending.append(latch)
        e.block(op.body)
        self.pending.pop()
        if not e.dead:
            latch.arrive(e.mask)
        rest = latch.open()
        if not e.dead:
            divide(masks.either(rest, b.load(skipped, typ=masks.type)), trips.next())
            b.branch(head)
        self._after_loop(op, whole, frame, leave, done, left)
