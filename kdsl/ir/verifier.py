"""Checks that a kernel in the IR is well formed, so that a mistake of the frontend shows itself here and not in a backend.

Checked: types of operands and results, definition before use (with the nesting of blocks), jumps that have a target and stand last, accesses with one
index per dimension, sites that exist, values of constants. What is not checked: convergence, definite assignment, witnesses (the frontend's rules).
"""

from __future__ import annotations

from collections.abc import Iterable

from kdsl.ir import nodes
from kdsl.lang.caching import HOW, PREFETCHES
from kdsl.lang.intrinsics import INTRINSICS, SCOPES, ToApproximation, ToAtomic, ToClock, ToExchange, ToFence, ToInstruction, ToSleep
from kdsl.lang.struct_type import StructType
from kdsl.lang.types import BOOL, F32, F64, I32, I64, U32, DType
from kdsl.lang.vectors import VECTORS, vector_type


class VerificationError(AssertionError):
    """The frontend built IR that breaks its own rules; a mistake in kdsl, not in the kernel."""


def verify(kernel: nodes.Kernel) -> None:
    """Raise VerificationError if the kernel is not well formed."""
    _Verifier(kernel).run()


class _Verifier:
    def __init__(self, kernel: nodes.Kernel) -> None:
        self.kernel = kernel
        self.defined: set[nodes.ValueOp] = set()
        self.seen: set[int] = set()

    def run(self) -> None:
        x, y, z = self.kernel.block_dim
        self.require(min(x, y, z) >= 1 and x * y * z <= 1024, "the block has 1 to 1024 threads", None)
        self.block(self.kernel.body, loops=0, scopes=())

    def require(self, holds: bool, rule: str, op: nodes.Op | None) -> None:
        if not holds:
            where = "" if op is None else f" at {op.location} ({type(op).__name__})"
            raise VerificationError(f"kernel {self.kernel.name}: {rule}{where}")

    def block(self, block: nodes.Block, *, loops: int, scopes: tuple[nodes.Scope, ...]) -> None:
        added: list[nodes.ValueOp] = []
        for position, op in enumerate(block.ops):
            self.require(id(op) not in self.seen, "an operation stands in one place only", op)
            self.seen.add(id(op))
            if isinstance(op, nodes.Break | nodes.Continue | nodes.Leave | nodes.Return):
                self.require(position == len(block.ops) - 1, "a jump is the last of its block", op)
            self.jump(op, loops, scopes)
            if not isinstance(op, nodes.While):
                self.operands(op)
            self.types(op)
            if isinstance(op, nodes.Result):
                self.require(block.ops[position - 1 - op.index] is op.of, "the results of an operation follow it in order", op)
            self.nested(op, loops, scopes)
            if isinstance(op, nodes.ValueOp):
                self.defined.add(op)
                added.append(op)
        self.defined.difference_update(added)

    def jump(self, op: nodes.Op, loops: int, scopes: tuple[nodes.Scope, ...]) -> None:
        if isinstance(op, nodes.Break | nodes.Continue):
            self.require(loops > 0, "break and continue stand in a loop", op)
        if isinstance(op, nodes.Leave):
            self.require(op.scope in scopes, "a scope is left from inside", op)

    def nested(self, op: nodes.Op, loops: int, scopes: tuple[nodes.Scope, ...]) -> None:
        match op:
            case nodes.If():
                self.block(op.then, loops=loops, scopes=scopes)
                self.block(op.orelse, loops=loops, scopes=scopes)
            case nodes.While():
                self.while_loop(op, loops, scopes)
            case nodes.ForRange():
                self.defined.add(op.counter)
                self.block(op.body, loops=loops + 1, scopes=scopes)
                self.defined.discard(op.counter)
                self.block(op.orelse, loops=loops, scopes=scopes)
            case nodes.Scope():
                # a break inside belongs to a loop inside; the frontend leaves outer loops through their own scopes
                self.block(op.body, loops=loops, scopes=(*scopes, op))

    def while_loop(self, op: nodes.While, loops: int, scopes: tuple[nodes.Scope, ...]) -> None:
        head = [o for o in op.head if isinstance(o, nodes.ValueOp)]
        self.block(op.head, loops=0, scopes=scopes)
        self.defined.update(head)  # what the head defines may be used in the body and is the condition
        self.require(op.condition in self.defined, "a condition is defined before it is used", op)
        self.require(op.condition.type is BOOL, "a condition is a bool", op)
        self.block(op.body, loops=loops + 1, scopes=scopes)
        self.block(op.orelse, loops=loops, scopes=scopes)
        self.defined.difference_update(head)

    def operands(self, op: nodes.Op) -> None:
        for operand in nodes.operands(op):
            self.require(operand in self.defined, "a value is defined before it is used, in the same block or one around it", op)

    def same(self, types: Iterable[DType], op: nodes.Op) -> None:
        self.require(len({id(t) for t in types}) == 1, "operands and result have one type", op)

    def types(self, op: nodes.Op) -> None:
        match op:
            case nodes.Constant():
                self.constant(op)
            case nodes.Length() | nodes.Special() | nodes.Counter():
                self.require(op.type is I64, "lengths and indices are i64", op)
                if isinstance(op, nodes.Length):
                    known = op.view in self.kernel.parameters or op.view in self.kernel.shared_views
                    self.require(known and 0 <= op.dimension < op.view.rank, "a view has the dimension", op)
            case nodes.ParameterValue():
                self.require(op.parameter in self.kernel.parameters, "a parameter belongs to the kernel", op)
                self.same((op.type, op.parameter.type), op)
            case nodes.Unary():
                self.same((op.type, op.operand.type), op)
                self.require(_unary_fits(op), f"{op.op} fits {op.type}", op)
            case nodes.Binary():
                self.same((op.type, op.left.type, op.right.type), op)
                self.require(_binary_fits(op), f"{op.op} fits {op.type}", op)
            case nodes.Fma():
                self.same((op.type, op.a.type, op.b.type, op.c.type), op)
                self.require(op.type.is_float, "fma takes floats", op)
            case nodes.Ternary():
                self.require(all(value.type in (I32, U32) for value in (op, op.a, op.b, op.c)), f"{op.op} is of 32 bits", op)
                self.same((op.type, op.c.type), op)
                unsigned = U32 if op.a.type is U32 and op.b.type is U32 else I32
                self.require(op.type is unsigned and (op.op == "dot" or unsigned is U32), f"{op.op} fits {op.type}", op)
            case nodes.Scale():
                self.same((op.type, op.value.type), op)
                fits = op.exponent.type.is_signed and op.exponent.type.is_integer and op.exponent.type.bits == op.type.bits
                self.require(op.type in (F32, F64) and fits, "a scale takes an f32 and an i32, or an f64 and an i64", op)
            case nodes.Approximation():
                self.row(op, ToApproximation)
                self.same((op.type, *(a.type for a in op.arguments)), op)
                lowering = INTRINSICS[op.name].lowering
                self.require(isinstance(lowering, ToApproximation) and op.type.name in lowering.ptx, f"{op.name} fits {op.type}", op)
            case nodes.Compare():
                self.same((op.left.type, op.right.type), op)
                self.require(op.type is BOOL, "a comparison yields a bool", op)
            case nodes.Select():
                self.same((op.type, op.then.type, op.orelse.type), op)
                self.require(op.condition.type is BOOL, "a condition is a bool", op)
            case nodes.Bitcast():
                self.require(op.type.bits == op.operand.type.bits and not op.type.is_bool, "a bitcast keeps the width", op)
            case nodes.Get():
                self.require(op.variable in self.kernel.variables, "a variable belongs to the kernel", op)
                self.same((op.type, op.variable.type), op)
            case nodes.Print():
                self.require(0 <= op.site < len(self.kernel.sites), "a site exists", op)
                given = tuple(part[0] for part in self.kernel.sites[op.site].format if not isinstance(part, str))
                self.require(given == tuple(v.type for v in op.values), "a line of output has its numbers", op)
            case nodes.Agreed():
                self.same((op.type, op.value.type), op)
                self.require(0 <= op.site < len(self.kernel.sites), "a site exists", op)
            case nodes.Set():
                self.require(op.variable in self.kernel.variables, "a variable belongs to the kernel", op)
                self.same((op.value.type, op.variable.type), op)
            case nodes.Load() | nodes.Store():
                self.access(op)
                self.hint(op)
            case nodes.Check():
                self.place(op.memory, op.indices, op.shape, op)
                self.remote(op, op)
                self.require(op.type is BOOL and 0 <= op.site < len(self.kernel.sites), "a check is a bool and has a site", op)
            case nodes.LoadVector() | nodes.StoreVector():
                self.wide(op)
                self.hint(op)
            case nodes.Clear():
                self.require(op.array in self.kernel.arrays and op.array.space == "local", "a local array of the kernel is cleared", op)
            case nodes.Exchange():
                self.exchange(op)
            case nodes.Atomic():
                self.atomic(op)
            case nodes.Clock():
                self.row(op, ToClock)
                self.require(op.type is I64, "a clock is an i64", op)
            case nodes.Instruction():
                if op.name.startswith("atomic_"):
                    self.atomic_vector(op)
                else:
                    self.row(op, ToInstruction)
                self.require(not op.variant or op.variant in INTRINSICS[op.name].variants, "a variant is one of the row's", op)
                for element in op.elements:
                    self.place(element.memory, element.indices, (), op)
                    self.remote(element, op)
                    self.require(element.remote is None or op.name.startswith("atomic_"), "it works on other blocks' arrays", op)
            case nodes.Result():
                self.require(0 <= op.index < len(op.of.results) and op.of.results[op.index] is op.type, "an operation has the result", op)
            case nodes.Fence():
                self.row(op, ToFence)
                self.require(op.scope in SCOPES and op.order in ("acq_rel", "seq_cst"), "scope and order exist", op)
            case nodes.Sleep():
                self.row(op, ToSleep)
                self.require(op.nanoseconds.type is U32, "a time to sleep is a u32", op)
            case nodes.Assertion():
                self.require(op.condition.type is BOOL, "a condition is a bool", op)
                self.require(0 <= op.site < len(self.kernel.sites), "a site exists", op)
                self.require(all(value.type is I64 for value in op.about or ()), "what is recorded is an i64", op)
            case nodes.If():
                self.require(op.condition.type is BOOL, "a condition is a bool", op)
            case nodes.ForRange():
                self.same((op.start.type, op.stop.type, op.step.type, op.counter.type, I64), op)

    def constant(self, op: nodes.Constant) -> None:
        expected: type = float if op.type.is_float else bool if op.type.is_bool else int
        self.require(type(op.value) is expected, f"a constant of type {op.type} is a Python {expected.__name__}", op)
        if op.type.is_integer:
            self.require(op.type.minimum <= op.value <= op.type.maximum, "a constant fits its type", op)

    def exchange(self, op: nodes.Exchange) -> None:
        self.row(op, ToExchange)
        lowering = INTRINSICS[op.name].lowering
        assert isinstance(lowering, ToExchange)
        self.require(op.width in (2, 4, 8, 16, nodes.WARP_SIZE), "a segment has 2, 4, 8, 16 or 32 lanes", op)
        self.require(op.width == nodes.WARP_SIZE or lowering.kind == "shuffle", "only shuffles have segments", op)
        self.require(op.mask is None or op.mask.type is U32, "a mask of lanes is a u32", op)
        of = op.arguments[0].type
        if lowering.kind in ("vote", "match"):
            self.require(
                op.type is (U32 if (lowering.kind, lowering.mode) in (("vote", "ballot"), ("match", "any")) else BOOL),
                "a vote has its type",
                op,
            )
            self.require(lowering.kind == "match" or of is BOOL, "a vote is of bools", op)
            return
        self.same((op.type, of), op)
        if lowering.kind != "shuffle":
            self.require(of.is_integer if lowering.mode in ("and", "or", "xor") else not of.is_bool, f"{op.name} fits {of}", op)

    def row(
        self,
        op: nodes.Exchange | nodes.Atomic | nodes.Clock | nodes.Fence | nodes.Sleep | nodes.Instruction | nodes.Approximation,
        lowering: type,
    ) -> None:
        row = INTRINSICS.get(op.name)
        self.require(row is not None and isinstance(row.lowering, lowering), "an intrinsic is in the table", op)

    def atomic(self, op: nodes.Atomic) -> None:
        self.row(op, ToAtomic)
        self.access(op)
        lowering = INTRINSICS[op.name].lowering
        assert isinstance(lowering, ToAtomic)
        self.require(op.type.name in lowering.types, f"{op.op} fits {op.type}", op)
        self.require(op.order in lowering.orders and op.scope in SCOPES, "order and scope fit", op)
        self.require(len(op.arguments) == {"load": 0, "cas": 2}.get(op.op, 1), "an atomic operation has its arguments", op)
        self.same((op.type, *(a.type for a in op.arguments)), op)
        memory = op.memory
        local = isinstance(memory, nodes.Array) and memory.space == "local"
        self.require(not local, "an atomic operation is on memory that threads share", op)
        if isinstance(memory, nodes.View):
            self.require(memory.written and memory.read and memory.kind == "SliceMut", "what is changed is declared as changed", op)
            self.require(memory.witness is None, "an atomic operation goes through no witness", op)

    def atomic_vector(self, op: nodes.Instruction) -> None:
        self.row(op, ToAtomic)
        lowering, vector, (element,) = INTRINSICS[op.name].lowering, VECTORS[str(op.options["vector"])], op.elements
        assert isinstance(lowering, ToAtomic)
        of = vector.element
        self.require(vector.name in lowering.vectors and element.memory.type is of, f"{op.name} fits {of}", op)
        self.require(op.options["order"] in lowering.orders and op.options["scope"] in SCOPES, "order and scope fit", op)
        self.same((of, *op.results, *(a.type for a in op.arguments)), op)
        given, gives = {"load": 0, "cas": 2}.get(lowering.op, 1), 0 if lowering.op == "store" else 1
        self.require(len(op.arguments) == vector.lanes * given, "an atomic operation has its arguments", op)
        self.require(len(op.results) == vector.lanes * gives, "an atomic operation has its results", op)

    def access(self, op: nodes.Load | nodes.Store | nodes.Atomic) -> None:
        memory, field = op.memory, op.field
        self.place(memory, op.indices, nodes.extents_within(op), op)
        self.require(not op.checked or 0 <= op.site < len(self.kernel.sites), "a site exists", op)
        self.remote(op, op)
        self.same((field.type if field is not None else memory.type, op.value.type if isinstance(op, nodes.Store) else op.type), op)
        self.require((field is not None) == isinstance(memory.type, StructType), "of a struct a field is read or written", op)
        if field is not None and isinstance(memory.type, StructType):
            self.require(field in memory.type.numbers, "a struct has the field", op)
        if isinstance(op, nodes.Load) and op.row_check is not None:
            self.row_check(op, op.row_check)
        if isinstance(op, nodes.Store) and isinstance(memory, nodes.View):
            self.require(memory.written and memory.kind != "Slice", "what is written is declared as written", op)
        if isinstance(op, nodes.Store | nodes.Atomic) and isinstance(memory, nodes.Array):
            self.require(memory.space not in ("parameter", "constant"), "parameters and constant arrays are only read", op)

    def row_check(self, op: nodes.Load, check: nodes.RowCheck) -> None:
        own = isinstance(op.memory, nodes.View) and op.memory.rank == 1 and op.field is None and op.remote is None
        self.require(op.checked and own, "rows are checked in place of the only index of a view", op)
        self.require(all(value.type is I64 for value in (check.row, check.width, check.rest)), "indices are i64", op)
        self.require(isinstance(check.count, nodes.Length | nodes.ParameterValue), "rows are counted by what a launch gives", op)

    def remote(self, place: nodes.Load | nodes.Store | nodes.Atomic | nodes.Check | nodes.Element, op: nodes.Op) -> None:
        if place.remote is not None:
            memory = place.memory
            shared = isinstance(memory, nodes.SharedView) or (isinstance(memory, nodes.Array) and memory.space == "shared")
            self.require(shared and place.remote.type is I64, "another block has shared arrays, and its rank is an i64", op)

    def wide(self, op: nodes.LoadVector | nodes.StoreVector) -> None:
        memory, lanes = op.memory, op.lanes
        self.place(memory, op.indices, (), op)
        self.require(not op.checked or 0 <= op.site < len(self.kernel.sites), "a site exists", op)
        self.require(vector_type(memory.type, lanes) is not None, f"there are vectors of {lanes} {memory.type}", op)
        if isinstance(op, nodes.StoreVector):
            self.same((memory.type, *(value.type for value in op.values)), op)
        if isinstance(memory, nodes.Array):
            self.require(len(memory.shape) == 1 or memory.shape[-1] % lanes == 0, "rows begin with whole vectors", op)
            return
        self.require(
            memory.alignment % (lanes * memory.type.itemsize) == 0, "a launch sees to the alignment of what is accessed as vectors", op
        )
        if isinstance(op, nodes.StoreVector):
            self.require(memory.written and memory.kind != "Slice", "what is written is declared as written", op)

    def hint(self, op: nodes.PlainAccess) -> None:
        if op.cache is not None:
            of_device = isinstance(op.memory, nodes.View) and not isinstance(op.memory, nodes.SharedView | nodes.TensorMap)
            self.require(of_device and getattr(op, "field", None) is None, "numbers of device memory are cached", op)
            reads = isinstance(op, nodes.Load | nodes.LoadVector)
            self.require(op.cache.how in HOW and op.cache.prefetch in (PREFETCHES if reads else (0,)), "caches are told what they know", op)

    def place(self, memory: nodes.Memory, indices: tuple[nodes.ValueOp, ...], within: tuple[int, ...], op: nodes.Op) -> None:
        own = isinstance(memory, nodes.Array) and memory.space != "parameter"
        known = self.kernel.arrays if own else [*self.kernel.parameters, *self.kernel.shared_views]
        self.require(memory in known, "an array belongs to the kernel", op)
        # what a copy by a tensor map touches are coordinates of the instruction, which the hardware checks
        rank = len(memory.shape) if isinstance(memory, nodes.Array) else 0 if isinstance(memory, nodes.TensorMap) else memory.rank
        self.require(len(indices) == rank + len(within), "an access has one index per dimension", op)
        self.require(all(i.type is I64 for i in indices), "indices are i64", op)


def _unary_fits(op: nodes.Unary) -> bool:
    of = op.type
    return {"neg": not of.is_bool, "abs": not of.is_bool, "invert": of.is_integer, "not": of.is_bool, "tf32": of is F32}.get(
        op.op, of.is_integer if op.op in ("popcount", "leading_zeros", "trailing_zeros", "reverse_bits") else of.is_float
    )


def _binary_fits(op: nodes.Binary) -> bool:
    of = op.type
    match op.op:
        case "add" | "sub" | "mul" | "min" | "max":
            return not of.is_bool
        case "div" | "fmin" | "fmax":
            return of.is_float
        case "floordiv" | "mod" | "shl" | "shr" | "multiply_high":
            return of.is_integer
        case _:
            return not of.is_float
