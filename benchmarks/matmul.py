"""Matrix products in every precision beside cuBLAS (through PyTorch), on one GPU in one run.

python benchmarks/matmul.py [--precision bf16 ...] [--case NAME ...] [--quick]

Per precision a line per case, with the rate of cuBLAS in its faster layout and the ratio to it: sustained (one run behind the other) and in bursts (after a
rest of the card). cuBLAS gets the operands in both layouts and the faster one counts; ours are given in the case's own. Runs are interleaved in random
order, medians count; both are launched from graphs. The error is that of our result against float64, largest difference over largest element; `equal` is the
part of elements with cuBLAS's bits. 3xtf32 is compared with cuBLAS in fp32. The last line is `geomean RATIO` over all cases.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import kdsl
from kdsl import bf16, f32
from staleynet.ops.matmul import Operand, Precision, matmul, row_major, transposed
from staleynet.ops.schedules import mma_alone

ROUNDS = 5
"""Timed runs of each product in each regime; the median counts."""
RUN_SECONDS = 2e-3
"""A run repeats the product for about so long."""
IDLE_SECONDS = 0.03
"""How long the card rests before a burst."""


@dataclass(frozen=True)
class Case:
    """A batch of products of an m x k with a k x n matrix."""

    m: int
    """Rows of A."""
    n: int
    """Columns of B."""
    k: int
    """Columns of A."""
    batch: int = 1
    """Pairs of matrices."""
    a_transposed: bool = False
    """Whether A lies transposed in memory."""
    b_transposed: bool = True
    """Whether B does."""
    gelu: bool = False
    """Whether a bias and GELU follow."""

    @property
    def flop(self) -> float:
        """Arithmetic, a multiplication and an addition counted apart."""
        return 2.0 * self.batch * self.m * self.n * self.k

    def __str__(self) -> str:
        batch = f"{self.batch} x " if self.batch > 1 else ""
        layout = f"{' A^T' if self.a_transposed else ''}{' B^T' if self.b_transposed else ''}{' gelu' if self.gelu else ''}"
        return f"{batch}({self.m}, {self.n}, {self.k}){layout}"


def cases() -> list[Case]:
    """Squares, the shapes of the baseline, and of models of other widths, forward and backward; some in all four layouts."""
    found = [Case(size, size, size) for size in (1024, 2048, 4096, 8192)]
    for width in (256, 512, 1024):
        for inner in (width, 3 * width, 4 * width):
            found += [
                Case(8192, inner, width, b_transposed=False),
                Case(8192, width, inner),
                Case(width, inner, 8192, a_transposed=True, b_transposed=False),
            ]
    found += [Case(8192, 1024, 512), Case(512, 512, 16384, a_transposed=True, b_transposed=False)]
    for size in ((17, 9, 33), (4096, 4096, 4096), (8192, 2048, 512)):
        found += [Case(*size, a_transposed=a, b_transposed=b) for a in (False, True) for b in (False, True)]
    found += [Case(512, 512, 64, batch=128), Case(512, 64, 512, batch=128, b_transposed=False), Case(12800, 1026, 1024, b_transposed=False)]
    return [*dict.fromkeys(found)]


def graph_of(device: kdsl.Device, launch: Callable[[], Any], count: int) -> Callable[[], float]:
    """Seconds of one launch of ours, in a run of `count`."""
    launch()
    with kdsl.Graph(device) as graph:
        for _ in range(count):
            launch()

    def run() -> float:
        device.synchronize()
        start = time.perf_counter()
        graph.launch()
        device.synchronize()
        return (time.perf_counter() - start) / count

    return run


def graph_of_peer(torch: Any, launch: Callable[[], Any], count: int) -> Callable[[], float]:
    """Seconds of one launch of the peer's, in a run of `count`."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        launch()
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            launch()

    def run() -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / count

    return run


def times(runs: dict[str, Callable[[], float]], idle: float) -> dict[str, float]:
    """Medians of interleaved runs."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(ROUNDS + 1):
        order = list(runs)
        random.shuffle(order)
        for name in order:
            if idle:
                time.sleep(idle)
            taken = runs[name]()
            if number:
                found[name].append(taken)
    return {name: statistics.median(values) for name, values in found.items()}


def measure(case: Case, precision: Precision, device: kdsl.Device, torch: Any) -> tuple[list[float], str]:
    """The ratios sustained and in bursts, and the line about them."""
    element = bf16 if precision == "bf16" else f32
    rng = np.random.default_rng(0)
    a = rng.standard_normal((case.batch, case.m, case.k), dtype=np.float32).astype(element.numpy)
    b = rng.standard_normal((case.batch, case.k, case.n), dtype=np.float32).astype(element.numpy)
    bias = rng.standard_normal(case.n, dtype=np.float32)

    def ours(x: Any, is_transposed: bool) -> Operand:
        size = x.shape[1] * x.shape[2]
        if is_transposed:
            return transposed(row_major(device.array(np.ascontiguousarray(x.swapaxes(1, 2)).ravel()), x.shape[1], sequence=size))
        return row_major(device.array(x.ravel()), x.shape[2], sequence=size)

    def tensor(x: Any, is_transposed: bool) -> Any:
        stored = np.ascontiguousarray(x.swapaxes(1, 2)) if is_transposed else x
        found = torch.from_numpy(stored.view(np.int16)).view(torch.bfloat16) if element is bf16 else torch.from_numpy(stored)
        placed = found.cuda().transpose(1, 2) if is_transposed else found.cuda()
        return placed if case.batch > 1 else placed[0]

    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    lefts = {flag: tensor(a, flag) for flag in (False, True)}
    rights = {flag: tensor(b, flag) for flag in (False, True)}
    shape = (case.batch, case.m, case.n) if case.batch > 1 else (case.m, case.n)
    out = torch.empty(shape, dtype=lefts[False].dtype, device="cuda")
    left, right = ours(a, case.a_transposed), ours(b, case.b_transposed)
    c = row_major(
        device.array(np.full(case.batch * case.m * case.n, np.nan, np.float32).astype(element.numpy)), case.n, sequence=case.m * case.n
    )
    offsets = device.array(bias) if case.gelu else None

    def launch() -> None:
        matmul(
            c, left, right, m=case.m, n=case.n, k=case.k, sequences=case.batch, precision=precision,
            bias=offsets, activation="gelu" if case.gelu else None,
        )  # fmt: skip

    rate = 50e12 if precision in ("fp32", "3xtf32") else 300e12
    count = max(1, round(RUN_SECONDS / (case.flop / rate + 3e-6)))
    peers: dict[str, Callable[[], float]] = {}
    narrow_bias = torch.from_numpy(bias).cuda().to(out.dtype)
    for flag in (False, True):  # A as it lies, B in both layouts; a transposed A where ours is given one
        x, y = lefts[case.a_transposed], rights[flag]
        if case.gelu:
            peers[f"peer {flag}"] = graph_of_peer(torch, lambda x=x, y=y: torch._addmm_activation(narrow_bias, x, y, use_gelu=True), count)
        else:
            peers[f"peer {flag}"] = graph_of_peer(torch, lambda x=x, y=y: torch.matmul(x, y, out=out), count)
    if case.a_transposed and not case.gelu:
        peers["peer A"] = graph_of_peer(torch, lambda: torch.matmul(lefts[False], rights[True], out=out), count)
    mine = graph_of(device, launch, count)
    result = torch.from_numpy(c.array.numpy().astype(np.float32)).cuda().reshape(shape)
    exact = torch.matmul(lefts[False].double(), rights[False].double())
    if case.gelu:
        exact = torch.nn.functional.gelu(exact + torch.from_numpy(bias).cuda().double(), approximate="tanh")
    theirs = torch.matmul(lefts[False], rights[False]).float()
    largest = exact.abs().max()
    error, their_error = ((x.double() - exact).abs().max().item() / largest.item() for x in (result, theirs))
    equal = (result == theirs).float().mean().item()
    if not error < 2e-2:
        raise SystemExit(f"{precision} {case}: the error is {error}")
    ratios, rates = [], []
    for idle in (0.0, IDLE_SECONDS):
        taken = times({**peers, "ours": mine}, idle)
        best = min(time for name, time in taken.items() if name != "ours")
        ratios.append(best / taken["ours"])
        rates.append((case.flop / best / 1e12, case.flop / taken["ours"] / 1e12))
    line = f"{precision:<7}{case!s:<34} cuBLAS {rates[0][0]:7.3g} ours {rates[0][1]:7.3g} TFLOP/s  sustained {ratios[0]:.3f}  burst {ratios[1]:.3f}"
    return ratios, f"{line}  error {error:.1e} (cuBLAS {their_error:.1e})  equal {equal:.5f}"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--precision", action="append", choices=["fp32", "3xtf32", "tf32", "bf16", "mma"], help="only this one; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="every third case")
    options = parser.parse_args()
    try:
        import torch
    except ModuleNotFoundError:
        sys.exit("the peer is cuBLAS through PyTorch, which is not installed")
    device = kdsl.device("cuda:0")
    torch.set_grad_enabled(False)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; TFLOP/s sustained")
    every = []
    for precision in options.precision or ["bf16", "tf32", "3xtf32", "fp32", "mma"]:
        chosen = cases()[:: 3 if options.quick else 1]
        if precision == "bf16":
            chosen.append(Case(8192, 2048, 512, gelu=True))
        found = []
        for case in chosen:
            if precision == "mma":
                ratios, line = forced_mma(case, device, torch)
            else:
                ratios, line = measure(case, precision, device, torch)
            found.append(ratios)
            print(line, flush=True)
        flat = [ratio for ratios in found for ratio in ratios]
        every += flat
        print(f"{precision}: geomean {statistics.geometric_mean(flat):.3f}, least {min(flat):.3f}", flush=True)
    print(f"geomean {statistics.geometric_mean(every):.3f}")


def forced_mma(case: Case, device: kdsl.Device, torch: Any) -> tuple[list[float], str]:
    """bf16 by the instructions that all GPUs since Ampere have."""
    with mma_alone():
        ratios, line = measure(case, "bf16", device, torch)
    return ratios, line.replace("bf16", "mma ", 1)


if __name__ == "__main__":
    main()
