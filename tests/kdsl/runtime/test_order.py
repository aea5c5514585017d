"""Blocks in a pseudo-random order: each once, reproducible, and off again."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import SliceMut, atomic_add, block_idx, is_first_thread, kernel, u32
from kdsl.errors import DeviceError
from kdsl.runtime import order


@kernel(grid=("len(turn)",), block=32)
def turns(turn: SliceMut[u32], counter: SliceMut[u32]) -> None:
    """When each block came."""
    if is_first_thread():
        turn[block_idx.x] = atomic_add(counter, 0, u32(1))


def run(blocks: int = 50) -> list[int]:
    device = kdsl.device("cpu")
    turn = device.zeros(blocks, u32)
    turns(turn, device.zeros(1, u32))
    return [int(x) for x in turn.numpy()]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdsl.runtime.pool._chosen", 1)
    monkeypatch.delenv("KDSL_SHUFFLE_BLOCKS", raising=False)


def test_every_block_runs_once_and_not_in_order() -> None:
    with kdsl.testing.shuffled_blocks(1):
        first, second = run(), run()
    with kdsl.testing.shuffled_blocks(1):
        again = run()
    with kdsl.testing.shuffled_blocks(2):
        other = run()
    assert sorted(first) == sorted(second) == sorted(other) == list(range(50))
    assert list(range(50)) not in (first, second, other)
    assert first == again
    assert first != second
    assert first != other
    assert run() == list(range(50))


def test_on_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdsl.runtime.pool._chosen", 3)
    with kdsl.testing.shuffled_blocks(0):
        assert sorted(run(1000)) == list(range(1000))
        assert run(1) == [0]


def test_none_is_in_order_inside_of_shuffled() -> None:
    with kdsl.testing.shuffled_blocks(1), kdsl.testing.shuffled_blocks(None):
        assert run() == list(range(50))


@pytest.mark.parametrize("seed", [-1, 1.0, True, "1"])
def test_wrong_seed(seed: object) -> None:
    with pytest.raises(ValueError, match="from 0 on"), kdsl.testing.shuffled_blocks(seed):  # type: ignore[arg-type]
        pass


def test_wrong_seed_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDSL_SHUFFLE_BLOCKS", "yes")
    monkeypatch.setattr(order, "_shuffle", order._Shuffle())
    with pytest.raises(DeviceError, match="KDSL_SHUFFLE_BLOCKS is a seed"):
        run()


def test_a_race_of_blocks_shows() -> None:
    """What the mode is for: the last block to come leaves its number, which in order is always the same one."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_order import last\n"
        "print(last())"
    )  # fmt: skip
    found = set()
    for seed in ("", "1", "2", "3"):
        environment = os.environ | {
            "KDSL_SHUFFLE_BLOCKS": seed,
            "KDSL_DEVICE": "cpu",
            "KDSL_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        done = subprocess.run(
            [sys.executable, "-c", code, os.path.dirname(__file__)], env=environment, capture_output=True, text=True, check=True
        )
        found.add(int(done.stdout))
    assert 99 in found
    assert len(found) > 1


@kernel(grid=("n",), block=32)
def racing(x: SliceMut[u32], n: u32) -> None:
    if is_first_thread():
        x[0] = u32(block_idx.x)


def last() -> int:
    device = kdsl.device("cpu")
    x = device.array(np.zeros(1, np.uint32))
    racing(x, 100)
    return int(x.numpy()[0])
