"""The functions that look at accesses: one for each form (what it does, where the array lies, how many dimensions), made at its first use.

A function takes the lanes of a group that make the access and gives back those that may: whose indices are inside, whose address is aligned. Of each granule
that a lane touches it compares the words of the shadow with the present time and thread, reports what is wrong, and leaves a word of its own.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from kdsl.backend.cpu.sanitizer import layout
from kdsl.backend.cpu.sanitizer.code import POINTER, WORD, Code, word
from kdsl.backend.cpu.sanitizer.granules import Access, Form, Granule
from kdsl.backend.cpu.sanitizer.report import kind_and_site, reporter

PARAMETERS: Final = (POINTER, POINTER, WORD, WORD, WORD, POINTER, POINTER)
"""State, shadow of the array, site (shifted), first thread, lanes as bits, indices (a row of `width` words per dimension, then one with counts if the form has
them), and the description of the array."""

DESCRIPTION: Final = ("address", "first", "of_thread")
"""Words behind extent and stride (in granules) of each dimension: the address of the first element, granules to the number, granules of a thread's array."""


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
        self.times = [code.load(state, word_) for word_ in (layout.NOW, layout.FLOOR, layout.BLOCK, layout.INTERVAL, layout.WARP)]
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
        now, floor, block, interval, warp = self.times
        me = b.or_(b.or_(now, site), b.shl(thread, word(layout.THREAD_SHIFT)))
        words = 1 if form.space == "local" else layout.WORDS
        if form.space == "local":
            offset = b.add(offset, b.mul(thread, code.load(description, 2 * form.rank + 2)))
        first = code.at(shadow, b.mul(offset, word(words)))

        def granule(number: Any) -> None:
            place = code.at(first, b.mul(number, word(words)))

            def report(kind: str, other: Any, about: Any) -> None:
                self._report(state, kind, site, other, thread, offset, (about, word(0)), (indices, lane))

            touch = Granule(code, form, Access(state, now, floor, block, interval, warp, thread, site, me, report), number)
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
