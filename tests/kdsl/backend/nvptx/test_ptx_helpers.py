"""`kdsl.testing.ptx`, which authors of kernels use in their own tests."""

from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from kdsl.backend.nvptx import ptxas
from kdsl.lang.types import F32
from kdsl.testing.ptx import AssemblyError, CheckError, assemble, filecheck, find_ptxas


def test_a_report_counts(build: Any) -> None:
    b = build()
    y, tile = b.view("y"), b.array("tile", F32, 100)
    b.store(tile, b.special("thread_idx.x"), b.load(y, b.thread()))
    b.barrier()
    b.store(y, b.thread(), b.load(tile, b.constant(3)))
    report = assemble(b.ptx("sm_87"), "sm_87")
    assert 4 <= report.registers <= 32
    assert (report.spills, report.stack, report.shared) == (0, 0, 400)
    assert "ptxas info" in report.log


def test_a_text_is_assembled_once(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is assembled when it is built is asked about again by its test."""
    b = build("asked_twice")
    b.store(b.view("y"), b.thread(), b.constant(1.0, F32))
    text = b.ptx("sm_90")
    report = assemble(text, "sm_90")
    monkeypatch.setattr(ptxas.subprocess, "run", None)
    assert assemble(text, "sm_90") == report
    with pytest.raises(TypeError):
        assemble(text, "sm_87")
    with pytest.raises(TypeError):
        assemble(text, "sm_90", options=("-O0",))


def test_what_ptxas_refuses_is_shown_with_its_line() -> None:
    text = ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k() {\n  nonsense.b32 %r1;\n}\n"
    with pytest.raises(AssemblyError, match=r"     5:   nonsense\.b32 %r1;"):
        assemble(text, "sm_90")


def test_another_target_is_refused(build: Any) -> None:
    b = build()
    b.store(b.view("y"), b.thread(), b.constant(1.0, F32))
    with pytest.raises(AssemblyError):
        assemble(b.ptx("sm_120"), "sm_90")


@pytest.mark.parametrize("number", [7508, 7510, 7517, 7520])
def test_notes_that_fail_a_build(number: int) -> None:
    assert not ptxas.is_clean(f"ptxas info    : (C{number}) Potential Performance Loss: wgmma.mma_async instructions are serialized")
    assert ptxas.is_clean("ptxas info    : (C7509) something else\nptxas info    : (C7521) and this\nptxas info    : Used 8 registers")


def test_filecheck_matches_in_order() -> None:
    filecheck("one\ntwo\nthree\n", "CHECK: one\nCHECK-NEXT: two\nCHECK-NOT: four\n")
    with pytest.raises(CheckError, match='Couldn\'t match "one"'):
        filecheck("one\ntwo\n", "CHECK: two\nCHECK: one\n")
    with pytest.raises(CheckError, match="excluded string"):
        filecheck("one\ntwo\n", "CHECK: one\nCHECK-NOT: two\n")


def test_no_directives_are_an_error() -> None:
    with pytest.raises(CheckError, match="No check strings"):
        filecheck("one\n", "just text")


def test_another_prefix_chooses_its_directives() -> None:
    filecheck("one\ntwo\n", "SM90: one\nCHECK: seven\n", prefix="SM90")


def test_without_the_package_the_one_on_path_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(ptxas.metadata, "files", missing)
    program = tmp_path / "ptxas"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    find_ptxas.cache_clear()
    try:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert find_ptxas() == program
        find_ptxas.cache_clear()
        monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
        with pytest.raises(FileNotFoundError, match="install the test extra"):
            find_ptxas()
    finally:
        find_ptxas.cache_clear()
