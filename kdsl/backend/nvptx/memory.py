"""Accesses to memory: views in the global space, shared arrays, local arrays; checked ones with the branch that leaves a bad one out.

A failed check goes to a cold block that records it and comes back: there is no `unreachable` from which LLVM could conclude that checks hold.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from llvmlite import ir

from kdsl.backend.llvm.module import memory_type, value_type
from kdsl.backend.nvptx import assembly, atomics, caching, failure
from kdsl.backend.nvptx.entry import CONSTANT, GLOBAL, SHARED, Entry, opaque
from kdsl.backend.nvptx.instructions.clusters import remote_address
from kdsl.backend.nvptx.row_checks import Row
from kdsl.backend.nvptx.scopes import Scopes
from kdsl.backend.nvptx.speculation import Trial
from kdsl.backend.nvptx.symbols import internal
from kdsl.ir import nodes
from kdsl.ir.shared import shared_layout
from kdsl.lang import swizzle
from kdsl.lang.limits import ALIGNMENT, LARGEST_ALIGNMENT
from kdsl.lang.types import DType

_I8: Final = ir.IntType(8)
_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
_DYNAMIC_SHARED: Final = "kdsl_dynamic_shared"
DYNAMIC_SHARED_DECLARATION: Final = f".extern .shared .align {LARGEST_ALIGNMENT} .b8 {_DYNAMIC_SHARED}[];"
"""What PTX says of the dynamic shared memory: it has no size before the launch, so it is declared as something from outside."""
_REGISTERS: Final = (_I32, _I64, ir.FloatType(), ir.DoubleType())
"""Types of which PTX has registers."""
_WIDEST: Final = 16
"""Bytes of the widest read."""
_CLEARED_IN_LINE: Final = 512
"""Bytes of the largest local array that is cleared without a loop."""
_CLEARED: Final = 64
"""Bytes that a trip of such a loop clears."""
HELD: Final = (1 << 20, 1)
"""Weights of a check that holds, and of one that fails."""


class Memory:
    """The arrays of one kernel, and accesses to them with a builder."""

    def __init__(
        self,
        kernel: nodes.Kernel,
        entry: Entry,
        builder: ir.IRBuilder,
        prologue: ir.IRBuilder,
        capability: int,
    ) -> None:
        self._entry = entry
        self._capability = capability
        self._builder = builder
        self._cluster_size = kernel.attributes.cluster_size
        self.trial: Trial | None = None
        """The loop that notes whether its checks hold and records no failures, if this is one."""
        self.settled: set[nodes.Op] = set()
        """Accesses that were checked before the loop in which they stand."""
        self.leave: Callable[[], Any] | None = None
        """The block where a thread goes whose check fails, if it does not record that here (`again`)."""
        self._read: list[tuple[Any, Any]] = []
        """Values that were read since the last branch, with their blocks."""
        self._bases: dict[nodes.Array, Any] = {}
        self._layout = shared_layout(kernel.arrays, kernel.shared_views)
        self._scopes = Scopes(builder.module, [*self._layout.offsets, *kernel.shared_views] if self._layout.is_dynamic else ())
        for view in kernel.shared_views:
            entry.define(view, _dynamic_shared(prologue.module), prologue)
        self._stored = {op.memory for op in nodes.walk(kernel.body) if isinstance(op, nodes.Store | nodes.StoreVector | nodes.Atomic)}
        self._stored |= {e.memory for op in nodes.walk(kernel.body) if isinstance(op, nodes.Instruction) for e in op.elements}
        for number, array in enumerate(kernel.arrays):
            make = {"shared": self._shared, "local": self._local, "constant": self._constant}[array.space]
            self._bases[array] = make(array, number, prologue)
        for parameter in kernel.parameters:
            if isinstance(parameter, nodes.Array):
                self._bases[parameter] = entry.array(parameter, prologue)

    def _shared(self, array: nodes.Array, number: int, prologue: ir.IRBuilder) -> Any:
        if self._layout.is_dynamic:
            return prologue.gep(_dynamic_shared(prologue.module), [_I64(self._layout.offsets[array])], source_etype=_I8)
        held = _held(array)
        variable = ir.GlobalVariable(
            prologue.module,
            held,
            internal("shared", sum(isinstance(g, ir.GlobalVariable) for g in prologue.module.global_values), array.name),
            addrspace=SHARED,
        )
        variable.linkage = "internal"
        variable.initializer = ir.Constant(held, ir.Undefined)
        variable.align = array.alignment
        return opaque(variable)

    def _local(self, array: nodes.Array, number: int, prologue: ir.IRBuilder) -> Any:
        held = prologue.alloca(_held(array), name=f"local{number}")
        held.align = ALIGNMENT
        return opaque(held)

    def _constant(self, array: nodes.Array, number: int, prologue: ir.IRBuilder) -> Any:
        """Kernels of a module share tables that hold the same."""
        name = f"{internal('constant', len(array.content))}_{hashlib.sha256(array.content).hexdigest()[:16]}"
        if name not in prologue.module.globals:
            held = ir.ArrayType(_I8, len(array.content))
            variable = ir.GlobalVariable(prologue.module, held, name, addrspace=CONSTANT)
            variable.linkage = "internal"
            variable.global_constant = True
            variable.initializer = ir.Constant(held, bytearray(array.content))
            variable.align = ALIGNMENT
            opaque(variable)
        return prologue.module.globals[name]

    # --------------------------------------------------------------------------------------------------------------- accesses

    def load(self, op: nodes.Load, indices: list[Any], rank: Any = None, row: Row | None = None) -> Any:
        """The element, or 0 where a check fails. `rank` is that of the block whose array it is, i64, None for this block's own; `row` what may be checked in
        place of the only index."""
        if self.trial is not None:
            return self._load(op, indices, rank, row=row)
        b = self._builder
        value = self._guarded(op, indices, rank, lambda: self._load(op, indices, rank, row=row), row)
        self._read.append((b.block, value))
        return value

    def load_vector(self, op: nodes.LoadVector, indices: list[Any], rank: Any = None) -> list[Any]:
        """The numbers, or 0 in all places where a check fails: one access of several words (PTX ISA, "ld", `.v2` and `.v4`)."""
        if self.trial is not None:
            whole = self._load(op, indices, rank, op.lanes)
        else:
            whole = self._guarded(op, indices, rank, lambda: self._load(op, indices, rank, op.lanes))
        return [self._builder.extract_element(whole, _I32(lane)) for lane in range(op.lanes)]

    def store_vector(self, op: nodes.StoreVector, indices: list[Any], values: list[Any], rank: Any = None) -> None:
        """Write the numbers, unless a check fails: one access."""
        b = self._builder
        after = self._check(op, indices, rank)[1] if self._asks(op) else None
        whole = ir.Constant(ir.VectorType(memory_type(op.memory.type), op.lanes), ir.Undefined)
        for lane, value in enumerate(values):
            whole = b.insert_element(whole, value, _I32(lane))
        address = self.address(op.memory, indices, rank, lanes=op.lanes)
        if op.cache is not None:
            caching.store(b, whole, address, op.memory.type.itemsize * op.lanes, op.cache)
        else:
            self._scopes.mark(b.store(whole, address, align=op.memory.type.itemsize * op.lanes), op.memory)
        if after is not None:
            b.branch(after)
            b.position_at_end(after)

    def _guarded(self, op: nodes.Access, indices: list[Any], rank: Any, access: Callable[[], Any], row: Row | None = None) -> Any:
        """What an access yields, or 0 where a check fails."""
        if not self._asks(op):
            return access()
        b = self._builder
        bad, after = self._check(op, indices, rank, row)
        value = access()
        if after is None:
            return value
        good = b.block
        b.branch(after)
        b.position_at_end(after)
        result = b.phi(value.type)
        result.add_incoming(value, good)
        result.add_incoming(ir.Constant(value.type, None), bad)
        return result

    def store(self, op: nodes.Store, indices: list[Any], value: Any, rank: Any = None) -> None:
        """Write the element, unless a check fails."""
        b = self._builder
        after = self._check(op, indices, rank)[1] if self._asks(op) else None
        stored = b.zext(value, _I8) if op.value.type.is_bool else value
        address = self.address(op.memory, indices, rank, op.field)
        if op.cache is not None:
            caching.store(b, stored, address, op.value.type.itemsize, op.cache)
        else:
            self._scopes.mark(b.store(stored, address, align=op.value.type.itemsize), op.memory)
        if after is not None:
            b.branch(after)
            b.position_at_end(after)

    def clear(self, array: nodes.Array) -> None:
        """Make all elements of a local array 0. One whose elements are not written is not read either (`_load`)."""
        if array not in self._stored:
            return
        b, base, size = self._builder, self._bases[array], array.size * array.type.itemsize

        def zero(at: Any, first: int, end: int) -> None:
            # integers, which LLVM takes apart where it keeps elements in registers; of a memset it would make a loop over bytes
            while first < end:
                width = next(width for width in (8, 4, 2, 1) if first + width <= end)
                address = b.gep(base, [b.add(at, _I64(first)) if at is not None else _I64(first)], inbounds=True, source_etype=_I8)
                b.store(ir.IntType(8 * width)(0), address, align=width)
                first += width

        looped = size // _CLEARED * _CLEARED if size > _CLEARED_IN_LINE else 0
        if looped:
            before, head, after = b.block, b.append_basic_block("clear"), b.append_basic_block("cleared")
            b.branch(head)
            b.position_at_end(head)
            at = b.phi(_I64)
            zero(at, 0, _CLEARED)
            following = b.add(at, _I64(_CLEARED))
            at.add_incoming(_I64(0), before)
            at.add_incoming(following, head)
            b.cbranch(b.icmp_unsigned("<", following, _I64(looped)), head, after)
            b.position_at_end(after)
        zero(None, looped, size)

    def atomic(self, op: nodes.Atomic, indices: list[Any], arguments: list[Any], rank: Any = None) -> Any:
        """The old value of the element, or 0 where a check fails."""
        return self._guarded(
            op, indices, rank,
            lambda: atomics.atomic(self._builder, op, self.address(op.memory, indices, rank, op.field), arguments, self._capability),
        )  # fmt: skip

    def check(self, op: nodes.Check, indices: list[Any], rank: Any) -> Any:
        """Whether all indices are inside, after recording a failure if not."""
        b = self._builder
        bad, after = self._check(op, indices, rank)
        if after is None:
            return ir.IntType(1)(1)
        good = b.block
        b.branch(after)
        b.position_at_end(after)
        result = b.phi(ir.IntType(1))
        result.add_incoming(ir.IntType(1)(1), good)
        result.add_incoming(ir.IntType(1)(0), bad)
        return result

    def assertion(self, condition: Any, site: int, about: Sequence[Any] = ()) -> None:
        """Record a failure, and dimension, index and extent if they are given, unless the condition holds."""
        b = self._builder
        if self.leave is not None:
            self.go_on(condition)
            return
        held, failed = b.append_basic_block("held"), b.append_basic_block("failed")
        b.cbranch(condition, held, failed).set_weights(HELD)
        b.position_at_end(failed)
        dimension, index, extent = about or (_I64(0),) * 3
        failure.record(b, self._entry, site, b.trunc(dimension, _I32), index, extent)
        b.branch(held)
        b.position_at_end(held)

    # ---------------------------------------------------------------------------------------------------------------- details

    def extents(self, memory: nodes.Memory) -> list[Any]:
        """The extents of an array, i64."""
        if isinstance(memory, nodes.View):
            return [self._entry.length(memory, dimension) for dimension in range(memory.rank)]
        return [_I64(extent) for extent in memory.shape]

    def _check(self, op: nodes.Access | nodes.Check, indices: list[Any], rank: Any, row: Row | None = None) -> tuple[Any, Any]:
        """Branch on whether all indices are inside; goes on in the good block. Yields the block that records a failure, and the one where both ways meet, or
        None twice."""
        b = self._builder
        extents = self._extents(op)
        if rank is not None:
            indices, extents = [*indices, rank], [*extents, _I64(self._cluster_size)]
        insides = self._insides(indices, extents) if row is None else [row.holds(b)]
        if self.leave is not None:
            if row is not None:  # LLVM would compute behind the branch what is used there only, and the row is waited for in front of it
                assembly.needed(b, row.rest)
            self.go_on(functools.reduce(b.and_, insides))
            return None, None
        good, bad, after = (b.append_basic_block(name) for name in ("inside", "outside", "after"))
        b.cbranch(functools.reduce(b.and_, insides), good, bad).set_weights(HELD)
        b.position_at_end(bad)
        self._record(op, indices, extents, insides)
        bad = b.block
        b.branch(after)
        b.position_at_end(good)
        return bad, after

    def _asks(self, op: nodes.Access) -> bool:
        """Whether an access has a check of its own."""
        return op.checked and op not in self.settled

    def inside(self, op: nodes.Load | nodes.Store, indices: list[Any]) -> Any:
        """Whether indices are those of an element, i1."""
        return functools.reduce(self._builder.and_, self._insides(indices, self._extents(op)))

    def go_on(self, condition: Any) -> None:
        """Go on where the condition holds, and leave where it does not."""
        assert self.leave is not None
        for block, value in self._read:  # LLVM would read behind the branch what is used there only
            if block is self._builder.block and value.type in _REGISTERS:
                assembly.needed(self._builder, value)
        self._read.clear()
        inside = self._builder.append_basic_block("inside")
        self._builder.cbranch(condition, inside, self.leave()).set_weights(HELD)
        self._builder.position_at_end(inside)

    def _extents(self, op: nodes.Access | nodes.Check) -> list[Any]:
        """What the indices of an access have to be below."""
        extents = [*self.extents(op.memory), *(_I64(extent) for extent in nodes.extents_within(op))]
        if isinstance(op, nodes.LoadVector | nodes.StoreVector):
            extents[-1] = self._builder.udiv(extents[-1], _I64(op.lanes))  # a shift
        return extents

    def _insides(self, indices: list[Any], extents: list[Any]) -> list[Any]:
        """Whether each index is inside. A negative one is a large unsigned one; an extent is never negative."""
        return [self._builder.icmp_unsigned("<", index, extent) for index, extent in zip(indices, extents, strict=True)]

    def _record(self, op: nodes.Access | nodes.Check, indices: list[Any], extents: list[Any], insides: list[Any]) -> None:
        """Record the first index that is not inside."""
        b, last = self._builder, len(indices) - 1
        dimension, index, extent = _I32(last), indices[last], extents[last]
        for number in reversed(range(last)):
            inside = insides[number]
            dimension = b.select(inside, dimension, _I32(number))
            index = b.select(inside, index, indices[number])
            extent = b.select(inside, extent, extents[number])
        failure.record(b, self._entry, op.site, dimension, index, extent)

    def _noted(self, op: nodes.Load | nodes.LoadVector, trial: Trial, indices: list[Any], row: Row | None, address: Any) -> Any:
        """Where to read in a loop that records no failures: at the address if all indices are inside, else zeros; and that is noted."""
        b = self._builder
        holds = functools.reduce(b.and_, self._insides(indices, self._extents(op)) if row is None else [row.holds(b)])
        b.store(b.and_(b.load(trial.held, typ=ir.IntType(1)), holds), trial.held)
        chosen = b.select(holds, address, _zeros(b.module))
        chosen.set_metadata("unpredictable", b.module.add_metadata([]))  # so that LLVM makes no branch of it
        return chosen

    def _load(
        self, op: nodes.Load | nodes.LoadVector, indices: list[Any], rank: Any, lanes: int | None = None, row: Row | None = None
    ) -> Any:
        """An element or a number in it, or so many numbers as an LLVM vector."""
        b, memory = self._builder, op.memory
        field = op.field if isinstance(op, nodes.Load) else None
        of = memory.type if field is None else field.type
        if isinstance(memory, nodes.Array) and memory.space in ("shared", "local") and memory not in self._stored:
            return ir.Constant(value_type(of, lanes), None)  # 0 in a local array; undefined in a shared one, but a value they have to have
        trial = self.trial if self._asks(op) and (self.trial is None or op not in self.trial.tested) else None
        if row is not None and self.trial is None:
            assert isinstance(memory, nodes.View)
            address = self._behind(self.column(memory, row.rest), memory, row.start(b))
        else:
            address = self.address(memory, indices, rank, field, lanes)
        if trial is not None:
            address = self._noted(op, trial, indices, row, address)
        held, size = memory_type(of, lanes), of.itemsize * (lanes or 1)
        if op.cache is not None:
            assert isinstance(memory, nodes.View)
            return _value(b, of, caching.load(b, address, held, size, op.cache, constant=self._entry.promises[memory].constant))
        loaded = b.load(address, align=size, typ=held)
        if isinstance(memory, nodes.SharedView):
            self._scopes.mark(loaded, memory)
        elif isinstance(memory, nodes.View):
            if self._entry.promises[memory].constant:
                loaded.set_metadata("invariant.load", b.module.add_metadata([]))
        else:
            self._scopes.mark(loaded, memory)
        return _value(b, of, loaded)

    def address(
        self, memory: nodes.Memory, indices: list[Any], rank: Any = None, field: nodes.Field | None = None, lanes: int | None = None
    ) -> Any:
        """Where an element lies, or a number in it, a pointer into the space of its array; for the array of block `rank` of the cluster, into that of the
        cluster. With `lanes` a vector of so many numbers, which the last index counts. Of a tensor map, its descriptor."""
        b, element = self._builder, memory_type(memory.type)
        if isinstance(memory, nodes.TensorMap):
            return self._entry.address(memory)
        if lanes is not None and isinstance(memory, nodes.View):
            return self._vector_address(memory, indices, rank, lanes)
        if lanes is not None:
            indices = [*indices[:-1], b.mul(indices[-1], _I64(lanes))]
        dimensions = memory.rank if isinstance(memory, nodes.View) else len(memory.shape)
        own, within = indices[:dimensions], indices[dimensions:]
        if isinstance(memory, nodes.View):
            place = own[0]
            if memory.has_strides:
                places = [b.mul(index, self._entry.stride(memory, dimension)) for dimension, index in enumerate(own)]
                place = functools.reduce(b.add, places)
            if isinstance(memory, nodes.SharedView) and memory.swizzle:
                place = self._swizzled_place(memory, own)
            start = self._entry.address(memory)
            address = b.gep(start if rank is None else remote_address(b, start, rank), [place], inbounds=True, source_etype=element)
        else:
            if memory.swizzle:
                own = [*own[:-1], self._swizzled(memory, own)]
            linear = _linear(b, memory.shape, own)
            base = self._bases[memory] if rank is None else remote_address(b, self._bases[memory], rank)
            address = b.gep(base, [_I64(0), linear], inbounds=True, source_etype=_held(memory))
        if field is not None:
            for index, stride in zip(within, field.strides, strict=True):
                address = b.gep(address, [index], inbounds=True, source_etype=ir.ArrayType(_I8, stride))
            address = b.gep(address, [_I64(field.offset)], inbounds=True, source_etype=_I8)
        return address

    def column(self, view: nodes.View, rest: Any) -> Any:
        """Where the first row of a view has this column: from there its rows are addressed, as the column may be known before the row is."""
        return self._behind(self._entry.address(view), view, rest)

    def _behind(self, address: Any, view: nodes.View, count: Any) -> Any:
        """So many elements of a view of one dimension behind an address, which may be outside of it."""
        b = self._builder
        distance = b.mul(count, self._entry.stride(view, 0)) if view.has_strides else count
        return b.gep(address, [distance], source_etype=memory_type(view.type))

    def _vector_address(self, view: nodes.View, indices: list[Any], rank: Any, lanes: int) -> Any:
        """By the outer indices to the row, by the last one along it, whose numbers lie side by side."""
        b, element = self._builder, memory_type(view.type)
        *outer, last = indices
        start = self._entry.address(view)
        row = start if rank is None else remote_address(b, start, rank)
        if isinstance(view, nodes.SharedView) and view.swizzle:
            return b.gep(row, [self._swizzled_place(view, [*outer, b.mul(last, _I64(lanes))])], inbounds=True, source_etype=element)
        if outer:
            places = [b.mul(index, self._entry.stride(view, dimension)) for dimension, index in enumerate(outer)]
            row = b.gep(row, [functools.reduce(b.add, places)], inbounds=True, source_etype=element)
        return b.gep(row, [last], inbounds=True, source_etype=ir.VectorType(element, lanes))

    def _swizzled(self, memory: nodes.Array, indices: list[Any]) -> Any:
        """The last index, with the chunk of 16 bytes that it lies in exchanged as the row says (`kdsl.lang.swizzle`)."""
        row = _linear(self._builder, memory.shape[:-1], indices[:-1]) if len(indices) > 1 else _I64(0)
        return self._exchanged(memory, row, indices[-1])

    def _swizzled_place(self, view: nodes.SharedView, indices: list[Any]) -> Any:
        """The number of the element's place in an array of swizzled rows whose extents the launch decides."""
        b, wide = self._builder, _I64(view.swizzle // view.type.itemsize)
        *outer, last = indices
        places = [b.mul(index, self._entry.stride(view, dimension)) for dimension, index in enumerate(outer)]
        start = functools.reduce(b.add, places, _I64(0))
        return b.add(start, self._exchanged(view, b.udiv(start, wide), last))

    def _exchanged(self, memory: nodes.Array | nodes.SharedView, row: Any, last: Any) -> Any:
        b, span = self._builder, memory.swizzle
        exchange = b.and_(b.udiv(row, _I64(swizzle.rows_per_line(span))), _I64(swizzle.chunks(span) - 1))
        return b.xor(last, b.mul(exchange, _I64(swizzle.CHUNK // memory.type.itemsize)))


def _held(array: nodes.Array) -> ir.ArrayType:
    """The LLVM type of an array."""
    return ir.ArrayType(memory_type(array.type), array.size)


def _linear(builder: ir.IRBuilder, shape: Sequence[int], indices: Sequence[Any]) -> Any:
    """Number of an element in row-major order."""
    linear = indices[0]
    for index, extent in zip(indices[1:], shape[1:], strict=True):
        linear = builder.add(builder.mul(linear, _I64(extent)), index)
    return linear


def _zeros(module: ir.Module) -> Any:
    """As many zeros as the widest read takes."""
    name = internal("constant", _WIDEST)
    if name not in module.globals:
        variable = ir.GlobalVariable(module, ir.ArrayType(_I8, _WIDEST), name, addrspace=GLOBAL)
        variable.linkage = "internal"
        variable.global_constant = True
        variable.initializer = ir.Constant(ir.ArrayType(_I8, _WIDEST), None)
        variable.align = _WIDEST
        opaque(variable)
    return module.globals[name]


def _dynamic_shared(module: ir.Module) -> Any:
    """The start of the dynamic shared memory, which all kernels of a module call by one name."""
    if _DYNAMIC_SHARED not in module.globals:
        variable = ir.GlobalVariable(module, ir.ArrayType(_I8, 0), _DYNAMIC_SHARED, addrspace=SHARED)
        variable.linkage = "external"
        variable.align = LARGEST_ALIGNMENT
        opaque(variable)
    return module.globals[_DYNAMIC_SHARED]


def _value(builder: ir.IRBuilder, of: DType, loaded: Any) -> Any:
    """An element as a value. Any byte but 0 is True."""
    return builder.icmp_unsigned("!=", loaded, _I8(0)) if of.is_bool else loaded
