"""What is checked when a kernel is declared: block size and grid. Leaves out the grid of a launch (`grid.py`)."""

from __future__ import annotations

import operator
from typing import Final

from kdsl.lang.geometry import DEFAULT_BLOCK, Elements, Geometry, Grid, Rows, Size, Sweep, Tiles
from kdsl.launch.refuse import BLOCKS_LIMIT

THREADS_LIMIT: Final = 1024
"""Threads per block, and along x and y, on every supported GPU (CUDA C++ Programming Guide, compute capabilities)."""
Z_LIMIT: Final = 64
"""Threads of a block along z (the same table)."""


def check_block(block: object = DEFAULT_BLOCK) -> tuple[int, int, int]:
    """The block size as threads along x, y and z. `block` is an int or up to three. Raises ValueError that states the limit."""
    sizes = tuple(block) if isinstance(block, tuple | list) else (block,)
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"block={block!r} has {len(sizes)} dimensions; a block has 1 to 3: x, y, z")
    extents = [_whole(value, f"block={block!r}") for value in sizes] + [1] * (3 - len(sizes))
    x, y, z = extents
    if min(extents) < 1:
        raise ValueError(f"block={block!r}: each dimension has at least 1 thread")
    if z > Z_LIMIT:
        raise ValueError(f"block={block!r} has {z} threads along z; the limit is {Z_LIMIT}")
    if x * y * z > THREADS_LIMIT:
        raise ValueError(f"block={block!r} has {x * y * z} threads; a block has at most {THREADS_LIMIT}")
    return x, y, z


def check_grid(grid: object) -> Geometry:
    """The geometry for `grid=`: what `elements`, `rows`, `tiles`, `sweep` give, or explicit blocks: a size (an int or an expression) or up to three.

    Raises ValueError for anything else; expressions are read with the parameters (`geometry_of`).
    """
    if isinstance(grid, Elements | Rows | Tiles | Sweep | Grid):
        return _checked(grid)
    sizes = tuple(grid) if isinstance(grid, tuple | list) else (grid,)
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"grid={grid!r} has {len(sizes)} dimensions; a grid has 1 to 3: x, y, z")
    return _checked(Grid(*sizes))


def _checked(grid: Geometry) -> Geometry:
    match grid:
        case Elements(view=view):
            if not isinstance(view, str):
                raise ValueError(f"elements takes the name of an array parameter, not {view!r}")
        case Rows(rows=rows):
            return Rows(_size(rows, "rows"))
        case Sweep(blocks=blocks):
            count = _whole(blocks, "sweep: blocks")
            if not 1 <= count <= BLOCKS_LIMIT:
                raise ValueError(f"sweep: blocks={count}; a grid has 1 to {BLOCKS_LIMIT}")
            return Sweep(count)
        case Tiles(rows=rows, columns=columns, batch=batch, tile=tile):
            if not isinstance(tile, tuple | list) or len(tile) != 2:
                raise ValueError(f"tiles: tile={tile!r}; it is (rows, columns)")
            height, width = (_whole(value, f"tiles: tile={tile!r}") for value in tile)
            if height < 1 or width < 1:
                raise ValueError(f"tiles: tile={tile!r}; a tile has at least one row and one column")
            return Tiles(_size(rows, "tiles: rows"), _size(columns, "tiles: columns"), _size(batch, "tiles: batch"), (height, width))
        case Grid(x=x, y=y, z=z):
            return Grid(_size(x, "grid: x"), _size(y, "grid: y"), _size(z, "grid: z"))
    return grid


def _whole(value: object, what: str) -> int:
    if not isinstance(value, bool):
        try:
            return operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            pass
    raise ValueError(f"{what}: sizes are whole numbers, not {value!r} ({type(value).__name__})")


def _size(value: object, what: str) -> Size:
    if isinstance(value, str):
        return value
    count = _whole(value, what)
    if count < 0:
        raise ValueError(f"{what} is {count}; it cannot be negative")
    return count
