"""A bf16 matrix product by `mma` (mma.sync, the tensor-core instruction of sm_80) beside PyTorch's, which is cuBLAS's.

python benchmarks/mma_probe.py [--size N ...] [--tile NAME ...] [--device cuda:0]

C = A B^T with A (m x k) and B (n x k) in bf16, sums in fp32, C in bf16. Tiles of A and B come to shared memory by `copy_async` in a ring of stages, to
registers by `ldmatrix` one step of 16 ahead of the products, and are multiplied by m16n8k16. A line per size and tile with TFLOP/s of both and their ratio;
the last line is `best RATIO`, the largest of them at the last size. Both run in turn, in one process, and the results are compared. Times are wall time around
many launches that end in one synchronisation, medians: figures of one run on one machine only.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import kdsl
from kdsl import (
    Slice,
    SliceMut,
    bf16,
    bf16x2_bits,
    block_idx,
    commit_copies,
    copy_async,
    f32,
    i64,
    kernel,
    lane_index,
    ldmatrix,
    local_array,
    mma,
    mma_column,
    mma_row,
    shared_array,
    struct,
    sync_threads,
    thread_idx,
    u32,
    unroll,
    wait_copies,
    warp_index,
)

RUNS = 7
"""Timed runs of each product; the median counts."""
RUN_SECONDS = 0.05
"""A run repeats the product until it takes about so long."""


@dataclass(frozen=True)
class Tile:
    """How a product is divided."""

    m: int
    """Rows of C per block."""
    n: int
    """Columns of C per block."""
    k: int
    """Depth of a stage."""
    stages: int
    """Stages of the ring."""
    rows: int
    """Warps along m."""
    columns: int
    """Warps along n."""


TILES = {
    "128x128x32 4 stages": Tile(128, 128, 32, 4, 2, 2),
    "128x128x32 3 stages": Tile(128, 128, 32, 3, 2, 2),
    "128x256x32 4 stages": Tile(128, 256, 32, 4, 2, 4),
    "128x256x32 5 stages": Tile(128, 256, 32, 5, 2, 4),
    "128x256x64 3 stages": Tile(128, 256, 64, 3, 2, 4),
    "128x256x64 4 stages": Tile(128, 256, 64, 4, 2, 4),
    "256x128x64 3 stages": Tile(256, 128, 64, 3, 4, 2),
    "256x128x32 5 stages": Tile(256, 128, 32, 5, 4, 2),
    "256x128x32 3 stages": Tile(256, 128, 32, 3, 4, 2),
    "128x128x64 3 stages": Tile(128, 128, 64, 3, 2, 4),
}


@struct
class Sizes:
    """A product of an m x k with the transpose of an n x k matrix."""

    m: i64
    """Rows of A and C; a multiple of the tile's."""
    n: i64
    """Rows of B, columns of C; a multiple of the tile's."""
    k: i64
    """Columns of A and B; a multiple of the tile's."""


def product(tile: Tile) -> Any:
    """The kernel for a tile."""
    BM, BN, BK, STAGES = tile.m, tile.n, tile.k, tile.stages
    THREADS = 32 * tile.rows * tile.columns
    ALONG_N = tile.columns
    WM, WN = BM // tile.rows, BN // tile.columns  # of a warp
    MT, NT = WM // 16, WN // 8  # products per warp and step of 16
    STEPS = BK // 16
    CHUNKS = BK // 8  # of 16 bytes, per row of a stage
    A_COPIES, B_COPIES = BM * CHUNKS // THREADS, BN * CHUNKS // THREADS  # per thread and stage
    SWIZZLE = 2 * BK  # bytes of a row: eight rows of a column of 16 bytes lie in different banks
    GROUP = 8  # blocks of so many rows of tiles run side by side, so that they share columns of B in the L2 cache

    @kernel(
        grid=(f"p.m // {BM} * (p.n // {BN})",),
        block=THREADS,
        requires=(
            "len(a) == p.m * p.k",
            "len(b) == p.n * p.k",
            "2 * len(c) == p.m * p.n",
            f"p.m == p.m // {BM} * {BM}",
            f"p.n == p.n // {BN} * {BN}",
            f"p.k == p.k // {BK} * {BK}",
            f"p.k >= {BK * STAGES}",
        ),
    )
    def mma_product(c: SliceMut[u32], a: Slice[bf16], b: Slice[bf16], p: Sizes) -> None:
        """Each block a tile of C, each warp a part of it in registers. Two columns of C are one u32."""
        a_tile = shared_array((STAGES, BM, BK), bf16, swizzle=SWIZZLE)
        b_tile = shared_array((STAGES, BN, BK), bf16, swizzle=SWIZZLE)
        a_part = local_array((2, MT, 4), u32)
        b_part = local_array((2, NT, 2), u32)
        total = local_array((MT, NT, 4), f32)
        t, lane = thread_idx.x, lane_index()
        warp_row, warp_column = warp_index() // ALONG_N * WM, warp_index() % ALONG_N * WN

        # which tile: down GROUP tiles, then to the next column
        tiles_m, tiles_n = p.m // BM, p.n // BN
        block = block_idx.x
        first = block // (GROUP * tiles_n) * GROUP
        height = min(tiles_m - first, GROUP)
        inside = block % (GROUP * tiles_n)
        row, column = (first + inside % height) * BM, inside // height * BN

        # the contract and the grid keep every tile inside, so no index needs a check
        copy_row, copy_chunk = t // CHUNKS, t % CHUNKS
        steps = p.k // BK
        a_first = (row + copy_row) * p.k + copy_chunk * 8
        b_first = (column + copy_row) * p.k + copy_chunk * 8

        # where the lane's rows lie: of A 16 x 16 of a step, of B 16 x 16 for two columns of products
        a_row, a_chunk = warp_row + lane % 16, lane // 16
        b_row, b_chunk = warp_column + lane % 8 + lane // 16 * 8, lane // 8 % 2

        for stage in unroll(STAGES - 1):
            for i in unroll(A_COPIES):
                r = i * (THREADS // CHUNKS)
                copy_async(a_tile, (stage, copy_row + r, copy_chunk * 8), a.unchecked, a_first + r * p.k + stage * BK, 8)
            for i in unroll(B_COPIES):
                r = i * (THREADS // CHUNKS)
                copy_async(b_tile, (stage, copy_row + r, copy_chunk * 8), b.unchecked, b_first + r * p.k + stage * BK, 8)
            commit_copies()
        wait_copies(STAGES - 2)
        sync_threads()
        for i in unroll(MT):
            a_part[0, i, :] = ldmatrix(a_tile, (0, a_row + i * 16, a_chunk * 8))
        for j in unroll(0, NT, 2):
            found = ldmatrix(b_tile, (0, b_row + j * 8, b_chunk * 8))
            b_part[0, j, :] = (found[0], found[1])
            b_part[0, j + 1, :] = (found[2], found[3])

        for step in range(steps):
            for s in unroll(STEPS):
                # fragments of the next step of 16, which may lie in the next stage
                if s == STEPS - 1:
                    wait_copies(STAGES - 2)
                    sync_threads()
                stage = (step + (s + 1) // STEPS) % STAGES
                ahead = (s + 1) % STEPS * 2
                for i in unroll(MT):
                    a_part[(s + 1) % 2, i, :] = ldmatrix(a_tile, (stage, a_row + i * 16, (a_chunk + ahead) * 8))
                for j in unroll(0, NT, 2):
                    found = ldmatrix(b_tile, (stage, b_row + j * 8, (b_chunk + ahead) * 8))
                    b_part[(s + 1) % 2, j, :] = (found[0], found[1])
                    b_part[(s + 1) % 2, j + 1, :] = (found[2], found[3])
                if s == 0:
                    # the stage that was left last is free since the barrier
                    if step + STAGES - 1 < steps:
                        free = (step + STAGES - 1) % STAGES
                        along = (step + STAGES - 1) * BK
                        for i in unroll(A_COPIES):
                            r = i * (THREADS // CHUNKS)
                            copy_async(a_tile, (free, copy_row + r, copy_chunk * 8), a.unchecked, a_first + r * p.k + along, 8)
                        for i in unroll(B_COPIES):
                            r = i * (THREADS // CHUNKS)
                            copy_async(b_tile, (free, copy_row + r, copy_chunk * 8), b.unchecked, b_first + r * p.k + along, 8)
                    commit_copies()
                for i in unroll(MT):
                    for j in unroll(NT):
                        total[i, j, :] = mma(a_part[s % 2, i, :], b_part[s % 2, j, :], total[i, j, :], "m16n8k16", bf16)

        for i in unroll(MT):
            for j in unroll(NT):
                for half in unroll(2):
                    y, x = row + warp_row + i * 16 + mma_row(2 * half), column + warp_column + j * 8 + mma_column(0)
                    c.unchecked[(y * p.n + x) // 2] = bf16x2_bits(total[i, j, 2 * half], total[i, j, 2 * half + 1])

    return mma_product


def seconds(launch: Callable[[], Any], synchronize: Callable[[], Any]) -> float:
    """The time of one launch: the median over RUNS runs of RUN_SECONDS."""

    def run(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            launch()
        synchronize()
        return time.perf_counter() - start

    run(1)  # compiles, loads, allocates
    count = max(1, round(RUN_SECONDS / run(1)))
    return statistics.median(run(count) for _ in range(RUNS)) / count


def peer_of(a: Any, b: Any, torch: Any) -> Callable[[], Any]:
    """PyTorch's product of the same numbers."""
    x, y = (torch.from_numpy(m.view(np.int16)).view(torch.bfloat16).cuda() for m in (a, b))
    out = torch.empty((len(a), len(b)), dtype=torch.bfloat16, device="cuda")
    return lambda: torch.matmul(x, y.t(), out=out)


def measure(size: int, tiles: Sequence[str], device: kdsl.Device, torch: Any) -> float:
    """Print a line per tile; the best ratio."""
    rng = np.random.default_rng(size)
    a, b = (rng.standard_normal((size, size), dtype=np.float32).astype(ml_dtypes.bfloat16) for _ in range(2))
    left, right, c = device.array(a.ravel()), device.array(b.ravel()), device.empty(size * size // 2, kdsl.u32)
    sizes = Sizes(m=size, n=size, k=size)
    tflop = 2e-12 * size**3
    peer = peer_of(a, b, torch) if torch is not None else None
    expected = a.astype(np.float32) @ b.astype(np.float32).T if peer is None else peer().float().cpu().numpy()
    best = 0.0
    for name in tiles:
        mma_product = product(TILES[name])
        speed = tflop / seconds(functools.partial(mma_product, c, left, right, sizes), device.synchronize)
        result = c.numpy().view(ml_dtypes.bfloat16).reshape(size, size).astype(np.float32)
        np.testing.assert_allclose(result, expected, rtol=2e-2, atol=2e-2 * size**0.5)
        if peer is None:
            print(f"{size} {name:<22} {speed:8.3f} TFLOP/s", flush=True)
            continue
        of_peer = tflop / seconds(peer, torch.cuda.synchronize)
        best = max(best, speed / of_peer)
        print(f"{size} {name:<22} {speed:7.1f} TFLOP/s  cuBLAS {of_peer:7.1f}  ratio {speed / of_peer:.3f}", flush=True)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, action="append", help="m = n = k; may be repeated (4096)")
    parser.add_argument("--tile", action="append", choices=TILES, help="only this tile; may be repeated")
    parser.add_argument(
        "--device", default="auto", help="auto or cuda:N (auto); on a CPU, which takes its time, a small size serves as a test"
    )
    options = parser.parse_args()
    device = kdsl.device(options.device)
    torch = importlib.import_module("torch") if str(device).startswith("cuda") else None
    best = [measure(size, options.tile or list(TILES), device, torch) for size in options.size or [4096]]
    print(f"best {best[-1]:.3f}" if torch is not None else "no ratio: PyTorch's product was not timed")


if __name__ == "__main__":
    main()
