"""What a function names from outside: globals and closure cells, frozen when it is decorated.

Numbers keep the value that they had; `changed` says which differ now, so that a launch can refuse to use an old one. Names inside annotations and
decorators are not captures.
"""

from __future__ import annotations

import ast
import builtins
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import CellType, FunctionType, ModuleType
from typing import Any, Final, TypeAlias

from kdsl.lang.constants import ConstantArray
from kdsl.lang.types import is_real


class _Missing:
    """Stands for a name that has no value."""

    def __repr__(self) -> str:
        return "nothing"


MISSING: Final = _Missing()


Place: TypeAlias = tuple[dict[str, Any] | CellType, str | None]
"""Where a captured name lives: a dictionary and the name in it, or a cell and None."""


@dataclass(frozen=True)
class Change:
    """A captured name whose value is another one now."""

    name: str
    """Name, dotted for an attribute of a module."""
    frozen: Any
    """Its value when the function was decorated."""
    now: Any
    """Its value now."""


@dataclass(eq=False)
class Captures:
    """The captured names of one function."""

    function: FunctionType
    """The function."""
    values: dict[str, Any]
    """Value of each name; `MISSING` if it had none. Attributes of modules are listed with their dotted names."""

    def complete(self) -> None:
        """Freeze the names that had no value yet, also those of the `@function`s that this one calls: a helper that is defined below the kernel is found
        when the kernel is first compiled or launched.
        """
        for captures in self._reached():
            for name, value in captures.values.items():
                if value is MISSING:
                    captures.values[name] = look_up(captures.function, name)

    def changed(self) -> list[Change]:
        """Names whose values have changed since, also those of the `@function`s that this one calls."""
        return [
            Change(name, frozen, now)
            for captures in self._reached()
            for name, frozen in captures.values.items()
            if frozen is not MISSING and not same(frozen, now := look_up(captures.function, name))
        ]

    def places(self) -> list[Place]:
        """Where all these names live, so that a launch need only compare identities. What is built into Python is left out."""
        return [place for captures in self._reached() for name in captures.values if (place := _place(captures.function, name)) is not None]

    def _reached(self) -> Iterator[Captures]:
        """This one and those of the `@function`s that are called from here, each once; a caller's names are looked at after it was yielded."""
        seen: set[int] = set()
        waiting = deque([self])
        while waiting:
            captures = waiting.popleft()
            if id(captures) not in seen:
                seen.add(id(captures))
                yield captures
                waiting.extend(inner for value in captures.values.values() for inner in captures_of(value))


def _place(function: FunctionType, name: str) -> Place | None:
    owner, _, attribute = name.rpartition(".")
    if owner:
        module = look_up(function, owner)
        return (module.__dict__, attribute) if isinstance(module, ModuleType) else None
    if name in function.__code__.co_freevars and function.__closure__ is not None:
        return function.__closure__[function.__code__.co_freevars.index(name)], None
    return (function.__globals__, name) if name in function.__globals__ else None


def content(place: Place) -> Any:
    """What stands there; `MISSING` if nothing does: an empty cell, before the first assignment or after `del`."""
    where, name = place
    if isinstance(where, CellType):
        try:
            return where.cell_contents
        except ValueError:
            return MISSING
    return where.get(name, MISSING)  # type: ignore[arg-type]  # only a cell has no name


def captures_of(value: Any) -> list[Captures]:
    """The captures of a `@function`, or of all functions behind an overloaded name."""
    own = getattr(value, "captures", None)
    if isinstance(own, Captures):
        return [own]
    behind = getattr(value, "functions", None)
    return [c for function in behind.values() for c in captures_of(function)] if isinstance(behind, dict) else []


def freeze(function: FunctionType, tree: ast.FunctionDef, local: set[str]) -> Captures:
    """Look up every name that the body of `tree` uses and does not bind."""
    values: dict[str, Any] = {}
    for name in _outer_names(tree, local):
        owner, dot, _ = name.rpartition(".")
        if dot and not isinstance(look_up(function, owner), ModuleType):
            continue  # an attribute of something else is looked up when it is compiled
        values[name] = look_up(function, name)
    return Captures(function, values)


def look_up(function: FunctionType, name: str) -> Any:
    """The present value of a (dotted) name as the function would see it; `MISSING` if there is none."""
    root, *rest = name.split(".")
    value: Any = MISSING
    if root in function.__code__.co_freevars and function.__closure__ is not None:
        value = content((function.__closure__[function.__code__.co_freevars.index(root)], None))
    elif root in function.__globals__:
        value = function.__globals__[root]
    else:
        value = getattr(builtins, root, MISSING)
    for attribute in rest:
        value = getattr(value, attribute, MISSING) if isinstance(value, ModuleType) else MISSING
    return value


def same(a: Any, b: Any) -> bool:
    """Whether two captured values mean the same to a kernel: numbers by type and value, constant arrays by what they hold, everything else by identity."""
    if a is b:
        return True
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if is_number(a) and is_number(b):
        return type(a) is type(b) and repr(a) == repr(b)  # tells -0.0 from 0.0, and not one NaN from another
    return isinstance(a, ConstantArray) and a == b


def is_number(value: Any) -> bool:
    """Whether a value is a number that a kernel may capture."""
    return is_real(value)


def _outer_names(tree: ast.FunctionDef, local: set[str]) -> list[str]:
    found: dict[str, None] = {}
    for statement in tree.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id not in local:
                found[node.id] = None
            elif isinstance(node, ast.Attribute):
                dotted = _dotted(node)
                if dotted is not None and dotted.split(".")[0] not in local:
                    found[dotted] = None
    return list(found)


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _dotted(node.value)
        return None if inner is None else f"{inner}.{node.attr}"
    return None
