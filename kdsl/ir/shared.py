"""Where the shared arrays of a kernel lie in the shared memory of a block.

Up to 48 KiB each array is declared by itself, and the assembler places it. Beyond that all of them lie in the dynamic shared memory, whose size
travels with the launch, at the offsets that are computed here; behind them lie the arrays whose extents the launch decides. What is not here: how much a
target has (`kdsl.backend.nvptx.limits`), and the sizes of such a launch (`kdsl.launch.shared`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kdsl.ir.places import Array, SharedView
from kdsl.lang.limits import ALIGNMENT, STATIC_SHARED_BYTES, footprint


@dataclass(frozen=True)
class SharedLayout:
    """The shared arrays of a kernel."""

    offsets: Mapping[Array, int]
    """Of the arrays of fixed shape, bytes from the start of the dynamic shared memory, which is aligned to 1024 bytes. They lie in this order."""
    views: tuple[SharedView, ...]
    """Those whose extents the launch decides, in the order in which they lie behind them."""
    size: int
    """Bytes of the arrays of fixed shape, with what alignment leaves between them."""
    is_dynamic: bool
    """Whether all of them lie in dynamic shared memory."""

    @property
    def launch_bytes(self) -> int:
        """Bytes of dynamic shared memory that a launch asks for, without what it decides itself."""
        return self.size if self.is_dynamic else 0


def shared_layout(arrays: Iterable[Array], views: Iterable[SharedView] = ()) -> SharedLayout:
    """The layout of those of the arrays that are shared. Arrays of the largest alignment come first, so that hardly anything is left between them."""
    views = tuple(views)
    shared = sorted((array for array in arrays if array.space == "shared"), key=lambda array: -array.alignment)
    offsets: dict[Array, int] = {}
    end = 0
    for array in shared:
        start = -(-end // array.alignment) * array.alignment
        offsets[array] = start
        end = start + footprint(array.size, array.type.itemsize)
    # The assembler may place them in any order; the first one has nothing before it
    gaps = [array.alignment - ALIGNMENT for array in shared]
    most = sum(footprint(array.size, array.type.itemsize) for array in shared) + sum(gaps) - min(gaps, default=0)
    return SharedLayout(offsets, views, end, most > STATIC_SHARED_BYTES or bool(views))
