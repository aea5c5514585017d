"""Where arrays lie, the number of an element in its array, and what LLVM is told of arrays that do not overlap.

Arrays are told apart by alias scopes: a view, a shared or local array, all contexts. Two views that the kernel touches through one witness only may be the
same array (element-wise in place) and share a scope; any other overlap with a written view is refused at the launch.
"""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from kdsl.backend.cpu.lanes import I64, Lanes, Linear, Term, Uniform, Vector
from kdsl.backend.cpu.scratch import ALIGNMENT
from kdsl.ir import nodes

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission


class Storage:
    """The arrays of one kernel."""

    def __init__(self, emission: Emission) -> None:
        self.e = emission
        self._local_stride: dict[nodes.Array, int] = {}
        self._offsets: dict[nodes.Array, int] = {}
        self._tables: dict[nodes.Array, Any] = {}
        self._scopes: dict[Any, Any] = {}
        self._every_scope: list[Any] = []
        self._metadata: dict[int, tuple[Any, Any]] = {}
        self._prepare()

    def _prepare(self) -> None:
        e = self.e
        domain = e.module.add_metadata([ir.MetaDataString(e.module, "kdsl")])
        groups: dict[str, Any] = {}

        def scope(name: str) -> Any:
            made = e.module.add_metadata([ir.MetaDataString(e.module, name), domain])
            self._every_scope.append(made)
            return made

        for parameter in e.kernel.parameters:
            if isinstance(parameter, nodes.View):
                key = f"witness {parameter.witness}" if parameter.witness else f"view {parameter.name}"
                if key not in groups:
                    groups[key] = scope(key)
                self._scopes[parameter] = groups[key]
        for view in e.kernel.shared_views:
            self._scopes[view] = scope(f"shared {view.name}")
        for number, array in enumerate(e.kernel.arrays):
            self._scopes[array] = scope(f"array {number}")
            if array.space == "constant":
                self._tables[array] = self._table(array, number)
                continue
            size = array.size * array.type.itemsize
            if array.space == "local":
                size *= e.width
                self._local_stride[array] = -(-size // ALIGNMENT) * ALIGNMENT
                size = self._local_stride[array] * (e.groups if e.plan.has_barriers else 1)
            self._offsets[array] = e.scratch.reserve(size, array.alignment)
        self._contexts = scope("contexts")

    def of(self, emission: Emission) -> Storage:
        """The same arrays for groups of another width; there are no local ones."""
        other = copy.copy(self)
        other.e = emission
        return other

    def _table(self, array: nodes.Array, number: int) -> Any:
        """A constant array, as part of the code."""
        held = ir.ArrayType(ir.IntType(8), len(array.content))
        table = ir.GlobalVariable(self.e.module, held, f"table.{number}")
        table.global_constant = True
        table.linkage = "internal"
        table.align = ALIGNMENT
        table.initializer = ir.Constant(held, bytearray(array.content))
        table.type = ir.PointerType()  # a plain address, as LLVM has it
        return table

    # --------------------------------------------------------------------------------------------------------------- aliasing

    def scope_of(self, memory: nodes.Memory) -> int:
        """The same number for arrays that may be the same memory."""
        return id(self._scopes[memory]) if memory in self._scopes else 0  # nobody writes to arrays of parameters

    def mark(self, access: Any, memory: Any) -> None:
        """Tell LLVM which array an instruction touches."""
        own = self._scopes.get(memory, self._contexts)
        if id(own) not in self._metadata:
            module = self.e.module
            self._metadata[id(own)] = (module.add_metadata([own]), module.add_metadata([s for s in self._every_scope if s is not own]))
        scope, others = self._metadata[id(own)]
        access.set_metadata("alias.scope", scope)
        access.set_metadata("noalias", others)

    def touches_no_array(self, call: Any) -> None:
        """Tell LLVM that a call touches none of the arrays."""
        call.set_metadata("noalias", self.e.module.add_metadata(list(self._every_scope)))

    # -------------------------------------------------------------------------------------------------------------- addresses

    def start(self, memory: nodes.Memory) -> Any:
        """The address of the first element (of the group's part of a local array)."""
        e = self.e
        if isinstance(memory, nodes.View):
            return e.arguments[f"{memory.name}.address"]
        if memory.space == "parameter":
            return e.arguments[memory.name]
        if memory.space == "constant":
            return self._tables[memory]
        start = e.scratch.pointer(self._offsets[memory])
        if memory.space == "local" and e.plan.has_barriers and e.groups > 1:
            place = e.builder.mul(e.specials.group, e.i64(self._local_stride[memory]))
            start = e.builder.gep(start, [place], source_etype=ir.IntType(8))
        return start

    def index(self, memory: nodes.Memory, indices: list[Lanes], field: nodes.Field | None = None) -> Lanes:
        """The number of the element, or of a number in it: by its strides in a view, row-major in an array, element by element and lane by lane in a local one.

        Of a number in a struct it counts in numbers of that size from the start of the array."""
        if isinstance(memory, nodes.View):
            rank = memory.rank
            total = self._strided(memory, indices[:rank]) if memory.has_strides else indices[0]
        else:
            rank = len(memory.shape)
            total = indices[0]
            for extent, index in zip(memory.shape[1:], indices[1:rank], strict=True):
                total = self._sum(self.times(total, extent), index)
        if field is not None:
            element, first, steps = _units(memory, field)
            total = self.times(total, element)
            for step, index in zip(steps, indices[rank:], strict=True):
                total = self._sum(total, self.times(index, step))
            total = self._sum(total, self.e.lanes.number(I64, first))
        if isinstance(memory, nodes.Array) and memory.space == "local":
            total = self._sum(self.times(total, self.e.width), Linear(self.e.i64(0), (Term(self.e.lanes.iota),), 0))
        return total

    def _strided(self, view: nodes.View, indices: list[Lanes]) -> Lanes:
        """The sum of indices times strides; affine in the lane where the indices are."""
        products = [self._by(index, Uniform(self.e.arguments[f"{view.name}.stride.{d}"])) for d, index in enumerate(indices)]
        return functools.reduce(self._sum, products)

    def vector_index(self, memory: nodes.Memory, indices: list[Lanes], lanes: int) -> Lanes:
        """The number of a vector of `lanes` numbers, counted in vectors from the start of a view or a shared array; the last index counts vectors."""
        *outer, last = indices
        if isinstance(memory, nodes.View):  # whose outer strides are multiples of a vector
            shift = self.e.i64(lanes.bit_length() - 1)
            steps = [
                self.e.builder.ashr(self.e.arguments[f"{memory.name}.stride.{dimension}"], shift, flags=("exact",))
                for dimension in range(len(outer))
            ]
            return functools.reduce(self._sum, [*(self._by(index, Uniform(step)) for index, step in zip(outer, steps, strict=True)), last])
        total = indices[0]
        for extent, index in zip((*memory.shape[1:-1], memory.shape[-1] // lanes), indices[1:], strict=False):
            total = self._sum(self.times(total, extent), index)
        return total

    def parts(self, array: nodes.Array, indices: list[Lanes], lanes: int) -> list[Lanes]:
        """The numbers of the elements of a vector in a local array, as `index` counts them."""
        *outer, last = indices
        first = self.times(last, lanes)
        return [self.index(array, [*outer, self._sum(first, self.e.lanes.number(I64, lane))]) for lane in range(lanes)]

    def times(self, a: Lanes, factor: int) -> Lanes:
        """A multiple of indices."""
        return self._by(a, self.e.lanes.number(I64, factor))

    def _by(self, a: Lanes, factor: Uniform) -> Lanes:
        lanes = self.e.lanes
        product = lanes.multiply(a, factor)
        if product is None:
            product = Vector(self.e.builder.mul(lanes.vector(a), lanes.splat(factor.scalar)))
        return product

    def _sum(self, a: Lanes, b: Lanes) -> Lanes:
        lanes = self.e.lanes
        total = lanes.add(a, b)
        return Vector(self.e.builder.add(lanes.vector(a), lanes.vector(b))) if total is None else total


def _units(memory: nodes.Memory, field: nodes.Field) -> tuple[int, int, tuple[int, ...]]:
    """How the place of a number follows from the place of its element, all in units of the number's own size: units per element, units to the field, units per
    index of the arrays within. They divide, because every field lies at its natural alignment."""
    unit = field.type.itemsize
    return memory.type.itemsize // unit, field.offset // unit, tuple(stride // unit for stride in field.strides)
