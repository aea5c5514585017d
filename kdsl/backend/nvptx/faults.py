"""Forms of PTX that an assembler is known to get wrong, written another way.

Only for what LLVM makes by itself out of several things, so that no choice of operations keeps it away; the others are avoided in `arithmetic.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kdsl.backend.nvptx.failure import RECORDING

_ABSOLUTE: Final = re.compile(r"\babs\.s(16|32|64)(\s+)(%\w+), (%\w+);")
_SHORT_EXTREME: Final = re.compile(r"\b(min|max)\.([su])16(\s+)(%\w+), (%\w+), (%\w+|-?\d+);")
_ORDER: Final = re.compile(r"\bsetp\.(?:lt|le|gt|ge)\.([su])(32|64)\s+%\w+, (%\w+), (\S+);")
_LABEL: Final = re.compile(r"^(\$\w+):")
_BRANCH: Final = re.compile(r"^\t(@\S+ )?\s*bra(?:\.uni)?\s+(\$\w+);")
_END: Final = re.compile(r"^\t(?:ret|exit|trap);")
_CALL: Final = re.compile(rf"^\t(?:call\b|{RECORDING})", re.MULTILINE)
_EXCHANGE: Final = re.compile(r"\b(?:shfl|vote|match|redux)\.")
_UP_TO_THE_MASK: Final = r"\b((?:shfl|vote|match\.a(?:ny|ll)|redux|elect)\.sync\b[^;]*, |bar\.warp\.sync\s+)"
_OF_SOME: Final = re.compile(_UP_TO_THE_MASK + r"(%\w+);")
_OF_ALL: Final = re.compile(_UP_TO_THE_MASK + "-1;")
_TRUE: Final = re.compile(r"\bmov\.pred\s+(%\w+), -1;")
_BALLOT: Final = re.compile(r"\bvote\.sync\.ballot\.b32\s+(%\w+), (%\w+), -1;")
_FULL: Final = re.compile(r"\bmov\.b32\s+(%\w+), -1;")
_BARRIER: Final = re.compile(r"\bbar\.(sync|arrive|red)\b")
_MOVE: Final = re.compile(r"\bmov\.b(?:32|64)\s+(%\w+), (\S+);")
_ADVANCE: Final = re.compile(r"\b(add|sub)\.s(?:32|64)\s+(%\w+), (%\w+), (\S+);")
_NEGATION: Final = re.compile(r"\b(?:neg\.s32(\s+)(%\w+)|sub\.s32(\s+)(%\w+), (\S+)), (%\w+);")
_EXTREME: Final = re.compile(r"\b(?:min|max)\.s32\s+%\w+, (%\w+), (%\w+|-?\d+);")
_BELOW_THE_END: Final = re.compile(r"\bsetp\.(lt|le|gt|ge)\.u(32|64)(\s+)(%\w+), (%\w+), -(\d+);")
_NARROWED: Final = re.compile(r"\bcvt\.[\w.]*(?:f16|f16x2|e4m3x2|e5m2x2)\.f32\b")
_WIDENED: Final = re.compile(r"\bcvt\.u32\.u16\s+(%\w+),")
_MASKED: Final = re.compile(r"\band\.b(16|32)(\s+)(%\w+), (%\w+), (%\w+|-?\d+);")

Moves = dict[str, set[str]]
"""The names that moves lead to from an operand, or the operands that they come from."""


def without_faulty_forms(ptx: str) -> str:
    """The same program.

    ptxas takes the result of `abs.s32` and `abs.s64` for 0 or more, which it is not for the smallest integer, and that of `abs.s16` for one of 32 bits. So the
    larger one of x and -x is taken.

    Of `max.s16` and a comparison of its result with its second operand ptxas 13.0 (13.5 no more) makes one instruction for two halves that writes the
    predicates of both to one register (`VIMNMX.S16x2 R0, P0, P0, R2, RZ`): `max(x, 0) == 0` is wrong. So minimum and maximum of 16 bits are taken in 32.

    Of two signed minima or maxima in a row ptxas 13.0 (13.5 no more) makes one of three numbers for `sm_90` and `sm_100`, and loses the sign of a negation
    that is the second one: of `max(max(y, -x), z)` remains `VIMNMX3 R9, R9, R8, R10, !PT`, without a negation. So -x is ~x + 1 there.

    ptxas 13.0 to 13.5 unrolls a loop that counts down while `n < -2`, unsigned, which LLVM makes of `n + 1 > 1`, as if it went on to -2: the last number behind
    0 is -1. So what is compared with a number near the end is moved to the start of all numbers. It also takes `n < bound` for `n > bound` of a falling n that
    starts above the bound, and counts the trips of a loop in as many bits as its counter has, signed, where the way from the start to the end needs one more;
    such loops are not unrolled.

    From a barrier at which all threads of a warp are together (`bar.sync`) ptxas concludes that they are so before it, too, and brings nobody together for an
    exchange of lanes. Behind a call, or what a failed check does, that only some lanes have gone through they are apart, and exchange nothing. So in a function
    with these and exchanges a barrier is one of each thread (PTX ISA, "barrier{.cta}").

    Behind an exchange of lanes that a mask names, which each group of lanes makes by itself, ptxas takes the warp for as much together as in front of it, so
    that an exchange of all lanes does not wait for the other groups. In a function with such masks the mask of all lanes is computed, where ptxas takes nothing
    for granted.

    Of two floats that are narrowed ptxas makes one instruction (`F2FP.F16.F32.PACK_AB`), also where bits of each are cleared before both are stored together,
    or one is stored beside another number; then it takes a half apart, and clears nothing (13.0). Of the bits of a float and of two numbers of 8 bits, which
    one conversion narrowed, it leaves the latter as they are. And of the bits of two floats that one conversion narrowed, taken apart and stored beside others,
    it may never come to an end. So `x & y` is ~(~x | ~y) in functions that narrow.
    """
    text = _BELOW_THE_END.sub(_from_the_start, _SHORT_EXTREME.sub(_in_32_bits, _ABSOLUTE.sub(_larger_one, ptx)))
    return "\n}\n".join(map(_function, text.split("\n}\n")))


def _function(ptx: str) -> str:
    """What goes by functions, which have registers and calls of their own."""
    masks = {mask for _, mask in _OF_SOME.findall(ptx)}
    has_groups = not masks <= _masks_of_all(ptx, masks)
    if has_groups:
        ptx = _all_lanes_meet(ptx, masks)
    if has_groups or (_CALL.search(ptx) and _EXCHANGE.search(ptx)):
        ptx = _BARRIER.sub(r"barrier.\1", ptx)
    if _NARROWED.search(ptx):
        ptx = _bits_are_cleared(ptx)
    to_names: Moves = {}
    from_operands: Moves = {}
    for to, origin in _MOVE.findall(ptx):
        to_names.setdefault(origin, set()).add(to)
        from_operands.setdefault(to, set()).add(origin)
    return _negations_keep_their_sign(_miscounted_loops_stay(ptx, to_names, from_operands), to_names, from_operands)


def _bits_are_cleared(ptx: str) -> str:
    """Write `x & y` of 16 bits, and of 32 that were 16, another way."""
    widened = set(_WIDENED.findall(ptx))

    def written(found: re.Match[str]) -> str:
        bits, space, result, x, y = found.groups()
        if bits == "32" and not {x, y} & widened:
            return found[0]
        inverse, either = f"not.b{bits}{space}", f"or.b{bits}{space}%a, %a"
        if y[0] == "%":
            return f"{{ .reg .b{bits} %a, %b; {inverse}%a, {x}; {inverse}%b, {y}; {either}, %b; {inverse}{result}, %a; }}"
        return f"{{ .reg .b{bits} %a; {inverse}%a, {x}; {either}, {~int(y)}; {inverse}{result}, %a; }}"

    return _MASKED.sub(written, ptx)


def _masks_of_all(ptx: str, masks: set[str]) -> set[str]:
    """Of registers with masks, those that name all lanes that there are, and so make no groups."""
    # the ballot of True is the mask of exchanges where a warp may lack lanes (`exchange`)
    true = set(_TRUE.findall(ptx))
    present = {lanes for lanes, condition in _BALLOT.findall(ptx) if condition in true}
    # `redux` takes no constant, so that its mask of all lanes is in a register
    full = {name for name in masks & set(_FULL.findall(ptx)) if len(re.findall(rf"\b[\w.]+\s+{name},", ptx)) == 1}
    return present | full


def _all_lanes_meet(ptx: str, masks: set[str]) -> str:
    """Compute the masks of all lanes."""
    every = "mov.u32 %a, %lanemask_lt; mov.u32 %b, %lanemask_ge; or.b32"
    ptx = _OF_ALL.sub(rf"{{ .reg .b32 %a, %b; {every} %a, %a, %b; \1%a; }}", ptx)
    return _FULL.sub(lambda found: f"{{ .reg .b32 %a, %b; {every} {found[1]}, %a, %b; }}" if found[1] in masks else found[0], ptx)


def _negations_keep_their_sign(ptx: str, to_names: Moves, from_operands: Moves) -> str:
    """Write each negation of which a signed minimum or maximum is taken another way."""
    compared = {operand for operands in _EXTREME.findall(ptx) for operand in operands}

    def written(found: re.Match[str]) -> str:
        space, result, of_zero, difference, first, x = found.groups()
        if (of_zero and "0" not in _reached({first}, from_operands)) or not _reached({result or difference}, to_names) & compared:
            return found[0]
        if result:
            return _negated(space, result, x)
        # `first` may be 0 on some ways only
        return f"{{ .reg .b32 %a; {_negated(' ', '%a', x)} add.s32{of_zero}{difference}, {first}, %a; }}"

    return _NEGATION.sub(written, ptx) if compared else ptx


def _negated(space: str, result: str, x: str) -> str:
    """-x, without an instruction that negates."""
    return f"not.b32{space}{result}, {x}; add.s32{space}{result}, {result}, 1;"


def _miscounted_loops_stay(ptx: str, to_names: Moves, from_operands: Moves) -> str:
    """Keep the innermost loop around each comparison of a counter that ptxas miscounts as it is (PTX ISA, `.pragma "nounroll"`).

    That is, as unsigned, of one that falls; and of one that may go farther than half of all numbers, of which a start, an end or a step beyond a quarter of
    them is the sign.
    """
    lines = ptx.split("\n")
    falling: set[str] = set()
    steps: dict[str, set[str]] = {}
    """The names of each counter, and what is added to it."""
    for name, result, source, step in _ADVANCE.findall(ptx):
        same = _reached({result}, to_names)
        if source in same:
            falling |= same if name == "sub" or step.startswith("-") else set()
            for one in same:
                steps.setdefault(one, set()).update((step, *same))
    compared = []
    for number, line in enumerate(lines):
        for sign, width, counter, end in _ORDER.findall(line):
            far = counter in steps and _is_far(_reached({end, *steps[counter]}, from_operands), 1 << int(width) - 2)
            if far or (sign == "u" and counter in falling):
                compared.append(number)
    kept = _heads_around(compared, lines) if compared else set()
    return "\n".join(line + '\n\t.pragma "nounroll";' if number in kept else line for number, line in enumerate(lines))


def _heads_around(places: list[int], lines: list[str]) -> set[int]:
    """The lines with the labels of the innermost loops around some lines."""
    labels = {found[1]: number for number, line in enumerate(lines) if (found := _LABEL.match(line))}
    ways: list[list[int]] = []
    """For each line, where it goes on to."""
    for number, line in enumerate(lines):
        branch = _BRANCH.match(line)
        onward = [] if _END.match(line) or (branch and not branch[1]) or number + 1 == len(lines) else [number + 1]
        ways.append([*onward, *([labels[branch[2]]] if branch and branch[2] in labels else [])])
    came_from: dict[int, list[int]] = {}
    for number, following in enumerate(ways):
        for to in following:
            came_from.setdefault(to, []).append(number)
    loops = []
    for head, last in _ways_back(ways):
        inside, waiting = {head}, [last]
        while waiting:
            number = waiting.pop()
            if number not in inside:
                inside.add(number)
                waiting.extend(came_from.get(number, []))
        loops.append((len(inside), head, inside))
    return {min(around)[1] for place in places if (around := [loop for loop in loops if place in loop[2]])}


def _ways_back(ways: list[list[int]]) -> list[tuple[int, int]]:
    """The ends of loops: lines that are reached from the first one through themselves, and where that way comes from."""
    found = []
    path: list[tuple[int, Iterator[int]]] = [(0, iter(ways[0]))]
    state = {0: True}  # whether a line is on the path
    while path:
        number, following = path[-1]
        to = next(following, None)
        if to is None:
            state[number] = False
            path.pop()
        elif to not in state:
            state[to] = True
            path.append((to, iter(ways[to])))
        elif state[to]:
            found.append((to, number))
    return found


def _reached(operands: set[str], moves: Moves) -> set[str]:
    """The operands, and all that moves lead to from them."""
    found, waiting = set(operands), list(operands)
    while waiting:
        more = moves.get(waiting.pop(), set()) - found
        found |= more
        waiting.extend(more)
    return found


def _is_far(operands: set[str], least: int) -> bool:
    """Whether one of the operands is a number of at least so much, with either sign."""
    return any(abs(int(operand)) >= least for operand in operands if operand.lstrip("-").isdigit())


def _larger_one(found: re.Match[str]) -> str:
    width, space, result, x = found.groups()
    if width == "16":
        return (
            f"{{ .reg .b32 %a, %b; cvt.s32.s16 %a, {x}; {_negated(' ', '%b', '%a')} max.s32{space}%a, %a, %b; cvt.u16.u32 {result}, %a; }}"
        )
    negated = f"neg.s64 %a, {x};" if width == "64" else _negated(" ", "%a", x)
    return f"{{ .reg .b{width} %a; {negated} max.s{width}{space}{result}, {x}, %a; }}"


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
