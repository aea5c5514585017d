"""The CPU target against NumPy (OpenBLAS), PyTorch and Numba, on the same number of threads, in one run.

python benchmarks/cpu.py [--threads 1 2] [--part matmul elements training examples launch] [--peers PYTHON] [--quick]

PYTHON is an interpreter with the peers' packages (NumPy, and PyTorch and Numba where they can be had); by default this one. Every case is timed in turn with
its peers, several times, and the shortest times count; see `cpu_cases.py`. A line per case with milliseconds (products: GFLOP/s) and ratios, above 1 where
this project is faster; a part ends with its geometric mean, the whole with `geomean RATIO` over all cases, each against its first peer (products: OpenBLAS;
elements: PyTorch; training: PyTorch; examples: Numba).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cpu_cases as cases
import numpy as np

PARTS = ("matmul", "elements", "training", "examples", "launch")
HERE = Path(__file__).parent
Run = Callable[[], Any]


class Peers:
    """The process of the peers."""

    def __init__(self, python: str, threads: int) -> None:
        environment = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "PYTHONPATH")}
        environment |= {name: str(threads) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")}
        command = [python, str(HERE / "cpu_peers.py"), str(threads)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.versions: dict[str, str] = json.loads(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the peers' process has ended; its message stands above")
        return line

    def seconds(self, case: str, budget: float) -> dict[str, float]:
        """Times of a case by library."""
        assert self._process.stdin is not None
        print(json.dumps({"case": case, "budget": budget}), file=self._process.stdin, flush=True)
        found: dict[str, float] = json.loads(self._line())
        return found

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


# ------------------------------------------------------------------------------------------------------------------- this project's side


def product_runs() -> dict[str, Run]:
    import kdsl
    from staleynet.ops.matmul import Version, matmul, row_major, transposed

    device = kdsl.device("cpu")

    def operand(rows: int, columns: int, batch: int, is_transposed: bool, seed: int) -> Any:
        x = np.random.default_rng(seed).standard_normal(batch * rows * columns, dtype=np.float32)
        lies = row_major(device.array(x), rows if is_transposed else columns, sequence=rows * columns)
        return transposed(lies) if is_transposed else lies

    def make(case: cases.Product, version: Version) -> Callable[[], Run]:
        def prepare() -> Run:
            a = operand(case.m, case.k, case.batch, case.a_transposed, 1)
            b = operand(case.k, case.n, case.batch, case.b_transposed, 2)
            c = row_major(device.empty(case.batch * case.m * case.n, kdsl.f32), case.n, sequence=case.m * case.n)
            return lambda: matmul(c, a, b, m=case.m, n=case.n, k=case.k, sequences=case.batch, version=version)

        return prepare

    runs = {name: make(case, "register_blocked") for name, case in cases.PRODUCTS.items()}
    runs["1024: naive"] = make(cases.PRODUCTS["1024"], "naive")
    runs["1024: tiled"] = make(cases.PRODUCTS["1024"], "tiled")
    return runs


def element_runs() -> dict[str, Run]:
    import kdsl
    from staleynet import ops

    device = kdsl.device("cpu")
    n, rows, columns = cases.ELEMENTS, cases.ROWS, cases.COLUMNS
    rng = np.random.default_rng(0)
    x, y = (device.array(rng.standard_normal(n, dtype=np.float32)) for _ in range(2))
    z, w, mean, square = (device.zeros(n, kdsl.f32) for _ in range(4))
    weight, d_weight = device.array(rng.standard_normal(columns, dtype=np.float32)), device.zeros(columns, kdsl.f32)
    inverse, losses = device.zeros(rows, kdsl.f32), device.zeros(rows, kdsl.f32)
    targets = device.array(rng.integers(0, columns, rows).astype(np.int32))
    tokens = rng.integers(0, cases.VOCABULARY, n // cases.WIDTH)
    index = ops.token_index(tokens, cases.VOCABULARY, device)
    table = device.zeros(cases.VOCABULARY * cases.WIDTH, kdsl.f32)
    settings = ops.AdamW(learning_rate=1e-9, beta1=0.9, beta2=0.95, epsilon=1e-8, weight_decay=0.1, step=1)
    ops.rms_norm(z, inverse, x, weight, rows=rows, columns=columns, epsilon=1e-5)

    def rms_norm_backward() -> None:
        ops.rms_norm_weight_gradient(d_weight, y, x, inverse, rows=rows, columns=columns, accumulate=False)
        ops.rms_norm_backward(z, y, x, weight, inverse, rows=rows, columns=columns)

    shape = {"rows": rows, "classes": columns}
    own = example_kernels()
    return {
        "saxpy": lambda: own.saxpy(y, x, 0.5),
        "gelu": lambda: ops.gelu(z, x),
        "adamw": lambda: ops.adamw(w, mean, square, y, settings),
        "softmax": lambda: own.row_softmax(z, x, own.Matrix(rows=rows, columns=columns)),
        "rms_norm": lambda: ops.rms_norm(z, inverse, x, weight, rows=rows, columns=columns, epsilon=1e-5),
        "rms_norm_backward": rms_norm_backward,
        "cross_entropy": lambda: ops.cross_entropy(losses, x, targets, **shape),
        "cross_entropy_backward": lambda: ops.cross_entropy_backward(z, x, targets, scale=1 / rows, **shape),
        "embedding_gradient": lambda: ops.embedding_gradient(
            table, x, index, vocabulary=cases.VOCABULARY, width=cases.WIDTH, accumulate=False
        ),
    }


def example_kernels() -> Any:
    import cpu_examples

    return cpu_examples


def example_runs() -> dict[str, Run]:
    import kdsl

    own = example_kernels()
    device = kdsl.device("cpu")
    n, rows, columns, size = cases.ELEMENTS, cases.ROWS, cases.COLUMNS, cases.MATRIX
    rng = np.random.default_rng(0)
    x, y = (device.array(rng.standard_normal(n, dtype=np.float32)) for _ in range(2))
    mean, square, partial = device.zeros(n, kdsl.f32), device.zeros(n, kdsl.f32), device.zeros(own.BLOCKS, kdsl.f32)
    step = own.AdamWStep(learning_rate=1e-9, beta1=0.9, beta2=0.95, epsilon=1e-8, weight_decay=0.1, correction1=0.1, correction2=0.05)
    tokens = rng.integers(0, cases.VOCABULARY, n // cases.WIDTH)
    first = device.array(np.concatenate([[0], np.cumsum(np.bincount(tokens, minlength=cases.VOCABULARY))]).astype(np.int32))
    position = device.array(np.argsort(tokens, kind="stable").astype(np.int32))
    table = device.zeros(cases.VOCABULARY * cases.WIDTH, kdsl.f32)
    index = device.array(rng.permutation(n).astype(np.int32))
    a, b, c = (device.array(rng.standard_normal(size * size, dtype=np.float32)) for _ in range(3))
    return {
        "saxpy": lambda: own.saxpy(y, x, 0.5),
        "generic_scale": lambda: own.power(y, x, exponent=3),
        "mistakes: window": lambda: own.copy_window(y[:-64], x, own.Window(start=64)),
        "mistakes: scatter": lambda: own.scatter(y, index),
        "adamw": lambda: own.adamw(x, mean, square, y, step),
        "softmax": lambda: own.softmax(y, x, own.Matrix(rows=rows, columns=columns)),
        "sum_of_squares": lambda: own.sum_of_squares(partial, x),
        "embedding_gradient": lambda: own.embedding_gradient(
            table, x, first, position, own.Table(tokens=cases.VOCABULARY, width=cases.WIDTH)
        ),
        "matmul_tiled": lambda: own.matmul_tiled(c, a, b, own.Square(size=size)),
    }


def training_runs() -> dict[str, Callable[[], Run]]:
    import kdsl
    from staleynet.model.configuration import configuration_named
    from staleynet.model.optimizer import Optimizer, gradient_norm
    from staleynet.model.parameters import initial_values
    from staleynet.model.transformer import TrainingPass, Transformer

    def make(name: str) -> Callable[[], Run]:
        def prepare() -> Run:
            c = configuration_named(name)
            model = Transformer(c, kdsl.device("cpu"), initial_values(c, np.random.default_rng(0)))
            optimizer = Optimizer(model, steps=10**6)
            buffers = TrainingPass(model, c.sequences, c.context)
            windows = np.random.default_rng(0).integers(0, c.vocabulary, (c.sequences, c.context + 1)).astype(np.int32)
            tokens, targets = windows[:, :-1], windows[:, 1:]

            def step() -> None:
                buffers.start_loss(tokens, targets)
                buffers.backward(tokens, targets)
                norm = gradient_norm(buffers.gradients)
                buffers.finish_loss(targets)
                optimizer.update(buffers.gradients, norm)

            return step

        return prepare

    return {name: make(name) for name in cases.MODELS}


# ------------------------------------------------------------------------------------------------------------------------- comparison


def compare(part: str, name: str, run: Run, peers: Peers, threads: int, quick: bool) -> float | None:
    """Print the line of a case; the ratio to its first peer."""
    budget, rounds = (0.1, 2) if quick else (0.3, 4)
    if part == "training":
        budget, rounds = 0.05, 1 if quick else 3
    best, theirs = float("inf"), {}
    for _ in range(rounds):  # in turn, never at once: idle workers of OpenBLAS spin
        best = min(best, cases.seconds(run, threads, budget))
        for peer, taken in peers.seconds(f"{part}/{name}", budget).items():
            theirs[peer] = min(theirs.get(peer, float("inf")), taken)
    order = [peer for peer in ("PyTorch", "Numba", "NumPy") if peer in theirs]
    if part == "matmul":
        gflop = cases.PRODUCTS[name.partition(":")[0]].gflop
        figures = f"{gflop / best:9.1f} GFLOP/s" + "".join(f"  {peer} {gflop / theirs[peer]:8.1f}" for peer in order)
    else:
        figures = f"{1e3 * best:9.2f} ms     " + "".join(f"  {peer} {1e3 * theirs[peer]:8.2f}" for peer in order)
    ratios = "".join(f"  {theirs[peer] / best:6.3f} of {peer}" for peer in order)
    print(f"{part:>9} {name:<24}{figures}{ratios}", flush=True)
    return theirs[order[0]] / best if order else None


def launch(threads: int) -> None:
    """Print what a launch costs the calling thread, and what spreading over threads adds."""
    import time

    import kdsl
    from kdsl.runtime.native import native
    from kdsl.runtime.pool import KernelJob, pool

    own = example_kernels()
    device = kdsl.device("cpu")
    x, y = device.zeros(32, kdsl.f32), device.zeros(32, kdsl.f32)

    def shortest(run: Run, repeats: int) -> float:
        best = float("inf")
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(repeats):
                run()
            best = min(best, (time.perf_counter() - start) / repeats)
        return 1e6 * best

    print(f"   launch of a small kernel: {shortest(lambda: own.saxpy(y, x, 0.5), 2000):.2f} us on the calling thread")
    if threads > 1:
        nothing = native("define void @nothing(ptr %arguments, i64 %first, i64 %end, ptr %scratch) { ret void }", "nothing")

        def spread() -> None:
            job = KernelJob(pool().slots, nothing.address, 0, range(1000), 0, threads=threads, least=1)
            pool().run(job, threads - 1)

        print(f"   spreading over {threads} threads: {shortest(spread, 200):.1f} us")


def run_threads(options: argparse.Namespace, threads: int) -> list[float]:
    """All parts on so many threads; the ratios."""
    from kdsl.runtime.pool import set_threads

    set_threads(threads)
    peers = Peers(options.peers, threads)
    print(f"{threads} thread{'s' if threads > 1 else ''}; peers: {', '.join(f'{k} {v}' for k, v in peers.versions.items())}")
    everything: list[float] = []
    for part in options.part:
        if part == "launch":
            launch(threads)
            continue
        runs: dict[str, Any] = {
            "matmul": product_runs,
            "elements": element_runs,
            "training": training_runs,
            "examples": example_runs,
        }[part]()
        ratios = []
        for name, made in runs.items():
            run = made() if part in ("matmul", "training") else made
            ratio = compare(part, name, run, peers, threads, options.quick)
            if ratio is not None:
                ratios.append(ratio)
        if ratios:
            print(f"{part:>9} geomean {statistics.geometric_mean(ratios):.3f}")
        everything += ratios
    peers.close()
    return everything


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads (1 2)")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS), help="only these parts")
    parser.add_argument("--peers", default=sys.executable, help="an interpreter with the peers' packages")
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    options = parser.parse_args()
    ratios = [ratio for threads in options.threads for ratio in run_threads(options, threads)]
    print(f"geomean {statistics.geometric_mean(ratios):.3f}" if ratios else "no geomean: there is no peer")


if __name__ == "__main__":
    main()
