"""Every kernel of the model stands here with the test that compares its bits on all devices, or with the reason why none can; and has a case in
`benchmarks/safety.py`."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KERNELS = HERE.parent.parent / "staleynet" / "kernels"
REFERENCE = "test_kernels_match_reference.py::test_"
PRODUCTS = "test_products_add_in_the_written_order.py::test_the_bits_are_those_of_the_model"
TENSOR_CORES = "tensor cores: the same bits on every run, others on another kind of device"

COMPARED = {
    "causal_softmax": f"{REFERENCE}causal_softmax",
    "causal_softmax_backward": f"{REFERENCE}causal_softmax",
    "accumulate": f"{REFERENCE}elementwise",
    "add": f"{REFERENCE}elementwise",
    "scale": f"{REFERENCE}elementwise",
    "add_bias": f"{REFERENCE}add_bias",
    "gelu": f"{REFERENCE}gelu",
    "gelu_backward": f"{REFERENCE}gelu",
    "rotary": f"{REFERENCE}rotary",
    "look_up": f"{REFERENCE}embedding",
    "look_up_with_positions": f"{REFERENCE}embedding",
    "embedding_gradient": f"{REFERENCE}embedding",
    "position_gradient": f"{REFERENCE}embedding",
    "cross_entropy": f"{REFERENCE}cross_entropy",
    "cross_entropy_backward": f"{REFERENCE}cross_entropy",
    "rms_norm": f"{REFERENCE}rms_norm",
    "rms_norm_backward": f"{REFERENCE}rms_norm",
    "rms_norm_weight_partial": f"{REFERENCE}rms_norm",
    "add_chunks": f"{REFERENCE}rms_norm",
    "sum_of_squares": f"{REFERENCE}sum_of_squares",
    "adamw": f"{REFERENCE}adamw",
    "frame": f"{REFERENCE}framing",
    "overlap_add": f"{REFERENCE}framing",
    "power_spectrum": f"{REFERENCE}spectra",
    "phase_step": f"{REFERENCE}spectra",
    "log_compress": f"{REFERENCE}log_compress",
    "nearest_codeword": f"{REFERENCE}nearest_codeword",
    "codeword_update": f"{REFERENCE}codewords",
    "subtract_codeword": f"{REFERENCE}codewords",
    "matmul_naive": f"{REFERENCE}matmul",
    "matmul_tiled": f"{REFERENCE}matmul",
    # the rest is chosen by device and size; all of it is compared with one model, and so with each other
    "matmul_register_blocked": PRODUCTS,
    "matmul_cache_blocked": PRODUCTS,
    "matmul_wide": PRODUCTS,
    "matmul_pipelined": "test_products_add_in_the_written_order.py::test_the_pipelined_kernel_has_the_bits_of_the_model",
    "matmul_border": "test_products_add_in_the_written_order.py::test_the_border_has_the_bits_of_the_model",
    "matmul_pack": PRODUCTS,
    "matmul_turn": "test_turned_copies.py::test_a_copy_is_the_transpose",
    "matmul_turn_small": "test_turned_copies.py::test_a_copy_is_the_transpose",
    "matmul_turn_heads": "test_turned_copies.py::test_the_first_steps_of_parts_are_turned_and_rounded",
    "matmul_combine": PRODUCTS,
    "matmul_sum_of_parts": "test_sum_of_parts.py::test_the_bits_are_those_of_numpy",
}
EXCEPTIONS = dict.fromkeys(
    ("matmul_mma", "matmul_hopper", "matmul_held", "matmul_parts", "matmul_tf32", "matmul_tf32_beside", "matmul_3xtf32"), TENSOR_CORES
)


def declared() -> set[str]:
    """The names of all kernels, also of those that are made for a schedule."""
    return {
        node.name
        for path in KERNELS.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(d, ast.Call) and isinstance(d.func, ast.Name) and d.func.id == "kernel" for d in node.decorator_list)
    }


def test_every_kernel_is_compared_or_an_exception() -> None:
    assert declared() == COMPARED.keys() | EXCEPTIONS.keys()


@pytest.mark.parametrize("where", sorted(set(COMPARED.values())))
def test_the_tests_exist(where: str) -> None:
    file, _, name = where.partition("::")
    functions = {node.name for node in ast.parse((HERE / file).read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)}
    assert name in functions


def test_the_sanitizer_runs_the_tests() -> None:
    """`make sanitize` runs every file that compares a kernel but that of the products, which run in others, too, or have watched tests of their own."""
    named = set(re.findall(r"tests/staleynet/(\w+\.py)", (KERNELS.parents[1] / "Makefile").read_text(encoding="utf-8")))
    assert {where.partition("::")[0] for where in COMPARED.values()} - {PRODUCTS.partition("::")[0]} <= named


def test_the_cost_of_safety_is_measured_for_every_kernel() -> None:
    """In a process of its own, since the cases load the model's modules anew."""
    names = "import safety_cases; print(*safety_cases.fresh(unchecked=False), sep='\\n')"
    ended = subprocess.run(
        [sys.executable, "-c", names], cwd=KERNELS.parents[1] / "benchmarks", env={**os.environ, "PYTHONPATH": str(KERNELS.parents[1])},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert {line.partition(",")[0] for line in ended.stdout.splitlines()} == declared()
