"""What is decided about a kernel before code is emitted: which control diverges, what stands at block level, where regions begin and end.

A kernel without barriers is one region: a loop over groups of lanes around the whole body. Around barriers, control is emitted once per block in scalar code
(block level), and the operations between barriers become regions. Beyond the barriers, block level takes what their control depends on: values, and
assignments to variables, that are the same for the whole block. Cutting a region elsewhere than at a barrier is always valid, since threads of a race-free
program are independent between barriers. What is not here: emission.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kdsl.backend.cpu.strips import Strips
from kdsl.backend.llvm.module import CodeGenerationError
from kdsl.ir import nodes
from kdsl.ir.uniformity import Level, Uniformity

_FLAT_LIMIT: Final = 14
"""Operations in the branches of an `If` that is worth running without jumps."""

_RECOMPUTE_LIMIT: Final = 24
"""Cost of a value that is rather computed again in each region than stored."""

_LOOPS: Final = (nodes.While, nodes.ForRange)


@dataclass(eq=False)
class Region:
    """Operations between barriers, run by one group of lanes after the other."""

    ops: list[nodes.Op]
    """In order."""
    path: tuple[nodes.Op, ...]
    """Control at block level around it, outermost first."""
    imports: list[nodes.ValueOp] = field(default_factory=list)
    """Values from elsewhere that it uses, in an order in which they can be computed."""
    variables: list[nodes.Variable] = field(default_factory=list)
    """Variables that it reads or assigns."""
    assigned: set[nodes.Variable] = field(default_factory=set)
    """Variables that it assigns."""
    returns: bool = False
    """Whether threads may return in it."""

    def walk(self) -> Iterator[nodes.Op]:
        """All operations, nested ones included."""
        return _walk_all(self.ops)


Item: TypeAlias = "Region | nodes.Op"


class Plan:
    """The decisions for one kernel."""

    def __init__(self, kernel: nodes.Kernel, uniformity: Uniformity) -> None:
        self.kernel = kernel
        self.uniformity = uniformity
        self._targets: dict[nodes.Op, nodes.Op] = {}
        self._outward: set[nodes.Op] = set()
        self._divergent: set[nodes.Op] = set()
        self._block_of: dict[nodes.Op, nodes.Block] = {}
        self._access_paths: dict[nodes.Variable, list[tuple[nodes.Block, ...]]] = {}
        self.homes: dict[nodes.Block, list[nodes.Variable]] = {}
        """Variables by the innermost block around all their accesses."""
        self.home_of: dict[nodes.Variable, nodes.Block] = {}
        """The same, the other way round."""
        self._collect(kernel.body, (kernel.body,), None)
        self._find_homes()
        self.controls: set[nodes.Op] = set()
        """Control operations at block level."""
        self.scalars: set[nodes.Op] = set()
        """Values and assignments at block level."""
        self.scalar_variables: set[nodes.Variable] = set()
        """Variables whose assignments stand at block level."""
        self.exports: set[nodes.ValueOp] = set()
        """Values that a region hands to block level."""
        self.items: dict[nodes.Block, list[Item]] = {}
        """What stands in each block at block level."""
        self.regions: list[Region] = []
        """In order."""
        self.stored: set[nodes.ValueOp] = set()
        """Values that a region stores for later ones."""
        self.stored_variables: set[nodes.Variable] = set()
        """Variables that live from one region to another."""
        self.has_barriers = any(isinstance(op, nodes.Barrier | Strips) for op in nodes.walk(kernel.body))
        if self.has_barriers:
            _Fission(self).run()
        else:
            self.items[kernel.body] = [self.region(list(kernel.body.ops), ())]

    def of(self, uniformity: Uniformity) -> Plan:
        """The same plan for groups of another width: what stands at block level does not depend on that."""
        other = copy.copy(self)
        other.uniformity = uniformity
        return other

    # ---------------------------------------------------------------------------------------------------------------- answers

    def target(self, jump: nodes.Op) -> nodes.Op:
        """The loop or scope that a Break, Continue or Leave is about."""
        return self._targets[jump]

    def has_jumps(self, op: nodes.Op) -> bool:
        """Whether a jump inside leads out of `op`."""
        return op in self._outward

    def is_divergent(self, op: nodes.Op) -> bool:
        """Whether the lanes of a group may leave a loop or scope in different trips or places."""
        return op not in self.controls and (op in self._divergent or self.uniformity.control(op) is Level.LANE)

    def is_flat(self, op: nodes.If) -> bool:
        """Whether both branches are so short and plain that they run one after the other with masks, without jumps."""
        return _flat_cost(op) <= _FLAT_LIMIT

    def region(self, ops: list[nodes.Op], path: tuple[nodes.Op, ...]) -> Region:
        """A new region."""
        region = Region(ops, path)
        seen: set[nodes.Variable] = set()
        for op in _walk_all(ops):
            if isinstance(op, nodes.Get | nodes.Set) and op.variable not in self.scalar_variables and op.variable not in seen:
                seen.add(op.variable)
                region.variables.append(op.variable)
            if isinstance(op, nodes.Set):
                region.assigned.add(op.variable)
            region.returns |= isinstance(op, nodes.Return)
        self.regions.append(region)
        return region

    def block_of(self, op: nodes.Op) -> nodes.Block:
        """The block that an operation stands in."""
        return self._block_of[op]

    # --------------------------------------------------------------------------------------------------------------- structure

    def _collect(self, block: nodes.Block, blocks: tuple[nodes.Block, ...], loop: nodes.Op | None) -> None:
        for op in block:
            self._block_of[op] = block
            if isinstance(op, nodes.Get | nodes.Set):
                self._access_paths.setdefault(op.variable, []).append(blocks)
            if isinstance(op, nodes.Break | nodes.Continue | nodes.Leave | nodes.Return):
                self._jump(op, loop)
            for position, child in enumerate(nodes.children(op)):
                is_body = isinstance(op, _LOOPS) and position == len(nodes.children(op)) - 2
                self._collect(child, (*blocks, child), op if is_body else loop)

    def _jump(self, op: nodes.Op, loop: nodes.Op | None) -> None:
        goal = None if isinstance(op, nodes.Return) else op.scope if isinstance(op, nodes.Leave) else loop
        if goal is not None:
            self._targets[op] = goal
        varies = False
        for control in reversed(self.uniformity.path(op)):
            if isinstance(control, nodes.If):
                varies |= self.uniformity.control(control) is Level.LANE
            else:
                if varies:  # the analysis of uniformity leaves returns aside
                    self._divergent.add(control)
                varies |= self.uniformity.control(control) is Level.LANE
            if control is goal:
                break
            self._outward.add(control)

    def _find_homes(self) -> None:
        for variable in self.kernel.variables:
            paths = self._access_paths.get(variable)
            if not paths:
                continue
            home = self.kernel.body
            for level in zip(*paths, strict=False):
                if any(block is not level[0] for block in level):
                    break
                home = level[0]
            self.homes.setdefault(home, []).append(variable)
            self.home_of[variable] = home


class _Fission:
    """Finds block level and the regions of a kernel with barriers."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.uniformity = plan.uniformity
        self.sets: dict[nodes.Variable, list[nodes.Set]] = {}
        for op in nodes.walk(plan.kernel.body):
            if isinstance(op, nodes.Set):
                self.sets.setdefault(op.variable, []).append(op)

    def run(self) -> None:
        """Fill the plan."""
        for op in nodes.walk(self.plan.kernel.body):
            if isinstance(op, Strips):
                self.control(op)
            if self.uniformity.contains_barrier(op):
                for control in self.uniformity.path(op):
                    self.control(control)
        self.updates()
        while self.jumps():
            pass
        self.partition(self.plan.kernel.body, ())
        self.connect()

    # ------------------------------------------------------------------------------------------------------------ block level

    def control(self, op: nodes.Op) -> None:
        """Take a control operation, and all around it, to block level."""
        if op in self.plan.controls:
            return
        if self.uniformity.control(op) is not Level.BLOCK:
            raise CodeGenerationError(f"{op.location}: threads of a block differ in control around a barrier")
        self.plan.controls.add(op)
        for above in self.uniformity.path(op):
            self.control(above)
        for operand in nodes.operands(op):
            self.value(operand)

    def value(self, op: nodes.ValueOp) -> None:
        """Take a value to block level."""
        if isinstance(op, nodes.Counter) or op in self.plan.scalars or op in self.plan.exports:
            return
        if self.uniformity.level(op) is not Level.BLOCK:
            raise CodeGenerationError(
                f"{op.location}: control around a barrier depends on a value that differs between the threads of a block"
            )
        if isinstance(op, nodes.Exchange | nodes.Result):
            self.plan.exports.add(op)
        else:
            self.plan.scalars.add(op)
            for operand in nodes.operands(op):
                self.value(operand)
        for above in self.uniformity.path(op):
            self.control(above)
        if isinstance(op, nodes.Get) and op.variable not in self.plan.scalar_variables:
            self.plan.scalar_variables.add(op.variable)
            for assignment in self.sets.get(op.variable, ()):
                self.plan.scalars.add(assignment)
                self.value(assignment.value)
                for above in self.uniformity.path(assignment):
                    self.control(above)

    def updates(self) -> None:
        """Take loops that write what they read to block level, where threads agree on them: a trip that is a region can be run again from its start, a loop
        of such trips cannot (see `wide`).
        """
        for op in nodes.walk(self.plan.kernel.body):
            if not isinstance(op, nodes.ForRange) or self.uniformity.control(op) is not Level.BLOCK:
                continue
            if not all(above in self.plan.controls for above in self.uniformity.path(op)):
                continue
            inside = list(nodes.walk(op.body))
            read = {o.memory for o in inside if isinstance(o, nodes.Load | nodes.LoadVector) and isinstance(o.memory, nodes.View)}
            if any(isinstance(o, nodes.Store | nodes.StoreVector) and o.memory in read for o in inside):
                self.control(op)

    def jumps(self) -> bool:
        """Take the control around jumps of block-level loops and scopes to block level (threads agree on it, or the barrier would be in divergent
        control); whether any was new."""
        plan = self.plan
        before = len(plan.controls)
        for op in nodes.walk(plan.kernel.body):
            if isinstance(op, nodes.Break | nodes.Continue | nodes.Leave) and plan.target(op) in plan.controls:
                plan.scalars.add(op)
                for control in self.uniformity.path(op):
                    self.control(control)
        return len(plan.controls) != before

    # ---------------------------------------------------------------------------------------------------------------- regions

    def partition(self, block: nodes.Block, path: tuple[nodes.Op, ...]) -> None:
        """Cut a block at block level into regions and what stands between them."""
        plan = self.plan
        items: list[Item] = []
        run: list[nodes.Op] = []
        written: set[nodes.Memory] = set()

        due = False

        def flush() -> None:
            nonlocal due
            due = False
            if run:
                items.append(plan.region(list(run), path))
            run.clear()
            written.clear()

        for op in block:
            if due and not isinstance(op, nodes.Result):  # the results of one operation stay together
                flush()
            if isinstance(op, nodes.Barrier):
                flush()
                items.append(op)
            elif op in plan.controls:
                flush()
                items.append(op)
                for child in nodes.children(op):
                    self.partition(child, (*path, op))
            elif op in plan.scalars:
                if self.comes_after(op, run, written):
                    flush()
                items.append(op)
            else:
                run.append(op)
                written.update(memory for o in _walk_all([op]) for memory in _written(o))
                due |= op in plan.exports or any(isinstance(o, nodes.Return) for o in _walk_all([op]))
        flush()
        plan.items[block] = items

    @staticmethod
    def comes_after(op: nodes.Op, run: list[nodes.Op], written: set[nodes.Memory]) -> bool:
        """Whether an operation at block level must wait for the operations of the open region: they may write what it loads, or read what it assigns."""
        match op:
            case nodes.Load():
                orders = any(isinstance(o, nodes.Atomic | nodes.Fence) for o in _walk_all(run))
                return orders or any(memory is op.memory or isinstance(memory, nodes.View) for memory in written)
            case nodes.Set():
                return any(isinstance(o, nodes.Get) and o.variable is op.variable for o in _walk_all(run))
            case _:
                return isinstance(op, nodes.Break | nodes.Continue | nodes.Leave)

    def connect(self) -> None:
        """Find what regions need from one another."""
        plan = self.plan
        users: dict[nodes.Variable, list[Region]] = {}
        for region in plan.regions:
            for variable in region.variables:
                users.setdefault(variable, []).append(region)
            self.imports(region)
        # A variable of one region is new in each run of it: its home is the region's block or lies inside the region.
        plan.stored_variables.update(variable for variable, regions in users.items() if len(regions) > 1)

    def imports(self, region: Region) -> None:
        """Find the values that a region uses and does not define, and how it comes by them."""
        plan = self.plan
        defined: set[nodes.ValueOp] = set()
        for op in _walk_all(region.ops):
            if isinstance(op, nodes.ValueOp):
                defined.add(op)
            if isinstance(op, nodes.ForRange):
                defined.add(op.counter)
        order: dict[nodes.ValueOp, None] = {}

        def need(value: nodes.ValueOp) -> None:
            if value in order or value in defined:
                return
            if not self.at_block_level(value):
                if self.cost(value, set()) <= _RECOMPUTE_LIMIT:
                    for operand in nodes.operands(value):
                        need(operand)
                else:
                    plan.stored.add(value)
            order[value] = None

        for op in _walk_all(region.ops):
            for operand in nodes.operands(op):
                need(operand)
        region.imports = list(order)

    def at_block_level(self, value: nodes.ValueOp) -> bool:
        """Whether block level has the value."""
        return value in self.plan.scalars or value in self.plan.exports or isinstance(value, nodes.Counter)

    def cost(self, value: nodes.ValueOp, seen: set[nodes.ValueOp]) -> int:
        """What it costs to compute a value again; more than the limit if that cannot be done."""
        if value in seen or self.at_block_level(value):
            return 0
        seen.add(value)
        reads = isinstance(value, nodes.Load) and not (isinstance(value.memory, nodes.Array) and value.memory.space == "parameter")
        if reads or isinstance(value, nodes.Check | nodes.Get | nodes.Exchange | nodes.Atomic | nodes.Result):
            return _RECOMPUTE_LIMIT + 1
        own = 0 if self.uniformity.level(value) is Level.BLOCK else 1
        if isinstance(value, nodes.Binary) and value.op in ("div", "floordiv", "mod") and not isinstance(value.right, nodes.Constant):
            own *= 10
        if isinstance(value, nodes.Unary) and value.op == "sqrt":
            own *= 10
        for operand in nodes.operands(value):
            own += self.cost(operand, seen)
            if own > _RECOMPUTE_LIMIT:
                break
        return own


def _walk_all(ops: Iterable[nodes.Op]) -> Iterator[nodes.Op]:
    for op in ops:
        yield op
        for child in nodes.children(op):
            yield from nodes.walk(child)


def _written(op: nodes.Op) -> Iterable[nodes.Memory]:
    """The arrays that an operation may write."""
    if isinstance(op, nodes.Store | nodes.StoreVector):
        return (op.memory,)
    if isinstance(op, nodes.Clear):
        return (op.array,)
    return [element.memory for element in op.elements] if isinstance(op, nodes.Instruction) and op.name != "prefetch" else ()


def _flat_cost(op: nodes.If) -> int:
    total = 0
    for inner in (*op.then, *op.orelse):
        match inner:
            case nodes.If():
                total += 1 + _flat_cost(inner)
            case (
                nodes.Constant()
                | nodes.ParameterValue()
                | nodes.Length()
                | nodes.Special()
                | nodes.Set()
                | nodes.Get()
                | nodes.Approximation()
            ):
                pass
            case nodes.Result() if isinstance(inner.of, nodes.LoadVector):
                pass
            case nodes.Binary() if inner.op in ("floordiv", "mod") and not isinstance(inner.right, nodes.Constant):
                total += 1 + _FLAT_LIMIT
            case nodes.Binary() | nodes.Unary() if inner.op in ("div", "sqrt"):
                total += 8
            case nodes.Load():
                total += 2 if isinstance(inner.memory, nodes.View) or inner.memory.space == "shared" else 1
            case (
                nodes.Unary()
                | nodes.Binary()
                | nodes.Ternary()
                | nodes.Fma()
                | nodes.Scale()
                | nodes.Compare()
                | nodes.Select()
                | nodes.Cast()
                | nodes.Bitcast()
            ):
                total += 1
            case nodes.Store():
                total += 2
            case nodes.LoadVector() | nodes.StoreVector():
                total += 4
            case _:
                total += 1 + _FLAT_LIMIT
    return total
