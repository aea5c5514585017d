"""The product for a CPU gives the bits of the naive one: in several steps along k and several tiles, at edges, with transposed operands, added to a C."""

import dataclasses
import sys
from typing import Any

import numpy as np
import pytest

import kdsl
from staleynet.kernels.matmul_cached import Schedule, cache_blocked
from staleynet.ops.matmul import Version, matmul, row_major, transposed

OPS: Any = sys.modules["staleynet.ops.matmul"]  # the package has a function of that name
SIZES = ((70, 45, 67), (33, 97, 32), (8, 32, 96), (64, 64, 1), (5, 3, 0))


def product(version: Version, m: int, n: int, k: int, turned: tuple[bool, bool], accumulate: bool) -> Any:
    """Two products of a batch, as bits."""
    device, rng = kdsl.device("cpu"), np.random.default_rng(m + n + k)

    def operand(rows: int, columns: int, is_turned: bool) -> Any:
        x = device.array(rng.standard_normal(max(2 * rows * columns, 1), dtype=np.float32))
        lies = row_major(x, rows if is_turned else columns, sequence=rows * columns)
        return transposed(lies) if is_turned else lies

    a, b, c = operand(m, k, turned[0]), operand(k, n, turned[1]), operand(m, n, False)
    matmul(c, a, b, m=m, n=n, k=k, sequences=2, alpha=0.3, accumulate=accumulate, version=version)
    return c.array.numpy().view(np.uint32)


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("apart", [False, True])
def test_tiles_change_no_bit(monkeypatch: pytest.MonkeyPatch, apart: bool, turned: tuple[bool, bool]) -> None:
    tiles = cache_blocked(Schedule(32, 64, 32), sums_apart=apart)
    monkeypatch.setattr(OPS, "_blocked_on_cpu", lambda *sizes, is_added: tiles)
    for m, n, k in SIZES:
        for accumulate in (False, True) if apart or k <= 32 else (False,):
            np.testing.assert_array_equal(
                product("register_blocked", m, n, k, turned, accumulate),
                product("naive", m, n, k, turned, accumulate),
                err_msg=f"{m, n, k, accumulate}",
            )


def test_added_sums_are_apart_where_they_take_several_steps() -> None:
    for k in (OPS._DEPTH, 2 * OPS._DEPTH + 1):
        np.testing.assert_array_equal(
            product("register_blocked", 40, 70, k, (False, False), True), product("naive", 40, 70, k, (False, False), True), err_msg=str(k)
        )


def test_more_threads_take_smaller_tiles() -> None:
    def tiles(threads: int) -> int:
        before = OPS.threads
        OPS.threads = lambda: threads
        try:
            chosen = OPS._blocked_on_cpu(1, 1024, 1024, 1024, is_added=False)
        finally:
            OPS.threads = before
        sizes: dict[int, int] = {id(kernel): rows * columns for rows, columns, _, kernel in OPS._BLOCKED_ON_CPU}
        return sizes[id(chosen)]

    assert tiles(1) >= tiles(2) >= tiles(64)
    assert 1024 * 1024 // tiles(64) >= 64


def test_sizes_that_do_not_divide_are_refused() -> None:
    for change in ({"rows": 48}, {"columns": 40}, {"depth": 16}):
        with pytest.raises(ValueError, match="not a schedule"):
            cache_blocked(dataclasses.replace(Schedule(64, 64, 64), **change))
