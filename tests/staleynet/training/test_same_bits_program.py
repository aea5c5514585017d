"""`benchmarks/same_bits.py`: it trains on each device, and says what differs."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file

from staleynet.model.configuration import Configuration
from staleynet.model.parameters import layout

PATH = Path(__file__).parent.parent.parent.parent / "benchmarks" / "same_bits.py"


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("same_bits_program", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tokens(tmp_path: Path, micro: Configuration) -> Path:
    random = np.random.default_rng(0)
    file = tmp_path / "tokens.safetensors"
    levels = np.tile(np.arange(micro.levels), 100) * micro.codewords
    save_file({"training.0000": (levels + random.integers(0, micro.codewords, len(levels))).astype(np.int32)}, file)
    return file


def test_the_same_bits_on_all_devices(program: ModuleType, tokens: Path, micro_file: Path) -> None:
    arguments = [
        "--tokens",
        str(tokens),
        "--config",
        str(micro_file),
        "--steps",
        "3",
        "--sequences",
        "2",
        "--device",
        "cpu",
        "--device",
        "auto",
    ]
    result = CliRunner().invoke(program.main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "SAME BITS on cpu, " in result.output
    steps = [line.partition("step ")[2] for line in result.output.splitlines() if " step " in line]
    assert len(steps) == 6
    assert steps[:3] == steps[3:]
    digests = re.findall(r" (losses|norms|weights) +([0-9a-f]{64})$", result.output, re.MULTILINE)
    assert len(digests) == 6
    assert digests[:3] == digests[3:]


def test_what_differs_is_named(program: ModuleType, micro: Configuration) -> None:
    places = layout(micro)
    weights = np.zeros(places.size, np.float32)
    first = program.Training("cpu", [1.0, 2.0, 3.0], [1.0, 1.0, 1.0], weights)
    assert program.differences(first, program.Training("gpu", [1.0, 2.0, 3.0], [1.0, 1.0, 1.0], weights.copy()), places) == []
    other = program.Training("gpu", [1.0, 2.0, 3.5], [1.0, np.nextafter(1.0, 2), 1.0], weights.copy())
    other.weights[places.parameters[1].offset + 17] = -0.0  # -0 equals 0, and has other bits
    losses, norms, changed = program.differences(first, other, places)
    assert losses == "losses from step 3 on: 0x1.8000000000000p+1 on cpu, 0x1.c000000000000p+1 on gpu"
    assert norms.startswith("norms from step 2 on: 0x1.0000000000000p+0 on cpu, 0x1.0000000000001p+0 on gpu")
    assert changed == f"1 of {places.size} weights, the first positions at (1, 1): 0x0.0p+0 and -0x0.0p+0"


def test_tokens_that_are_not_there(program: ModuleType, tmp_path: Path) -> None:
    result = CliRunner().invoke(program.main, ["--tokens", str(tmp_path / "none"), "--device", "cpu"])
    assert result.exit_code == 1
    assert "--data" in result.output
