"""From the typed IR to an LLVM function: control flow and the evaluation of operations.

Control becomes basic blocks, variables become stack slots that LLVM turns into registers, everything else is passed on: arithmetic to the code shared with
the CPU, memory, exchange and indices to their modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from llvmlite import ir

from kdsl.backend.llvm import printing
from kdsl.backend.llvm.module import intrinsic, value_type
from kdsl.backend.nvptx import agreement, atomics, instructions, speculation
from kdsl.backend.nvptx.arithmetic import PtxArithmetic
from kdsl.backend.nvptx.entry import LONGEST_VIEW, Entry, opaque
from kdsl.backend.nvptx.exchange import Exchanges
from kdsl.backend.nvptx.failure import Failures
from kdsl.backend.nvptx.lines import Lines
from kdsl.backend.nvptx.memory import HELD, Memory
from kdsl.backend.nvptx.places import Places, block_indices, cluster_rank, linear_block
from kdsl.ir import nodes
from kdsl.ir.absence import with_absent_lanes

_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
_LARGEST: Final = (1 << 63) - 1

LlvmBlock: TypeAlias = Any


@dataclass(frozen=True)
class _Loop:
    """Where the jumps of a loop lead."""

    next: LlvmBlock
    """To the next trip."""
    done: LlvmBlock
    """Behind the loop and its `orelse`."""


class Lowering:
    """Emits one kernel into a module."""

    def __init__(self, kernel: nodes.Kernel, name: str, lines: Lines, failures: Failures, capability: int) -> None:
        self._kernel = kernel
        self._entry = Entry(lines.module, kernel, name)
        function = self._entry.function
        # What every part of the body may use stands in front of it: parameters, indices, slots of variables
        first, body = function.append_basic_block("entry"), function.append_basic_block("body")
        self._prologue = ir.IRBuilder(first)
        self._builder = ir.IRBuilder(body)
        self._lines = lines.of(kernel, function)
        self._prologue.debug_metadata = self._lines.at(kernel.location)
        self._arithmetic = PtxArithmetic(self._builder)
        self._places = Places(kernel, self._prologue)
        self._memory = Memory(kernel, self._entry, self._builder, self._prologue, failures, capability)
        self._absent = with_absent_lanes(kernel, lambda op: isinstance(op, nodes.Exchange))
        self._exchanges: Exchanges | None = None
        self._block_index: tuple[Any, Any, Any] | None = None
        self._once: dict[object, Any] = {}
        self._values: dict[nodes.ValueOp, Any] = {}
        self._results: dict[nodes.Op, Sequence[Any]] = {}
        self._variables = {
            v: opaque(self._prologue.alloca(value_type(v.type), name=f"variable{n}")) for n, v in enumerate(kernel.variables)
        }
        self._held: Any = None
        self._loops: list[_Loop] = []
        self._scopes: dict[nodes.Scope, LlvmBlock] = {}

    def run(self) -> None:
        """Emit everything."""
        self._block(self._kernel.body)
        if not self._builder.block.is_terminated:
            self._builder.ret_void()
        self._prologue.branch(self._entry.function.basic_blocks[1])

    # ---------------------------------------------------------------------------------------------------------------- control

    def _block(self, block: nodes.Block) -> None:
        for op in block:
            self._builder.debug_metadata = self._lines.at(op.location)
            if isinstance(op, nodes.ValueOp):
                self._values[op] = self._value(op)
            else:
                self._statement(op)

    def _statement(self, op: nodes.Op) -> None:
        b = self._builder
        match op:
            case nodes.Set():
                b.store(self._use(op.value), self._variables[op.variable])
            case nodes.Store():
                self._memory.store(op, [self._use(i) for i in op.indices], self._use(op.value), self._rank(op.remote))
            case nodes.LoadVector():
                self._results[op] = self._memory.load_vector(op, [self._use(i) for i in op.indices], self._rank(op.remote))
            case nodes.StoreVector():
                values = [self._use(v) for v in op.values]
                self._memory.store_vector(op, [self._use(i) for i in op.indices], values, self._rank(op.remote))
            case nodes.Assertion():
                self._memory.assertion(self._use(op.condition), op.site, [self._use(value) for value in op.about or ()])
            case nodes.Barrier():
                name = "llvm.nvvm.barrier.cta.sync.aligned.all"
                b.call(intrinsic(b.module, name, ir.VoidType(), [_I32], convergent=True), [_I32(0)])
            case nodes.Fence():
                atomics.fence(b, op.scope)
            case nodes.Instruction():
                addresses = [self._memory.address(e.memory, [self._use(i) for i in e.indices]) for e in op.elements]
                self._results[op] = instructions.emit(b, op, [self._use(a) for a in op.arguments], addresses, self._entry)
            case nodes.Sleep():
                atomics.sleep(b, self._use(op.nanoseconds))
            case nodes.Print():
                words = [printing.word(b, v.type, self._use(v)) for v in op.values]
                printing.append(b, self._entry.hidden("claim"), self._entry.hidden("kernel"), op.site, words)
            case nodes.If():
                self._if(op)
            case nodes.While():
                self._while(op)
            case nodes.ForRange():
                self._for(op)
            case nodes.Scope():
                self._scopes[op] = end = b.append_basic_block("scope.end")
                self._nested(op.body, end)
                b.position_at_end(end)
            case nodes.Break():
                b.branch(self._loops[-1].done)
            case nodes.Continue():
                b.branch(self._loops[-1].next)
            case nodes.Leave():
                b.branch(self._scopes[op.scope])
            case nodes.Return():
                b.ret_void()
            case _:
                raise TypeError(f"{type(op).__name__} has no lowering to PTX")

    def _nested(self, block: nodes.Block, then: LlvmBlock) -> None:
        """A block of the IR, and where it goes on to unless it ends in a jump."""
        self._block(block)
        if not self._builder.block.is_terminated:
            self._builder.branch(then)

    def _if(self, op: nodes.If) -> None:
        b = self._builder
        then, done = b.append_basic_block("then"), b.append_basic_block("done")
        orelse = b.append_basic_block("else") if op.orelse.ops else done
        b.cbranch(self._use(op.condition), then, orelse)
        b.position_at_end(then)
        self._nested(op.then, done)
        if orelse is not done:
            b.position_at_end(orelse)
            self._nested(op.orelse, done)
        b.position_at_end(done)

    def _while(self, op: nodes.While) -> None:
        b = self._builder
        head, body, orelse, done = (b.append_basic_block(f"while.{name}") for name in ("head", "body", "else", "done"))
        b.branch(head)
        b.position_at_end(head)
        self._block(op.head)
        b.cbranch(self._use(op.condition), body, orelse)
        b.position_at_end(body)
        self._loops.append(_Loop(head, done))
        self._nested(op.body, head)
        self._loops.pop()
        b.position_at_end(orelse)
        self._nested(op.orelse, done)
        b.position_at_end(done)

    def _for(self, op: nodes.ForRange) -> None:
        if self._memory.held is not None or not speculation.may_run_again(op):
            self._loop(op)
            return
        b = self._builder
        if self._held is None:
            self._held = opaque(self._prologue.alloca(ir.IntType(1), name="held"))
        before = {variable: b.load(self._variables[variable], typ=value_type(variable.type)) for variable in speculation.assigned(op)}
        b.store(ir.IntType(1)(1), self._held)
        again, done, first = (b.append_basic_block(name) for name in ("again", "held", "first"))
        tested = speculation.counted(op)
        b.cbranch(self._all_inside(op, tested), first, again).set_weights(HELD)
        b.position_at_end(first)
        self._memory.held, self._memory.tested = self._held, frozenset(tested)
        self._loop(op)
        self._memory.held, self._memory.tested = None, frozenset()
        b.cbranch(b.load(self._held, typ=ir.IntType(1)), done, again).set_weights(HELD)
        b.position_at_end(again)
        for variable, value in before.items():
            b.store(value, self._variables[variable])
        self._loop(op)
        b.branch(done)
        b.position_at_end(done)

    def _all_inside(self, loop: nodes.ForRange, reads: list[nodes.Load]) -> Any:
        """Whether the numbers of a loop that counts upwards are indices of all arrays that are read there."""
        b = self._builder
        start, stop = self._use(loop.start), self._use(loop.stop)
        holds = b.icmp_signed(">=", start, _I64(0)) if reads else ir.IntType(1)(1)
        for memory in dict.fromkeys(read.memory for read in reads):
            holds = b.and_(holds, b.icmp_signed("<=", stop, self._memory.extents(memory)[0]))
        return holds

    def _loop(self, op: nodes.ForRange) -> None:
        """Counts so that no addition overflows: whether there is a next value is decided before it is formed."""
        b = self._builder
        start, stop, step = self._use(op.start), self._use(op.stop), self._use(op.step)
        least, most = _bounds(op.step)
        upwards: bool | None = True if least > 0 else False if most < 0 else None
        body, following, orelse, done = (b.append_basic_block(f"for.{name}") for name in ("body", "next", "else", "done"))
        before = b.block
        b.cbranch(self._reaches(start, stop, step, upwards), body, orelse)
        b.position_at_end(body)
        counter = self._values[op.counter] = b.phi(_I64)
        counter.add_incoming(start, before)
        self._loops.append(_Loop(following, done))
        self._nested(op.body, following)
        self._loops.pop()
        b.position_at_end(following)
        b.debug_metadata = self._lines.at(op.location)
        if upwards is not None and _is_short(op):
            advanced = b.add(counter, step, flags=("nsw",))
            again = b.icmp_signed("<" if upwards else ">", advanced, stop)
        else:
            advanced = b.add(counter, step)
            again = self._has_next(counter, stop, step, upwards)
        counter.add_incoming(advanced, b.block)
        b.cbranch(again, body, orelse)
        b.position_at_end(orelse)
        self._nested(op.orelse, done)
        b.position_at_end(done)

    def _reaches(self, start: Any, stop: Any, step: Any, upwards: bool | None) -> Any:
        """Whether there is a first trip."""
        b = self._builder
        below, above = b.icmp_signed("<", start, stop), b.icmp_signed(">", start, stop)
        if upwards is not None:
            return below if upwards else above
        up, down = b.icmp_signed(">", step, _I64(0)), b.icmp_signed("<", step, _I64(0))
        return b.or_(b.and_(up, below), b.and_(down, above))

    def _has_next(self, counter: Any, stop: Any, step: Any, upwards: bool | None) -> Any:
        """Whether the way that is left is longer than a step; both are lengths, so unsigned."""
        b = self._builder
        up, down = b.icmp_unsigned(">", b.sub(stop, counter), step), b.icmp_unsigned(">", b.sub(counter, stop), b.sub(_I64(0), step))
        if upwards is not None:
            return up if upwards else down
        return b.select(b.icmp_signed(">", step, _I64(0)), up, down)

    # ----------------------------------------------------------------------------------------------------------------- values

    def _use(self, value: nodes.ValueOp) -> Any:
        return self._values[value]

    def _rank(self, remote: nodes.ValueOp | None) -> Any:
        return None if remote is None else self._use(remote)

    def _value(self, op: nodes.ValueOp) -> Any:
        b = self._builder
        match op:
            case nodes.ParameterValue():
                return self._in_front(op.parameter, lambda: self._parameter(op.parameter))
            case nodes.Length():
                return self._entry.length(op.view, op.dimension)
            case nodes.Special():
                return self._in_front(op.name, lambda: self._special(op.name))
            case nodes.OnGpu():
                return ir.IntType(1)(1)
            case nodes.Get():
                return b.load(self._variables[op.variable], typ=value_type(op.type))
            case nodes.Load():
                return self._memory.load(op, [self._use(i) for i in op.indices], self._rank(op.remote))
            case nodes.Check():
                return self._memory.check(op, [self._use(i) for i in op.indices], self._rank(op.remote))
            case nodes.Exchange():
                return self._exchange(op)
            case nodes.Agreed():
                return self._agreed(op)
            case nodes.Atomic():
                arguments = [self._use(a) for a in op.arguments]
                return self._memory.atomic(op, [self._use(i) for i in op.indices], arguments, self._rank(op.remote))
            case nodes.Result():
                return self._results[op.of][op.index]
            case nodes.Clock():
                return atomics.clock(b, op.name)
            case _:
                return self._arithmetic.emit(op, *(self._use(o) for o in nodes.operands(op)))

    def _in_front(self, key: object, make: Any) -> Any:
        """A value that is the same wherever it is asked for, emitted once in front of the body."""
        if key not in self._once:
            self._once[key] = make()
        return self._once[key]

    def _parameter(self, parameter: nodes.ScalarParameter) -> Any:
        argument = self._entry.value(parameter, self._prologue)
        return self._prologue.icmp_unsigned("!=", argument, ir.IntType(8)(0)) if parameter.type.is_bool else argument

    def _special(self, name: nodes.SpecialName) -> Any:
        place = self._places
        match name.split("."):
            case ["thread_idx", axis]:
                narrow = place.thread(axis)
            case ["block_idx", axis]:
                narrow = self._block_indices()["xyz".index(axis)]
            case ["grid_dim", axis]:
                narrow = self._entry.hidden(f"grid_{axis}")
            case ["thread_rank"]:
                narrow = place.rank()
            case ["lane_index"]:
                narrow = place.lane()
            case ["cluster_rank"]:
                narrow = cluster_rank(self._prologue, self._kernel.attributes.cluster_size)
            case ["warp_group_index"]:
                narrow = place.warp_group()
            case _:
                narrow = place.warp()
        return self._prologue.zext(narrow, _I64)

    def _block_indices(self) -> tuple[Any, Any, Any]:
        if self._block_index is None:
            grid = self._entry.hidden("grid_x"), self._entry.hidden("grid_y")
            self._block_index = block_indices(
                self._prologue, linear_block(self._prologue), *grid, self._kernel.grid_rank, self._entry.cluster
            )
        return self._block_index

    def _agreed(self, op: nodes.Agreed) -> Any:
        value = self._use(op.value)
        taken = agreement.of_block(self._builder, value) if op.among == "block" else agreement.of_warp(self._builder, value)
        self._memory.assertion(self._builder.icmp_unsigned("==", taken, value), op.site)
        return taken

    def _exchange(self, op: nodes.Exchange) -> Any:
        if self._exchanges is None:
            self._exchanges = Exchanges(self._builder, self._arithmetic, self._places.lane())
        mask = None if op.mask is None else self._use(op.mask)
        return self._exchanges.emit(op, [self._use(a) for a in op.arguments], mask, whole=op not in self._absent)


def _is_short(op: nodes.ForRange) -> bool:
    """Whether the whole way, with a step behind its end, is known to fit into an i64, and so is every value on it: then signed numbers tell the order.

    Where start and stop are farther apart, ptxas 13.0 miscounts the trips of such a loop.
    """
    starts, stops, steps = _bounds(op.start), _bounds(op.stop), _bounds(op.step)
    longest = max(map(abs, steps))
    low, high = min(starts[0], stops[0]), max(starts[1], stops[1])
    return high - low + longest <= _LARGEST and stops[1] + longest <= _LARGEST and stops[0] - longest >= -_LARGEST


def _bounds(value: nodes.ValueOp) -> tuple[int, int]:
    """The smallest and the largest value that an integer can take, as far as is known."""
    if isinstance(value, nodes.Constant):
        return int(value.value), int(value.value)
    if value.range is None and isinstance(value, nodes.Length):
        return 0, LONGEST_VIEW
    return value.range or (value.type.minimum, value.type.maximum)
