"""A plain evaluator of the IR, one thread after another: the frontend's tests run what it builds without any backend.

Barriers and exchanges between lanes are left out: they need threads that run together, which the CPU target's tests have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kdsl.frontend import folding
from kdsl.ir import nodes
from kdsl.lang.types import DType


class _Jump(Exception):
    def __init__(self, target: object) -> None:
        self.target = target


_BREAK, _CONTINUE, _RETURN = object(), object(), object()


@dataclass
class Thread:
    """One thread on its way through a kernel."""

    kernel: nodes.Kernel
    arguments: Mapping[str, Any]
    rank: int
    block: int
    blocks: int
    failures: list[tuple[int, tuple[int, ...]]]
    values: dict[nodes.ValueOp, Any] = field(default_factory=dict)
    variables: dict[nodes.Variable, Any] = field(default_factory=dict)
    local: dict[nodes.Array, Any] = field(default_factory=dict)

    def run(self) -> None:
        try:
            self.block_of(self.kernel.body)
        except _Jump as jump:
            if jump.target is not _RETURN:
                raise

    def block_of(self, block: nodes.Block) -> None:
        for op in block:
            self.op(op)

    def op(self, op: nodes.Op) -> None:
        if isinstance(op, nodes.ValueOp):
            value = self.value(op)
            self.values[op] = value
            if op.range is not None:
                assert op.range[0] <= value <= op.range[1], (op, value)
            return
        match op:
            case nodes.Set():
                self.variables[op.variable] = self.values[op.value]
            case nodes.Store():
                place = self.place(op)
                if place is not None:
                    self.memory(op.memory)[place] = self.values[op.value]
            case nodes.Clear():
                self.local.pop(op.array, None)
            case nodes.Assertion():
                if not self.values[op.condition]:
                    self.failures.append((op.site, ()))
            case nodes.If():
                self.block_of(op.then if self.values[op.condition] else op.orelse)
            case nodes.While():
                self.loop(op, None)
            case nodes.ForRange():
                step = self.values[op.step]
                trips = range(self.values[op.start], self.values[op.stop], step) if step else ()
                self.loop(op, trips)
            case nodes.Scope():
                try:
                    self.block_of(op.body)
                except _Jump as jump:
                    if jump.target is not op:
                        raise
            case nodes.Break():
                raise _Jump(_BREAK)
            case nodes.Continue():
                raise _Jump(_CONTINUE)
            case nodes.Return():
                raise _Jump(_RETURN)
            case nodes.Leave():
                raise _Jump(op.scope)
            case _:
                raise AssertionError(f"{type(op).__name__} needs threads that run together")

    def loop(self, op: nodes.While | nodes.ForRange, trips: Any) -> None:
        numbers = iter(trips) if trips is not None else None
        while True:
            if isinstance(op, nodes.While):
                self.block_of(op.head)
                if not self.values[op.condition]:
                    break
            else:
                number = next(numbers, None)
                if number is None:
                    break
                self.values[op.counter] = number
                if op.counter.range is not None:
                    assert op.counter.range[0] <= number <= op.counter.range[1]
            try:
                self.block_of(op.body)
            except _Jump as jump:
                if jump.target is _BREAK:
                    return
                if jump.target is not _CONTINUE:
                    raise
        self.block_of(op.orelse)

    def memory(self, memory: nodes.Memory) -> Any:
        if isinstance(memory, nodes.View):
            return self.arguments[memory.name]
        if memory not in self.local:
            self.local[memory] = np.zeros(memory.shape, memory.type.numpy)
        return self.local[memory]

    def place(self, op: nodes.Load | nodes.Store) -> tuple[int, ...] | None:
        place = tuple(self.values[i] for i in op.indices)
        shape = self.memory(op.memory).shape
        inside = all(0 <= i < extent for i, extent in zip(place, shape, strict=True))
        assert inside or op.checked, f"an access that was not checked is outside: {op.memory.name}{list(place)} of {shape}"
        if not inside:
            self.failures.append((op.site, place))
        return place if inside else None

    def value(self, op: nodes.ValueOp) -> Any:
        get = self.values.__getitem__
        match op:
            case nodes.Constant():
                return op.value
            case nodes.ParameterValue():
                return host(op.type, self.arguments[op.parameter.name])
            case nodes.Length():
                return len(self.arguments[op.view.name])
            case nodes.Special():
                return self.special(op.name)
            case nodes.Get():
                return self.variables[op.variable]
            case nodes.Unary():
                return _known(op, folding.unary(op.op, op.type, get(op.operand)))
            case nodes.Binary():
                return _known(op, folding.binary(op.op, op.type, get(op.left), get(op.right)))
            case nodes.Fma():
                return _fma(op.type, get(op.a), get(op.b), get(op.c))
            case nodes.Scale():
                return float(op.type.numpy.type(math.ldexp(get(op.value), int(get(op.exponent)))))
            case nodes.Compare():
                return folding.compare(op.op, get(op.left), get(op.right))
            case nodes.Select():
                return get(op.then) if get(op.condition) else get(op.orelse)
            case nodes.Cast():
                return folding.cast(op.type, get(op.operand))
            case nodes.Bitcast():
                source = np.array([get(op.operand)], op.operand.type.numpy)
                return source.view(op.type.numpy)[0].item()
            case nodes.Load():
                place = self.place(op)
                return host(op.type, self.memory(op.memory)[place]) if place is not None else host(op.type, 0)
            case _:
                raise AssertionError(f"{type(op).__name__} needs threads that run together")

    def special(self, name: str) -> int:
        x, y, _ = self.kernel.block_dim
        rank = self.rank
        known = {
            "thread_idx.x": rank % x, "thread_idx.y": rank // x % y, "thread_idx.z": rank // x // y, "thread_rank": rank,
            "lane_index": rank % 32, "warp_index": rank // 32, "block_idx.x": self.block, "grid_dim.x": self.blocks,
        }  # fmt: skip
        return known[name]


def _fma(of: DType, a: float, b: float, c: float) -> float:
    value = folding.fma(of, a, b, c)
    if value is not None:
        return value
    if math.isfinite(a) and math.isfinite(b):
        if not math.isfinite(c):
            return c
        return a * b + c if a == 0 or b == 0 else 0.0  # a product that is no zero and cancels leaves 0
    return a * b + c


def _known(op: nodes.ValueOp, value: Any) -> Any:
    if value is not None:
        return value
    operands = nodes.operands(op)
    assert op.type.is_float, (op, operands)
    return float("nan")


def host(of: DType, value: Any) -> Any:
    """A number as the evaluator holds it."""
    return bool(value) if of.is_bool else int(value) if of.is_integer else float(value)


def run(kernel: nodes.Kernel, *, blocks: int = 1, **arguments: Any) -> list[tuple[nodes.Site, tuple[int, ...]]]:
    """Run a kernel over its arguments, in place; the failed checks."""
    failures: list[tuple[int, tuple[int, ...]]] = []
    for block in range(blocks):
        for rank in range(kernel.threads):
            Thread(kernel, arguments, rank, block, blocks, failures).run()
    return [(kernel.sites[site], place) for site, place in failures]
