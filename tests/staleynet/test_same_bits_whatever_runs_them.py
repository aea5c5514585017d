"""The same bits for any number of threads, any order of blocks, and any width of vectors: some tests run again, in other processes, and must read the same.

What they read is compared by `--kdsl-bits-file` (`kdsl.testing.same_bits`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kdsl.backend.cpu import HostCpu

ROOT = Path(__file__).parent.parent.parent
KERNELS = "tests/staleynet/test_kernels_match_reference.py::"
PRODUCTS = "tests/staleynet/test_products_add_in_the_written_order.py::test_the_bits_are_those_of_the_model"
TESTS = (
    f"{KERNELS}test_matmul[cpu-register_blocked-True-False-batch-True]",
    f"{KERNELS}test_causal_softmax[cpu-shape1-False]",
    f"{KERNELS}test_cross_entropy[cpu-shape6-False]",
    f"{KERNELS}test_sum_of_squares[cpu-300000]",
    f"{KERNELS}test_adamw[cpu-1000]",
    f"{KERNELS}test_gelu[cpu-1000-False]",
    f"{KERNELS}test_rms_norm[cpu-shape6-True]",
    f"{KERNELS}test_embedding[cpu-3-17-9-True]",
    f"{PRODUCTS}[(70, 66, 33)-usual-cpu]",
    f"{PRODUCTS}[(24, 40, 4096)-usual-cpu]",
    "tests/staleynet/test_matmul_precisions.py::test_parts_along_k[cpu-bf16]",
    "tests/kdsl/intrinsics/test_block.py::test_floats_are_combined_in_the_documented_order[f32-1024-cpu]",
    "tests/staleynet/training/test_training_run.py::test_files_of_a_run[cpu]",
)
"""Products, reductions, attention, the optimizer, gradients of tables, tensor cores as the CPU computes them, and a whole training: the last reads its
weights and both moments."""


def variants() -> list[dict[str, str]]:
    """What must not matter."""
    host = HostCpu.detect()
    narrow = {"KDSL_CPU": f"{host.generation}:128"} if host.vector_bits > 128 else {}
    found = [{"KDSL_THREADS": "5", "KDSL_SHUFFLE_BLOCKS": "1"}, {"KDSL_THREADS": "2", **narrow}]
    if host.generation == "x86-64-v4":
        found.append({"KDSL_THREADS": "1", "KDSL_CPU": "x86-64-v3"})
    return found


def run(file: Path, settings: dict[str, str]) -> str:
    """Run the tests in another process, comparing with `file` if it is there; what was said. Fails with that if a test failed or read something else."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("KDSL_", "PYTEST_"))}
    environment |= {name: os.environ[name] for name in ("KDSL_CACHE", "KDSL_CACHE_DIR") if name in os.environ}
    environment |= {"KDSL_DEVICE": "cpu", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **settings}
    arguments = ["-p", "kdsl.testing.plugin", "-p", "no:cacheprovider", "--kdsl-bits-file", str(file), *TESTS]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{settings}:\n{done.stdout[-4000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def on_one_thread(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is read on one thread, in order."""
    file = tmp_path_factory.mktemp("bits") / "bits.json"
    run(file, {"KDSL_THREADS": "1"})
    read = json.loads(file.read_text())
    assert len(read) == len(TESTS), "a test has read nothing"
    return file


@pytest.mark.parametrize("settings", variants(), ids=lambda settings: "-".join(settings.values()))
def test_the_same_bits(on_one_thread: Path, settings: dict[str, str]) -> None:
    compared = len(json.loads(on_one_thread.read_text()))
    assert f"same bits: {compared} comparisons, 0 differ" in run(on_one_thread, settings)
