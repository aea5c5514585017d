"""Forms of PTX that an assembler is known to get wrong, written another way.

Only for what LLVM makes by itself out of several things, so that no choice of operations keeps it away; the others are avoided in `arithmetic.py`.
"""

from __future__ import annotations

import re
from typing import Final

_SHORT_EXTREME: Final = re.compile(r"\b(min|max)\.([su])16(\s+)(%\w+), (%\w+), (%\w+|-?\d+);")


def without_faulty_forms(ptx: str) -> str:
    """The same program.

    Of `max.s16` and a comparison of its result with its second operand ptxas 13.0 (13.5 no more) makes one instruction for two halves that writes the
    predicates of both to one register (`VIMNMX.S16x2 R0, P0, P0, R2, RZ`): `max(x, 0) == 0` is wrong. So minimum and maximum of 16 bits are taken in 32.
    """
    return _SHORT_EXTREME.sub(_in_32_bits, ptx)


def _in_32_bits(found: re.Match[str]) -> str:
    name, sign, space, result, left, right = found.groups()
    second = f"cvt.{sign}32.{sign}16 %b, {right};" if right[0] == "%" else f"mov.b32 %b, {_immediate(sign, int(right))};"
    return f"{{ .reg .b32 %a, %b; cvt.{sign}32.{sign}16 %a, {left}; {second} {name}.{sign}32{space}%a, %a, %b; cvt.u16.u32 {result}, %a; }}"


def _immediate(sign: str, value: int) -> int:
    """A number of 16 bits as one of 32."""
    return value & 0xFFFF if sign == "u" else (value & 0x7FFF) - (value & 0x8000)
