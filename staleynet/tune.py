"""Measure which schedule suits which matrix product on the GPU at hand, and write the table that `ops.matmul` reads.

python -m staleynet.tune [--device cuda:0] [--family wgmma ...] [--shape M,N,K[,BATCH] ...] [--out FILE]

A line per product and family with the time of each schedule; one that is far slower than another in its first run is not run again. The table is written after
each line, so that what was measured stays if the rest takes too long. Schedules change no bit, so a table only ever changes the time.
"""

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import kdsl
from kdsl import bf16
from staleynet.ops import schedules
from staleynet.ops.matmul import Operand, Precision, matmul, row_major, transposed

PRECISIONS: dict[str, Precision] = {
    "wgmma": "bf16",
    "held": "bf16",
    "parts": "bf16",
    "tf32": "tf32",
    "3xtf32": "3xtf32",
    "fp32": "fp32",
    "mma": "bf16",
    "pipelined": "fp32",
}
"""What a family is measured with."""
WIDTHS = (256, 512, 1024)
"""Widths of models."""
TOKENS = 8192
"""Rows of a batch."""
RUNS = 5
"""Timed runs of each schedule; the median counts."""
RUN_SECONDS = 2e-3
"""A run repeats the product for about so long."""
IDLE_SECONDS = 0.01
"""The card rests so long before each run, so that none is slowed down by the heat of the one before."""
HOPELESS = 1.3
"""A schedule whose first run takes so much longer than the best first run is left out."""

Shape: TypeAlias = tuple[int, int, int, int, bool, bool]
"""Extents m, n, k, matrices, and whether A and B are given with k across their rows."""


def model_shapes() -> list[Shape]:
    """The products of training steps, forward and backward, and squares."""
    found: list[Shape] = [(size, size, size, 1, False, across) for size in (1024, 2048, 4096, 8192) for across in (False, True)]
    for width in WIDTHS:
        for inner in (width, 3 * width, 4 * width):
            found += [
                (TOKENS, inner, width, 1, False, True),
                (TOKENS, width, inner, 1, False, False),
                (width, inner, TOKENS, 1, True, True),
            ]
    found += [(TOKENS, 2048, 512, 1, False, False), (TOKENS, 1024, 512, 1, False, False), (512, 512, 16384, 1, True, True)]
    return [
        *dict.fromkeys([*found, (12800, 1026, 1024, 1, False, True), (512, 512, 64, 128, False, False), (512, 64, 512, 128, False, True)])
    ]


def product(numbers: kdsl.Array, family: str, shape: Shape) -> Callable[[], None]:
    """A product in the family's precision of matrices out of `numbers`."""
    m, n, k, batch, a_across, b_across = shape

    def operand(rows: int, columns: int) -> Operand:
        return row_major(numbers[: batch * rows * columns], columns, sequence=rows * columns)

    a = transposed(operand(k, m)) if a_across else operand(m, k)
    b = operand(k, n) if b_across else transposed(operand(n, k))
    c = row_major(numbers.device.empty(batch * m * n, numbers.dtype), n, sequence=m * n)
    return lambda: matmul(c, a, b, m=m, n=n, k=k, sequences=batch, precision=PRECISIONS[family])


def run_of(device: kdsl.Device, launch: Callable[[], Any], about: float) -> Callable[[], float]:
    """The time in seconds of one launch, of many in a graph."""
    launch()
    count = max(1, round(RUN_SECONDS / about))
    with kdsl.Graph(device) as graph:
        for _ in range(count):
            launch()

    def run() -> float:
        device.synchronize()
        time.sleep(IDLE_SECONDS)
        start = time.perf_counter()
        graph.launch()
        device.synchronize()
        return (time.perf_counter() - start) / count

    run()
    return run


def fastest(runs: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The median times of those that are not hopeless, in seconds, best first."""
    first = {name: run() for name, run in runs.items()}
    limit = HOPELESS * min(first.values())
    times = {name: statistics.median(run() for _ in range(RUNS)) for name, run in runs.items() if first[name] <= limit}
    return dict(sorted(times.items(), key=lambda entry: entry[1]))


def tune(device: kdsl.Device, families: list[str], shapes: list[Shape]) -> Iterator[tuple[str, str, str]]:
    """The fastest schedule of each family for each shape: family and layouts, the shape that the kernel sees (a part along k counts as a matrix), the name."""
    most = max(batch * max(m * k, n * k) for m, n, k, batch, *_ in shapes)
    wide = np.random.default_rng(0).standard_normal(most, dtype=np.float32)
    numbers: dict[Precision, kdsl.Array] = {}
    for family in families:
        precision = PRECISIONS[family]
        if precision not in numbers:
            narrow: Any = bf16
            numbers[precision] = device.array(wide.astype(narrow.numpy) if precision == "bf16" else wide)
        for shape in shapes:
            m, n, k, batch, *_ = shape
            launch = product(numbers[precision], family, shape)
            runs = {}
            for name, schedule in schedules.SCHEDULES[family].items():
                if not schedules.suits(schedule, shape[4:]):
                    continue
                with schedules.forced(family, name), schedules.mma_alone() if family == "mma" else contextlib.nullcontext():
                    launch()
                    if schedules.asked(family) is None:
                        break  # products of this shape go another way
                    runs[name] = run_of(device, launch, 2e-14 * m * n * k * batch + 4e-6)
            where = schedules.asked(family)
            if where is not None:
                times = fastest(runs)
                print(f"{where[0]} {(m, n, k, batch)}: {'  '.join(f'{name} {1e6 * t:.1f}' for name, t in times.items())} us", flush=True)
                yield *where, next(iter(times))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto or cuda:N (auto)")
    parser.add_argument("--family", action="append", choices=[*PRECISIONS], help="only this family; may be repeated")
    parser.add_argument("--shape", action="append", help="M,N,K or M,N,K,BATCH; may be repeated (the model's)")
    parser.add_argument("--out", type=Path, help="the table's file (that of the package)")
    options = parser.parse_args()
    device = kdsl.device(options.device)
    if device.target == "cpu":
        sys.exit("schedules are measured on a GPU, and there is none")
    families = options.family or (
        ["wgmma", "held", "parts", "tf32", "3xtf32", "fp32"] if device.target == "sm_90" else ["mma", "pipelined"]
    )
    shapes: list[Shape] = []
    for text in options.shape or []:
        extents = [int(part) for part in text.split(",")]
        if len(extents) not in (3, 4) or min(extents) < 1:
            sys.exit(f"--shape {text}: a shape is M,N,K or M,N,K,BATCH")
        m, n, k, batch = (*extents, 1)[:4]
        shapes += [(m, n, k, batch, a, b) for a in (False, True) for b in (False, True)]
    path = options.out or Path(schedules.__file__).with_name(f"schedules_{device.target}.json")
    table = {family: dict(known) for family, known in schedules.load(device.target).items()}
    for family, known, name in tune(device, families, shapes or model_shapes()):
        table.setdefault(family, {})[known] = name
        path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
