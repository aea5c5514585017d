"""The functions that look at accesses: one for each form (what it does, where the array lies, how many dimensions), made at its first use.

A function takes the lanes of a group that make the access and gives back those that may: whose indices are inside, whose address is aligned. Of each granule
that a lane touches it compares the words of the shadow with the present time and thread, reports what is wrong, and leaves a word of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from llvmlite import ir

from kdsl.backend.cpu.sanitizer import layout
from kdsl.backend.cpu.sanitizer.code import BIT, POINTER, WORD, Code, word
from kdsl.backend.cpu.sanitizer.report import kind_and_site, reporter

Touch: TypeAlias = Literal["bounds", "read", "write", "atomic", "replace", "look", "copy"]
"""Nothing but the index; a plain read or write; an atomic change, that of something that need not be written before (a store), an atomic load; an asynchronous
write."""
Space: TypeAlias = Literal["none", "global", "shared", "local"]

PARAMETERS: Final = (POINTER, POINTER, WORD, WORD, WORD, POINTER, POINTER)
"""State, shadow of the array, site (shifted), first thread, lanes as bits, indices (a row of `width` words per dimension, then one with counts if the form has
them), and the description of the array."""

DESCRIPTION: Final = ("address", "first", "of_thread")
"""Words behind extent and stride (in granules) of each dimension: the address of the first element, granules to the number, granules of a thread's array."""


@dataclass(frozen=True)
class Form:
    """What one function is for."""

    touch: Touch
    space: Space
    rank: int
    """Indices."""
    width: int
    """Lanes of a group."""
    granules: int = 1
    """Granules of one element, or of all that is touched if `counted` is False."""
    counted: bool = False
    """Whether a row of counts says how many elements are touched, side by side along the last dimension."""
    alignment: int = 1
    """Bytes to which the address must be aligned."""
    granule: int = 1
    """Bytes of a granule."""
    everyone: bool = False
    """Whether all threads of the block make the access, as one."""
    alone: bool = False
    """Whether the block has one thread."""

    @property
    def name(self) -> str:
        """Name of the function."""
        flags = "".join(letter for letter, on in (("c", self.counted), ("e", self.everyone), ("1", self.alone)) if on)
        return f"sanitizer.{self.touch}.{self.space}.{self.rank}.{self.granules}.{self.alignment}.{self.granule}.{flags}"


@dataclass
class _Access:
    """What the code for one granule has at hand."""

    state: Any
    now: Any
    floor: Any
    block: Any
    interval: Any
    thread: Any
    site: Any
    """The site, shifted."""
    me: Any
    """The word that the access leaves."""
    report: Callable[[str, Any, Any], None]
    """Report a kind, with the word of the other access and the number of the granule."""


def access_function(module: ir.Module, form: Form) -> Any:
    """The function for a form."""
    if form.name in module.globals:
        return module.globals[form.name]
    function = ir.Function(module, ir.FunctionType(WORD, PARAMETERS), form.name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    _Body(function, form).emit()
    return function


class _Body:
    """The body of one function."""

    def __init__(self, function: Any, form: Form) -> None:
        self.function = function
        self.form = form
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self.code = Code(self.b)
        self.reporter = reporter(function.module)

    def emit(self) -> None:
        """All of it."""
        b, code = self.b, self.code
        state, shadow, site, first, bits, indices, description = self.function.args
        self.times = [code.load(state, word_) for word_ in (layout.NOW, layout.FLOOR, layout.BLOCK, layout.INTERVAL)]
        allowed = b.alloca(WORD)
        code.store(bits, allowed)

        def one(lane: Any, bit: Any) -> None:
            thread = b.add(first, lane)
            inside, offset = self._place(state, site, lane, thread, indices, description)
            with b.if_else(inside) as (then, otherwise):
                with then:
                    self._inside(state, shadow, site, lane, thread, indices, description, offset, allowed, bit)
                with otherwise:
                    code.store(b.xor(code.load(allowed), bit), allowed)

        code.lanes(bits, one)
        b.ret(code.load(allowed))

    # -------------------------------------------------------------------------------------------------------------- indices

    def _report(
        self, state: Any, kind: str, site: Any, other: Any, thread: Any, offset: Any, more: tuple[Any, Any], at: tuple[Any, Any]
    ) -> None:
        b, form = self.b, self.form
        what = b.or_(kind_and_site(kind, 0), site)
        thread = word((1 << 64) - 1) if form.everyone else thread
        rows = min(form.rank, layout.MOST_INDICES) << 32 | form.width
        b.call(self.reporter, [state, what, other, thread, offset, *more, at[0], at[1], word(rows)])

    def _place(self, state: Any, site: Any, lane: Any, thread: Any, indices: Any, description: Any) -> tuple[Any, Any]:
        """Whether the indices of a lane are inside, which is reported if not, and the granule that they name."""
        b, code, form = self.b, self.code, self.form
        offset = code.load(description, 2 * form.rank + 1)
        count = self._count(indices, lane)
        insides, dimensions = [], []
        for dimension in range(form.rank):
            index = code.load(indices, b.add(lane, word(dimension * form.width)))
            extent, stride = code.load(description, 2 * dimension), code.load(description, 2 * dimension + 1)
            inside = code.less(index, extent)
            if form.counted and dimension == form.rank - 1:  # counts are small, extents at most 2 ** 47
                end = b.add(index, count)
                inside = code.any(code.same(count, word(0)), code.all(inside, b.icmp_unsigned("<=", end, extent)))
            elif form.counted:
                inside = code.any(code.same(count, word(0)), inside)
            insides.append(inside)
            dimensions.append(extent)
            offset = b.add(offset, b.mul(index, stride))
        good = code.all(*insides)
        with code.rarely(b.not_(good)):
            dimension, extent = word(form.rank - 1), dimensions[-1]
            for number in reversed(range(form.rank - 1)):
                dimension = b.select(insides[number], dimension, word(number))
                extent = b.select(insides[number], extent, dimensions[number])
            self._report(state, "outside", site, word(0), thread, offset, (dimension, extent), (indices, lane))
        return good, offset

    def _count(self, indices: Any, lane: Any) -> Any:
        return self.code.load(indices, self.b.add(lane, word(self.form.rank * self.form.width))) if self.form.counted else None

    def _inside(
        self,
        state: Any,
        shadow: Any,
        site: Any,
        lane: Any,
        thread: Any,
        indices: Any,
        description: Any,
        offset: Any,
        allowed: Any,
        bit: Any,
    ) -> None:
        b, code, form = self.b, self.code, self.form
        count = self._count(indices, lane)
        if form.alignment > 1:
            address = b.add(code.load(description, 2 * form.rank), b.mul(offset, word(form.granule)))
            odd = code.has(address, form.alignment - 1)
            if count is not None:
                odd = code.all(odd, code.b.icmp_unsigned("!=", count, word(0)))
            with code.rarely(odd):
                self._report(state, "misaligned", site, word(0), thread, offset, (word(0), word(form.alignment)), (indices, lane))
                code.store(b.xor(code.load(allowed), bit), allowed)
        if form.touch == "bounds" or form.space == "none":
            return
        now, floor, block, interval = self.times
        me = b.or_(b.or_(now, site), b.shl(thread, word(layout.THREAD_SHIFT)))
        words = 1 if form.space == "local" else layout.WORDS
        if form.space == "local":
            offset = b.add(offset, b.mul(thread, code.load(description, 2 * form.rank + 2)))
        first = code.at(shadow, b.mul(offset, word(words)))

        def granule(number: Any) -> None:
            place = code.at(first, b.mul(number, word(words)))

            def report(kind: str, other: Any, about: Any) -> None:
                self._report(state, kind, site, other, thread, offset, (about, word(0)), (indices, lane))

            touch = _Granule(code, form, _Access(state, now, floor, block, interval, thread, site, me, report), number)
            touch.emit(place)

        if count is not None:
            code.repeat(b.mul(count, word(form.granules)), granule)
            if form.touch == "copy":
                self._queue(state, thread, first, b.mul(count, word(form.granules)), me)
        elif form.granules == 1:
            granule(word(0))
        else:
            code.repeat(word(form.granules), granule)

    def _queue(self, state: Any, thread: Any, place: Any, granules: Any, me: Any) -> None:
        """Note a copy that has been begun, over an old one if there are too many."""
        b, code = self.b, self.code
        queue = code.at(code.load_pointer(state, layout.COPIES), b.mul(thread, word(layout.QUEUE_WORDS)))
        last = code.load(queue, layout.LAST)
        with code.rarely(code.same(b.sub(last, code.load(queue, layout.FIRST)), word(layout.MOST_COPIES))):
            code.store(b.add(code.load(queue, layout.FIRST), word(1)), queue, layout.FIRST)
        entry = copy_entry(code, queue, last)
        group = b.add(code.load(queue, layout.COMMITTED), word(1))
        for position, value in enumerate((b.ptrtoint(place, WORD), granules, me, group)):
            code.store(value, entry, position)
        code.store(b.add(last, word(1)), queue, layout.LAST)


def copy_entry(code: Code, queue: Any, number: Any) -> Any:
    """The words of a copy in a queue."""
    place = code.b.and_(number, word(layout.MOST_COPIES - 1))
    return code.at(queue, code.b.add(code.b.mul(place, word(layout.COPY)), word(layout.QUEUE)))


class _Granule:
    """What is done for one granule: compare, report, leave a word."""

    def __init__(self, code: Code, form: Form, access: _Access, number: Any) -> None:
        self.code = code
        self.b = code.b
        self.form = form
        self.a = access
        self.number = number

    def emit(self, place: Any) -> None:
        """All of it, for the shadow words at `place`."""
        code, a = self.code, self.a
        if self.form.space == "local":
            if self.form.touch == "read":
                self._report_if([("uninitialised", code.less(code.load(place), a.block), word(0))])
            else:
                code.store(a.me, place)
            return
        written, atomic = code.load(place, layout.WRITTEN), code.load(place, layout.ATOMIC)
        match self.form.touch:
            case "read":
                with self._unless_quiet(written, atomic, is_read=True):
                    self._report_if([*self._faults_of_reads(written, atomic), ("race", self._unordered(atomic), atomic)])
                self._note_read(place)
            case "look":
                self._report_if(self._faults_of_reads(written, atomic))
            case "write" | "copy":
                found = [code.load(place, which) for which in (layout.READ, layout.READ_BEFORE)]
                with self._unless_quiet(written, atomic, *found):
                    self._report_if(
                        [self._pending(written), *(("race", self._unordered(other), other) for other in (written, atomic, *found))]
                    )
                code.store(a.me if self.form.touch == "write" else self.b.or_(a.me, word(layout.PENDING)), place, layout.WRITTEN)
            case _:
                found = [code.load(place, which) for which in (layout.READ, layout.READ_BEFORE)]
                faults = [self._pending(written), *(("race", self._unordered(other), other) for other in (written, *found))]
                if self.form.touch == "atomic":
                    faults.append(("uninitialised", self._is_unwritten(written, atomic), word(0)))
                self._report_if(faults)
                self._note_atomic(place, atomic)

    @contextmanager
    def _unless_quiet(self, written: Any, *others: Any, is_read: bool = False) -> Iterator[None]:
        """Look closely, unless a few comparisons say that all that was done is ordered before: mostly it is from an earlier launch, or behind a barrier."""
        b, code, a = self.b, self.code, self.a
        newest = written
        for other in others:
            newest = b.select(code.less(newest, other), other, newest)
        if self.form.space == "shared":
            quiet = code.all(code.less(newest, a.interval), b.not_(code.has(written, layout.PENDING)))
            if is_read:
                quiet = code.all(quiet, code.least(newest, a.block))
        else:
            quiet = code.less(newest, a.floor)
            if is_read:
                quiet = code.all(quiet, b.icmp_unsigned("!=", newest, word(0)))
        with b.if_then(b.not_(quiet), likely=False):
            yield

    def _report_if(self, faults: list[tuple[str, Any, Any]]) -> None:
        """Report the first fault that there is."""
        b, code = self.b, self.code

        def report(rest: list[tuple[str, Any, Any]]) -> None:
            kind, condition, other = rest[0]
            if len(rest) == 1:
                with b.if_then(condition):
                    self.a.report(kind, other, self.number)
                return
            with b.if_else(condition) as (then, otherwise):
                with then:
                    self.a.report(kind, other, self.number)
                with otherwise:
                    report(rest[1:])

        with code.rarely(code.any(*(condition for _, condition, _ in faults))):
            report(faults)

    def _faults_of_reads(self, written: Any, atomic: Any) -> list[tuple[str, Any, Any]]:
        return [
            self._pending(written), ("race", self._unordered(written), written), ("uninitialised", self._is_unwritten(written, atomic), word(0)),
        ]  # fmt: skip

    def _is_unwritten(self, written: Any, atomic: Any) -> Any:
        since = self.a.block if self.form.space == "shared" else word(layout.BY_HOST)
        return self.code.all(self.code.less(written, since), self.code.less(atomic, since))

    def _pending(self, written: Any) -> tuple[str, Any, Any]:
        code = self.code
        return "unfinished copy", code.all(code.has(written, layout.PENDING), code.least(written, self.a.block)), written

    def _unordered(self, other: Any) -> Any:
        """Whether an access of another thread is neither before the present one nor after it."""
        b, code, a = self.b, self.code, self.a
        elsewhere = self._is_of_other_blocks(other)
        if self.form.alone:
            return elsewhere
        differs: Any = ir.Constant(BIT, 1)
        if not self.form.everyone:
            differs = code.any(code.has(b.xor(other, a.me), layout.THREAD_MASK), code.has(other, layout.SEVERAL))
        return code.any(elsewhere, code.all(code.least(other, a.interval), differs))

    def _is_of_other_blocks(self, other: Any) -> Any:
        """Whether a word stands for another block of the launch that is not ordered before the present one."""
        code, a = self.code, self.a
        if self.form.space == "shared":  # another block has another array at the same place
            return ir.Constant(BIT, 0)
        further = code.all(code.has(other, layout.BLOCKS), code.less(a.floor, a.block))
        return code.all(code.least(other, a.floor), code.any(code.less(other, a.block), further))

    def _of_other_blocks(self, other: Any) -> Any:
        """The flag of other blocks, if a word that is replaced stands for one."""
        return self.code.flag(self._is_of_other_blocks(other), layout.BLOCKS)

    def _note_read(self, place: Any) -> None:
        b, code, a = self.b, self.code, self.a
        before = code.load(place, layout.READ)
        mine = b.or_(a.me, self._of_other_blocks(before))
        if self.form.everyone:
            code.store(mine, place, layout.READ)
            code.store(a.me if self.form.alone else b.or_(a.me, word(1 << layout.THREAD_SHIFT)), place, layout.READ_BEFORE)
            return
        same = code.all(code.least(before, a.block), b.not_(code.has(b.xor(before, a.me), layout.THREAD_MASK)))
        kept = b.select(same, code.load(place, layout.READ_BEFORE), before)
        code.store(mine, place, layout.READ)
        code.store(kept, place, layout.READ_BEFORE)

    def _note_atomic(self, place: Any, before: Any) -> None:
        b, code, a = self.b, self.code, self.a
        differs = code.any(code.has(b.xor(before, a.me), layout.THREAD_MASK), code.has(before, layout.SEVERAL))
        several = code.flag(code.all(code.least(before, a.interval), differs), layout.SEVERAL)
        code.store(b.or_(b.or_(a.me, several), self._of_other_blocks(before)), place, layout.ATOMIC)
