"""The text of inline PTX: what it may hold so that it can harm nothing but itself.

Operands are `{0}`, `{1}` …; every other brace is PTX's own. LLVM may repeat the text and puts it between instructions of its own, so braces, brackets and
comments have to close, what is declared has to stand in braces, and control may not leave it. Whether the instructions exist is the assembler's to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

LONGEST: Final = 10_000
"""Characters of a text."""
OPERAND: Final = re.compile(r"\{(\d{1,3})\}")
"""Where an operand stands."""

_COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_TOKEN: Final = re.compile(r"[{}]|\.?[A-Za-z_$%][\w$]*(?:\.\w+)*")
_GUARD: Final = re.compile(r"@!?[%\w$]+\s*$")
_LABEL: Final = re.compile(r"\s*:(?!:)")
_JUMP: Final = re.compile(r"\bbra(?:\.uni)?\s+([\w$%]+)")
_LEAVES: Final = frozenset({"ret", "exit", "call", "brx"})
_OF_MODULES: Final = frozenset(
    {
        ".version", ".target", ".address_size", ".entry", ".func", ".extern", ".visible", ".weak", ".common", ".alias", ".file", ".loc", ".section",
        ".callprototype", ".calltargets", ".branchtargets", ".maxntid", ".reqntid", ".minnctapersm", ".maxnreg", ".pragma",
    }
)  # fmt: skip
_DECLARES: Final = frozenset({".reg", ".shared", ".local", ".const", ".param", ".global"})
_CLOSES: Final = {"}": "{", "]": "[", ")": "("}
_COPIES: Final = "put the text in braces, so that each copy of it has its own: { .reg .b32 t; again: … }"


@dataclass(frozen=True)
class Fault:
    """Why a text is refused."""

    message: str
    """What is wrong."""
    hint: str
    """What to do."""


def fault(text: str, results: int, operands: int) -> Fault | None:
    """What is wrong with a text for so many results and operands, None if nothing is."""
    if len(text) > LONGEST:
        return Fault(f"a text of {len(text)} characters", f"it can have {LONGEST}")
    strange = next((c for c in text if not (" " <= c <= "~" or c in "\n\t")), None)
    if strange is not None:
        return Fault(f"the character {strange!r}", "PTX is plain ASCII")
    code = _COMMENT.sub(" ", text)
    if "/*" in code or "*/" in code:
        return Fault("a comment that does not end", "close it with */")
    if '"' in code:
        return Fault("a string", "directives that have one belong to the module, which the compiler writes")
    bare = OPERAND.sub(" %operand ", code)
    return _operands(code, results, operands) or _nesting(bare) or _words(bare)


def _operands(code: str, results: int, operands: int) -> Fault | None:
    """Each occurs, and no other."""
    used = {int(number) for number in OPERAND.findall(code)}
    whole = results + operands
    named = [", ".join(f"{{{number}}}" for number in span) or "none" for span in (range(results), range(results, whole))]
    there = f"results: {named[0]}; operands: {named[1]}"
    for number in sorted(used):
        if number >= whole:
            return Fault(f"{{{number}}} stands for nothing", there)
    for number in range(whole):
        if number not in used:
            return Fault(f"the {'result' if number < results else 'operand'} {{{number}}} does not occur", there)
    return None


def _nesting(code: str) -> Fault | None:
    """Every bracket closes, and the text ends where an instruction may begin."""
    opened: list[str] = []
    for letter in code:
        if letter in "{[(":
            opened.append(letter)
        elif letter in _CLOSES and (not opened or opened.pop() != _CLOSES[letter]):
            return Fault(f"a {letter} that closes nothing", f"it belongs to a {_CLOSES[letter]} in the text")
    if opened:
        return Fault(f"a {opened[-1]} that is not closed", "close it within the text")
    end = code.rstrip()[-1:]
    if not end:
        return Fault("no instruction", "write one, such as mov.b32 {0}, {1};")
    return None if end in ";}" else Fault("an instruction that does not end", "end it with ;")


def _words(code: str) -> Fault | None:
    """Nothing that belongs to the module, that leaves the text, or that must not be there twice."""
    depth = 0
    labels: set[str] = set()
    for token in _TOKEN.finditer(code):
        word = token[0]
        depth += (word == "{") - (word == "}")
        first = word[: word.find(".", 1)] if word.find(".", 1) > 0 else word
        before = _GUARD.sub("", code[: token.start()]).rstrip()
        begins = before[-1:] in ("", ";", "{", "}", ":")
        if first in _OF_MODULES:
            return Fault(f"the directive {first}", "it belongs to the module, which the compiler writes")
        if begins and first in _LEAVES:
            return Fault(f"`{first}`, by which a thread leaves the text", "the way of a thread is the kernel's: use return there")
        if begins and first in _DECLARES and depth == 0:
            return Fault(f"{first} outside of braces", _COPIES)
        if begins and _LABEL.match(code, token.end()):
            if depth == 0:
                return Fault(f"the label {word} outside of braces", _COPIES)
            labels.add(word)
    for jump in _JUMP.finditer(code):
        if jump[1] not in labels:
            return Fault(f"a jump to {jump[1]}, which is not in the text", "jump to labels of the text only")
    return None
