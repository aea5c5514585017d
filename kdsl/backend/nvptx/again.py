"""The second run of a thread: what its kernel does, from the start, with checks that record.

As long as a thread has changed nothing that anybody sees, it may leave off and begin again, whenever it likes. So a check that fails there goes to a second
copy of the kernel, and the first one has no ways that meet, no zeros for what is outside, and keeps nothing for a record. It may also ask before a loop what
every trip would ask. What is not here: the checks, and loops that go on in spite of them (`speculation`).
"""

from __future__ import annotations

from typing import Final

from kdsl.ir import nodes

_MOST: Final = 400
"""Operations of a kernel that is made twice."""
COMPUTED: Final = (nodes.Unary, nodes.Binary, nodes.Compare, nodes.Select, nodes.Cast, nodes.Constant)
"""What is computed of its operands alone."""
_JUMPS: Final = (nodes.Break, nodes.Continue, nodes.Leave, nodes.Return)
"""What ends a trip."""
_ALONE: Final = (
    nodes.Unary, nodes.Binary, nodes.Ternary, nodes.Compare, nodes.Fma, nodes.Select, nodes.Cast, nodes.Bitcast, nodes.Approximation,
    nodes.Constant,
    nodes.ParameterValue, nodes.Length, nodes.Special, nodes.OnGpu, nodes.Get, nodes.Set, nodes.Result, nodes.Load, nodes.LoadVector, nodes.Store,
    nodes.StoreVector, nodes.Clear, nodes.Check, nodes.Assertion, nodes.If, nodes.ForRange, nodes.While, nodes.Scope, nodes.Leave, nodes.Break,
    nodes.Continue, nodes.Return,
)  # fmt: skip
"""What a thread does for itself, whatever others do."""


def suits(kernel: nodes.Kernel) -> bool:
    """Whether each thread of a kernel works for itself, so that it may do elsewhere what is left to do."""
    ops = list(nodes.walk(kernel.body))
    own = all(array.space != "shared" for array in kernel.arrays) and not kernel.shared_views
    given = all(isinstance(p, nodes.ScalarParameter | nodes.View) and not isinstance(p, nodes.TensorMap) for p in kernel.parameters)
    return own and given and len(ops) <= _MOST and all(isinstance(op, _ALONE) for op in ops)


def is_seen(op: nodes.Op) -> bool:
    """Whether an operation, or one in it, changes what others see."""
    if isinstance(op, nodes.Store | nodes.StoreVector):
        return isinstance(op.memory, nodes.View)
    return any(is_seen(inner) for block in nodes.children(op) for inner in block)


def in_every_trip(loop: nodes.ForRange | nodes.While) -> list[nodes.Load | nodes.Store]:
    """Checked accesses that every trip of a loop makes; those after which it may end are left out."""
    found: list[nodes.Load | nodes.Store] = []
    for op in loop.body:
        if any(isinstance(inner, _JUMPS) for block in nodes.children(op) for inner in nodes.walk(block)):
            break
        if isinstance(op, nodes.Load | nodes.Store) and op.checked and op.field is None and isinstance(op.memory, nodes.View):
            found.append(op)
    return found


def values_of(loop: nodes.ForRange | nodes.While) -> set[nodes.Op]:
    """All that has a value of its own in each trip of a loop."""
    found = {op for block in nodes.children(loop) for op in nodes.walk(block)}
    return found | {op.counter for op in (loop, *found) if isinstance(op, nodes.ForRange)}


def is_the_same(value: nodes.ValueOp, inside: set[nodes.Op]) -> bool:
    """Whether a value of a loop, which has these of its own, is the same in every trip."""
    return value not in inside or (isinstance(value, COMPUTED) and all(is_the_same(operand, inside) for operand in nodes.operands(value)))
