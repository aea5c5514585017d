"""`KernelError`: what is wrong with a kernel, where, and what to do about it.

A message shows the source line with a caret under the exact place, further places that matter, the chain of `@function` calls that led there, and a hint.
Text of the source is remembered when a function is parsed, so that a file edited afterwards does not shift the carets.
"""

from __future__ import annotations

import linecache
import unicodedata
from collections.abc import Sequence
from typing import Final

from kdsl.ir.nodes import Location

_SOURCES: Final[dict[str, Sequence[str]]] = {}
"""Lines of every file from which a function was parsed, by file name."""


def remember_source(file: str, lines: Sequence[str]) -> None:
    """Keep the lines of `file` for messages."""
    _SOURCES[file] = lines


class KernelError(Exception):
    """A kernel or `@function` breaks a rule of the language; raised while it is declared or compiled, never by a launch that has begun."""

    def __init__(self, message: str, location: Location, hint: str = "", notes: Sequence[tuple[str, Location]] = ()) -> None:
        self.message = message
        self.location = location
        self.hint = hint
        self.notes = tuple(notes)
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return (KernelError, (self.message, self.location, self.hint, self.notes))

    def __str__(self) -> str:
        parts = [f"{self.location}: {self.message}", *excerpt(self.location)]
        for text, place in self.notes:
            parts += [f"  {place}: {text}", *excerpt(place)]
        caller = self.location.caller
        callee = self.location.function
        while caller is not None:
            parts += [f"  {caller}: in the call of {callee or 'a function'}", *excerpt(caller)]
            callee, caller = caller.function, caller.caller
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)


def source_line(location: Location) -> str:
    """The first line of a place, without its line end; empty if the source is unknown."""
    lines = _SOURCES.get(location.file) or linecache.getlines(location.file)
    if not 1 <= location.line <= len(lines):
        return ""
    return lines[location.line - 1].rstrip("\r\n\f")


def excerpt(location: Location) -> list[str]:
    """The first source line of a place and a line of carets under it; nothing if the source is unknown."""
    line = source_line(location)
    if not line.strip():
        return []
    end = location.end_column if location.end_line == location.line else len(line)
    marked = line[location.column : end].rstrip() or line[location.column : location.column + 1]
    indent = len(line) - len(line.lstrip())
    padding = "".join(character if character == "\t" else " " * display_width(character) for character in line[indent : location.column])
    return [f"    {line[indent:]}", f"    {padding}{'^' * max(1, display_width(marked))}"]


def display_width(text: str) -> int:
    """Columns that a terminal uses for `text`: two for wide East Asian characters, none for combining marks."""
    width = 0
    for character in text:
        if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
            continue
        width += 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
    return width
