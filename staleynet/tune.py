"""Measure which schedule suits which matrix product on the GPU at hand, and write the table that `ops.matmul` reads.

python -m staleynet.tune [--device cuda:0] [--family wgmma ...] [--shape M,N,K[,BATCH] ...] [--out FILE]

A line per product and family with the time of each schedule. Schedules change no bit, so a table only ever changes the time.
"""

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import kdsl
from kdsl import bf16, f32
from staleynet.ops import schedules
from staleynet.ops.matmul import Operand, Precision, matmul, row_major, transposed

PRECISIONS: dict[str, Precision] = {"wgmma": "bf16", "3xtf32": "3xtf32", "tf32": "tf32", "fp32": "fp32", "mma": "bf16"}
"""What a family is measured with."""
WIDTHS = (256, 512, 1024)
"""Widths of models."""
TOKENS = 8192
"""Rows of a batch."""
RUNS = 5
"""Timed runs of each schedule; the median counts."""
RUN_SECONDS = 2e-3
"""A run repeats the product for about so long."""
IDLE_SECONDS = 0.02
"""The card rests so long before each run, so that none is slowed down by the heat of the one before."""


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


def product(device: kdsl.Device, family: str, shape: Shape) -> Callable[[], None]:
    """A product of random numbers in the family's precision."""
    m, n, k, batch, a_across, b_across = shape
    random = np.random.default_rng(0)
    element: Any = bf16 if PRECISIONS[family] == "bf16" else f32

    def operand(rows: int, columns: int) -> Operand:
        numbers = random.standard_normal(batch * rows * columns, dtype=np.float32).astype(element.numpy)
        return row_major(device.array(numbers), columns, sequence=rows * columns)

    a = transposed(operand(k, m)) if a_across else operand(m, k)
    b = operand(k, n) if b_across else transposed(operand(n, k))
    c = operand(m, n)
    return lambda: matmul(c, a, b, m=m, n=n, k=k, sequences=batch, precision=PRECISIONS[family])


def seconds(device: kdsl.Device, launch: Callable[[], Any], about: float) -> float:
    """The time of one launch, of many in a graph."""
    launch()
    count = max(1, round(RUN_SECONDS / about))
    with kdsl.Graph(device) as graph:
        for _ in range(count):
            launch()
    taken = []
    for _ in range(RUNS + 1):
        device.synchronize()
        time.sleep(IDLE_SECONDS)
        start = time.perf_counter()
        graph.launch()
        device.synchronize()
        taken.append((time.perf_counter() - start) / count)
    return statistics.median(taken[1:])


def tune(device: kdsl.Device, families: list[str], shapes: list[Shape]) -> dict[str, dict[str, str]]:
    """The fastest schedule of each family for each shape, under the shape that the kernel sees (a part along k counts as a matrix)."""
    table: dict[str, dict[str, str]] = {}
    for family in families:
        for shape in shapes:
            m, n, k, batch, *_ = shape
            launch = product(device, family, shape)
            times = {}
            place = None
            for name, schedule in schedules.SCHEDULES[family].items():
                if shape[4:] == (True, True) and not getattr(schedule, "turns", True):
                    continue
                with schedules.forced(family, name), schedules.mma_alone() if family == "mma" else contextlib.nullcontext():
                    times[name] = seconds(device, launch, 2e-14 * m * n * k * batch + 4e-6)
                place = schedules.asked()
                if place is None:
                    break  # no product of this family
            if place is None:
                continue
            best = min(times, key=lambda name: times[name])
            table.setdefault(place[0], {})[place[1]] = best
            shown = "  ".join(f"{name} {1e6 * t:.1f}" for name, t in times.items())
            print(f"{place[0]} {(m, n, k, batch)}: {shown} us; {best}", flush=True)
    return table


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
    families = options.family or ["wgmma", "tf32", "fp32"]
    shapes: list[Shape] = []
    for text in options.shape or []:
        extents = [int(part) for part in text.split(",")]
        if len(extents) not in (3, 4) or min(extents) < 1:
            sys.exit(f"--shape {text}: a shape is M,N,K or M,N,K,BATCH")
        m, n, k, batch = (*extents, 1)[:4]
        shapes += [(m, n, k, batch, a, b) for a in (False, True) for b in (False, True)]
    path = options.out or Path(schedules.__file__).with_name(f"schedules_{device.target}.json")
    table = {family: dict(known) for family, known in schedules.load(device.target).items()}
    for family, found in tune(device, families, shapes or model_shapes()).items():
        table.setdefault(family, {}).update(found)
    path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
