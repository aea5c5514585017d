"""What is done for one granule of memory that a thread touches: compare the words of its shadow with the present time and thread, report, leave a word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from llvmlite import ir

from kdsl.backend.cpu.sanitizer import layout
from kdsl.backend.cpu.sanitizer.code import BIT, Code, word

Touch: TypeAlias = Literal["bounds", "read", "write", "atomic", "replace", "look", "copy"]
"""Nothing but the index; a plain read or write; an atomic change, that of something that need not be written before (a store), an atomic load; an asynchronous
write."""
Space: TypeAlias = Literal["none", "global", "shared", "local"]


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
    warps: bool = False
    """Whether it is an access of one warp, in a kernel whose lanes wait for each other."""

    @property
    def name(self) -> str:
        """Name of the function."""
        flags = "".join(letter for letter, on in (("c", self.counted), ("e", self.everyone), ("1", self.alone), ("w", self.warps)) if on)
        return f"sanitizer.{self.touch}.{self.space}.{self.rank}.{self.granules}.{self.alignment}.{self.granule}.{flags}"


@dataclass
class Access:
    """What the code for one granule has at hand."""

    state: Any
    now: Any
    floor: Any
    block: Any
    interval: Any
    warp: Any
    thread: Any
    site: Any
    """The site, shifted."""
    me: Any
    """The word that the access leaves."""
    report: Callable[[str, Any, Any], None]
    """Report a kind, with the word of the other access and the number of the granule."""


class Granule:
    """What is done for one granule: compare, report, leave a word."""

    def __init__(self, code: Code, form: Form, access: Access, number: Any) -> None:
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
        return code.any(elsewhere, code.all(code.least(other, a.interval), differs, b.not_(self._is_behind_warp(other))))

    def _is_behind_warp(self, other: Any) -> Any:
        """Whether the lanes of the warp have waited for each other since one of them made an access. Of several threads the last one stands for all."""
        code, a = self.code, self.a
        if not self.form.warps:
            return ir.Constant(BIT, 0)
        return code.all(self.b.not_(code.has(self.b.xor(other, a.me), layout.WARP_MASK)), code.less(other, a.warp))

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
        several = code.flag(code.all(code.least(before, a.interval), differs, b.not_(self._is_behind_warp(before))), layout.SEVERAL)
        code.store(b.or_(b.or_(a.me, several), self._of_other_blocks(before)), place, layout.ATOMIC)
