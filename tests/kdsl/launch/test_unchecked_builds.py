"""Builds without checks of indices, for measuring: checks are gone, results and all else are the same, and no cache mixes the builds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, compiler, elements, f32, f32x4, i32, kernel, shared_array, struct, sync_threads, thread_idx, thread_index
from kdsl.ir import nodes
from kdsl.testing.ptx import filecheck


@struct
class Pair:
    """Two numbers."""

    first: f32
    """One."""
    second: f32
    """The other."""


def fresh() -> Any:
    """A kernel that has not been compiled, with accesses of all kinds."""

    @kernel(grid=elements("y"), block=32, requires=("len(x) >= 1",))
    def gather(y: SliceMut[f32], x: Slice[f32], pairs: SliceMut[Pair], fours: Slice[f32x4], places: Slice[i32], n: i32) -> None:
        tile = shared_array(32, f32)
        i = thread_index()
        tile[(thread_idx.x + n) % 64] = x[places[i]]
        sync_threads()
        whole = pairs[places[i]]
        pairs[i + 32].first = whole.second + fours[places[i] // 4].y
        assert n >= 0, "n is negative"
        y[i] = tile[(thread_idx.x + n) % 64] + whole.first

    return gather


@pytest.fixture(autouse=True)
def setting() -> Iterator[None]:
    before = compiler._checks
    yield
    compiler._checks = before


def checks(ir: nodes.Kernel) -> int:
    return sum(isinstance(op, nodes.Check) or (isinstance(op, nodes.Access) and op.checked) for op in nodes.walk(ir.body))


def test_no_access_is_checked_and_the_rest_stays() -> None:
    kdsl.unchecked(False)
    before = fresh().ir()
    kdsl.unchecked()
    after = fresh().ir()
    assert checks(before) >= 8
    assert checks(after) == 0
    assert [after.sites[op.site].name for op in nodes.walk(after.body) if isinstance(op, nodes.Assertion)] == ["n is negative"]


def test_ptx_has_no_check() -> None:
    """
    CHECK: .entry gather
    CHECK-NOT: kdsl_constant16
    CHECK: // kdsl_record_failure
    CHECK-NOT: // kdsl_record_failure
    """
    kdsl.unchecked()
    directives = test_ptx_has_no_check.__doc__
    assert directives is not None
    filecheck(fresh().ptx("sm_90"), directives)


def test_one_kernel_has_both_builds_and_the_cache_keeps_them_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDSL_CACHE_DIR", str(tmp_path))
    found: dict[str, list[Any]] = {"cpu": [], "sm_90": []}
    gather = fresh()
    for on in (False, True, False, True):
        kdsl.unchecked(on)
        for target, codes in found.items():
            codes.append(gather.compile(target).code)
    for one, other, again, other_again in found.values():
        assert one == again
        assert other == other_again
        assert one != other
    assert len(list(tmp_path.glob("*.kdsl"))) == 4


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_results_and_contract_are_the_same(device: kdsl.Device) -> None:
    rng = np.random.default_rng(0)
    x, places = rng.standard_normal(33, dtype=np.float32), rng.permutation(32).astype(np.int32)
    pairs = np.zeros(64, Pair.dtype if hasattr(Pair, "dtype") else [("first", np.float32), ("second", np.float32)])
    pairs["first"], pairs["second"] = rng.standard_normal((2, 64), dtype=np.float32)
    results = []
    for on in (False, True):
        kdsl.unchecked(on)
        gather = fresh()
        y, changed = device.full(32, np.nan, f32), device.array(pairs)
        arrays = device.array(places), 0
        gather(y, device.array(x), changed, device.array(np.arange(36, dtype=np.float32).reshape(9, 4)).reshape(36), *arrays)
        results.append(y.numpy().tobytes() + changed.numpy().tobytes())
        with pytest.raises(kdsl.LaunchError, match=r"len\(x\) >= 1"):
            gather(y, device.empty(0, f32), changed, device.zeros(36, f32), *arrays)
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("environment", "expected"), [({}, "needed"), ({"KDSL_UNCHECKED": "1"}, "none"), ({"KDSL_UNCHECKED": "1", "KDSL_CHECKED": "1"}, "all")]
)
def test_the_environment_chooses(environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KDSL_CHECKED", "KDSL_UNCHECKED"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out = subprocess.run(
        [sys.executable, "-c", "import kdsl.compiler; print(kdsl.compiler._checks)"], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == expected
