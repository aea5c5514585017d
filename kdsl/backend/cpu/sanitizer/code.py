"""A little language for the functions that instrumented code calls: words, their arithmetic, memory of words, loops over lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from llvmlite import ir

from kdsl.backend.cpu.turns import each_bit

WORD: Final = ir.IntType(64)
BIT: Final = ir.IntType(1)
POINTER: Final = ir.PointerType()


def word(value: int) -> ir.Constant:
    """A constant word."""
    return ir.Constant(WORD, value)


class Code:
    """Emits into one function; words are unsigned."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.b = builder

    # ------------------------------------------------------------------------------------------------------------------ memory

    def at(self, pointer: Any, index: Any) -> Any:
        """The address of a word."""
        return self.b.gep(pointer, [word(index) if isinstance(index, int) else index], source_etype=WORD)

    def load(self, pointer: Any, index: Any = 0) -> Any:
        """A word of an array."""
        return self.b.load(self.at(pointer, index), align=8, typ=WORD)

    def load_pointer(self, pointer: Any, index: Any) -> Any:
        """A word that is an address."""
        return self.b.load(self.at(pointer, index), align=8, typ=POINTER)

    def store(self, value: Any, pointer: Any, index: Any = 0) -> None:
        """Set a word of an array."""
        self.b.store(value, self.at(pointer, index), align=8)

    # -------------------------------------------------------------------------------------------------------------- arithmetic

    def flag(self, condition: Any, value: int) -> Any:
        """`value` where the condition holds, else 0."""
        return self.b.select(condition, word(value), word(0))

    def has(self, value: Any, bits: int) -> Any:
        """Whether some of the bits are set."""
        return self.b.icmp_unsigned("!=", self.b.and_(value, word(bits)), word(0))

    def less(self, a: Any, b: Any) -> Any:
        """a < b."""
        return self.b.icmp_unsigned("<", a, b)

    def least(self, a: Any, b: Any) -> Any:
        """a >= b."""
        return self.b.icmp_unsigned(">=", a, b)

    def same(self, a: Any, b: Any) -> Any:
        """a == b."""
        return self.b.icmp_unsigned("==", a, b)

    def any(self, *conditions: Any) -> Any:
        """Whether one of them holds."""
        found = conditions[0]
        for condition in conditions[1:]:
            found = self.b.or_(found, condition)
        return found

    def all(self, *conditions: Any) -> Any:
        """Whether all of them hold."""
        found = conditions[0]
        for condition in conditions[1:]:
            found = self.b.and_(found, condition)
        return found

    # ----------------------------------------------------------------------------------------------------------------- control

    @contextmanager
    def rarely(self, condition: Any) -> Iterator[None]:
        """Run what is inside if a condition holds that hardly ever does."""
        with self.b.if_then(condition, likely=False):
            yield

    def repeat(self, count: Any, body: Callable[[Any], None]) -> None:
        """Run `body` with 0, 1, ..., as often as `count` says."""
        b = self.b
        head, inside, after, before = (b.function.append_basic_block(n) for n in ("head", "inside", "after", "before"))
        b.branch(before)
        b.position_at_end(before)
        b.branch(head)
        b.position_at_end(head)
        number = b.phi(WORD)
        number.add_incoming(word(0), before)
        b.cbranch(self.less(number, count), inside, after)
        b.position_at_end(inside)
        body(number)
        number.add_incoming(b.add(number, word(1)), b.block)
        b.branch(head)
        b.position_at_end(after)

    def lanes(self, bits: Any, body: Callable[[Any, Any], None]) -> None:
        """Run `body` for each bit that is set, from the lowest on, with its number (a word) and the bit itself."""
        one = ir.Constant(bits.type, 1)
        each_bit(self.b, bits, lambda lane, _: body(lane if bits.type.width == 64 else self.b.zext(lane, WORD), self.b.shl(one, lane)))
