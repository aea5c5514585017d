"""How a kernel's blocks are laid over its work: `elements`, `rows`, `tiles`, `sweep`, or an explicit grid.

Sizes are expressions over the arguments, in the small language of contracts (`kdsl.launch.contract`): `len(y)`, `p.rows`, integers, `+ - * //`.
The grid that the hardware sees is always one-dimensional (its y and z are limited to 65,535); the indices are unfolded inside the kernel.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TypeAlias

Size: TypeAlias = int | str


@dataclass(frozen=True)
class Elements:
    """A thread per element of an array parameter."""

    view: str
    """Name of the array parameter."""


@dataclass(frozen=True)
class Rows:
    """A warp per row."""

    rows: Size
    """Number of rows."""


@dataclass(frozen=True)
class Tiles:
    """A block per tile of a batch of matrices. Blocks run along the columns first, then the rows, then the batch."""

    rows: Size
    """Rows of a matrix."""
    columns: Size
    """Columns of a matrix."""
    batch: Size
    """Number of matrices."""
    tile: tuple[int, int]
    """Rows and columns of a tile."""


@dataclass(frozen=True)
class Sweep:
    """A fixed number of blocks that sweep over the data."""

    blocks: int
    """Number of blocks."""


@dataclass(frozen=True)
class Grid:
    """An explicit grid of blocks."""

    x: Size
    """Blocks along x, the fastest."""
    y: Size = 1
    """Blocks along y."""
    z: Size = 1
    """Blocks along z."""


Geometry: TypeAlias = Elements | Rows | Tiles | Sweep | Grid

DEFAULT_BLOCK = 256


def elements(view: str) -> Elements:
    """A thread per element of the array parameter `view`."""
    # as Python reads names (NFKC): a micro sign, say, is a Greek letter there
    return Elements(unicodedata.normalize("NFKC", view) if isinstance(view, str) else view)


def rows(count: Size) -> Rows:
    """A warp per row, `count` rows."""
    return Rows(count)


def tiles(*, rows: Size, columns: Size, tile: tuple[int, int], batch: Size = 1) -> Tiles:
    """A block per tile of `tile` = (rows, columns) elements, over `batch` matrices of `rows` x `columns`."""
    return Tiles(rows, columns, batch, tile)


def sweep(*, blocks: int) -> Sweep:
    """`blocks` blocks, whatever the size of the data."""
    return Sweep(blocks)
