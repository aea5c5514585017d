"""Which values and which control flow are the same for all threads of a block, or of a group of consecutive threads.

Used by the convergence rules (groups of 32, the warp), by the CPU target (groups as wide as its vectors: uniform values stay scalar) and by the
sanitizer. A race-free program is assumed: threads that read one address at one point read one value.

A value is judged among the threads that reach it. A variable is judged within its home, the innermost block that holds all its accesses: it varies
if a varying value is assigned to it, or if an assignment stands under control (below the home) that varies. Threads that have returned do not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TypeVar

from kdsl.ir import nodes
from kdsl.lang.intrinsics import INTRINSICS, ToExchange

_Key = TypeVar("_Key")


class Level(IntEnum):
    """How widely something is the same."""

    BLOCK = 0
    """For all threads of a block."""
    GROUP = 1
    """For all threads of a group of consecutive threads."""
    LANE = 2
    """For one thread."""


def together(op: nodes.Op) -> str:
    """Who must reach an operation together: the lanes of a `warp`, a `warpgroup`, the threads of a `block`, or `none`."""
    if isinstance(op, nodes.Barrier):
        return "block"
    if isinstance(op, nodes.Exchange) and op.mask is not None:
        return "none"  # the mask says who takes part
    if isinstance(op, nodes.Instruction) and "together" in op.options:
        return str(op.options["together"])
    return INTRINSICS[op.name].convergence if isinstance(op, nodes.Exchange | nodes.Instruction) else "none"


class Uniformity:
    """The levels of everything in one kernel, for groups of `lanes` consecutive threads (a power of two)."""

    def __init__(self, kernel: nodes.Kernel, lanes: int = nodes.WARP_SIZE) -> None:
        self.kernel = kernel
        self.lanes = lanes
        self._values: dict[nodes.ValueOp, Level] = {}
        self._variables: dict[nodes.Variable, Level] = dict.fromkeys(kernel.variables, Level.BLOCK)
        self._control: dict[nodes.Op, Level] = {}
        self._with_barrier: set[nodes.Op] = set()
        self._paths: dict[nodes.Op, tuple[nodes.Op, ...]] = {}
        self._homes: dict[nodes.Variable, tuple[nodes.Op, ...]] = {}
        self._targets: dict[nodes.Op, nodes.Op | None] = {}
        self._find_homes(kernel.body, (), None)
        while self._pass(kernel.body):
            pass

    # --------------------------------------------------------------------------------------------------------------- answers

    def level(self, value: nodes.ValueOp) -> Level:
        """How widely a value is the same among the threads that reach it."""
        return self._values[value]

    def variable(self, variable: nodes.Variable) -> Level:
        """How widely a variable is the same."""
        return self._variables.get(variable, Level.BLOCK)

    def control(self, op: nodes.Op) -> Level:
        """How widely threads agree on their way through an If, While, ForRange or Scope (returns aside)."""
        return self._control.get(op, Level.BLOCK)

    def contains_barrier(self, op: nodes.Op) -> bool:
        """Whether the operation is a barrier or holds one."""
        return op in self._with_barrier

    def path(self, op: nodes.Op) -> tuple[nodes.Op, ...]:
        """The control operations around an operation, outermost first."""
        return self._paths[op]

    def home(self, variable: nodes.Variable) -> tuple[nodes.Op, ...]:
        """The control operations around all accesses of a variable, outermost first."""
        return self._homes.get(variable, ())

    def divergence(self, op: nodes.Op, above: Level) -> nodes.Op | None:
        """The innermost control operation around `op` on whose way threads differ more widely than `above`, if there is one."""
        return next((c for c in reversed(self._paths[op]) if self.control(c) > above), None)

    # -------------------------------------------------------------------------------------------------------------- analysis

    def _find_homes(self, block: nodes.Block, path: tuple[nodes.Op, ...], loop: nodes.Op | None) -> None:
        for op in block:
            if isinstance(op, nodes.Break | nodes.Continue | nodes.Leave):
                self._targets[op] = op.scope if isinstance(op, nodes.Leave) else loop
            self._paths[op] = path
            if isinstance(op, nodes.Barrier):
                self._with_barrier.update((op, *path))
            if isinstance(op, nodes.Get | nodes.Set):
                known = self._homes.get(op.variable)
                self._homes[op.variable] = path if known is None else _common(known, path)
            for child in nodes.children(op):
                is_body = isinstance(op, nodes.While | nodes.ForRange) and child is op.body  # a jump in `orelse` is one of the loop around
                self._find_homes(child, (*path, op), op if is_body else loop)

    def _pass(self, block: nodes.Block) -> bool:
        """Raise levels once through; whether any changed."""
        changed = False
        for op in block:
            for child in nodes.children(op):
                changed |= self._pass(child)
            if isinstance(op, nodes.ValueOp):
                changed |= _raise(self._values, op, self._value_level(op))
            elif isinstance(op, nodes.Set):
                home = self._homes[op.variable]
                inside = self._paths[op][len(home) :]
                level = max((self.control(c) for c in inside), default=Level.BLOCK)
                changed |= _raise(self._variables, op.variable, max(level, self._of(op.value)))
            elif isinstance(op, nodes.If | nodes.While):
                changed |= _raise(self._control, op, self._of(op.condition))
            elif isinstance(op, nodes.ForRange):
                changed |= _raise(self._values, op.counter, self._most((op.start, op.step)))
                changed |= _raise(self._control, op, self._most((op.start, op.stop, op.step)))
            elif op in self._targets:
                changed |= self._jump(op)
        return changed

    def _jump(self, op: nodes.Op) -> bool:
        """A jump out of (or to the next trip of) an enclosing operation: if threads differ on the way to it, they differ in all that it crosses."""
        path = self._paths[op]
        crossed: list[nodes.Op] = []
        level = Level.BLOCK
        for control in reversed(path):
            crossed.append(control)
            if control is self._targets[op]:
                break
            level = max(level, self.control(control))
        changed = False
        for control in crossed:
            if isinstance(control, nodes.While | nodes.ForRange | nodes.Scope):
                changed |= _raise(self._control, control, level)
        return changed

    def _of(self, value: nodes.ValueOp) -> Level:
        return self._values.get(value, Level.BLOCK)

    def _most(self, values: Iterable[nodes.ValueOp]) -> Level:
        return max((self._of(v) for v in values), default=Level.BLOCK)

    def _value_level(self, op: nodes.ValueOp) -> Level:
        match op:
            case nodes.Special():
                return self._special(op.name)
            case nodes.Get():
                return self.variable(op.variable)
            case nodes.Counter():
                return self._of(op)
            case nodes.Load():
                return self._loaded(op)
            case nodes.Result() if isinstance(op.of, nodes.LoadVector):
                return self._loaded(op.of)
            case nodes.Result() if INTRINSICS[op.of.name].uniform:
                return Level.BLOCK
            case nodes.Atomic() | nodes.Clock() | nodes.Result():
                return Level.LANE
            case nodes.Exchange():
                lowering = INTRINSICS[op.name].lowering
                assert isinstance(lowering, ToExchange)
                if op.mask is not None:
                    return Level.LANE  # each set of lanes has a result of its own
                if lowering.kind in ("scan", "exclusive") or (lowering.kind == "match" and not lowering.uniform):
                    return Level.LANE
                whole = Level.BLOCK if self.kernel.threads <= nodes.WARP_SIZE else Level.GROUP
                return whole if lowering.uniform and self.lanes == nodes.WARP_SIZE else self._most(op.arguments)
            case _:
                return self._most(nodes.operands(op))

    def _loaded(self, op: nodes.Load | nodes.LoadVector) -> Level:
        if isinstance(op.memory, nodes.Array) and op.memory.space == "local":
            return Level.LANE
        return self._most(nodes.operands(op))

    def _special(self, name: nodes.SpecialName) -> Level:
        x, y, z = self.kernel.block_dim
        one_group = Level.BLOCK if self.kernel.threads <= self.lanes else Level.GROUP
        match name:
            case "thread_idx.x":
                return Level.BLOCK if x == 1 else Level.LANE
            case "thread_idx.y":
                return Level.BLOCK if y == 1 else one_group if x % self.lanes == 0 else Level.LANE
            case "thread_idx.z":
                return Level.BLOCK if z == 1 else one_group if x * y % self.lanes == 0 else Level.LANE
            case "thread_rank" | "lane_index":
                return Level.BLOCK if self.kernel.threads == 1 else Level.LANE
            case "warp_index" | "warp_group_index":
                together = nodes.WARP_SIZE if name == "warp_index" else nodes.WARP_GROUP_SIZE
                if self.kernel.threads <= together:
                    return Level.BLOCK
                return Level.GROUP if self.lanes <= together else Level.LANE
            case _:
                return Level.BLOCK


def _raise(levels: dict[_Key, Level], key: _Key, level: Level) -> bool:
    """Raise the level of `key` to at least `level`; whether that changed anything."""
    known = levels.get(key)
    if known is not None and level <= known:
        return False
    levels[key] = level
    return True


def _common(a: tuple[nodes.Op, ...], b: tuple[nodes.Op, ...]) -> tuple[nodes.Op, ...]:
    length = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x is not y), min(len(a), len(b)))
    return a[:length]
