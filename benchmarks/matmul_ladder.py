"""The versions of the matrix product and PyTorch's in fp32 (TF32 off) on one device, at 1024, 4096 and the shapes of the model.

python benchmarks/matmul_ladder.py [--device auto|cpu|cuda:0] [--case NAME ...] [--most GFLOP]

A line per case with GFLOP/s of each, and the ratios of neighbouring rungs; the last line is `geomean RATIO`, the geometric mean over the
cases of register-blocked against PyTorch (above 1: faster than PyTorch). Without PyTorch the last line says so. All products of a case read
the same numbers, and their results are compared: the versions must agree in every bit, PyTorch's up to rounding, and so those that
sum parts along k. On a GPU there are two more rungs: the pipelined kernel and, on Hopper, that with warps that copy, each with the schedule that the model of
the time chooses; `-` where they do not take the operands as they lie.

Times are wall time around many launches that end in one synchronisation, the median of several such runs after a warm-up: figures of one
run on one machine only.
"""

import argparse
import contextlib
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kdsl
from staleynet.ops import schedules
from staleynet.ops.matmul import Operand, Version, matmul, row_major, transposed

VERSIONS: tuple[Version, ...] = ("naive", "tiled", "register_blocked")
FASTER = {"pipelined": "pipelined", "copying": "wide"}
"""The rungs above on a GPU, and the families of their schedules."""
RUNS = 7
"""Timed runs of each product; the median counts."""
RUN_SECONDS = 0.05
"""A run repeats the product until it takes about so long."""


@dataclass(frozen=True)
class Case:
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

    def __str__(self) -> str:
        batch = f"{self.batch} x " if self.batch > 1 else ""
        return f"{batch}({self.m}, {self.n}, {self.k}){' A^T' if self.a_transposed else ''}{' B^T' if self.b_transposed else ''}"


CASES = {
    "1024": Case(1024, 1024, 1024),
    "4096": Case(4096, 4096, 4096),
    "projection": Case(8192, 512, 512, b_transposed=True),
    "ffn-up": Case(8192, 2048, 512, b_transposed=True),
    "ffn-down": Case(8192, 512, 2048, b_transposed=True),
    "weight-gradient": Case(512, 2048, 8192, a_transposed=True),
    "logits": Case(8192, 1024, 512, b_transposed=True),
    "scores": Case(512, 512, 64, batch=128, b_transposed=True),
    "values": Case(512, 64, 512, batch=128),
    "spectrogram": Case(12800, 1026, 1024),
}


def seconds(product: Callable[[], Any], synchronize: Callable[[], Any]) -> float:
    """The time of one product: the median over RUNS runs of RUN_SECONDS or one product each."""

    def run(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            product()
        synchronize()
        return time.perf_counter() - start

    run(1)  # compiles, loads, allocates
    once = run(1)
    count = max(1, round(RUN_SECONDS / once))
    runs = RUNS if once < 1 else 3
    return statistics.median(run(count) for _ in range(runs)) / count


def operand(device: kdsl.Device, x: NDArray[np.float32], is_transposed: bool) -> Operand:
    """`x` (batch, rows, columns) on the device, stored with rows and columns exchanged if it is to be read transposed."""
    batch_stride = x.shape[1] * x.shape[2]
    if is_transposed:
        return transposed(row_major(device.array(x.swapaxes(1, 2).ravel()), x.shape[1], sequence=batch_stride))
    return row_major(device.array(x.ravel()), x.shape[2], sequence=batch_stride)


def measure(case: Case, device: kdsl.Device, torch: Any) -> dict[str, float]:
    """GFLOP/s of each version, and of PyTorch under `peer`."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((case.batch, case.m, case.k), dtype=np.float32)
    b = rng.standard_normal((case.batch, case.k, case.n), dtype=np.float32)
    left, right = operand(device, a, case.a_transposed), operand(device, b, case.b_transposed)
    c = row_major(device.empty(case.batch * case.m * case.n, kdsl.f32), case.n, sequence=case.m * case.n)
    speeds, results = {}, []
    for version in VERSIONS:

        def product(version: Version = version) -> None:
            matmul(c, left, right, m=case.m, n=case.n, k=case.k, sequences=case.batch, version=version)

        speeds[version] = case.gflop / seconds(product, device.synchronize)
        results.append(c.array.numpy())
    for version, result in zip(VERSIONS[1:], results[1:], strict=True):
        if not np.array_equal(results[0], result):
            raise SystemExit(f"{case}: the results of naive and {version} differ")
    for rung, family in FASTER.items() if device.target != "cpu" else ():
        with forced(rung, family, case, device):

            def fast() -> None:
                matmul(c, left, right, m=case.m, n=case.n, k=case.k, sequences=case.batch)

            fast()
            if schedules.asked("fp32") is None and schedules.asked("pipelined") is None:
                continue
            speeds[rung] = case.gflop / seconds(fast, device.synchronize)
            result = c.array.numpy()
            if not np.array_equal(results[0], result):
                np.testing.assert_allclose(result, results[0], rtol=0, atol=1e-5 * case.k)
                print(f"{case}: {rung} sums parts along k")
    if torch is not None:
        speeds["peer"] = case.gflop / measure_peer(case, a, b, results[-1], str(device), torch)
    return speeds


@contextlib.contextmanager
def forced(rung: str, family: str, case: Case, device: kdsl.Device) -> Iterator[None]:
    """Let products in fp32 take the kernels of a rung."""
    across = case.a_transposed, not case.b_transposed
    shape = case.m, case.n, case.k, case.batch
    multiprocessors = int(getattr(device, "multiprocessors", 1))
    name = schedules.choose(family, device.target, multiprocessors, device.shared_limit, shape, across)
    with schedules.forced("fp32", name), schedules.forced("pipelined", name) if rung == "pipelined" else contextlib.nullcontext():
        yield


def measure_peer(case: Case, a: NDArray[np.float32], b: NDArray[np.float32], result: NDArray[np.float32], device: str, torch: Any) -> float:
    """Seconds of PyTorch's product of the same numbers in the same layouts."""
    where = "cpu" if device.startswith("cpu") else "cuda:0"

    def tensor(x: NDArray[np.float32], is_transposed: bool) -> Any:
        stored = np.ascontiguousarray(x.swapaxes(1, 2)) if is_transposed else x
        placed = torch.from_numpy(stored).to(where)
        placed = placed.transpose(1, 2) if is_transposed else placed
        return placed if case.batch > 1 else placed[0]

    left, right = tensor(a, case.a_transposed), tensor(b, case.b_transposed)
    out = torch.empty((*left.shape[:-1], case.n), device=where)
    synchronize = torch.cuda.synchronize if where != "cpu" else lambda: None
    taken = seconds(lambda: torch.matmul(left, right, out=out), synchronize)
    np.testing.assert_allclose(result, out.cpu().numpy().ravel(), rtol=0, atol=1e-5 * case.k)
    return taken


def load_torch() -> Any:
    """PyTorch with TF32 off, or None where it is not installed."""
    try:
        import torch
    except ModuleNotFoundError:
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_grad_enabled(False)
    return torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda:N (auto)")
    parser.add_argument("--case", action="append", choices=CASES, help="only this case; may be repeated")
    parser.add_argument("--most", type=float, help="leave out cases of more arithmetic, in GFLOP (a CPU: 5; a GPU: no limit)")
    options = parser.parse_args()
    device = kdsl.device(options.device)
    most = options.most if options.most is not None else 5 if str(device).startswith("cpu") else math.inf
    cases = {name: case for name, case in CASES.items() if name in (options.case or CASES) and case.gflop <= most}
    if not cases:
        sys.exit(f"no case has at most {most:g} GFLOP")
    torch = load_torch()
    faster = FASTER if device.target != "cpu" else ()
    columns = (*VERSIONS, *faster, *(["peer"] if torch is not None else []))
    print(f"GFLOP/s on {device}, fp32; peer: {f'PyTorch {torch.__version__}' if torch is not None else 'none'}")
    print(f"{'case':<50}{''.join(f'{name:>18}' for name in columns)}  ratios")
    peers = []
    for name, case in cases.items():
        speeds = measure(case, device, torch)
        ratios = f"tiled/naive {speeds['tiled'] / speeds['naive']:.2f}  blocked/tiled {speeds['register_blocked'] / speeds['tiled']:.2f}"
        if "pipelined" in speeds:
            ratios += f"  pipelined/blocked {speeds['pipelined'] / speeds['register_blocked']:.2f}"
        if "copying" in speeds and "pipelined" in speeds:
            ratios += f"  copying/pipelined {speeds['copying'] / speeds['pipelined']:.2f}"
        if "peer" in speeds:
            peers.append(speeds["register_blocked"] / speeds["peer"])
            ratios += f"  blocked/peer {peers[-1]:.3f}"
        figures = "".join(f"{speeds[column]:>18.1f}" if column in speeds else f"{'-':>18}" for column in columns)
        print(f"{f'{name} {case}':<50}{figures}  {ratios}", flush=True)
    print(f"geomean {statistics.geometric_mean(peers):.3f}" if peers else "no geomean: PyTorch is not installed")


if __name__ == "__main__":
    main()
