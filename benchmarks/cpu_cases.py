"""The sizes of `benchmarks/cpu.py`, and how it takes times: for its own process and for that of its peers."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ELEMENTS = 10_240_000
"""Elements of the element-wise cases."""
COLUMNS = 1024
"""Columns of the row-wise ones."""
ROWS = ELEMENTS // COLUMNS
"""Their rows."""
VOCABULARY, WIDTH = 1024, 256
"""Rows and columns of the embedding table."""
MATRIX = 512
"""Rows and columns of the example program's product."""


@dataclass(frozen=True)
class Product:
    """A batch of products of an m x k with a k x n matrix."""

    m: int
    n: int
    k: int
    batch: int = 1
    a_transposed: bool = False
    b_transposed: bool = False

    @property
    def gflop(self) -> float:
        """Arithmetic, a multiplication and an addition counted apart."""
        return 2e-9 * self.batch * self.m * self.n * self.k


PRODUCTS = {
    "1024": Product(1024, 1024, 1024),
    "1024 A^T": Product(1024, 1024, 1024, a_transposed=True),
    "1024 B^T": Product(1024, 1024, 1024, b_transposed=True),
    "2048": Product(2048, 2048, 2048),
    "query-key-value": Product(8192, 768, 256),
    "down": Product(8192, 256, 1024),
    "input gradient B^T": Product(8192, 256, 1024, b_transposed=True),
    "weight gradient A^T": Product(256, 1024, 8192, a_transposed=True),
    "logits B^T": Product(8192, 1024, 256, b_transposed=True),
    "scores B^T": Product(512, 512, 64, batch=64, b_transposed=True),
    "values": Product(512, 64, 512, batch=64),
}
"""The shapes of the configuration `small` among them."""


@dataclass(frozen=True)
class Model:
    """The sizes of a transformer and of its batch."""

    width: int
    layers: int
    heads: int
    length: int
    sequences: int
    vocabulary: int


MODELS = {"tiny": Model(96, 2, 4, 256, 8, 256), "small": Model(256, 6, 4, 512, 16, 1024)}


def seconds(run: Callable[[], Any], threads: int, budget: float) -> float:
    """The shortest of several runs that together take about `budget` seconds. On one thread it is the processor's time of this process, which others on
    the same machine disturb less than time on the wall.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    start = clock()
    run()  # compiles, and warms the caches
    if clock() - start < budget:
        run()
    best, spent = float("inf"), 0.0
    while spent < budget or best == float("inf"):
        start = clock()
        run()
        taken = clock() - start
        if taken < 1e-3:  # too short to be read off the clock
            repeats = int(2e-3 / max(taken, 1e-6)) + 1
            start = clock()
            for _ in range(repeats):
                run()
            taken = (clock() - start) / repeats
            spent += taken * repeats
        best, spent = min(best, taken), spent + taken
    return best
