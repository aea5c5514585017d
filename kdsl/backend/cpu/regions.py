"""A block of threads: block level in scalar code, and regions, each a loop over the groups of lanes.

What lives from one region to another is kept in contexts, one value per group: loaded once where a region begins, stored once where it ends, so that inside it
stays in registers. Cheap values are computed again instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from kdsl.backend.cpu.lanes import BIT, I64, Lanes, Linear, Uniform, Vector, constant_of
from kdsl.backend.cpu.masks import NOBODY, Mask
from kdsl.backend.cpu.merge import Merge
from kdsl.backend.cpu.plan import Region
from kdsl.backend.cpu.scratch import Context, widened
from kdsl.backend.cpu.split import Part
from kdsl.backend.cpu.wide import Attempt, Unfit
from kdsl.backend.llvm.module import value_type
from kdsl.ir import nodes
from kdsl.ir.uniformity import Level

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission


class Regions:
    """Emits the body of a kernel for one block of threads."""

    def __init__(self, emission: Emission) -> None:
        self.e = emission
        self.at_block_level = True
        """Whether the builder is outside of regions."""
        self.block_end: Any = None
        """LLVM block behind the block of threads."""
        self.alive: Context | None = None
        """Per group the lanes that have not returned, as bits; None if no thread returns before a later region."""
        self.contexts: dict[nodes.ValueOp | nodes.Variable, Context] = {}
        self.exports: dict[nodes.ValueOp, Any] = {}
        self.deferred: set[nodes.Variable] = set()
        """Variables of the present region that loops which are split fetch and keep."""
        self._full = ir.Constant(emission.masks.bits, -1)

    # ------------------------------------------------------------------------------------------------------------ block level

    def threads(self, block_end: Any) -> None:
        """Run all threads of a block, ending at the LLVM block `block_end`."""
        e = self.e
        self.block_end = block_end
        self.prepare()
        e.values, e.mask, e.dead = {}, None, False
        e.block(e.kernel.body)
        if not e.dead:
            e.builder.branch(block_end)

    def prepare(self) -> None:
        """Make room for what lives from one operation, or one region, to another."""
        e = self.e
        kernel = e.kernel
        for variable in kernel.variables:
            e.variables[variable] = e.allocate(e.variable_type(variable), "variable")
            if e.wide is not None:
                shared = variable in e.plan.scalar_variables
                e.wide.variables[variable] = e.variables[variable] if shared else e.allocate(e.wide.variable_type(variable), "variable")
        for variable in kernel.variables:
            if variable in e.plan.stored_variables:
                self.contexts[variable] = self._context(e.variable_type(variable))
        for op in nodes.walk(kernel.body):
            if isinstance(op, nodes.ValueOp) and op in e.plan.stored:
                uniform = e.uniformity.level(op) < Level.LANE
                self.contexts[op] = self._context(value_type(op.type, None if uniform else e.width))
            if isinstance(op, nodes.ValueOp) and op in e.plan.exports:
                self.exports[op] = e.allocate(value_type(op.type), "export")
        if e.wide is not None:
            e.wide.regions.contexts = {key: context.of(e.wide) for key, context in self.contexts.items()}
        if e.plan.has_barriers and any(isinstance(op, nodes.Return) for op in nodes.walk(kernel.body)):
            self.alive = Context(e, e.masks.bits, -(-e.width // 8))
            self._revive(self.alive)

    def _context(self, kind: ir.Type) -> Context:
        kind = widened(kind)
        if self.e.wide is not None and not isinstance(kind, ir.VectorType):
            kind = ir.VectorType(kind, self.e.width)  # one value per lane, whatever the width of the groups that store and load it
        element, count = (kind.element, kind.count) if isinstance(kind, ir.VectorType) else (kind, 1)
        bits = element.width if isinstance(element, ir.IntType) else 32 if isinstance(element, ir.FloatType) else 64
        return Context(self.e, kind, max(1, bits * count // 8))

    def _revive(self, alive: Context) -> None:
        """At the start of a block no thread has returned."""
        for group in range(self.e.groups):
            self._at_group(self.e.i64(group))
            last = self.e.kernel.threads - group * self.e.width
            bits = self._full if last >= self.e.width else ir.Constant(self.e.masks.bits, (1 << last) - 1)
            alive.store(bits)
        self.e.specials.leave_group()

    def block_level(self, block: nodes.Block) -> None:
        """Emit a block by its plan: regions, and what stands between them."""
        for item in self.e.plan.items[block]:
            if isinstance(item, Region):
                self.region(item)
            else:
                self.e.operation(item)
            if self.e.dead:
                return

    # ---------------------------------------------------------------------------------------------------------------- regions

    def _at_group(self, group: Any) -> None:
        e = self.e
        e.specials.group = group
        e.specials.first_thread = e.i64(0) if e.groups == 1 else e.builder.mul(group, e.i64(e.width))

    def region(self, region: Region) -> None:
        """A loop over the groups of lanes."""
        e = self.e
        b = e.builder
        outside = e.values
        if e.wide is not None and self._wide_groups(region, e.wide):
            return
        anyone = e.allocate(BIT, "anyone") if self.alive is not None and region.returns else None
        if anyone is not None:
            b.store(ir.Constant(BIT, 0), anyone)
        self._groups(region, anyone, e.i64(0), e.groups)
        e.values, e.mask, e.dead = outside, None, False
        for op in region.ops:
            if isinstance(op, nodes.ValueOp) and op in self.exports:
                e.values[op] = Uniform(b.load(self.exports[op], typ=value_type(op.type)))
        if anyone is not None:
            rest = e.append("rest")
            b.cbranch(b.load(anyone, typ=BIT), rest, self.block_end)
            b.position_at_end(rest)

    def _groups(self, region: Region, anyone: Any, first: Any, count: int) -> None:
        """Run the region for `count` groups from number `first` on."""
        e = self.e
        b = e.builder
        head, after = e.append("group"), e.append("endgroups")
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        group, end = first, first
        if count > 1:
            group = b.phi(I64, "group")
            group.add_incoming(first, before)
        self.at_block_level = False
        outside, e.values = e.values, dict(e.values)
        self._at_group(group)
        self._group(region, anyone)
        e.values = outside
        self.at_block_level = True
        if count > 1:
            following = b.add(group, e.i64(1))
            group.add_incoming(following, b.block)
            end = e.i64(count) if constant_of(first) == 0 else b.add(first, e.i64(count))
            b.cbranch(b.icmp_unsigned("<", following, end), head, after)
        else:
            b.branch(after)
        b.position_at_end(after)
        e.specials.leave_group()

    def _wide_groups(self, region: Region, wide: Emission) -> bool:
        """Run the region in wide groups, and in groups of the usual width where they give up; False, and nothing emitted, if it does not fit."""
        e = self.e
        b = e.builder
        before, kept = b.block, len(b.function.blocks)
        head, following = e.append("wide"), e.append("endwide")
        b.position_at_end(head)
        number: Any = e.i64(0)
        if wide.groups > 1:
            number = b.phi(I64, "wide")
            number.add_incoming(e.i64(0), before)
        wide.values, wide.specials.block, wide.specials.block_number = dict(e.values), e.specials.block, e.specials.block_number
        wide.turn = e.turn
        wide.regions.at_block_level = False
        wide.regions._at_group(number)
        frame = wide.frame
        try:
            wide.attempt = Attempt(wide, region)
            wide.regions._group(region, None)
        except Unfit:
            wide.frame, wide.only, wide.guarded = frame, None, True
            del b.function.blocks[kept:]
            b.position_at_end(before)
            return False
        b.branch(following)
        b.position_at_end(wide.attempt.otherwise)
        if wide.attempt.tests:
            many = wide.width // e.width
            e.is_fallback = True
            self._groups(region, None, b.mul(number, e.i64(many)) if wide.groups > 1 else e.i64(0), many)
            e.is_fallback = False
            b.branch(following)
        else:
            b.unreachable()
        b.position_at_end(before)
        b.branch(head)
        b.position_at_end(following)
        if wide.groups > 1:
            after = e.append("endregion")
            rest = b.add(number, e.i64(1))
            number.add_incoming(rest, b.block)
            b.cbranch(b.icmp_unsigned("<", rest, e.i64(wide.groups)), head, after)
            b.position_at_end(after)
        e.values, e.mask, e.dead = dict(e.values), None, False
        return True

    def _group(self, region: Region, anyone: Any) -> None:
        """Run the region for one group."""
        e = self.e
        b = e.builder
        end = Merge(e, "endgroup")
        e.mask, e.dead, e.guarded = self._initial_mask(), False, True
        e.control.pending = [end]
        if self.alive is not None:  # groups without lanes go straight to the end, behind the stores of contexts
            e.control.go_on_if_any()
        lanes_end = Merge(e, "endlanes")
        e.control.pending = [lanes_end]
        for value in region.imports:
            self._import(value)
        self.deferred = self._in_split_loops(region)
        for variable in region.variables:
            e.homes.setdefault(variable, e.frame)
            if variable in self.deferred:
                continue
            if variable in self.contexts:
                b.store(self.contexts[variable].load_as(e.variable_type(variable)), e.variables[variable])
            elif e.plan.home_of[variable] in e.plan.items:
                b.store(ir.Constant(e.variable_type(variable), None), e.variables[variable])
        e.operations(region.ops)
        if not e.dead:
            lanes_end.arrive(e.mask)
        rest = lanes_end.open()
        if not e.dead:
            self._leave_group(region, rest, anyone)
            end.arrive(NOBODY)
        end.open()

    def _leave_group(self, region: Region, rest: Mask, anyone: Any) -> None:
        """Store what later regions need. `rest` has the lanes that have not returned."""
        e = self.e
        b = e.builder
        for variable in region.variables:
            if variable in self.contexts and variable in region.assigned and variable not in self.deferred:
                self.contexts[variable].store_as(b.load(e.variables[variable], typ=e.variable_type(variable)))
        if self.alive is not None and region.returns:
            bits = e.masks.packed(rest)
            self.alive.store(bits)
            some = b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))
            b.store(b.or_(b.load(anyone, typ=BIT), some), anyone)

    def _in_split_loops(self, region: Region) -> set[nodes.Variable]:
        """Variables with contexts that the region only touches in loops that are split. Each of the loops fetches and keeps those of its part: all at once
        would not fit into the registers.
        """
        inside: set[nodes.Op] = set()
        touched: set[nodes.Variable] = set()
        others: set[nodes.Variable] = set()
        for op in region.walk():
            if op in self.e.splits:
                inside.update(nodes.walk(op.body))
            if isinstance(op, nodes.Get | nodes.Set):
                (touched if op in inside else others).add(op.variable)
        return {variable for variable in touched - others if variable in self.contexts}

    def fetch(self, part: Part) -> None:
        """Load the contexts that a part of a split loop needs."""
        for variable in self._of_part(part, nodes.Get | nodes.Set):
            kind = self.e.variable_type(variable)
            self.e.builder.store(self.contexts[variable].load_as(kind), self.e.variables[variable])

    def keep(self, part: Part) -> None:
        """Store the contexts that a part of a split loop has changed."""
        for variable in self._of_part(part, nodes.Set):
            self.contexts[variable].store_as(self.e.builder.load(self.e.variables[variable], typ=self.e.variable_type(variable)))
        if self.e.attempt is not None and self.deferred:
            self.e.attempt.commit()

    def _of_part(self, part: Part, kinds: Any) -> list[nodes.Variable]:
        touched = {op.variable for op in part if isinstance(op, kinds)} & self.deferred
        return [variable for variable in self.e.kernel.variables if variable in touched]  # in an order that is always the same

    def _initial_mask(self) -> Mask:
        """The lanes of the group that are threads and have not returned."""
        e = self.e
        b = e.builder
        if self.alive is not None:
            return e.masks.unpacked(self.alive.load())
        if e.kernel.threads % e.width == 0:
            return None
        if e.groups == 1:
            return ir.Constant(e.masks.type, [int(lane < e.kernel.threads) for lane in range(e.width)])
        bits = e.lanes.compare_bits
        kind = ir.IntType(bits)
        left = b.trunc(b.sub(e.i64(e.kernel.threads), e.specials.first_thread), kind)
        return b.icmp_signed("<", ir.Constant(ir.VectorType(kind, e.width), list(range(e.width))), e.lanes.splat(left))

    def _import(self, value: nodes.ValueOp) -> None:
        """Make a value available that another region defines."""
        e = self.e
        if value in e.values:
            return
        if value in self.contexts:
            uniform = e.uniformity.level(value) < Level.LANE
            loaded = self.contexts[value].load_as(value_type(value.type, None if uniform else e.width))
            e.values[value] = Uniform(loaded) if uniform else Vector(loaded)
        else:
            e.values[value] = e.define(value)

    def defined(self, op: nodes.ValueOp) -> None:
        """Keep a new value for later regions, or for block level, if they need it."""
        if self.at_block_level:
            return
        e = self.e
        value: Lanes = e.values[op]
        if op in self.exports:
            e.builder.store(e.scalar(value), self.exports[op])
        elif op in self.contexts:
            uniform = e.uniformity.level(op) < Level.LANE
            if uniform and isinstance(value, Linear):
                raise AssertionError("a uniform value has no lanes")
            self.contexts[op].store_as(e.scalar(value) if uniform else e.lanes.vector(value))

    def returned(self) -> None:
        """The active lanes are done."""
        self.e.control.nobody_left()
