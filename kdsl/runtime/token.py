"""What stands for an object in memories of launches, which must not keep it: a number that no other object ever has."""

from __future__ import annotations

import itertools
from typing import Final

tokens: Final = itertools.count(1)
"""`next(tokens)` is one step of the interpreter: no two threads get the same."""
