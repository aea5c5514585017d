"""The entry of a kernel: its parameters, which are the arguments of `kdsl.ir.abi` in order, and its attributes.

Memory of views is addressed in the global space, so accesses need no conversion of addresses. What is not here: the body.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from kdsl.backend.llvm.module import memory_type
from kdsl.backend.nvptx.aliasing import Promise, promises
from kdsl.ir import nodes
from kdsl.ir.abi import MAP_ALIGNMENT, MAP_BYTES, Argument, Slot, SlotKind, layout
from kdsl.lang.intrinsics import INTRINSICS, ToInstruction
from kdsl.lang.intrinsics.clusters import ASYNCHRONOUS

GLOBAL: Final = 1
"""LLVM's number of the global address space."""
SHARED: Final = 3
"""LLVM's number of the shared address space."""
CONSTANT: Final = 4
"""LLVM's number of the constant address space."""
LONGEST_VIEW: Final = 1 << 48
"""No array has more elements: device addresses have fewer bits than this says."""

_SETS_REGISTERS: Final = frozenset(name for name, row in INTRINSICS.items() if row.lowering == ToInstruction("set_registers"))
_POINTERS: Final = {"claim": 4, "record": 8, "barrier": 4}
"""Hidden parameters that are addresses, and their alignment."""


def pointer(space: int) -> ir.Type:
    """The type of an address in a space of memory."""
    return ir.PointerType(addrspace=space)


def opaque(address: Any) -> Any:
    """An alloca or a global variable whose type is a plain address, as LLVM has it; llvmlite would print the type of what it points to."""
    address.type = pointer(address.type.addrspace)
    return address


def attribute(attributes: set[str], text: str) -> None:
    """Add an attribute that LLVM knows and llvmlite's own list of attributes lacks."""
    set.add(attributes, text)


class Entry:
    """The LLVM function of a kernel, and its parameters."""

    def __init__(self, module: ir.Module, kernel: nodes.Kernel, name: str) -> None:
        arguments = layout(kernel).arguments
        self.function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_argument_type(argument) for argument in arguments]), name)
        self.function.calling_convention = "ptx_kernel"
        self.cluster = kernel.attributes.cluster or (1, 1, 1)
        """Blocks of a cluster along x, y and z."""
        self.grid_rank = kernel.grid_rank
        """Dimensions of the grid that are not always 1."""
        self.promises: dict[nodes.View, Promise] = promises(kernel)
        """What may be assumed of each view."""
        self.filled_from_cluster = {
            op.elements[0].memory for op in nodes.walk(kernel.body) if isinstance(op, nodes.Instruction) and op.name in ASYNCHRONOUS
        }
        """Barriers at which other blocks' stores complete."""
        self._arguments: dict[tuple[SlotKind, object, int], Any] = {}
        self._structs: dict[nodes.StructParameter, Any] = {}
        for packed, argument in zip(arguments, self.function.args, strict=True):
            if packed.struct is not None:
                self._structs[packed.struct] = argument
                # loads from it become loads from the space of parameters
                attribute(argument.attributes, f"byval([{packed.struct.type.size} x i8])")
                argument.attributes.align = packed.struct.type.alignment
            else:
                (slot,) = packed.slots
                self._arguments[slot.kind, slot.parameter or slot.name, slot.dimension] = argument
                self._describe(slot, argument)
        attributes = self.function.attributes
        attributes.add("convergent")
        attributes.add("nounwind")
        attribute(attributes, '"nvvm.maxntid"="{},{},{}"'.format(*kernel.block_dim))
        if kernel.attributes.cluster:  # the hardware's grid is linear, and so are its clusters
            attribute(attributes, f'"nvvm.cluster_dim"="{kernel.attributes.cluster_size},1,1"')
        # moving registers between warpgroups needs it, so that ptxas knows how many each thread has at the start
        if kernel.resident > 1 or any(isinstance(op, nodes.Instruction) and op.name in _SETS_REGISTERS for op in nodes.walk(kernel.body)):
            attribute(attributes, f'"nvvm.minctasm"="{kernel.resident}"')
        # LLVM would put the addresses of shared arrays into a table in global memory, which ptxas refuses
        attribute(attributes, '"no-jump-tables"="true"')

    def define(self, view: nodes.SharedView, start: Any, builder: ir.IRBuilder) -> None:
        """Make a shared array whose extents the launch decides known like a parameter; `start` is where the dynamic shared memory begins."""
        place = self._arguments["place", view, 0]
        self._arguments["address", view, 0] = builder.gep(start, [place], source_etype=ir.IntType(8))
        for dimension, extent in enumerate(view.extents):
            if isinstance(extent, int):
                self._arguments["length", view, dimension] = ir.IntType(64)(extent)
            stride = view.fixed_stride(dimension)
            if stride is not None:
                self._arguments["stride", view, dimension] = ir.IntType(64)(stride)

    def address(self, view: nodes.View) -> Any:
        """The address of a view's first element; of a tensor map that of its descriptor, in the generic space."""
        return self._arguments["map" if isinstance(view, nodes.TensorMap) else "address", view, 0]

    def length(self, view: nodes.View, dimension: int = 0) -> Any:
        """The extent of a view along a dimension, i64."""
        return self._arguments["length", view, dimension]

    def stride(self, view: nodes.View, dimension: int) -> Any:
        """Elements from one index of a dimension to the next, i64, of a view of several dimensions."""
        return self._arguments["stride", view, dimension]

    def value(self, parameter: nodes.ScalarParameter, builder: ir.IRBuilder) -> Any:
        """A scalar as it was passed (a bool is a byte)."""
        if parameter.member is None:
            return self._arguments["value", parameter, 0]
        place, kind = self._within(parameter.member, builder), memory_type(parameter.type)
        return builder.load(place, align=parameter.type.alignment, typ=kind)

    def array(self, array: nodes.Array, builder: ir.IRBuilder) -> Any:
        """The address of an array in a struct."""
        assert array.member is not None
        return self._within(array.member, builder)

    def _within(self, member: nodes.Member, builder: ir.IRBuilder) -> Any:
        return builder.gep(self._structs[member.owner], [ir.IntType(64)(member.offset)], inbounds=True, source_etype=ir.IntType(8))

    def hidden(self, name: str) -> Any:
        """A parameter that every kernel has."""
        return self._arguments["hidden", name, 0]

    def _describe(self, slot: Slot, argument: Any) -> None:
        if slot.kind == "address":
            assert isinstance(slot.parameter, nodes.View)
            argument.attributes.align = slot.parameter.alignment
            promise = self.promises[slot.parameter]
            if promise.alone:
                argument.add_attribute("noalias")
            if not slot.parameter.written:
                attribute(argument.attributes, "readonly")
        elif slot.kind == "map":
            # Without the second attribute LLVM would copy it to local memory, where the copy engine does not find it
            for text in (f"byval([{MAP_BYTES} x i8])", '"nvvm.grid_constant"', "readonly"):
                attribute(argument.attributes, text)
            argument.attributes.align = MAP_ALIGNMENT
        elif slot.kind == "length":
            attribute(argument.attributes, f"range(i64 0, {LONGEST_VIEW})")
        elif slot.name.startswith("grid_") and slot.kind == "hidden":
            attribute(argument.attributes, f"range(i32 1, {-(1 << 31)})")
        elif _is_pointer(slot):
            if slot.name != "barrier":  # which other blocks change
                argument.add_attribute("noalias")
            argument.attributes.align = _POINTERS[slot.name]


def _is_pointer(slot: Slot) -> bool:
    return slot.kind == "address" or (slot.kind == "hidden" and slot.name in _POINTERS)


def _argument_type(argument: Argument) -> ir.Type:
    return ir.PointerType() if argument.struct is not None else _type(argument.slots[0])


def _type(slot: Slot) -> ir.Type:
    if slot.kind == "map":
        return pointer(0)
    return pointer(GLOBAL) if _is_pointer(slot) else memory_type(slot.type)
