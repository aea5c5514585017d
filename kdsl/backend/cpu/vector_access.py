"""Wide accesses: several numbers per lane, side by side in memory.

A vector is one to four words of 16, 32 or 64 bits, whatever its numbers are; narrower numbers are cut out of words in registers. Where neighbouring lanes
name neighbouring vectors their words lie in one block, which is loaded whole and taken apart by shuffles (or put together by them and stored); other
lanes load their words with an access of their own, and with a mask by gathers. A local array lies lane by lane, so that each number is an access.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from llvmlite import ir

from kdsl.backend.cpu import masked
from kdsl.backend.cpu.lanes import I32, Lanes, Linear, Uniform, Vector
from kdsl.backend.cpu.masks import Mask
from kdsl.backend.cpu.memory import MemoryAccess
from kdsl.backend.llvm.module import call_intrinsic, mangled, memory_type
from kdsl.backend.llvm.narrow import number, shaped
from kdsl.ir import nodes
from kdsl.lang.types import DType

_WORD: Final = 4
"""Bytes of a word into which narrower numbers are packed, if there are so many."""
_Found = TypeVar("_Found", list[Any], None)


@dataclass(frozen=True)
class _Words:
    """How a vector lies in words."""

    of: DType
    """The type of its numbers."""
    kind: ir.Type
    """The LLVM type of a word."""
    count: int
    """Words: 1, 2 or 4."""
    packed: int
    """Numbers in a word, the first in its lowest bits."""

    @staticmethod
    def of_vector(of: DType, lanes: int) -> _Words:
        """The words of a vector."""
        if of.itemsize >= _WORD:
            return _Words(of, memory_type(of), lanes, 1)
        size = min(_WORD, of.itemsize * lanes)
        return _Words(of, ir.IntType(8 * size), of.itemsize * lanes // size, size // of.itemsize)

    @property
    def whole(self) -> ir.VectorType:
        """The LLVM type of all words."""
        return ir.VectorType(self.kind, self.count)

    @property
    def size(self) -> int:
        """Bytes of all words, to which they are aligned."""
        return self.count * self.packed * self.of.itemsize

    def alignment(self, offset: int) -> int:
        """Bytes to which a word is aligned that is `offset` words behind the first of a vector: a group of two lanes takes a vector in parts."""
        return math.gcd(self.size, offset * self.packed * self.of.itemsize)


class VectorAccess(MemoryAccess):
    """Emits all accesses of one kernel, those to several numbers included."""

    # ------------------------------------------------------------------------------------------------------------------ loads

    def load_vector(self, op: nodes.LoadVector) -> list[Lanes]:
        """The numbers of a vector."""
        e, memory = self.e, op.memory
        indices = [e.value(i) for i in op.indices]
        words = _Words.of_vector(memory.type, op.lanes)

        def access(mask: Mask) -> list[Any]:
            if isinstance(memory, nodes.Array) and memory.space == "local":
                return [self._load(memory, memory_type(memory.type), part, mask) for part in e.storage.parts(memory, indices, op.lanes)]
            return self._load_words(memory, words, e.storage.vector_index(memory, indices, op.lanes), mask)

        found: list[Any] = e.checks.checked(op, indices, access) if op.checked else access(e.mask)
        numbers = found if len(found) == op.lanes else self._unpacked(words, found)
        return [Vector(each) if isinstance(each.type, ir.VectorType) else Uniform(each) for each in numbers]

    def _load_words(self, memory: nodes.Memory, words: _Words, index: Lanes, mask: Mask) -> list[Any]:
        """The words of each lane: scalars if all lanes name one vector, else vectors of lanes."""
        e = self.e
        start = e.storage.start(memory)
        if isinstance(index, Uniform):

            def one() -> list[Any]:
                whole = self._load_whole(memory, words, e.builder.gep(start, [index.scalar], source_etype=words.whole))
                return [e.builder.extract_element(whole, ir.Constant(I32, word)) for word in range(words.count)]

            if e.guarded or mask is None:
                return one()
            found: list[Any] = e.checks.if_any(mask, one, [ir.Constant(words.kind, None)] * words.count)
            return found

        def some(mask: Mask) -> list[Any]:
            length = self._pieces_of(index, mask, same=True)
            if length is None:
                return self._gather_words(memory, words, start, index, mask)
            return self._taken_apart(self._load_chunks(memory, words, start, index, mask, length))

        return self._whole_or_part(index, mask, some)

    def _whole_or_part(self, index: Lanes, mask: Mask, some: Callable[[Mask], _Found]) -> _Found:
        """Make an access, in two versions if it is much cheaper while all lanes are active."""
        compact = self.e.host.compact_masks and self._pieces_of(index, mask, same=True) is not None
        if mask is None or compact:
            return some(mask)
        found: _Found = self.either(self.e.masks.whole(mask), lambda: some(None), lambda: some(mask))
        return found

    def _pieces_of(self, index: Lanes, mask: Mask, *, same: bool) -> int | None:
        """The lanes of a piece that is one access; None where lanes are active one by one and not side by side."""
        length = self._run_length(index, mask, same=same) if isinstance(index, Linear) else None
        return 1 if length is None and mask is None else length

    def _place(self, index: Lanes, lane: int) -> Any:
        """The scalar index of one lane."""
        return (
            self.place(index, lane) if isinstance(index, Linear) else self.e.builder.extract_element(self.e.lanes.vector(index), I32(lane))
        )

    def _load_whole(self, memory: nodes.Memory, words: _Words, address: Any) -> Any:
        loaded = self.e.builder.load(address, align=words.size, typ=words.whole)
        self.e.storage.mark(loaded, memory)
        return loaded

    def _load_chunks(self, memory: nodes.Memory, words: _Words, start: Any, index: Lanes, mask: Mask, length: int) -> list[Any]:
        """The words of all lanes in the order of lanes, as vectors of as many words as there are lanes."""
        e = self.e
        b = e.builder
        parts: list[Any] = []
        chunk = min(e.width, length * words.count)
        kind = ir.VectorType(words.kind, chunk)
        for first in range(0, e.width, length):
            if length > 1 and isinstance(index, Linear) and not self._is_run(index, first, length):
                parts += self._repeated(memory, words, start, index, mask, first, length, chunk)
                continue
            address = b.gep(start, [self._place(index, first)], source_etype=words.whole)
            for offset in range(0, length * words.count, chunk):
                place = b.gep(address, [e.i64(offset)], source_etype=words.kind) if offset else address
                if mask is None:
                    parts.append(b.load(place, align=words.alignment(offset), typ=kind))
                    e.storage.mark(parts[-1], memory)
                else:
                    spread = self._spread(mask, words, first, offset, chunk)
                    parts.append(masked.load(e, kind, place, words.alignment(offset), spread, memory))
        while len(parts) > words.count:
            parts = [self._joined(parts[i], parts[i + 1]) for i in range(0, len(parts), 2)]
        return parts

    def _repeated(
        self, memory: nodes.Memory, words: _Words, start: Any, index: Linear, mask: Mask, first: int, length: int, chunk: int
    ) -> list[Any]:
        """The words of lanes that all name one vector, zeros if none of them is active."""
        b = self.e.builder
        address = b.gep(start, [self.place(index, first)], source_etype=words.whole)
        if mask is not None:
            address = self._readable(address, self._part(mask, first, length))
        whole = self._load_whole(memory, words, address)
        undefined = ir.Constant(whole.type, ir.Undefined)
        every = [word % words.count for word in range(length * words.count)]
        return [self._two(whole, undefined, every[offset : offset + chunk]) for offset in range(0, len(every), chunk)]

    def _spread(self, mask: Any, words: _Words, first: int, offset: int, count: int) -> Any:
        """The mask of `count` words from one of a lane on."""
        lanes = [first + (offset + word) // words.count for word in range(count)]
        return self.e.builder.shuffle_vector(mask, ir.Constant(mask.type, ir.Undefined), ir.Constant(ir.VectorType(I32, count), lanes))

    def _gather_words(self, memory: nodes.Memory, words: _Words, start: Any, index: Lanes, mask: Mask) -> list[Any]:
        return [self._gathered(pointers, words.kind, mask, memory) for pointers in self._word_addresses(memory, words, start, index)]

    def _word_addresses(self, memory: nodes.Memory, words: _Words, start: Any, index: Lanes) -> list[Any]:
        """For each word the addresses of all lanes."""
        e = self.e
        first = e.storage.times(index, words.count)
        starts = [e.builder.gep(start, [e.i64(word)], source_etype=words.kind) if word else start for word in range(words.count)]
        return [self._addresses(memory, words.kind, each, first) for each in starts]

    # ----------------------------------------------------------------------------------------------------------------- stores

    def store_vector(self, op: nodes.StoreVector) -> None:
        """Emit a store of a vector."""
        e, memory = self.e, op.memory
        indices = [e.value(i) for i in op.indices]
        values = [e.value(v) for v in op.values]
        words = _Words.of_vector(memory.type, op.lanes)

        def access(mask: Mask) -> None:
            if isinstance(memory, nodes.Array) and memory.space == "local":
                for part, value in zip(e.storage.parts(memory, indices, op.lanes), values, strict=True):
                    self._store(memory, memory_type(memory.type), part, value, mask)
            else:
                self._store_words(memory, words, e.storage.vector_index(memory, indices, op.lanes), values, mask)

        if op.checked:
            e.checks.checked(op, indices, access)
        else:
            access(e.mask)

    def _store_words(self, memory: nodes.Memory, words: _Words, index: Lanes, values: Sequence[Lanes], mask: Mask) -> None:
        e = self.e
        b = e.builder
        start = e.storage.start(memory)
        if isinstance(index, Uniform):

            def one() -> None:
                # of several lanes that write one vector any may win, with all of it
                lane = None if all(isinstance(value, Uniform) for value in values) else e.masks.first(mask)
                scalars = [v.scalar if isinstance(v, Uniform) else b.extract_element(e.lanes.vector(v), lane) for v in values]
                whole = ir.Constant(words.whole, ir.Undefined)
                for word, value in enumerate(self._packed(words, scalars)):
                    whole = b.insert_element(whole, value, ir.Constant(I32, word))
                stored = b.store(whole, b.gep(start, [index.scalar], source_etype=words.whole), align=words.size)
                e.storage.mark(stored, memory)

            if e.guarded or mask is None:
                one()
            else:
                e.checks.if_any(mask, one, None)
            return
        columns = self._packed(words, [e.lanes.vector(value) for value in values])

        def some(mask: Mask) -> None:
            length = self._pieces_of(index, mask, same=False)
            if length is None:
                self._scatter_words(memory, words, start, index, columns, mask)
            else:
                self._store_chunks(memory, words, start, index, self._put_together(columns), mask, length)

        self._whole_or_part(index, mask, some)

    def _store_chunks(
        self, memory: nodes.Memory, words: _Words, start: Any, index: Lanes, chunks: list[Any], mask: Mask, length: int
    ) -> None:
        e = self.e
        b = e.builder
        size = min(e.width, length * words.count)
        for first in range(0, e.width, length):
            address = b.gep(start, [self._place(index, first)], source_etype=words.whole)
            for offset in range(0, length * words.count, size):
                place = b.gep(address, [e.i64(offset)], source_etype=words.kind) if offset else address
                number_of_chunk, begin = divmod(first * words.count + offset, e.width)
                part = self._part(chunks[number_of_chunk], begin, size)
                if mask is None:
                    e.storage.mark(b.store(part, place, align=words.alignment(offset)), memory)
                else:
                    masked.store(e, part, place, words.alignment(offset), self._spread(mask, words, first, offset, size), memory)

    def _scatter_words(self, memory: nodes.Memory, words: _Words, start: Any, index: Lanes, columns: list[Any], mask: Mask) -> None:
        e = self.e
        size = ir.Constant(I32, words.size // words.count)
        for pointers, column in zip(self._word_addresses(memory, words, start, index), columns, strict=True):
            name = f"llvm.masked.scatter.{mangled(column.type)}.v{e.width}p0"
            stored = call_intrinsic(e.builder, name, ir.VoidType(), column, pointers, size, e.masks.explicit(mask))
            e.storage.mark(stored, memory)

    # --------------------------------------------------------------------------------------------------------------- shuffles

    def _two(self, a: Any, b: Any, lanes: Sequence[int]) -> Any:
        return self.e.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))

    def _taken_apart(self, chunks: list[Any]) -> list[Any]:
        """From words in the order of lanes to one vector of lanes for each word: even and odd words, and so on with both. Each step takes two vectors
        to one of the same length, for which every processor has an instruction or two."""
        if len(chunks) == 1:
            return chunks
        width = self.e.width
        pairs = list(zip(chunks[::2], chunks[1::2], strict=True))
        even, odd = (self._taken_apart([self._two(a, b, range(first, 2 * width, 2)) for a, b in pairs]) for first in (0, 1))
        return [word for both in zip(even, odd, strict=True) for word in both]

    def _put_together(self, columns: list[Any]) -> list[Any]:
        """The other way round."""
        if len(columns) == 1:
            return columns
        width = self.e.width
        even, odd = self._put_together(columns[::2]), self._put_together(columns[1::2])
        zipped = [place for lane in range(width) for place in (lane, width + lane)]
        return [self._two(a, b, half) for a, b in zip(even, odd, strict=True) for half in (zipped[:width], zipped[width:])]

    # ------------------------------------------------------------------------------------------------------- numbers in words

    def _unpacked(self, words: _Words, found: list[Any]) -> list[Any]:
        """The numbers of words."""
        b = self.e.builder
        numbers = []
        for word in found:
            kind = shaped(memory_type(words.of), word)
            for position in range(words.packed):
                shift = 8 * words.of.itemsize * position
                numbers.append(b.trunc(b.lshr(word, number(word.type, shift)) if shift else word, kind))
        return numbers

    def _packed(self, words: _Words, numbers: Sequence[Any]) -> list[Any]:
        """The words of numbers."""
        if words.packed == 1:
            return list(numbers)
        b = self.e.builder
        found = []
        for first in range(0, len(numbers), words.packed):
            total = None
            for position, value in enumerate(numbers[first : first + words.packed]):
                part = b.zext(value, shaped(words.kind, value))
                if position:
                    part = b.shl(part, number(part.type, 8 * words.of.itemsize * position))
                total = part if total is None else b.or_(total, part)
            found.append(total)
        return found
