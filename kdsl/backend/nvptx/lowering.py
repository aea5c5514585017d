"""From the typed IR to an LLVM function: control flow and the evaluation of operations.

Control becomes basic blocks, variables become stack slots that LLVM turns into registers, everything else is passed on: arithmetic to the code shared with
the CPU, memory, exchange and indices to their modules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from llvmlite import ir

from kdsl.backend.llvm import printing
from kdsl.backend.llvm.module import call_intrinsic, intrinsic, loop_that_stays, value_type
from kdsl.backend.nvptx import again, agreement, assembly, atomics, instructions, speculation, strips
from kdsl.backend.nvptx.arithmetic import PtxArithmetic
from kdsl.backend.nvptx.entry import LONGEST_VIEW, Entry, opaque
from kdsl.backend.nvptx.exchange import Exchanges
from kdsl.backend.nvptx.layout import SECOND_RUN
from kdsl.backend.nvptx.lines import Lines
from kdsl.backend.nvptx.memory import HELD, Memory
from kdsl.backend.nvptx.places import Fresh, Places, block_indices, cluster_rank, linear_block
from kdsl.backend.nvptx.row_checks import Key, Row, key_of, rows_hold
from kdsl.ir import nodes
from kdsl.ir.absence import with_absent_lanes

_I1: Final = ir.IntType(1)
_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
_LARGEST: Final = (1 << 63) - 1
_LARGEST_I32: Final = (1 << 31) - 1

LlvmBlock: TypeAlias = Any
LoopOp = TypeVar("LoopOp", nodes.ForRange, nodes.While)


@dataclass(frozen=True)
class _Loop:
    """Where the jumps of a loop lead."""

    next: LlvmBlock
    """To the next trip."""
    done: LlvmBlock
    """Behind the loop and its `orelse`."""


class Lowering:
    """Emits one kernel into a module."""

    def __init__(self, kernel: nodes.Kernel, name: str, lines: Lines, capability: int, *, first: Lowering | None = None) -> None:
        self._kernel = kernel
        self._first = first
        """The first run, if this is the second one (`again`)."""
        self._entry: Entry = first._entry if first is not None else Entry(lines.module, kernel, name)
        self._second = functools.partial(Lowering, kernel, name, lines, capability, first=self)
        function = self._entry.function
        # What every part of the body may use stands in front of it: parameters, indices, slots of variables
        if first is None:
            self._prologue = ir.IRBuilder(function.append_basic_block("entry"))
            self._lines = lines.of(kernel, function)
        else:
            self._prologue = Fresh(first._leave())
            self._lines = first._lines
        self._slots: ir.IRBuilder = first._slots if first is not None else self._prologue
        self._body = function.append_basic_block("body")
        self._builder = ir.IRBuilder(self._body)
        self._left: LlvmBlock | None = None
        self._prologue.debug_metadata = self._lines.at(kernel.location)
        if first is not None:
            assembly.statement(self._prologue, SECOND_RUN)
        self._arithmetic = PtxArithmetic(self._builder)
        self._places = Places(kernel, self._prologue)
        self._memory = Memory(kernel, self._entry, self._builder, self._slots, capability)
        self._absent = with_absent_lanes(kernel, lambda op: isinstance(op, nodes.Exchange))
        self._exchanges: Exchanges | None = None
        self._block_index: tuple[Any, Any, Any] | None = None
        self._once: dict[object, Any] = {}
        self._values: dict[nodes.ValueOp, Any] = {}
        self._results: dict[nodes.Op, Sequence[Any]] = {}
        self._variables = {v: opaque(self._slots.alloca(value_type(v.type), name=f"variable{n}")) for n, v in enumerate(kernel.variables)}
        self._held: Any = None
        self._loops: list[_Loop] = []
        self._scopes: dict[nodes.Scope, LlvmBlock] = {}
        if first is None and again.suits(kernel):
            self._memory.leave = self._leave

    def run(self) -> None:
        """Emit everything."""
        self._block(self._kernel.body)
        if not self._builder.block.is_terminated:
            self._return()
        if self._left is not None:
            self._second().run()
        self._prologue.branch(self._body)

    def _return(self) -> None:
        if self._first is not None:  # LLVM would let both runs end in the same code, so that their ways meet
            assembly.statement(self._builder, "// end of the second run")
        self._builder.ret_void()

    def _leave(self) -> LlvmBlock:
        """Where a thread begins again."""
        if self._left is None:
            self._left = self._builder.append_basic_block("again")
        return self._left

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
                self._memory.leave = None if again.is_seen(op) else self._memory.leave
            case nodes.Clear():
                self._memory.clear(op.array)
            case nodes.LoadVector():
                self._results[op] = self._memory.load_vector(op, [self._use(i) for i in op.indices], self._rank(op.remote))
            case nodes.StoreVector():
                values = [self._use(v) for v in op.values]
                self._memory.store_vector(op, [self._use(i) for i in op.indices], values, self._rank(op.remote))
                self._memory.leave = None if again.is_seen(op) else self._memory.leave
            case nodes.Assertion():
                self._memory.assertion(self._use(op.condition), op.site, [self._use(value) for value in op.about or ()])
            case nodes.Barrier():
                name = "llvm.nvvm.barrier.cta.sync.aligned.all"
                b.call(intrinsic(b.module, name, ir.VoidType(), [_I32], convergent=True), [_I32(0)])
            case nodes.Fence():
                atomics.fence(b, op)
            case nodes.Instruction():
                addresses = [self._memory.address(e.memory, [self._use(i) for i in e.indices], self._rank(e.remote)) for e in op.elements]
                self._results[op] = instructions.emit(b, op, [self._use(a) for a in op.arguments], addresses, self._entry)
            case nodes.Sleep():
                atomics.sleep(b, self._use(op.nanoseconds))
            case nodes.Print():
                words = [printing.word(b, v.type, self._use(v)) for v in op.values]
                printing.append(b, self._entry.hidden("claim"), self._entry.hidden("kernel"), op.site, words)
            case nodes.If():
                self._if(op)
            case nodes.While():
                self._recording(op, self._while)
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
                self._return()
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
        if self._first is not None or self._memory.trial is not None or not speculation.may_run_again(op):
            self._recording(op, self._loop)
        elif self._memory.leave is not None and (trips := strips.trips(op)) > 1:
            self._in_strips(op, trips)
        else:
            self._tried(op)

    def _tried(self, op: nodes.ForRange) -> None:
        """A loop that goes on whether its checks hold or not, and is asked afterwards."""
        b, leave = self._builder, self._memory.leave
        if self._held is None:
            self._held = opaque(self._slots.alloca(_I1, name="held"))
        before = {}
        if leave is None:
            before = {variable: b.load(self._variables[variable], typ=value_type(variable.type)) for variable in speculation.assigned(op)}
        b.store(_I1(1), self._held)
        done, first = b.append_basic_block("held"), b.append_basic_block("first")
        failed = b.append_basic_block("failed") if leave is None else leave()
        tested = speculation.counted(op)
        b.cbranch(self._all_inside(op, tested), first, failed).set_weights(HELD)
        b.position_at_end(first)
        self._memory.trial, self._memory.leave = speculation.Trial(self._held, frozenset(tested)), None
        self._loop(op)
        self._memory.trial, self._memory.leave = None, leave
        b.cbranch(b.load(self._held, typ=_I1), done, failed).set_weights(HELD)
        if leave is None:
            b.position_at_end(failed)
            for variable, value in before.items():
                b.store(value, self._variables[variable])
            self._loop(op)
            b.branch(done)
        b.position_at_end(done)

    def _all_inside(self, loop: nodes.ForRange, reads: list[nodes.Load]) -> Any:
        """Whether the numbers of a loop that counts upwards are indices of all arrays that are read there."""
        b = self._builder
        start, stop = self._use(loop.start), self._use(loop.stop)
        lengths = [self._memory.extents(memory)[0] for memory in dict.fromkeys(read.memory for read in reads)]
        if not lengths:
            return _I1(1)
        if _fits(loop.start) and _fits(loop.stop):  # a number below 0 is a large unsigned one, above all lengths
            lengths = [b.trunc(call_intrinsic(b, "llvm.umin.i64", _I64, length, _I64(_LARGEST_I32)), _I32) for length in lengths]
            last = call_intrinsic(b, "llvm.umax.i32", _I32, b.trunc(start, _I32), b.trunc(stop, _I32))
            return functools.reduce(b.and_, (b.icmp_unsigned("<=", last, length) for length in lengths))
        return functools.reduce(b.and_, (b.icmp_signed("<=", stop, length) for length in lengths), b.icmp_signed(">=", start, _I64(0)))

    def _in_strips(self, op: nodes.ForRange, trips: int) -> None:
        """A loop of `trips` trips at a time, a power of two; those that are left come as strips of half as many, each once or not at all."""
        b, settled = self._builder, self._memory.settled
        start, stop, tested = self._use(op.start), self._use(op.stop), speculation.counted(op)
        begins, head, body, rest, done = (b.append_basic_block(name) for name in ("begins", "strip.head", "strip", "strips.rest", "done"))
        b.cbranch(b.icmp_signed("<", start, stop), begins, done)
        b.position_at_end(begins)
        self._memory.go_on(self._all_inside(op, tested))
        self._memory.settled = settled | {*tested, *strips.rows(op)}
        self._keep_columns(op)
        kind = _I32 if _fits(op.start) and _fits(op.stop) else _I64  # of the trips that are left, a number without a sign
        left, before = b.trunc(b.sub(stop, start), kind), b.block
        b.branch(head)
        b.position_at_end(head)
        number, still = b.phi(_I64), b.phi(kind)
        number.add_incoming(start, before)
        still.add_incoming(left, before)
        b.cbranch(b.icmp_unsigned(">=", still, kind(trips)), body, rest)
        b.position_at_end(body)
        number.add_incoming(self._strip(op, number, trips), b.block)
        still.add_incoming(b.sub(still, kind(trips), flags=("nuw",)), b.block)
        b.branch(head).set_metadata("llvm.loop", loop_that_stays(b.module))
        b.position_at_end(rest)
        number = b.sub(stop, b.zext(still, _I64))  # the loop's own would take registers there
        while trips := trips // 2:
            before, body, after = b.block, b.append_basic_block("strip"), b.append_basic_block("strips.rest")
            b.cbranch(b.icmp_unsigned("!=", b.and_(still, kind(trips)), kind(0)), body, after)
            b.position_at_end(body)
            behind, body = self._strip(op, number, trips), b.block
            b.branch(after)
            b.position_at_end(after)
            merged = b.phi(_I64)
            merged.add_incoming(number, before)
            merged.add_incoming(behind, body)
            number = merged
        b.branch(done)
        b.position_at_end(done)
        self._memory.settled = settled

    def _keep_columns(self, loop: nodes.ForRange) -> None:
        """Have what is the same in all trips of a row's address in front of them: LLVM would keep one for a strip and compute others in those behind it."""
        b, inside, known = self._builder, again.values_of(loop), dict[nodes.ValueOp, Any]()
        for read in strips.rows(loop):
            assert isinstance(read.memory, nodes.View)
            assert read.row_check is not None
            if again.is_the_same(read.row_check.rest, inside):
                column = self._memory.column(read.memory, self._early(read.row_check.rest, known, inside))
                assembly.needed(b, b.ptrtoint(column, _I64))

    def _strip(self, op: nodes.ForRange, number: Any, trips: int) -> Any:
        """So many trips of a loop from a number on, after a check of all their rows. Yields the number behind them."""
        b, leave = self._builder, self._memory.leave
        numbers = [b.add(number, _I64(trip), flags=("nuw", "nsw")) for trip in range(trips)]
        self._rows_hold(op, numbers)
        self._memory.leave = None
        for at in numbers:
            self._values[op.counter] = at
            self._block(op.body)
        self._memory.leave = leave
        return b.add(number, _I64(trips), flags=("nuw", "nsw"))

    def _rows_hold(self, loop: nodes.ForRange, numbers: list[Any]) -> None:
        """Leave unless there are all rows of these trips."""
        inside, rows = again.values_of(loop), dict[Key, list[Any]]()
        for number in numbers:
            values: dict[nodes.ValueOp, Any] = {loop.counter: number}
            for read in strips.rows(loop):
                assert read.row_check is not None
                rows.setdefault(key_of(read.row_check), []).append(self._early(read.row_check.row, values, inside))
        for key, found in rows.items():
            self._memory.go_on(rows_hold(self._builder, key, found, self._use))

    def _early(self, value: nodes.ValueOp, known: dict[nodes.ValueOp, Any], inside: set[nodes.Op]) -> Any:
        """A value of a trip, or of all trips, before they come; `known` are those that have been computed."""
        if value not in inside:
            return self._use(value)
        if value not in known:
            operands = [self._early(operand, known, inside) for operand in nodes.operands(value)]
            known[value] = self._memory.load(value, operands) if isinstance(value, nodes.Load) else self._arithmetic.emit(value, *operands)
        return known[value]

    def _recording(self, loop: LoopOp, emit: Callable[[LoopOp], None]) -> None:
        """A loop whose checks record: LLVM does not unroll one that is left from within."""
        leave, settled = self._memory.leave, self._memory.settled
        if leave is not None:
            self._memory.settled = settled | self._settled(loop)
        self._memory.leave = None
        emit(loop)
        self._memory.leave, self._memory.settled = None if again.is_seen(loop) else leave, settled

    def _settled(self, loop: nodes.ForRange | nodes.While) -> set[nodes.Op]:
        """Check before a loop what is the same in every trip. A thread may begin again at any time, so the loop need not come to it."""
        found, inside, known = set[nodes.Op](), again.values_of(loop), dict[nodes.ValueOp, Any]()
        for op in again.in_every_trip(loop):
            row = op.row_check if isinstance(op, nodes.Load) else None
            places = [row.row] if row is not None else [*op.indices]
            if all(again.is_the_same(place, inside) for place in places):
                values = [self._early(place, known, inside) for place in places]
                holds = self._memory.inside(op, values) if row is None else rows_hold(self._builder, key_of(row), values, self._use)
                self._memory.go_on(holds)
                found.add(op)
        return found

    def _loop(self, op: nodes.ForRange) -> None:
        """Counts so that no addition overflows: whether there is a next value is decided before it is formed."""
        b = self._builder
        start, stop, step = self._use(op.start), self._use(op.stop), self._use(op.step)
        upwards = _direction(op.step)
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
            more = b.icmp_signed("<" if upwards else ">", advanced, stop)
        else:
            advanced = b.add(counter, step)
            more = self._has_next(counter, stop, step, upwards)
        counter.add_incoming(advanced, b.block)
        back = b.cbranch(more, body, orelse)
        if self._first is not None and not (isinstance(op.start, nodes.Constant) and isinstance(op.stop, nodes.Constant)):
            back.set_metadata("llvm.loop", loop_that_stays(b.module))
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
                row = Row.of(b, op.row_check, self._use) if op.row_check is not None else None
                return self._memory.load(op, [self._use(i) for i in op.indices], self._rank(op.remote), row)
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


def _direction(step: nodes.ValueOp) -> bool | None:
    """Whether a loop counts upwards, None if that is not known."""
    least, most = _bounds(step)
    return True if least > 0 else False if most < 0 else None


def _fits(value: nodes.ValueOp) -> bool:
    """Whether a number fits 32 bits with a sign."""
    low, high = _bounds(value)
    return low >= -_LARGEST_I32 - 1 and high <= _LARGEST_I32


def _bounds(value: nodes.ValueOp) -> tuple[int, int]:
    """The smallest and the largest value that an integer can take, as far as is known."""
    if isinstance(value, nodes.Constant):
        return int(value.value), int(value.value)
    if value.range is None and isinstance(value, nodes.Length):
        return 0, LONGEST_VIEW
    return value.range or (value.type.minimum, value.type.maximum)
