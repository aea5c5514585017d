"""Forms of PTX that an assembler is known to get wrong, written another way.

Only for what LLVM makes by itself out of several things, so that no choice of operations keeps it away; the others are avoided in `arithmetic.py`.
"""

from __future__ import annotations

import re
from typing import Final

_SHORT_EXTREME: Final = re.compile(r"\b(min|max)\.([su])16(\s+)(%\w+), (%\w+), (%\w+|-?\d+);")
_BELOW_THE_END: Final = re.compile(r"\bsetp\.(lt|le|gt|ge)\.u(32|64)(\s+)(%\w+), (%\w+), -(\d+);")


def without_faulty_forms(ptx: str) -> str:
    """The same program.

    Of `max.s16` and a comparison of its result with its second operand ptxas 13.0 (13.5 no more) makes one instruction for two halves that writes the
    predicates of both to one register (`VIMNMX.S16x2 R0, P0, P0, R2, RZ`): `max(x, 0) == 0` is wrong. So minimum and maximum of 16 bits are taken in 32.

    ptxas 13.0 to 13.5 unrolls a loop that counts down while `n < -2`, unsigned, which LLVM makes of `n + 1 > 1`, as if it went on to -2: the last number behind
    0 is -1. So what is compared with a number near the end is moved to the start of all numbers.
    """
    return _BELOW_THE_END.sub(_from_the_start, _SHORT_EXTREME.sub(_in_32_bits, ptx))


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
