"""A slow interpreter of the IR, one thread after the other: what the CPU target is compared with.

Threads are generators that stop at barriers and exchanges. It follows the docstrings of `kdsl.ir.nodes` and of the table of intrinsics, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from kdsl.ir import nodes
from kdsl.lang.intrinsics import INTRINSICS, ToExchange
from kdsl.lang.types import DType, convert_constant, wrap


class _Jump(Exception):
    def __init__(self, op: nodes.Op) -> None:
        super().__init__()
        self.op = op


Steps = Generator[Any, Any, None]


class Interpreter:
    """Runs one kernel. `failures` has (site, block, thread, index) of every failed check."""

    def __init__(self, kernel: nodes.Kernel) -> None:
        self.kernel = kernel
        self.failures: set[tuple[int, tuple[int, int, int], int, int]] = set()

    def __call__(self, grid: int | tuple[int, int, int], **arguments: Any) -> None:
        x, y, z = (grid, 1, 1) if isinstance(grid, int) else grid
        self.grid = (x, y, z)
        with np.errstate(all="ignore"):
            for number in range(x * y * z):
                self._block((number % x, number // x % y, number // x // y), arguments)

    def _block(self, block: tuple[int, int, int], arguments: dict[str, Any]) -> None:
        shared = {a: np.zeros(a.shape, a.type.numpy) for a in self.kernel.arrays if a.space == "shared"}
        running = [(t, _Thread(self, block, t, arguments, shared).run()) for t in range(self.kernel.threads)]
        waiting: dict[int, tuple[Any, Steps]] = {}
        replies: dict[int, Any] = {}
        while running or waiting:
            for t, thread in running:
                try:
                    request = thread.send(replies.pop(t, None))
                    waiting[t] = (request, thread)
                except StopIteration:
                    pass
            running = []
            for warp in range(0, self.kernel.threads, 32):
                lanes = {t - warp: waiting[t][0] for t in range(warp, warp + 32) if t in waiting and waiting[t][0] is not None}
                stopped = [t for t in range(warp, warp + 32) if t in waiting]
                if lanes and len(lanes) == len(stopped):
                    first = next(iter(lanes.values()))
                    assert all(request[0] is first[0] for request in lanes.values()), "lanes meet at one exchange"
                    for lane, result in _exchange(first[0], {lane: request[1] for lane, request in lanes.items()}).items():
                        replies[warp + lane] = result
                        running.append((warp + lane, waiting.pop(warp + lane)[1]))
            if not running and waiting:
                assert all(request is None for request, _ in waiting.values()), "all meet at the barrier"
                running = [(t, thread) for t, (_, thread) in waiting.items()]
                waiting = {}


def _exchange(op: nodes.Exchange, lanes: dict[int, list[Any]]) -> dict[int, Any]:
    row = INTRINSICS[op.name].lowering
    assert isinstance(row, ToExchange)
    of = op.type
    if row.kind == "vote":
        holds = {lane: bool(a[0]) for lane, a in lanes.items()}
        ballot = sum(1 << lane for lane, held in holds.items() if held)
        result = {"any": any(holds.values()), "all": all(holds.values()), "ballot": ballot}[row.mode]
        return dict.fromkeys(lanes, result)
    values = {lane: a[0] for lane, a in lanes.items()}
    if row.kind == "reduce":
        part: dict[int, Any] = dict(values)
        for step in (16, 8, 4, 2, 1):
            merged: dict[int, Any] = {}
            for lane in range(32):
                a, b = part.get(lane), part.get(lane ^ step)
                if lane & step:
                    a, b = b, a
                if a is None or b is None:
                    merged[lane] = b if a is None else a
                else:
                    merged[lane] = binary({"add": "add", "min": "min", "max": "max"}[row.mode], of, a, b)
            part = {lane: v for lane, v in merged.items() if v is not None}
        return {lane: part[lane] for lane in lanes}
    results = {}
    for lane, (value, amount) in lanes.items():
        amount %= 32
        source = {"bfly": lane ^ amount, "idx": amount, "up": lane - amount, "down": lane + amount}[row.mode]
        results[lane] = values.get(source, value)
    return results


class _Thread:
    def __init__(
        self, owner: Interpreter, block: tuple[int, int, int], number: int, arguments: dict[str, Any], shared: dict[Any, Any]
    ) -> None:
        self.owner = owner
        self.kernel = owner.kernel
        self.block, self.number = block, number
        self.arguments = arguments
        self.memory = dict(shared) | {a: np.zeros(a.shape, a.type.numpy) for a in self.kernel.arrays if a.space == "local"}
        self.values: dict[nodes.ValueOp, Any] = {}
        self.variables: dict[nodes.Variable, Any] = {}

    def run(self) -> Steps:
        try:
            yield from self.ops(self.kernel.body)
        except _Jump as jump:
            if not isinstance(jump.op, nodes.Return):
                raise

    def ops(self, block: nodes.Block) -> Steps:
        for op in block:
            yield from self.op(op)

    def op(self, op: nodes.Op) -> Steps:
        v = self.values
        match op:
            case nodes.Exchange():
                v[op] = yield (op, [v[a] for a in op.arguments])
            case nodes.ValueOp():
                v[op] = self.value(op)
            case nodes.Set():
                self.variables[op.variable] = v[op.value]
            case nodes.Store():
                array, place = self.element(op)
                if array is not None:
                    array[place] = v[op.value]
            case nodes.Assertion():
                if not v[op.condition]:
                    self.owner.failures.add((op.site, self.block, self.number, 0))
            case nodes.Barrier():
                yield None
            case nodes.If():
                yield from self.ops(op.then if v[op.condition] else op.orelse)
            case nodes.While() | nodes.ForRange():
                yield from self.loop(op)
            case nodes.Scope():
                try:
                    yield from self.ops(op.body)
                except _Jump as jump:
                    if not (isinstance(jump.op, nodes.Leave) and jump.op.scope is op):
                        raise
            case _:
                raise _Jump(op)

    def loop(self, op: nodes.While | nodes.ForRange) -> Steps:
        v = self.values
        trips = iter(range(v[op.start], v[op.stop], v[op.step]) if v[op.step] else ()) if isinstance(op, nodes.ForRange) else None
        while True:
            if isinstance(op, nodes.While):
                yield from self.ops(op.head)
                if not v[op.condition]:
                    break
            else:
                assert trips is not None
                try:
                    v[op.counter] = next(trips)
                except StopIteration:
                    break
            try:
                yield from self.ops(op.body)
            except _Jump as jump:
                if isinstance(jump.op, nodes.Break):
                    return
                if not isinstance(jump.op, nodes.Continue):
                    raise
        yield from self.ops(op.orelse)

    def element(self, op: nodes.Load | nodes.Store) -> tuple[Any, Any]:
        indices = tuple(self.values[i] for i in op.indices)
        array = self.arguments[op.memory.name] if isinstance(op.memory, nodes.View) else self.memory[op.memory]
        for index, extent in zip(indices, array.shape, strict=True):
            if not 0 <= index < extent:
                assert op.checked, "an unchecked access is outside"
                self.owner.failures.add((op.site, self.block, self.number, index))
                return None, None
        return array, indices

    def value(self, op: nodes.ValueOp) -> Any:
        v = self.values
        match op:
            case nodes.Constant():
                return op.type.numpy.type(op.value) if op.type.is_float else op.value
            case nodes.ParameterValue():
                given = self.arguments[op.parameter.name]
                return op.type.numpy.type(given) if op.type.is_float else given
            case nodes.Length():
                return self.arguments[op.view.name].size
            case nodes.Special():
                return self.special(op.name)
            case nodes.Get():
                return self.variables[op.variable]
            case nodes.Load():
                array, place = self.element(op)
                found = op.type.numpy.type(0) if array is None else array[place]
                return found if op.type.is_float else bool(found) if op.type.is_bool else int(found)
            case nodes.Binary():
                return binary(op.op, op.type, v[op.left], v[op.right])
            case nodes.Compare():
                a, b = v[op.left], v[op.right]
                return bool({"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}[op.op])
            case nodes.Select():
                return v[op.then] if v[op.condition] else v[op.orelse]
            case nodes.Cast():
                converted = convert_constant(op.type, v[op.operand])
                return op.type.numpy.type(converted) if op.type.is_float else converted
            case nodes.Fma():
                # exact in f64 for f32 operands up to one rounding, which small integers do not need
                return op.type.numpy.type(float(v[op.a]) * float(v[op.b]) + float(v[op.c]))
            case nodes.Unary():
                return unary(op.op, op.type, v[op.operand])
            case _:
                raise TypeError(type(op).__name__)

    def special(self, name: str) -> int:
        x, y, _ = self.kernel.block_dim
        t = self.number
        group, _, axis = name.partition(".")
        match group:
            case "thread_idx":
                return {"x": t % x, "y": t // x % y, "z": t // x // y}[axis]
            case "block_idx":
                return self.block["xyz".index(axis)]
            case "grid_dim":
                return self.owner.grid["xyz".index(axis)]
        return {"thread_rank": t, "lane_index": t % 32, "warp_index": t // 32}[name]


def unary(op: str, of: DType, x: Any) -> Any:
    match op:
        case "neg":
            return -x if of.is_float else wrap(of, -x)
        case "invert":
            return wrap(of, ~x)
        case "not":
            return not x
        case "abs":
            return abs(x) if of.is_float else wrap(of, abs(x))
        case "sqrt":
            return np.sqrt(x)
    return {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint}[op](x)


def binary(op: str, of: DType, a: Any, b: Any) -> Any:
    if of.is_float:
        match op:
            case "add":
                return a + b
            case "sub":
                return a - b
            case "mul":
                return a * b
            case "div":
                return a / b
        if math.isnan(a) or math.isnan(b):
            return of.numpy.type("nan")
        return min(a, b) if op.endswith("min") else max(a, b)
    match op:
        case "and":
            return a & b if not of.is_bool else a and b
        case "or":
            return a | b if not of.is_bool else a or b
        case "xor":
            return a ^ b
        case "min" | "max":
            return min(a, b) if op == "min" else max(a, b)
        case "floordiv":
            return wrap(of, a // b) if b else 0
        case "mod":
            return wrap(of, a % b) if b else 0
        case "shl":
            return wrap(of, a << b) if 0 <= b < of.bits else 0
        case "shr":
            return a >> b if 0 <= b < of.bits else (-1 if a < 0 else 0)
    return wrap(of, {"add": a + b, "sub": a - b, "mul": a * b}[op])
