"""The grid of a launch as Python for its launcher.

The hardware's grid is one-dimensional, x fastest; kernels see x, y and z. Leaves out what is checked when a kernel is declared (`geometry.py`)
and the indices inside kernels (the frontend's).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kdsl.errors import ContractError
from kdsl.ir.nodes import WARP_SIZE
from kdsl.lang.declaration import Declaration
from kdsl.lang.geometry import Elements, Grid, Rows, Size, Sweep, Tiles
from kdsl.launch.contract import Names, size


@dataclass(frozen=True)
class GridSize:
    """A size that the grid follows from."""

    what: str
    """What it counts, such as `rows`."""
    text: str
    """As written in the declaration."""
    source: str
    """As Python over the launcher's names."""
    can_be_negative: bool
    """Whether the launcher has to look at its sign."""


@dataclass(frozen=True)
class GridPlan:
    """How a launcher computes its grid."""

    description: str
    """In words, for the docstring."""
    sizes: tuple[GridSize, ...]
    """What is computed first."""
    extents: tuple[str, str, str]
    """Python sources of the blocks along x, y and z, over the launcher's names."""
    multiples: tuple[int, int, int] = (1, 1, 1)
    """Of what the launcher has to see that the blocks along x, y and z are multiples."""


def grid_plan(declaration: Declaration, names: Names, non_negative: Iterable[str] = ()) -> GridPlan:
    """How the grid of a declaration is computed. `non_negative` are sources whose value cannot be below 0.

    Raises ContractError for an expression that cannot be read, or a name that is no array's.
    """
    x, y, z = declaration.block_dim
    threads = x * y * z
    natural = set(non_negative)
    # Where the kernel leaves out what lies beyond the end, more blocks complete the last cluster; a grid that is counted in blocks has to be right
    cluster = declaration.attributes.cluster or (1, 1, 1)

    def sized(what: str, value: Size) -> GridSize:
        source = str(value) if isinstance(value, int) else size(value, names, f"{what} in the grid of kernel {declaration.name}")
        return GridSize(what, str(value), source, not isinstance(value, int) and source not in natural)

    match declaration.geometry:
        case Elements(view=view):
            if view not in names.lengths:
                arrays = ", ".join(names.lengths) or "there is none"
                raise ContractError(f"grid of kernel {declaration.name}: elements({view!r}) does not name an array parameter ({arrays})")
            length = names.lengths[view]
            return GridPlan(f"a thread per element of `{view}`", (), (_blocks(length, threads, cluster[0]), "1", "1"))
        case Rows(rows=rows):
            count = sized("rows", rows)
            extents = (_blocks(count.source, -(-threads // WARP_SIZE), cluster[0]), "1", "1")
            return GridPlan(f"a warp per row, `{rows}` rows", (count,), extents)
        case Tiles(rows=rows, columns=columns, batch=batch, tile=(height, width)):
            matrix = (sized("rows", rows), sized("columns", columns), sized("batch", batch))
            extents = (_blocks(matrix[1].source, width, cluster[0]), _blocks(matrix[0].source, height, cluster[1]), matrix[2].source)
            words = f"a block per tile of {height} x {width}, `{batch}` matrices of `{rows}` x `{columns}`"
            return GridPlan(words, matrix, extents, (1, 1, cluster[2]))
        case Sweep(blocks=blocks):
            return GridPlan(f"{blocks} blocks that sweep over the data", (), (str(blocks), "1", "1"))
        case Grid(x=along_x, y=along_y, z=along_z):
            grid = (sized("x", along_x), sized("y", along_y), sized("z", along_z))
            sources = (grid[0].source, grid[1].source, grid[2].source)
            return GridPlan(f"`{along_x}` x `{along_y}` x `{along_z}` blocks", grid, sources, cluster)


def _blocks(source: str, each: int, cluster: int) -> str:
    """Source of the blocks that cover `source` things, `each` per block, in whole clusters."""
    if source.isdigit():
        return str(-(-int(source) // (each * cluster)) * cluster)
    if each * cluster == 1:
        return source
    clusters = f"-(-{source} // {each * cluster})" if source.isidentifier() else f"-(-({source}) // {each * cluster})"
    return clusters if cluster == 1 else f"{clusters} * {cluster}"
