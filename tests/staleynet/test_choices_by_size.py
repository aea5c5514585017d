"""What products choose by their sizes, without a GPU: for the 132 multiprocessors of an H200."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kdsl
from kdsl import f32
from staleynet.kernels import matmul_held
from staleynet.kernels.convert import SPREAD_PARTS
from staleynet.ops import matmul_paths
from staleynet.ops.matmul_operands import Matrix
from staleynet.ops.schedules import SCHEDULES

TILES = SCHEDULES["tf32"]["128x256 copied"]


@pytest.fixture(autouse=True)
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul_paths, "_multiprocessors", lambda _: 132)


def matrix(rows: int, columns: int, *, batch: int = 1, gap: int = 0, across: bool = False) -> Matrix:
    """Matrices of which only sizes and strides are asked for, not what is in memory."""
    base = kdsl.device("cpu").empty(16, f32)
    stride = (rows if across else columns) + gap
    return Matrix(base, (1, batch, rows, columns), (0, rows * columns, *((1, stride) if across else (stride, 1))))


@pytest.mark.parametrize(
    ("m", "n", "k", "first"),
    [
        (4096, 4096, 4096, 4 * 256),  # four columns of 32 tiles in the first round, three rounds more instead of four
        (8192, 2048, 512, 0),  # B is small
        (8192, 8192, 8192, 2 * 256),
        (17024, 4096, 4096, 0),  # a column of tiles is more than a round
    ],
)
def test_columns_that_are_computed_while_the_others_are_copied(m: int, n: int, k: int, first: int) -> None:
    c, b = matrix(m, n), matrix(n, k, across=True)
    assert matmul_paths._columns_copied_first(c, b, TILES) == first
    if first:
        rounds, rest = (math.ceil(math.ceil(m / TILES.rows) * math.ceil(columns / TILES.columns) / 132) for columns in (n, n - first))
        assert rest < rounds


def test_what_is_copied_another_way_is_copied_first() -> None:
    c = matrix(4096, 4096)
    assert matmul_paths._columns_copied_first(c, matrix(4096, 4096, across=True, gap=1), TILES) == 0
    assert matmul_paths._columns_copied_first(matrix(4096, 4096, batch=2), matrix(4096, 4096, batch=2, across=True), TILES) == 0


@pytest.mark.parametrize(
    ("m", "n", "parts", "each", "spread"),
    [
        (512, 1536, 5, 4, True),  # 5.8 blocks for each multiprocessor
        (512, 1536, SPREAD_PARTS + 1, 1, False),
        (512, 1536, 1, 4, False),
        (512, 1538, 5, 1, False),
        (1024, 1536, 5, 4, False),  # more blocks than find room
        (1024, 1536, 8, 1, False),
        (256, 256, 16, 1, False),
    ],
)
def test_blocks_that_add_parts(m: int, n: int, parts: int, each: int, spread: bool) -> None:
    assert matmul_paths._blocks_that_add(matrix(m, n), parts, True) == (each, spread)


def test_other_products_are_not_spread() -> None:
    assert matmul_paths._blocks_that_add(matrix(512, 1536), 5, False) == (1, False)


def test_some_rows_and_columns_of_a_matrix() -> None:
    base = kdsl.device("cpu").array(np.arange(24, dtype=np.float32))
    found = Matrix(base, (1, 1, 4, 6), (24, 24, 6, 1))
    assert found.rows(1, 2).array.numpy().ravel().tolist() == list(range(6, 18))
    assert found.columns(2, 2).array.numpy().ravel().tolist() == [2, 3, 8, 9, 14, 15, 20, 21]
    assert found.turned.rows(2, 2).array.numpy().tolist() == found.columns(2, 2).turned.array.numpy().tolist()


@pytest.mark.parametrize(
    ("m", "n", "blocks"),
    [
        (8192, 2048, 128),  # two for each of 64 rows of tiles, eight tiles each
        (8192, 512, 128),
        (8100, 500, 128),
        (16384, 256, 128),
        (32768, 2048, 256),
        (4096, 2048, 128),
        (1024, 4096, 128),
        (8192, 256, 0),  # 64 blocks of two tiles, where there are 128 tiles for 132 multiprocessors
        (8192, 128, 0),
        (8576, 2048, 0),  # 67 rows of tiles leave half of the multiprocessors without one
        (12800, 1024, 0),
        (1, 1, 0),
    ],
)
def test_blocks_that_hold_their_rows(m: int, n: int, blocks: int) -> None:
    assert matmul_held.blocks_of(m, n, 132) == blocks
    if blocks:
        down, across = -(-m // 128), -(-n // 128)
        assert blocks % down == 0
        assert -(-blocks // 132) * -(-across // (blocks // down)) == -(-down * across // 132)
