"""Masks of which LLVM clears lanes: a fault of its code generator with AVX-512, and the form that avoids it.

InstCombine writes the choice between a mask and zeros, by lanes that are known, as a shuffle. Where the first 8 or 16 lanes stay, the code generator
clears the others by moving the mask from register to register with KMOVB or KMOVW. These are marked as moves (`isMoveReg`), so that the allocator takes
them for copies and drops them where it spills: the lanes behind come back (LLVM 22, `X86InstrInfo::isCopyInstrImpl`). An `and` has no such form.
"""

from __future__ import annotations

import re
from typing import Any, Final

import llvmlite.binding as llvm

_SHUFFLE: Final = re.compile(
    r"(?P<name>%\S+) = shufflevector <(?P<lanes>\d+) x i1> (?P<mask>%[^,]+), <\d+ x i1> (?P<other>zeroinitializer|<[^>]*>), <\d+ x i32> <(?P<places>[^>]*)>"
)


def _rewritten(match: re.Match[str]) -> str:
    """The shuffle as an `and`, or as it is if it does anything but clear lanes."""
    lanes, other = int(match["lanes"]), match["other"]
    zeros = ["i1 false"] * lanes if other == "zeroinitializer" else other[1:-1].split(", ")
    places = [None if place == "i32 poison" else int(place[4:]) for place in match["places"].split(", ")]
    kept = [place == lane or place is None for lane, place in enumerate(places)]
    cleared = [place is not None and place >= lanes and zeros[place - lanes] != "i1 true" for place in places]
    if not any(cleared) or not all(k or c for k, c in zip(kept, cleared, strict=True)):
        return match[0]
    width, mask = len(places), match["mask"]
    wide, definite = (f"%cleared.{match.start()}.{part}" for part in ("wide", "definite"))
    lines = []
    if width != lanes:
        through = ", ".join(f"i32 {lane}" if lane < lanes else "i32 poison" for lane in range(width))
        lines.append(f"{wide} = shufflevector <{lanes} x i1> {mask}, <{lanes} x i1> poison, <{width} x i32> <{through}>")
        mask = wide
    constant = ", ".join("i1 false" if c else "i1 true" for c in cleared)
    lines.append(f"{definite} = freeze <{width} x i1> {mask}")  # what is cleared may be anything, so that `and` alone would not do
    lines.append(f"{match['name']} = and <{width} x i1> {definite}, <{constant}>")
    return "\n  ".join(lines)


def without_cleared_masks(parsed: Any) -> Any:
    """An optimised module in which no shuffle clears lanes of a mask: the same one if there is none."""
    text = str(parsed)
    mended = _SHUFFLE.sub(_rewritten, text)
    if mended == text:
        return parsed
    module = llvm.parse_assembly(mended)
    module.verify()
    return module
