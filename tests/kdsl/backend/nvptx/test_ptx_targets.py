"""The table of targets: the least PTX version of each, floors of intrinsics, errors that name both."""

from dataclasses import replace
from typing import Any

import pytest

from kdsl.backend.nvptx import TARGETS, TargetError
from kdsl.backend.nvptx.targets import find, version_for
from kdsl.lang.intrinsics import INTRINSICS
from kdsl.lang.types import F32
from kdsl.testing.ptx import assemble

LEAST = {
    "sm_80": "7.0", "sm_86": "7.1", "sm_87": "7.4", "sm_89": "7.8", "sm_90": "7.8", "sm_90a": "8.0", "sm_100a": "8.6", "sm_110": "9.0", "sm_120": "8.7",
}  # fmt: skip


def test_all_targets_of_the_language_are_there() -> None:
    assert list(TARGETS) == list(LEAST)


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_gets_its_least_version_and_assembles(build: Any, target: str) -> None:
    b = build()
    b.store(b.view("y"), b.thread(), b.constant(1.0, F32), checked=True)
    b.barrier()
    ptx = b.ptx(target)
    assert f".version {LEAST[target]}\n.target {target}\n.address_size 64\n" in ptx
    assemble(ptx, target)


def test_an_intrinsic_raises_the_version(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(INTRINSICS, "warp_any", replace(INTRINSICS["warp_any"], least_ptx=(8, 1)))
    assert version_for(find("sm_80"), ["warp_any"]) == (8, 1)
    assert version_for(find("sm_120"), ["warp_any"]) == (8, 7)
    assert version_for(find("sm_80"), []) == (7, 0)


def test_an_intrinsic_below_its_capability_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(INTRINSICS, "warp_any", replace(INTRINSICS["warp_any"], least_capability=90))
    with pytest.raises(
        TargetError,
        match=r"warp_any\(\) cannot be compiled for sm_87 \(Jetson Orin; compute capability 8\.7\): it needs compute capability 9\.0",
    ):
        version_for(find("sm_87"), ["warp_any"])


def test_an_intrinsic_that_llvm_cannot_write_yet_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(INTRINSICS, "warp_any", replace(INTRINSICS["warp_any"], least_ptx=(9, 9)))
    with pytest.raises(TargetError, match=r"needs PTX 9\.9; the newest that can be written is 9\.0"):
        version_for(find("sm_90"), ["warp_any"])
