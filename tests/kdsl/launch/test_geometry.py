"""Block sizes, grids, and what is refused at declaration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kdsl import KernelError, kernel
from kdsl.errors import ContractError, LaunchError
from kdsl.lang.declaration import Declaration
from kdsl.lang.geometry import Grid, elements, rows, sweep, tiles
from kdsl.lang.structs import struct
from kdsl.lang.types import f32, i64, u32
from kdsl.lang.views import DisjointSlice, Slice
from kdsl.runtime.device import device


@struct
class Matrix:
    """A matrix."""

    rows: u32
    """Rows."""
    columns: u32
    """Columns."""
    batch: i64
    """How many."""


def declared(grid: Any = 1, block: Any = 32) -> Declaration:
    """The declaration of a kernel with this grid and block."""

    @kernel(grid=grid, block=block)
    def nothing(y: Slice[f32]) -> None:
        pass

    return nothing.declaration


@pytest.mark.parametrize(
    ("block", "extents"),
    [
        (1, (1, 1, 1)),
        (1024, (1024, 1, 1)),
        ((16, 16), (16, 16, 1)),
        ((1, 1, 64), (1, 1, 64)),
        (np.int64(48), (48, 1, 1)),
        ([8, 4, 2], (8, 4, 2)),
    ],
)
def test_blocks(block: Any, extents: tuple[int, int, int]) -> None:
    assert declared(block=block).block_dim == extents


@pytest.mark.parametrize(
    "block", [0, -1, 1025, 2048, (32, 64), (1, 1, 65), 2.0, True, (8, True), "8", (1, 2, 3, 4), ()]
)  # fmt: skip
def test_blocks_that_are_refused(block: Any) -> None:
    with pytest.raises(KernelError, match="block"):
        declared(block=block)


@pytest.mark.parametrize(
    "grid",
    [
        2.5, True, -1, (1, 2, 3, 4), rows(-1), sweep(blocks=0), sweep(blocks=2**31), sweep(blocks=1.5),  # type: ignore[arg-type]
        tiles(rows=1, columns=1, tile=(16, 0)), tiles(rows=1, columns=1, tile=16), tiles(rows=1.0, columns=1, tile=(1, 1)),  # type: ignore[arg-type]
    ],
    ids=str,
)  # fmt: skip
def test_grids_that_are_refused(grid: Any) -> None:
    with pytest.raises(KernelError, match="grid"):
        declared(grid=grid)


def test_explicit_grids() -> None:
    assert declared(5).geometry == Grid(5, 1, 1)
    assert declared((np.int32(4), "len(y)")).geometry == Grid(4, "len(y)", 1)


@pytest.mark.parametrize(
    ("grid", "block", "expected"),
    [
        (elements("y"), 256, (4, 1, 1)), (elements("y"), (16, 4), (16, 1, 1)), (elements("y"), 1, (1000, 1, 1)),
        (rows("p.rows"), 256, (5, 1, 1)), (rows("p.rows"), 48, (19, 1, 1)), (rows("p.rows + 1"), 32, (38, 1, 1)), (rows(9), 256, (2, 1, 1)),
        (tiles(rows="p.rows", columns="p.columns", batch="p.batch", tile=(16, 8)), 32, (2, 3, 3)),
        (tiles(rows="p.rows", columns="p.columns * 2", tile=(16, 8)), 32, (3, 3, 1)),
        (sweep(blocks=64), 256, (64, 1, 1)), (7, 32, (7, 1, 1)), (("p.batch", 2, "len(y) // 250"), 32, (3, 2, 4)),
    ],
)  # fmt: skip
def test_the_grid_that_a_kernel_sees(fake: Any, grid: Any, block: Any, expected: tuple[int, int, int]) -> None:
    kernel = fake("k", {"y": DisjointSlice[f32], "p": Matrix}, grid=grid, block=block)
    kernel(device("cpu").zeros(1000, f32), Matrix(rows=37, columns=9, batch=3))
    assert tuple(kernel.arguments[f"grid_{axis}"] for axis in "xyz") == expected
    assert kernel.blocks == expected[0] * expected[1] * expected[2]


def test_a_grid_that_needs_more_than_65535_along_y_and_z(fake: Any) -> None:
    kernel = fake("k", {"p": Matrix}, grid=(1, "p.rows", "p.batch"))
    kernel(Matrix(rows=70_000, columns=0, batch=2))
    assert kernel.blocks == 140_000


@pytest.mark.parametrize("matrix", [(0, 9, 3), (9, 0, 3), (9, 9, 0)])
def test_nothing_to_do_is_checked_but_not_launched(fake: Any, matrix: tuple[int, int, int]) -> None:
    grid = tiles(rows="p.rows", columns="p.columns", batch="p.batch", tile=(16, 8))
    kernel = fake("k", {"y": DisjointSlice[f32], "p": Matrix}, grid=grid, requires=("len(y) == 5",))
    sizes = Matrix(rows=matrix[0], columns=matrix[1], batch=matrix[2])
    kernel(device("cpu").zeros(5, f32), sizes)
    assert not kernel.runs
    with pytest.raises(LaunchError, match="len"):
        kernel(device("cpu").zeros(4, f32), sizes)
    with pytest.raises(TypeError):
        kernel(device("cpu").zeros(5, f32))


def test_a_negative_size_is_refused(fake: Any) -> None:
    kernel = fake("k", {"p": Matrix}, grid=("p.batch", "p.batch"))
    with pytest.raises(LaunchError, match=r"k: .*negative.*x = p.batch is -2"):
        kernel(Matrix(rows=1, columns=1, batch=-2))


def test_too_many_blocks_are_refused(fake: Any) -> None:
    kernel = fake("k", {"p": Matrix}, grid=("p.rows", "p.columns", 2))
    with pytest.raises(LaunchError, match=r"k: .*2147483648 blocks.*2147483647"):
        kernel(Matrix(rows=32768, columns=32768, batch=1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": elements("q")}, r"elements\('q'\) does not name an array parameter \(y\)"),
        ({"grid": elements("p")}, "does not name an array parameter"),
        ({"grid": rows("p.height")}, "rows in the grid of kernel k: p has no field height"),
        ({"grid": rows("p.rows > 1")}, "an integer is wanted"),
        ({"requires": ("len(y) > 1", "len(q) > 1")}, r"requires\[1\] of kernel k"),
    ],
)
def test_declarations_that_are_refused(fake: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ContractError, match=message):
        fake("k", {"y": DisjointSlice[f32], "p": Matrix}, **options)


def test_a_type_variable_that_no_array_decides(fake: Any) -> None:
    from typing import TypeVar

    undecided = TypeVar("undecided")
    with pytest.raises(ValueError, match="no array parameter decides the type variable undecided"):
        fake("k", {"y": Slice[f32], "n": undecided})
