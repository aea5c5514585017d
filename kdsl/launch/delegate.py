"""Objects whose calls are those of a function, and take no longer.

A class with a `__call__` in Python has its arguments put into a tuple and a dictionary and taken out again: longer than a launch's checks take. What derives
from `functools.partial` hands them on as they are (from CPython 3.12 on).
"""

from __future__ import annotations

import functools
from typing import Any, Self

from kdsl.runtime.capture import Node


class Delegate(functools.partial[Node | None]):
    """An object whose calls are those of `Delegate(function)`."""

    __slots__ = ()

    def __get__(self, instance: Any, owner: type | None = None) -> Self:
        """Itself: as an attribute of a class it is no method, which a `partial` may become (CPython 3.14)."""
        return self
