"""LLVM blocks where paths with different masks meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from kdsl.backend.cpu.masks import NOBODY, Mask

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission


def joined(builder: Any, results: Sequence[tuple[Any, ir.Block]]) -> Any:
    """What several ways yield where they meet: a value, a list of as many values each, or nothing."""
    first = results[0][0]
    if first is None:
        return None
    if isinstance(first, list):
        return [joined(builder, [(result[i], block) for result, block in results]) for i in range(len(first))]
    phi = builder.phi(first.type)
    for result, block in results:
        phi.add_incoming(result, block)
    return phi


class Merge:
    """An LLVM block where paths with different masks meet."""

    def __init__(self, emission: Emission, name: str) -> None:
        self.e = emission
        self.block = emission.append(name)
        self.edges: list[tuple[ir.Block, Mask]] = []

    def arrive(self, mask: Mask) -> None:
        """Go there from the builder's position with these lanes."""
        self.edges.append((self.e.builder.block, mask))
        self.e.builder.branch(self.block)
        self.e.dead = True

    def branch(self, condition: Any, block: ir.Block, mask: Mask) -> None:
        """Go to `block` if the condition holds, else there with these lanes."""
        self.edges.append((self.e.builder.block, mask))
        self.e.builder.cbranch(condition, block, self.block)

    def open(self) -> Mask:
        """Go on there; the lanes that have arrived. Without any path to it, the position is dead."""
        e = self.e
        e.builder.position_at_end(self.block)
        if not self.edges:
            e.builder.unreachable()
            e.dead = True
            return NOBODY
        e.dead = False
        masks = [mask for _, mask in self.edges]
        if all(mask is masks[0] for mask in masks):
            return masks[0]
        phi = e.builder.phi(e.masks.type)
        for block, mask in self.edges:
            phi.add_incoming(e.masks.explicit(mask), block)
        return phi
