"""Which lanes an assignment concerns."""

from __future__ import annotations


class Frame:
    """Identity of a set of lanes that come back together: an assignment in another frame than its variable's home keeps the other lanes' values.

    The frame changes where control diverges (a branch, a loop, a scope) and not where lanes only go away, since those do not read what follows.
    """
