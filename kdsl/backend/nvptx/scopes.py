"""What LLVM is told of arrays that lie in one piece of memory and do not overlap: those in dynamic shared memory, where it sees one symbol only.

Each array has an alias scope; an access names the scope of its array, and those of the others as what it does not touch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llvmlite import ir

from kdsl.ir import nodes


class Scopes:
    """The alias scopes of some arrays of one kernel."""

    def __init__(self, module: ir.Module, arrays: Iterable[nodes.Memory]) -> None:
        apart = list(arrays)
        self._marks: dict[nodes.Memory, tuple[Any, Any]] = {}
        if len(apart) < 2:
            return
        # A name of its own, so that two kernels of a module do not share a domain
        domain = module.add_metadata([ir.MetaDataString(module, f"shared arrays {len(module.metadata)}")])
        scopes = [module.add_metadata([ir.MetaDataString(module, f"array {number}"), domain]) for number in range(len(apart))]
        for array, scope in zip(apart, scopes, strict=True):
            others = [other for other in scopes if other is not scope]
            self._marks[array] = (module.add_metadata([scope]), module.add_metadata(others))

    def mark(self, access: Any, memory: nodes.Memory) -> None:
        """Tell LLVM which array a load or store touches."""
        if memory in self._marks:
            scope, others = self._marks[memory]
            access.set_metadata("alias.scope", scope)
            access.set_metadata("noalias", others)
