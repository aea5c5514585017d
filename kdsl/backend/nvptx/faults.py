"""Forms of PTX that an assembler is known to get wrong, written another way.

Only for what LLVM makes by itself out of several things, so that no choice of operations keeps it away; the others are avoided in `arithmetic.py`.
"""

from __future__ import annotations

import re
from typing import Final

_SHORT_EXTREME: Final = re.compile(r"\b(min|max)\.([su])16(\s+)(%\w+), (%\w+), (%\w+|-?\d+);")
_ORDER: Final = re.compile(r"\bsetp\.(?:lt|le|gt|ge)\.u(?:32|64)\s+%\w+, (%\w+), ")
_LABEL: Final = re.compile(r"^(\$\w+):")
_BRANCH: Final = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+);")
_MOVE: Final = re.compile(r"\bmov\.\w+\s+(%\w+), (%\w+);")
_FALL: Final = re.compile(r"\b(?:add\.s(?:32|64)\s+(%\w+), (%\w+), -|sub\.s(?:32|64)\s+(%\w+), (%\w+), )")
_BELOW_THE_END: Final = re.compile(r"\bsetp\.(lt|le|gt|ge)\.u(32|64)(\s+)(%\w+), (%\w+), -(\d+);")


def without_faulty_forms(ptx: str) -> str:
    """The same program.

    Of `max.s16` and a comparison of its result with its second operand ptxas 13.0 (13.5 no more) makes one instruction for two halves that writes the
    predicates of both to one register (`VIMNMX.S16x2 R0, P0, P0, R2, RZ`): `max(x, 0) == 0` is wrong. So minimum and maximum of 16 bits are taken in 32.

    ptxas 13.0 to 13.5 unrolls a loop that counts down while `n < -2`, unsigned, which LLVM makes of `n + 1 > 1`, as if it went on to -2: the last number behind
    0 is -1. So what is compared with a number near the end is moved to the start of all numbers. It also takes `n < bound` for `n > bound` of a falling n that
    starts above the bound; such loops are not unrolled.
    """
    text = _BELOW_THE_END.sub(_from_the_start, _SHORT_EXTREME.sub(_in_32_bits, ptx))
    return "\n}\n".join(map(_falling_loops_stay, text.split("\n}\n")))  # each function has registers of its own


def _falling_loops_stay(ptx: str) -> str:
    """Keep the innermost loop around each comparison, as unsigned, of a counter that falls, as it is (PTX ISA, `.pragma "nounroll"`)."""
    lines = ptx.split("\n")
    moves = [(found[1], found[2]) for line in lines for found in _MOVE.finditer(line)]
    falling: set[str] = set()
    for fall in _FALL.finditer(ptx):
        result, source = (fall[1], fall[2]) if fall[1] else (fall[3], fall[4])
        same = {result}
        while more := {to for to, origin in moves if origin in same} - same:
            same |= more
        falling |= same if source in same else set()
    labels = {found[1]: number for number, line in enumerate(lines) if (found := _LABEL.match(line))}
    loops = [
        (labels[found[1]], number)
        for number, line in enumerate(lines)
        for found in _BRANCH.finditer(line)
        if labels.get(found[1], number) < number
    ]
    kept: set[int] = set()
    for number, line in enumerate(lines):
        if any(found[1] in falling for found in _ORDER.finditer(line)):
            kept |= {max(around)} if (around := [first for first, last in loops if first <= number <= last]) else set()
    return "\n".join(line + '\n\t.pragma "nounroll";' if number in kept else line for number, line in enumerate(lines))


def _from_the_start(found: re.Match[str]) -> str:
    """x < -n, unsigned, is x + n >= n; and x <= -n is x < -(n - 1)."""
    relation, width, space, result, left, end = found.groups()
    far = int(end) - (relation in ("le", "gt"))
    opposite = "ge" if relation in ("lt", "le") else "lt"
    return f"{{ .reg .b{width} %a; add.s{width} %a, {left}, {far}; setp.{opposite}.u{width}{space}{result}, %a, {far}; }}"


def _in_32_bits(found: re.Match[str]) -> str:
    name, sign, space, result, left, right = found.groups()
    second = f"cvt.{sign}32.{sign}16 %b, {right};" if right[0] == "%" else f"mov.b32 %b, {_immediate(sign, int(right))};"
    return f"{{ .reg .b32 %a, %b; cvt.{sign}32.{sign}16 %a, {left}; {second} {name}.{sign}32{space}%a, %a, %b; cvt.u16.u32 {result}, %a; }}"


def _immediate(sign: str, value: int) -> int:
    """A number of 16 bits as one of 32."""
    return value & 0xFFFF if sign == "u" else (value & 0x7FFF) - (value & 0x8000)
