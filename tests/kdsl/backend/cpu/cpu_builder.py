"""Builds kernels in the IR by hand, for tests of the CPU target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kdsl.ir import nodes
from kdsl.lang.types import BOOL, F32, I64, DType

HERE = nodes.Location("test.py", 1, 0, 1, 1)


class Value:
    """A value with operators."""

    def __init__(self, builder: Builder, op: nodes.ValueOp) -> None:
        self.builder = builder
        self.op = op

    def _binary(self, op: str, other: Any, reverse: bool = False) -> Value:
        right = self.builder.lift(other, self.op.type)
        left, right = (right, self) if reverse else (self, right)
        return self.builder.add(nodes.Binary(location=HERE, type=self.op.type, op=op, left=left.op, right=right.op))  # type: ignore[arg-type]

    def _compare(self, op: str, other: Any) -> Value:
        right = self.builder.lift(other, self.op.type)
        return self.builder.add(nodes.Compare(location=HERE, type=BOOL, op=op, left=self.op, right=right.op))  # type: ignore[arg-type]

    def __add__(self, other: Any) -> Value:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Value:
        return self._binary("add", other, True)

    def __sub__(self, other: Any) -> Value:
        return self._binary("sub", other)

    def __rsub__(self, other: Any) -> Value:
        return self._binary("sub", other, True)

    def __mul__(self, other: Any) -> Value:
        return self._binary("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Value:
        return self._binary("div", other)

    def __floordiv__(self, other: Any) -> Value:
        return self._binary("floordiv", other)

    def __mod__(self, other: Any) -> Value:
        return self._binary("mod", other)

    def __and__(self, other: Any) -> Value:
        return self._binary("and", other)

    def __or__(self, other: Any) -> Value:
        return self._binary("or", other)

    def __xor__(self, other: Any) -> Value:
        return self._binary("xor", other)

    def __lshift__(self, other: Any) -> Value:
        return self._binary("shl", other)

    def __rshift__(self, other: Any) -> Value:
        return self._binary("shr", other)

    def maximum(self, other: Any) -> Value:
        return self._binary("max", other)

    def __lt__(self, other: Any) -> Value:
        return self._compare("lt", other)

    def __le__(self, other: Any) -> Value:
        return self._compare("le", other)

    def __gt__(self, other: Any) -> Value:
        return self._compare("gt", other)

    def __ge__(self, other: Any) -> Value:
        return self._compare("ge", other)

    def equal(self, other: Any) -> Value:
        return self._compare("eq", other)

    def differs(self, other: Any) -> Value:
        return self._compare("ne", other)

    def to(self, target: DType, range: tuple[int, int] | None = None) -> Value:
        return self.builder.add(nodes.Cast(location=HERE, type=target, operand=self.op, range=range))

    def within(self, low: int, high: int) -> Value:
        """Declare the value's range."""
        self.op.range = (low, high)
        return self


class Builder:
    """Collects operations of one kernel; `if_`, `while_`, `for_` and `scope` are context managers."""

    def __init__(self, name: str = "k", block: tuple[int, int, int] = (32, 1, 1)) -> None:
        self.kernel = nodes.Kernel(name, [], [], [], block, [], nodes.Block(), HERE)
        self.stack = [self.kernel.body]

    def add(self, op: nodes.ValueOp) -> Value:
        self.stack[-1].ops.append(op)
        return Value(self, op)

    def do(self, op: nodes.Op) -> None:
        self.stack[-1].ops.append(op)

    def lift(self, value: Any, of: DType) -> Value:
        if isinstance(value, Value):
            return value
        number = float(value) if of.is_float else bool(value) if of.is_bool else int(value)
        return self.add(nodes.Constant(location=HERE, type=of, value=number))

    # parameters and memory
    def view(self, name: str, of: DType = F32, kind: str = "SliceMut", witness: str | None = None) -> nodes.View:
        view = nodes.View(name, of, kind, written=kind != "Slice", read=True, witness=witness)  # type: ignore[arg-type]
        self.kernel.parameters.append(view)
        return view

    def scalar(self, name: str, of: DType = I64, range: tuple[int, int] | None = None) -> Value:
        parameter = nodes.ScalarParameter(name, of)
        self.kernel.parameters.append(parameter)
        return self.add(nodes.ParameterValue(location=HERE, type=of, parameter=parameter, range=range))

    def array(self, name: str, shape: tuple[int, ...], of: DType = F32, space: str = "shared") -> nodes.Array:
        array = nodes.Array(name, of, shape, space)  # type: ignore[arg-type]
        self.kernel.arrays.append(array)
        return array

    def variable(self, name: str, initial: Any, of: DType = F32) -> nodes.Variable:
        variable = nodes.Variable(name, of)
        self.kernel.variables.append(variable)
        self.set(variable, initial)
        return variable

    def length(self, view: nodes.View) -> Value:
        return self.add(nodes.Length(location=HERE, type=I64, view=view, range=(0, (1 << 60) - 1)))

    def special(self, name: str) -> Value:
        x, y, z = self.kernel.block_dim
        high = {
            "thread_idx.x": x - 1, "thread_idx.y": y - 1, "thread_idx.z": z - 1, "thread_rank": self.kernel.threads - 1,
            "lane_index": 31, "warp_index": 31,
        }.get(name, (1 << 31) - 1)  # fmt: skip
        return self.add(nodes.Special(location=HERE, type=I64, name=name, range=(0, high)))  # type: ignore[arg-type]

    def thread_index(self) -> Value:
        value = self.special("block_idx.x") * self.kernel.block_dim[0]
        value.within(0, 1 << 42)
        return (value + self.special("thread_idx.x")).within(0, 1 << 43)

    # operations
    def site(self, kind: str, memory: Any) -> int:
        extents = memory.shape if isinstance(memory, nodes.Array) else None
        self.kernel.sites.append(nodes.Site(kind, getattr(memory, "name", str(memory)), HERE, extents))  # type: ignore[arg-type]
        return len(self.kernel.sites) - 1

    def load(self, memory: nodes.Memory, *indices: Any, checked: bool = False) -> Value:
        lifted = tuple(self.lift(i, I64).op for i in indices)
        site = self.site("load", memory) if checked else 0
        return self.add(nodes.Load(location=HERE, type=memory.type, memory=memory, indices=lifted, checked=checked, site=site))

    def store(self, memory: nodes.Memory, *arguments: Any, checked: bool = False) -> None:
        *indices, value = arguments
        lifted = tuple(self.lift(i, I64).op for i in indices)
        site = self.site("store", memory) if checked else 0
        wanted = self.lift(value, memory.type).op
        self.do(nodes.Store(location=HERE, memory=memory, indices=lifted, value=wanted, checked=checked, site=site))

    def get(self, variable: nodes.Variable) -> Value:
        return self.add(nodes.Get(location=HERE, type=variable.type, variable=variable))

    def set(self, variable: nodes.Variable, value: Any) -> None:
        self.do(nodes.Set(location=HERE, variable=variable, value=self.lift(value, variable.type).op))

    def fma(self, a: Any, b: Any, c: Any) -> Value:
        return self.add(nodes.Fma(location=HERE, type=a.op.type, a=a.op, b=b.op, c=c.op))

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return self.add(nodes.Select(location=HERE, type=a.op.type, condition=condition.op, then=a.op, orelse=b.op))

    def unary(self, op: str, a: Value) -> Value:
        return self.add(nodes.Unary(location=HERE, type=a.op.type, op=op, operand=a.op))  # type: ignore[arg-type]

    def exchange(self, name: str, *arguments: Value, type: DType | None = None) -> Value:
        of = type or arguments[0].op.type
        return self.add(nodes.Exchange(location=HERE, type=of, name=name, arguments=tuple(a.op for a in arguments)))

    def assertion(self, condition: Value) -> None:
        self.do(nodes.Assertion(location=HERE, condition=condition.op, site=self.site("assert", "it holds")))

    def barrier(self) -> None:
        self.do(nodes.Barrier(location=HERE))

    def break_(self) -> None:
        self.do(nodes.Break(location=HERE))

    def continue_(self) -> None:
        self.do(nodes.Continue(location=HERE))

    def return_(self) -> None:
        self.do(nodes.Return(location=HERE))

    def leave(self, scope: nodes.Scope) -> None:
        self.do(nodes.Leave(location=HERE, scope=scope))

    # control
    @contextmanager
    def inside(self, block: nodes.Block) -> Iterator[None]:
        self.stack.append(block)
        yield
        self.stack.pop()

    @contextmanager
    def if_(self, condition: Value) -> Iterator[nodes.If]:
        op = nodes.If(location=HERE, condition=condition.op, then=nodes.Block(), orelse=nodes.Block())
        self.do(op)
        with self.inside(op.then):
            yield op

    def else_(self, op: nodes.If | nodes.While | nodes.ForRange) -> Any:
        return self.inside(op.orelse)

    @contextmanager
    def for_(self, start: Any, stop: Any, step: Any = 1, range: tuple[int, int] | None = None) -> Iterator[tuple[Value, nodes.ForRange]]:
        counter = nodes.Counter(location=HERE, type=I64, range=range)
        bounds = [self.lift(v, I64).op for v in (start, stop, step)]
        op = nodes.ForRange(
            location=HERE, counter=counter, start=bounds[0], stop=bounds[1], step=bounds[2], body=nodes.Block(), orelse=nodes.Block()
        )
        self.do(op)
        with self.inside(op.body):
            yield Value(self, counter), op

    @contextmanager
    def while_(self, condition: Any) -> Iterator[nodes.While]:
        head = nodes.Block()
        with self.inside(head):
            value = condition()
        op = nodes.While(location=HERE, head=head, condition=value.op, body=nodes.Block(), orelse=nodes.Block())
        self.do(op)
        with self.inside(op.body):
            yield op

    @contextmanager
    def scope(self) -> Iterator[nodes.Scope]:
        op = nodes.Scope(location=HERE, body=nodes.Block())
        self.do(op)
        with self.inside(op.body):
            yield op
