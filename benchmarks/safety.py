"""What checks of indices cost: every kernel of the model against itself compiled without them, on one device in one run.

python benchmarks/safety.py [--device cuda|cpu] [--size small large] [--only NAME ...] [--seconds S] [--rounds N]

A line per kernel: operations whose check was proved away, those whose check is left, microseconds with checks and without, and the ratio of the two: 0.98
means 2 % slower for the checks, `=` stands for the same code, where the ratio tells the noise. On a GPU a run is a graph of launches, timed by events;
on the CPU it is the processor's time of this process, on one thread. Runs with and without alternate; the ratio is the median over pairs of neighbouring
runs. With `small`, both builds are run from the same data first, and their results compared. The last line is `geomean RATIO`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import kdsl
from kdsl.cli.explain import accesses
from kdsl.ir import nodes
from kdsl.runtime.pool import set_threads

sys.path.insert(0, str(Path(__file__).parent))
from safety_cases import SEQUENCES, Arrays, Case, fresh

ONLY = {
    "matmul_cache_blocked": "cpu",
    "matmul_wide": "sm_90",
    "matmul_hopper": "sm_90",
    "matmul_held": "sm_90",
    "matmul_parts": "sm_90",
    "matmul_sum_of_parts": "sm_90",
    "matmul_tf32": "sm_90",
    "matmul_tf32_beside": "sm_90",
    "matmul_turn_heads": "sm_90",
    "matmul_3xtf32": "sm_90",
}
"""Kernels that are for one kind of device."""

Run = Callable[[], float]
"""Seconds of one launch."""


def suits(name: str, device: kdsl.Device) -> bool:
    """Whether a kernel is for the device."""
    return device.target.startswith(ONLY.get(name.partition(",")[0], device.target))


def checks(kernel: kdsl.Kernel) -> tuple[int, int]:
    """Operations whose check was proved away, and those whose check is left, in the build for which the process is set."""
    ir = kernel.ir()
    proved = sum(access.operations - access.checked for access in accesses(ir) if access.state != "unchecked")
    left = sum(access.checked for access in accesses(ir))
    for op in nodes.walk(ir.body):
        if isinstance(op, nodes.Instruction):
            proved += len(op.elements)
        elif isinstance(op, nodes.Assertion) and ir.sites[op.site].kind in ("load", "store", "copy"):
            proved, left = proved - 1, left + 1
    return proved, left


def runs(device: kdsl.Device, launch: Callable[[], None], seconds: float) -> Run:
    """Runs of about so many seconds."""
    launch()
    device.synchronize()
    if device.target == "cpu":
        start = time.process_time()
        launch()
        count = max(1, int(seconds / max(time.process_time() - start, 1e-6)))

        def on_cpu() -> float:
            start = time.process_time()
            for _ in range(count):
                launch()
            return (time.process_time() - start) / count

        return on_cpu
    start = time.perf_counter()
    for _ in range(10):
        launch()
    device.synchronize()
    count = max(1, min(400, int(seconds / ((time.perf_counter() - start) / 10))))
    with kdsl.Graph(device) as graph:
        for _ in range(count):
            launch()
    begin, end = device.event(), device.event()

    def on_gpu() -> float:
        begin.record()
        graph.launch()
        end.record()
        return begin.elapsed_ms(end) / 1e3 / count

    return on_gpu


def same_results(arrays: Arrays, cases: tuple[Case, Case]) -> bool:
    """Whether both builds make the same bits of the same data."""
    found = []
    for case in cases:
        arrays.restore()
        case()
        found.append(arrays.contents())
    return all(one.tobytes() == other.tobytes() for one, other in zip(*found, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="where to run (the GPU where there is one)")
    parser.add_argument("--size", nargs="+", choices=list(SEQUENCES), help="sizes of the batch (all; small on the CPU)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only the kernels whose names begin so")
    parser.add_argument("--seconds", type=float, default=1e-3, help="of a run (0.001)")
    parser.add_argument("--rounds", type=int, default=41, help="pairs of runs (41)")
    options = parser.parse_args()
    device = kdsl.device(options.device)
    set_threads(1)
    makers = fresh(unchecked=False), fresh(unchecked=True)
    names = [name for name in makers[0] if suits(name, device) and (not options.only or name.startswith(tuple(options.only)))]
    sizes = options.size or (["small"] if device.target == "cpu" else list(SEQUENCES))
    arrays, everything = Arrays(device), []
    print(
        f"{device.name}, {'one thread' if device.target == 'cpu' else device.target}; batches of {', '.join(f'{s}: {SEQUENCES[s]}' for s in sizes)}"
    )
    print(f"{'kernel':<32}{'size':>6}{'proved':>8}{'left':>6}{'checked':>12}{'unchecked':>12}{'ratio':>8}")
    for name in names:
        for size in sizes:
            built = []
            for unchecked, maker in enumerate(makers):
                kdsl.unchecked(bool(unchecked))
                case = maker[name](arrays, SEQUENCES[size])
                built.append((case, runs(device, case, options.seconds)))
                device.synchronize()
            kdsl.unchecked(False)
            (case, checked), (other, unchecked_run) = built
            proved, left = checks(case.kernel)
            equal = size != "small" or same_results(arrays, (case, other))
            times, without = [], []
            for number in range(options.rounds):
                for mine, run in sorted(
                    ((times, checked), (without, unchecked_run)), key=lambda pair: (pair[0] is times) == bool(number % 2)
                ):
                    mine.append(run())
            ratio = statistics.median(b / a for a, b in zip(times, without, strict=True))
            everything.append(ratio)
            code = "" if left else " ="
            figures = f"{1e6 * statistics.median(times):>10.2f}us{1e6 * statistics.median(without):>10.2f}us{ratio:>8.3f}"
            print(f"{name:<32}{size:>6}{proved:>8}{left:>6}{figures}{code}{'' if equal else '  OTHER RESULTS'}", flush=True)
            arrays.clear()
    print(f"least {min(everything):.3f}")
    print(f"geomean {np.exp(np.mean(np.log(everything))):.3f}")


if __name__ == "__main__":
    main()
