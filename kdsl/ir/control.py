"""Control of the IR, which stays structured: branches, loops, scopes and the ways out of them. `kdsl.ir.nodes` has these names, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kdsl.ir.operation import Op, ValueOp


@dataclass(eq=False, kw_only=True)
class If(Op):
    """Run one of two blocks."""

    condition: ValueOp
    then: Block
    orelse: Block


@dataclass(eq=False, kw_only=True)
class While(Op):
    """Evaluate `head`, leave if `condition` (defined in or before it) is False (after `orelse`), run `body`, repeat."""

    head: Block
    condition: ValueOp
    body: Block
    orelse: Block


@dataclass(eq=False, kw_only=True)
class Counter(ValueOp):
    """The i64 loop value of the `ForRange` that defines it, constant within one trip."""

    multiple: int = 1
    """A power of two of which it is known to be a multiple."""


@dataclass(eq=False, kw_only=True)
class ForRange(Op):
    """Python's `for counter in range(start, stop, step)`, operands i64 and evaluated once; a step of 0 makes no trip; then `orelse`, unless broken."""

    counter: Counter
    start: ValueOp
    stop: ValueOp
    step: ValueOp
    body: Block
    orelse: Block


@dataclass(eq=False, kw_only=True)
class Break(Op):
    """Leave the innermost loop without its `orelse`. Last in its block."""


@dataclass(eq=False, kw_only=True)
class Continue(Op):
    """Begin the next trip of the innermost loop. Last in its block."""


@dataclass(eq=False, kw_only=True)
class Scope(Op):
    """Run `body` once; `Leave` jumps to its end. An expanded call or a trip of an unrolled loop."""

    body: Block


@dataclass(eq=False, kw_only=True)
class Leave(Op):
    """Jump to the end of an enclosing scope, out of any loops between. Last in its block."""

    scope: Scope


@dataclass(eq=False, kw_only=True)
class Return(Op):
    """The thread is done. Last in its block."""


@dataclass(eq=False)
class Block:
    """Operations in order."""

    ops: list[Op] = field(default_factory=list)

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)
