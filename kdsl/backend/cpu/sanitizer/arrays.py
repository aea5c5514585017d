"""Arrays in instrumented code: their descriptions, made once per call of the kernel, and the calls that look at an access."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from kdsl.backend.cpu.lanes import Lanes, Uniform
from kdsl.backend.cpu.masks import Mask
from kdsl.backend.cpu.sanitizer import layout
from kdsl.backend.cpu.sanitizer.accesses import access_function
from kdsl.backend.cpu.sanitizer.code import BIT, POINTER, WORD, word
from kdsl.backend.cpu.sanitizer.granules import Form, Space, Touch
from kdsl.backend.cpu.sanitizer.sites import granule, is_global
from kdsl.backend.llvm.module import call_intrinsic
from kdsl.ir import nodes
from kdsl.ir.abi import extent_slot

if TYPE_CHECKING:
    from kdsl.backend.cpu.sanitizer.emission import SanitizedEmission


def space_of(memory: nodes.Memory) -> Space:
    """Where an array lies, in the eyes of the shadow."""
    if is_global(memory):
        return "global"
    if isinstance(memory, nodes.View):
        return "shared"
    return memory.space if memory.space in ("shared", "local") else "none"  # others cannot be written


class Arrays:
    """The arrays of one kernel."""

    def __init__(self, emission: SanitizedEmission) -> None:
        self.e = emission
        self._descriptions: dict[tuple[object, ...], Any] = {}
        self._shadows: dict[nodes.Memory, Any] = {}

    # ------------------------------------------------------------------------------------------------------------ descriptions

    def _extents_and_strides(self, memory: nodes.Memory) -> tuple[list[Any], list[Any]]:
        """In elements."""
        if isinstance(memory, nodes.View):
            extents = [self.e.arguments[extent_slot(memory.name, memory.rank, d)] for d in range(memory.rank)]
            strides = [self.e.arguments[f"{memory.name}.stride.{d}"] if memory.has_strides else word(1) for d in range(memory.rank)]
            return extents, strides
        steps = [1]
        for extent in reversed(memory.shape[1:]):
            steps.insert(0, steps[0] * extent)
        return [word(extent) for extent in memory.shape], [word(step) for step in steps]

    def _address(self, memory: nodes.Memory) -> Any:
        if isinstance(memory, nodes.Array) and memory.space == "local":
            return word(0)  # lane by lane, so that vectors are single numbers
        return self.e.builder.ptrtoint(self.e.storage.start(memory), WORD)

    def description(self, memory: nodes.Memory, field: nodes.Field | None, lanes: int, shape: tuple[int, ...]) -> Any:
        """The words that describe an array to the functions, for accesses of a form: `accesses.DESCRIPTION`."""
        key = (memory, field, lanes, shape)
        if key in self._descriptions:
            return self._descriptions[key]
        b, size = self.e.builder, granule(memory.type)
        with b.goto_entry_block():
            extents, strides = self._extents_and_strides(memory)
            per_element = memory.type.itemsize // size
            if lanes > 1:
                extents[-1] = b.udiv(extents[-1], word(lanes))
                strides[-1] = b.mul(strides[-1], word(lanes))
            strides = [b.mul(stride, word(per_element)) for stride in strides]
            first = 0
            if field is not None:
                first = field.offset // size
                extents += [word(extent) for extent in field.shape]
                strides += [word(step // size) for step in field.strides]
            else:  # extents within an element, of which only the check matters
                extents += [word(extent) for extent in shape]
                strides += [word(0)] * len(shape)
            own = memory.size * per_element if isinstance(memory, nodes.Array) else 0
            words = [each for pair in zip(extents, strides, strict=True) for each in pair]
            words += [self._address(memory), word(first), word(own)]
            made = b.alloca(ir.ArrayType(WORD, len(words)), name="description")
            made.type = POINTER
            for position, value in enumerate(words):
                b.store(value, b.gep(made, [word(position)], source_etype=WORD), align=8)
        self._descriptions[key] = made
        return made

    def shadow(self, memory: nodes.Memory) -> Any:
        """The address of the shadow of an array's first element."""
        if memory not in self._shadows:
            with self.e.builder.goto_entry_block():
                place = layout.MEMORIES + self.e.sites.arrays[memory]
                self._shadows[memory] = self.e.code.load_pointer(self.e.state, place)
        return self._shadows[memory]

    # ------------------------------------------------------------------------------------------------------------------- calls

    def _rows(self, rows: Sequence[Lanes], everyone: bool) -> Any:
        """A buffer with the values of all lanes, row by row."""
        e = self.e
        b, width = e.builder, e.width
        buffer = e.buffer(ir.ArrayType(WORD, width * max(len(rows), 1)), ("sanitizer", len(rows)))
        for number, row in enumerate(rows):
            place = b.gep(buffer, [word(number * width)], source_etype=WORD)
            if everyone:
                assert isinstance(row, Uniform)
                b.store(row.scalar, place, align=8)
            else:
                b.store(e.lanes.vector(row), place, align=8)
        return buffer

    def look(
        self,
        touch: Touch,
        site: int,
        memory: nodes.Memory,
        indices: Sequence[Lanes],
        *,
        field: nodes.Field | None = None,
        shape: tuple[int, ...] = (),
        lanes: int = 1,
        counts: Lanes | None = None,
        alignment: int = 1,
        mask: Mask = None,
    ) -> Any:
        """Look at an access of the active lanes; those of them, as bits (a word), that may make it."""
        e = self.e
        b, size = e.builder, granule(memory.type)
        everyone = e.regions.at_block_level
        number = memory.type if field is None else field.type
        form = Form(
            touch, space_of(memory), len(indices), e.width, lanes * number.itemsize // size, counts is not None, alignment, size, everyone,
            e.kernel.threads == 1, e.syncs_warps and (not everyone or e.kernel.threads <= nodes.WARP_SIZE),
        )  # fmt: skip
        rows = self._rows([*indices, *([] if counts is None else [counts])], everyone)
        bits = every = word(1) if everyone else e.bits(mask)
        # of lanes that read one element two stand for all: one of them differs from whoever writes it
        together = (
            touch == "read" and not everyone and counts is None and form.space != "local" and all(isinstance(i, Uniform) for i in indices)
        )
        if together:
            bits = self._outermost(every)
        first = word(0) if everyone else e.specials.first_thread
        shadow = e.state if form.space == "none" or touch == "bounds" else self.shadow(memory)
        arguments = [e.state, shadow, word(site << layout.SITE_SHIFT), first, bits, rows, self.description(memory, field, lanes, shape)]
        call = b.call(access_function(e.module, form), arguments)
        e.storage.touches_no_array(call)
        return b.select(b.icmp_unsigned("==", call, bits), every, word(0)) if together else call

    def _outermost(self, bits: Any) -> Any:
        """The lowest and the highest bit."""
        b = self.e.builder
        zeros = call_intrinsic(b, "llvm.ctlz.i64", WORD, bits, ir.Constant(BIT, 0))
        highest = b.lshr(word(1 << 63), b.and_(zeros, word(63)))
        return b.and_(b.or_(b.and_(bits, b.neg(bits)), highest), bits)
