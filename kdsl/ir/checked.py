"""What a checked build adds to a kernel: checks of division and shifts, and that threads agree where they must.

Convergence is proved when a kernel is built, except for one thing: a value that is read from memory at an index that all threads share counts as the same
for all, which it is unless some thread writes there meanwhile. Where control around a barrier or a lane exchange depends on such a value, the threads compare
what they have read (`Agreed`); a difference is recorded and one of the values is taken by all, so that the kernel ends.

Accesses and masks of lanes are the frontend's: in a checked build it proves no access, and asserts that a lane is in its own mask. What is not here: races
(the sanitizer).
"""

from __future__ import annotations

from typing import Final, Literal

from kdsl.ir import nodes, ranges
from kdsl.ir.uniformity import together
from kdsl.lang.types import BOOL, DType

_DIVISIONS: Final = ("floordiv", "mod")
_SHIFTS: Final = ("shl", "shr")
_WIDTHS: Final = ("warp", "warpgroup", "block")
"""Who may have to agree, from few to many. Warps of a warpgroup compare for themselves."""
_Kind = Literal["divide", "shift", "agree"]


def check(kernel: nodes.Kernel) -> None:
    """Add the checks to a kernel, in place."""
    _Checks(kernel).block(kernel.body)
    _Agreement(kernel).block(kernel.body)


def _site(kernel: nodes.Kernel, kind: _Kind, name: str, location: nodes.Location) -> int:
    site = nodes.Site(kind, name, location, None)
    if site in kernel.sites:
        return kernel.sites.index(site)
    kernel.sites.append(site)
    return len(kernel.sites) - 1


class _Checks:
    """Assertions in front of what needs them."""

    def __init__(self, kernel: nodes.Kernel) -> None:
        self.kernel = kernel

    def block(self, block: nodes.Block) -> None:
        ops: list[nodes.Op] = []
        for op in block:
            for child in nodes.children(op):
                self.block(child)
            if isinstance(op, nodes.Binary) and op.type.is_integer:
                ops += self.arithmetic(op)
            ops.append(op)
        block.ops = ops

    def arithmetic(self, op: nodes.Binary) -> list[nodes.Op]:
        least, most = ranges.of(op.right)
        if op.op in _DIVISIONS and least <= 0 <= most:
            zero = _constant(op, op.type, 0)
            holds = nodes.Compare(location=op.location, type=BOOL, op="ne", left=op.right, right=zero)
            return [zero, holds, self.assertion(op, holds, "divide", "//" if op.op == "floordiv" else "%")]
        if op.op in _SHIFTS and (least < 0 or most >= op.type.bits):
            none, last = _constant(op, op.type, 0), _constant(op, op.type, op.type.bits - 1)
            low = nodes.Compare(location=op.location, type=BOOL, op="ge", left=op.right, right=none)
            high = nodes.Compare(location=op.location, type=BOOL, op="le", left=op.right, right=last)
            both = nodes.Binary(location=op.location, type=BOOL, op="and", left=low, right=high)
            return [
                none,
                last,
                low,
                high,
                both,
                self.assertion(op, both, "shift", f"a shift of {op.type} by fewer than {op.type.bits} bits"),
            ]
        return []

    def assertion(self, op: nodes.Op, holds: nodes.ValueOp, kind: _Kind, name: str) -> nodes.Assertion:
        return nodes.Assertion(location=op.location, condition=holds, site=_site(self.kernel, kind, name, op.location))


class _Agreement:
    """Comparisons among threads in front of the control that leads to barriers and lane exchange."""

    def __init__(self, kernel: nodes.Kernel) -> None:
        self.kernel = kernel
        self.read: set[object] = set()
        self.reach: dict[nodes.Op, str] = {}
        while self.spread(kernel.body):
            pass
        while self.find(kernel.body, ()):
            pass

    def spread(self, block: nodes.Block) -> bool:
        """Find the values and variables that come from memory; whether one was new."""
        before = len(self.read)
        for op in nodes.walk(block):
            match op:
                case nodes.Load():
                    own = isinstance(op.memory, nodes.View) or op.memory.space == "shared"
                case nodes.Result():
                    own = True
                case nodes.Get():
                    own = op.variable in self.read
                case _:
                    own = False
            if own or any(o in self.read for o in nodes.operands(op)):
                self.read.add(op.variable if isinstance(op, nodes.Set) else op.counter if isinstance(op, nodes.ForRange) else op)
        return len(self.read) != before

    def find(self, block: nodes.Block, path: tuple[nodes.Op, ...]) -> bool:
        """Note for every control operation who must agree on it; whether anything was new."""
        changed = False
        for op in block:
            whom = together(op)
            for control in path if whom != "none" else ():
                changed |= self.note(control, whom)
            if isinstance(op, nodes.Break | nodes.Continue | nodes.Leave):
                # whoever decides on this jump decides how often, or whether, what is in its target comes
                target = self.target(op, path)
                if target in self.reach:
                    for control in path[path.index(target) + 1 :]:
                        changed |= self.note(control, self.reach[target])
            for child in nodes.children(op):
                changed |= self.find(child, (*path, op))
        return changed

    def note(self, control: nodes.Op, together: str) -> bool:
        known = self.reach.get(control)
        if known is not None and _WIDTHS.index(known) >= _WIDTHS.index(together):
            return False
        self.reach[control] = together
        return True

    @staticmethod
    def target(op: nodes.Op, path: tuple[nodes.Op, ...]) -> nodes.Op:
        if isinstance(op, nodes.Leave):
            return op.scope
        return next(c for c in reversed(path) if isinstance(c, nodes.While | nodes.ForRange))

    def block(self, block: nodes.Block) -> None:
        ops: list[nodes.Op] = []
        for op in block:
            for child in nodes.children(op):
                self.block(child)
            together = self.reach.get(op)
            if together is not None:
                match op:
                    case nodes.If():
                        op.condition = self.agreed(op, op.condition, together, ops)
                    case nodes.While():
                        op.condition = self.agreed(op, op.condition, together, op.head.ops)
                    case nodes.ForRange():
                        op.start = self.agreed(op, op.start, together, ops)
                        op.stop = self.agreed(op, op.stop, together, ops)
                        op.step = self.agreed(op, op.step, together, ops)
            ops.append(op)
        block.ops = ops

    def agreed(self, op: nodes.Op, value: nodes.ValueOp, together: str, ops: list[nodes.Op]) -> nodes.ValueOp:
        if value not in self.read:
            return value
        site = _site(self.kernel, "agree", together, op.location)
        whom: Literal["block", "warp"] = "block" if together == "block" else "warp"
        made = nodes.Agreed(location=op.location, type=value.type, range=value.range, value=value, among=whom, site=site)
        ops.append(made)
        return made


def _constant(op: nodes.Op, of: DType, value: int) -> nodes.Constant:
    return nodes.Constant(location=op.location, type=of, range=(value, value), value=value)
