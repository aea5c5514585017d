"""The state of emitting one kernel, and the dispatch from IR operations to the parts that emit them.

Parts: `lanes` (index arithmetic), `masks`, `storage` (where arrays lie), `memory` and `vector_access` (loads, stores), `checks` and `record` (what fails),
`clear` (local arrays begin), `exchange`, `atomics`, `specials` (where a thread stands), `control`, `regions` (blocks, groups, barriers).
Invariants: `mask` says which lanes are active at the builder's position; code is only reached while at least one lane is (unless `guarded` is False:
flattened branches); after a jump `dead` is True and the current LLVM block is closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from kdsl.backend.cpu import atomics, instructions, printing, quotients
from kdsl.backend.cpu.arithmetic import Avx512Arithmetic
from kdsl.backend.cpu.clear import clear
from kdsl.backend.cpu.constants import Builder
from kdsl.backend.cpu.frames import Frame
from kdsl.backend.cpu.host import HostCpu
from kdsl.backend.cpu.lanes import I64, POINTER, LaneArithmetic, Lanes, Linear, Uniform, Vector, modest
from kdsl.backend.cpu.masked import bytes_of
from kdsl.backend.cpu.masks import Mask, Masks
from kdsl.backend.cpu.split import Part, splits
from kdsl.backend.cpu.wide import Attempt, wide_width
from kdsl.backend.llvm.arithmetic import Arithmetic
from kdsl.backend.llvm.module import value_type
from kdsl.ir import nodes
from kdsl.ir.abi import extent_slot
from kdsl.ir.uniformity import Level, Uniformity

if TYPE_CHECKING:
    from kdsl.backend.cpu.rounds import Turn


class Emission:
    """Everything that the parts share while one kernel is emitted."""

    keeps_order = False
    """Whether blocks run in the order of their numbers."""

    def __init__(self, kernel: nodes.Kernel, host: HostCpu, width: int, module: ir.Module, narrow: Emission | None = None) -> None:
        """`narrow` is the emission of the same kernel for groups of the usual width, to whose code that for wide groups belongs."""
        from kdsl.backend.cpu.checks import Checks
        from kdsl.backend.cpu.control import Control
        from kdsl.backend.cpu.exchange import Exchanges
        from kdsl.backend.cpu.plan import Plan
        from kdsl.backend.cpu.record import Failures
        from kdsl.backend.cpu.regions import Regions
        from kdsl.backend.cpu.scratch import Scratch
        from kdsl.backend.cpu.specials import Specials
        from kdsl.backend.cpu.storage import Storage
        from kdsl.backend.cpu.vector_access import VectorAccess

        self.kernel = kernel
        self.host = host
        self.width = width
        self.groups = -(-kernel.threads // width)
        self.uniformity = Uniformity(kernel, width)
        self.plan: Plan = Plan(kernel, self.uniformity) if narrow is None else narrow.plan.of(self.uniformity)
        self.splits = splits(kernel, self.plan, host, width, wide=narrow is not None)
        self.module = module
        self.builder: ir.IRBuilder = Builder() if narrow is None else narrow.builder
        self.scalars = Arithmetic(self.builder)
        self.vectors = Avx512Arithmetic(self.builder, width, host.vector_bits) if host.compact_masks else Arithmetic(self.builder, width)
        self.lanes = LaneArithmetic(self.builder, width, host.compact_masks, sure=narrow is not None)
        self.masks = Masks(self.builder, width, compact=host.compact_masks)
        self.scratch: Scratch = Scratch(self) if narrow is None else narrow.scratch
        self.failures = Failures(self)
        self.storage: Storage = Storage(self) if narrow is None else narrow.storage.of(self)
        self.checks = Checks(self)
        self.memory = VectorAccess(self)
        self.exchanges = Exchanges(self)
        self.specials = Specials(self)
        self.control = Control(self)
        self.regions = Regions(self)

        self.arguments: dict[str, Any] = {} if narrow is None else narrow.arguments
        """LLVM values of the slots of `ir.abi`, by their names."""
        self.values: dict[nodes.ValueOp, Lanes] = {}
        """What has been emitted and may be used at the builder's position."""
        self.results: dict[nodes.Op, Sequence[Lanes]] = {}
        """What operations of several results yielded that have been emitted."""
        self.mask: Mask = None
        """Active lanes."""
        self.dead = False
        """Whether the builder's position cannot be reached."""
        self.guarded = True
        """Whether some lane is sure to be active."""
        self.frame = Frame()
        """The set of lanes of the surrounding control."""
        self.homes: dict[nodes.Variable, Frame] = {}
        """Frame of the home of each variable."""
        self.variables: dict[nodes.Variable, Any] = {}
        """Stack slots of variables."""
        self.buffers: dict[object, Any] = {}
        """Stack slots for what goes through memory within one operation, by what they are for."""
        self.attempt: Attempt | None = None
        """The region that is being emitted for a wide group; None in groups of the usual width."""
        self.is_fallback = False
        """Whether wide groups have a region for themselves and only give here what stands out of line, so that small code matters more than fast code."""
        wider = wide_width(kernel, host, width) if narrow is None else None
        self.wide: Emission | None = None if wider is None else Emission(kernel, host, wider, module, self)
        """The emission of wide groups, if the kernel has them."""
        self.turn: Turn | None = None
        """The turn of a block in its round, if blocks take turns."""
        self.only: Part | None = None
        """The operations that are emitted of a loop that is split; None for all."""

    # ------------------------------------------------------------------------------------------------------------------ basics

    def allocate(self, kind: ir.Type, name: str = "") -> Any:
        """A slot in the frame of the function."""
        with self.builder.goto_entry_block():
            return self.builder.alloca(kind, name=name)

    def buffer(self, kind: ir.Type, use: object) -> Any:
        """A slot that all operations of one kind share."""
        if use not in self.buffers:
            self.buffers[use] = self.allocate(kind, "buffer")
            self.buffers[use].type = POINTER  # llvmlite would hold on to the type of what it points to
        return self.buffers[use]

    def append(self, name: str) -> ir.Block:
        """A new LLVM block."""
        return self.builder.function.append_basic_block(name)

    def i64(self, value: int) -> ir.Constant:
        """An i64 constant."""
        return ir.Constant(I64, value)

    def value(self, op: nodes.ValueOp) -> Lanes:
        """The value of an operation that has been emitted."""
        return self.values[op]

    def vector(self, op: nodes.ValueOp) -> Any:
        """The LLVM vector of an operation's value."""
        return self.lanes.vector(self.value(op))

    def scalar(self, value: Lanes) -> Any:
        """The LLVM scalar of a value that is uniform among the active lanes."""
        if isinstance(value, Uniform):
            return value.scalar
        return self.masks.lane(self.lanes.vector(value), self.mask)

    def select(self, mask: Any, a: Any, b: Any) -> Any:
        """`a` in the lanes of a mask, `b` in the others."""
        if a.type == self.masks.type:
            return self.builder.select(mask, a, b)
        return self.masks.parts.select(mask, a, b, self.host.vector_bits // 8 // bytes_of(a.type.element))

    def is_uniform(self, op: nodes.ValueOp) -> bool:
        """Whether the analysis says that all lanes of a group agree on a value."""
        return self.uniformity.level(op) < Level.LANE

    # -------------------------------------------------------------------------------------------------------------- operations

    def block(self, block: nodes.Block) -> None:
        """Emit a nested block: at block level by its plan, else in order."""
        self.enter(block)
        if self.regions.at_block_level and block in self.plan.items:
            self.regions.block_level(block)
        else:
            self.operations(block)

    def enter(self, block: nodes.Block) -> None:
        """Start the variables whose home is this block."""
        for variable in self.plan.homes.get(block, ()):
            self.homes[variable] = self.frame
            if variable in self.variables:
                slot, kind = self.variables[variable], self.variable_type(variable)
                # a defined value in the lanes that have none yet: LLVM may do anything with an undefined one
                self.builder.store(ir.Constant(kind, None), slot)

    def variable_type(self, variable: nodes.Variable) -> ir.Type:
        """The LLVM type of a variable's slot."""
        uniform = self.uniformity.variable(variable) < Level.LANE
        return value_type(variable.type, None if uniform else self.width)

    def operations(self, ops: Iterable[nodes.Op]) -> None:
        """Emit operations in order, until one that control does not pass."""
        for op in ops:
            if self.only is not None and op not in self.only:
                continue
            self.operation(op)
            if self.dead:
                return

    def operation(self, op: nodes.Op) -> None:
        """Emit one operation."""
        match op:
            case nodes.ValueOp():
                self.values[op] = self.define(op)
                self.regions.defined(op)
            case nodes.Set():
                self.assign(op.variable, self.value(op.value))
            case nodes.Store():
                self.memory.store(op)
            case nodes.Clear():
                clear(self, op.array)
            case nodes.LoadVector():
                self.results[op] = self.memory.load_vector(op)
            case nodes.StoreVector():
                self.memory.store_vector(op)
            case nodes.Assertion():
                self.checks.assertion(op)
            case nodes.Print():
                printing.lines(self, op)
            case nodes.Fence():
                atomics.fence(self, op)
            case nodes.Instruction():
                self.results[op] = instructions.emit(self, op)
            case nodes.Barrier():
                pass  # regions end here; the sanitizer has more to do
            case _:
                self.control.operation(op)

    def assign(self, variable: nodes.Variable, value: Lanes) -> None:
        """Set a variable in the active lanes."""
        slot = self.variables[variable]
        if self.uniformity.variable(variable) < Level.LANE:
            self.builder.store(self.scalar(value), slot)
            return
        new = self.lanes.vector(value)
        if self.mask is not None and self.homes[variable] is not self.frame:
            new = self.select(self.mask, new, self.builder.load(slot, typ=new.type))
        self.builder.store(new, slot)

    def define(self, op: nodes.ValueOp) -> Lanes:
        """The value of an operation."""
        match op:
            case nodes.Constant():
                scalar = self.scalars.emit(op)
                return Uniform(scalar, abs(int(op.value))) if op.type.is_integer else Uniform(scalar)
            case nodes.ParameterValue():
                return Uniform(self.arguments[op.parameter.name])
            case nodes.Length():
                return Uniform(self.arguments[extent_slot(op.view.name, op.view.rank, op.dimension)])
            case nodes.Special():
                return self.specials.value(op.name)
            case nodes.OnGpu():
                return Uniform(ir.Constant(ir.IntType(1), 0))
            case nodes.Approximation():
                return Uniform(ir.Constant(value_type(op.type), None))  # it is never reached
            case nodes.Get():
                uniform = self.uniformity.variable(op.variable) < Level.LANE
                loaded = self.builder.load(self.variables[op.variable], typ=self.variable_type(op.variable))
                return Uniform(loaded) if uniform else Vector(loaded)
            case nodes.Load():
                return self.memory.load(op)
            case nodes.Agreed():
                return self.value(op.value)  # it is read once for all that must agree
            case nodes.Check():
                return self.checks.inside(op)
            case nodes.Exchange():
                return self.exchanges.value(op)
            case nodes.Result():
                return self.results[op.of][op.index]
            case nodes.Atomic():
                return atomics.value(self, op)
            case nodes.Compare():
                return self._compare(op)
            case nodes.Binary() | nodes.Unary() if op.type.is_bool and self.attempt is not None:
                return self._logic(op) or self._pure(op)
            case nodes.Binary() if op.type.is_integer:
                return self._integer(op) or self._pure(op)
            case nodes.Cast() if op.type.is_integer and op.operand.type.is_integer:
                operand = self.value(op.operand)
                if isinstance(operand, Linear):
                    return self.lanes.convert(operand, op.operand, value_type(op.type)) or self._pure(op)
                result = self._pure(op)
                if isinstance(operand, Uniform) and isinstance(result, Uniform):
                    return Uniform(result.scalar, operand.multiple & -operand.multiple or 1)
                return result
            case _:
                return self._pure(op)

    def _pure(self, op: nodes.ValueOp) -> Lanes:
        operands = [self.value(o) for o in nodes.operands(op)]
        if all(isinstance(o, Uniform) for o in operands):
            return Uniform(self.scalars.emit(op, *(o.scalar for o in operands if isinstance(o, Uniform))))
        quotient = quotients.by_uniform(self, op, operands)
        if quotient is not None:
            return quotient
        if isinstance(op, nodes.Select) and isinstance(operands[0], Uniform):
            vectors = [operands[0].scalar, self.lanes.vector(operands[1]), self.lanes.vector(operands[2])]
        else:
            vectors = [self.lanes.vector(o) for o in operands]
        if isinstance(op, nodes.Select) and not op.type.is_bool and not isinstance(operands[0], Uniform):
            return Vector(self.select(*vectors))
        if isinstance(op, nodes.Binary) and self.mask is not None and op.op in ("floordiv", "mod", "shl", "shr"):
            vectors = self._tamed(op, operands, vectors)
        return Vector(self.vectors.emit(op, *vectors))

    def _tamed(self, op: nodes.Binary, operands: list[Lanes], vectors: list[Any]) -> list[Any]:
        """Harmless operands in inactive lanes: the known ranges, on which the code for division and shifts relies, hold in active ones only."""
        divides = op.op in ("floordiv", "mod")
        harmless = self.vectors.constant(op.type, 1 if divides else 0)
        kept = [isinstance(o, Uniform) or not (divides or o is operands[1]) for o in operands]
        return [v if keep else self.builder.select(self.mask, v, harmless) for keep, v in zip(kept, vectors, strict=True)]

    def _compare(self, op: nodes.Compare) -> Lanes:
        left, right = self.value(op.left), self.value(op.right)
        if isinstance(left, Linear) or isinstance(right, Linear):
            found = self.lanes.compare(op.op, left, right, op.left, op.right)
            if found is not None:
                return found
        return self._pure(op)

    def _logic(self, op: nodes.Binary | nodes.Unary) -> Lanes | None:
        """Logic in a wide group, where it should stay known whether all lanes agree."""
        operands = [self.value(o) for o in nodes.operands(op)]
        if all(isinstance(o, Uniform) for o in operands):
            return None
        match op.op:
            case "and":
                return self.lanes.both(*operands)
            case "or":
                return self.lanes.either(*operands)
            case "not" if isinstance(operands[0], Vector):
                return self.lanes.opposite(operands[0])
            case _:
                return None

    def _without_carry(self, op: nodes.Binary, left: Lanes, right: Lanes) -> Lanes | None:
        """A quotient or remainder of a wide group that does not pass a multiple of the divisor, as the place of an element in its row; else it gives up."""
        if self.attempt is None or self.mask is not None or op.op not in ("floordiv", "mod"):
            return None
        if not isinstance(left, Linear) or not isinstance(right, Uniform) or left.offsets is None or min(left.offsets) != 0:
            return None
        if not modest(op.left) or op.left.range is None or op.left.range[0] < 0:
            return None
        b = self.builder
        self.attempt.require(b.icmp_signed(">", right.scalar, self.i64(0)))
        rest = b.urem(left.base, right.scalar)
        self.attempt.require(b.icmp_unsigned("<", b.add(rest, self.i64(max(left.offsets))), right.scalar))
        return Uniform(b.udiv(left.base, right.scalar)) if op.op == "floordiv" else Linear(rest, left.terms)

    def _integer(self, op: nodes.Binary) -> Lanes | None:
        """Integer arithmetic on linear values and on uniform ones whose multiples are worth knowing; None leaves it to the general case."""
        left, right = self.value(op.left), self.value(op.right)
        match op.op:
            case "add":
                return self.lanes.add(left, right)
            case "sub":
                return self.lanes.subtract(left, right)
            case "mul":
                return self.lanes.multiply(left, right)
        if not isinstance(op.right, nodes.Constant):
            return self._without_carry(op, left, right)
        number = int(op.right.value)
        if op.op == "shl" and 0 <= number < op.type.bits:
            return self.lanes.multiply(left, self.lanes.number(value_type(op.type), 1 << number))
        if not isinstance(left, Linear) or not modest(op.left):
            return None
        if op.op in ("floordiv", "mod") and number > 0:
            parts = self.lanes.divide(left, number, op.left)
            return self._without_carry(op, left, right) if parts is None else parts[0 if op.op == "floordiv" else 1]
        if op.op == "shr" and 0 <= number < 48:
            parts = self.lanes.divide(left, 1 << number, op.left)
            return None if parts is None else parts[0]
        if op.op == "and" and number > 0 and number & (number + 1) == 0:
            parts = self.lanes.divide(left, number + 1, op.left)
            return None if parts is None else parts[1]
        return None
