"""`kdsl explain`: the facts that it finds, how it shows them, and what makes it fail."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kdsl.backend.nvptx import ptxas
from kdsl.backend.nvptx.targets import NEWEST_PTX, TARGETS
from kdsl.cli import explain as facts
from kdsl.cli.main import main

SOURCE = '''
"""Kernels to explain."""

from typing import TypeVar

from kdsl import Const, DisjointSlice, Slice, SliceMut, elements, f32, function, i32, kernel, local_array, shared_array, sync_threads
from kdsl import thread_idx, thread_index, unroll, warp_sum

T = TypeVar("T", f32, i32)


@function
def pick(x: Slice[f32], place: i32) -> f32:
    return x[place]


@kernel(grid=elements("y"), requires=("len(z) == len(y)",))
def gather(y: DisjointSlice[f32], x: Slice[f32], z: Slice[f32], index: Slice[i32]) -> None:
    """Read from the places that `index` names."""
    i = thread_index()
    if i in y:
        y[i] = pick(x, index.unchecked[i]) + z[i]


@kernel(grid=elements("y"), block=(64, 2))
def turned(y: SliceMut[T], *, times: Const[int] = 2) -> None:
    """Turn blocks around, and back."""
    tile = shared_array((128,), y.dtype)
    i = thread_index()
    for _ in unroll(times):
        tile[thread_idx.x] = y[i]
        sync_threads()
        y[i] = tile[63 - thread_idx.x]
        sync_threads()


@kernel(grid=elements("y"))
def total(y: DisjointSlice[f32], x: Slice[f32]) -> None:
    """Sums of warps."""
    i = thread_index()
    value = warp_sum(x[i])
    if i in y:
        y[i] = value


@kernel(grid=elements("y"))
def spilling(y: DisjointSlice[f32], x: Slice[f32], index: Slice[i32]) -> None:
    """A local array in memory."""
    kept = local_array((64,), f32)
    i = thread_index()
    for k in range(64):
        kept[k] = x[k]
    if i in y:
        y[i] = kept[index[i]]
'''

Run = Callable[..., Result]


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "explained.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.setenv("KDSL_CACHE_DIR", str(tmp_path / "cache"))

    def invoke(*arguments: object) -> Result:
        try:
            return CliRunner().invoke(main, ["explain", *(str(a) for a in arguments)])
        finally:
            sys.modules.pop("explained", None)

    return invoke


@pytest.fixture
def explained(run: Run, module: Path) -> Callable[..., dict[str, Any]]:
    def one(kernel: str, *arguments: str) -> dict[str, Any]:
        result = run(f"{module}:{kernel}", "--json", *arguments)
        assert result.exit_code == 0, result.stderr
        (found,) = json.loads(result.stdout)["kernels"]
        assert isinstance(found, dict)
        return found

    return one


def checks(found: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    return [(a["state"], a["operation"], a["array"], a["text"]) for a in found["accesses"]]


def test_checks_with_their_places(explained: Callable[..., dict[str, Any]], module: Path) -> None:
    found = explained("gather", "--arch", "sm_90")
    assert checks(found) == [
        ("remains", "read", "x", "return x[place]"),
        ("proved", "write", "y", "y[i] = pick(x, index.unchecked[i]) + z[i]"),
        ("unchecked", "read", "index", "y[i] = pick(x, index.unchecked[i]) + z[i]"),
        ("proved", "read", "z", "y[i] = pick(x, index.unchecked[i]) + z[i]"),
    ]
    first = found["accesses"][0]
    line = SOURCE.splitlines().index("    return x[place]") + 1
    assert (first["file"], first["line"], first["column"], first["function"]) == (str(module), line, 12, "pick")
    assert (found["line"], found["block"], found["cpu"]) == (line + 4, [256, 1, 1], None)


def test_repeated_operations_are_one_place(explained: Callable[..., dict[str, Any]]) -> None:
    found = explained("turned", "--set", "T=i32", "--set", "times=3", "--arch", "sm_90")
    assert [(a["checked"], a["operations"]) for a in found["accesses"]] == [(0, 3), (3, 3), (3, 3), (0, 3)]
    assert found["settings"] == {"T": "i32", "times": 3}
    assert (found["shared"], found["gpus"][0]["assembled"]["shared"]) == (512, 512)


def test_an_array_that_is_passed_on_unchecked_is_not_called_proved(run: Run, tmp_path: Path) -> None:
    (tmp_path / "explained.py").write_text(SOURCE.replace("pick(x, index.unchecked[i])", "pick(x.unchecked, index[i])"))
    result = run(f"{tmp_path / 'explained.py'}:gather", "--json", "--arch", "cpu")
    assert result.exit_code == 0, result.stderr
    (found,) = json.loads(result.stdout)["kernels"]
    assert {a["state"] for a in found["accesses"] if a["array"] == "x"} == {"proved or unchecked"}


def test_aliasing_and_witnesses(explained: Callable[..., dict[str, Any]]) -> None:
    views = {view["name"]: view for view in explained("gather", "--arch", "cpu")["views"]}
    assert (views["y"]["witness"], views["y"]["used"], views["y"]["noalias"]) == ("thread_index", "written", False)
    assert "may be the same array as z" in views["y"]["why"]
    assert (views["x"]["witness"], views["x"]["constant"]) == (None, True)
    assert "refuse overlap" in views["x"]["why"]
    assert views["x"]["annotation"] == "Slice[f32]"


def test_every_target(explained: Callable[..., dict[str, Any]]) -> None:
    found = explained("total")
    assert [gpu["target"] for gpu in found["gpus"]] == list(TARGETS)
    for gpu in found["gpus"]:
        assert gpu["problem"] == ""
        assert 8 <= gpu["assembled"]["registers"] <= 64
        assert (gpu["assembled"]["spills"], gpu["assembled"]["stack"]) == (0, 0)
        assert gpu["occupancy"]["warps"] == gpu["occupancy"]["blocks"] * 8 <= gpu["occupancy"]["most_warps"]
        version = tuple(map(int, gpu["ptx"].split(".")))
        assert TARGETS[gpu["target"]].least_ptx <= version <= NEWEST_PTX
    drivers = {gpu["target"]: gpu["driver"] for gpu in found["gpus"]}
    assert (drivers["sm_80"], drivers["sm_110"]) == ("R450 (CUDA 11.0)", "R580 (CUDA 13.0)")
    assert (found["cpu"]["lanes"], found["cpu"]["problem"]) == (32, "")  # lanes exchange, so a group is a warp
    assert found["cpu"]["bytes"] > 0


def test_plain_text(run: Run, module: Path, tmp_path: Path) -> None:
    result = run(module, "--set", "T=f32", "--arch", "sm_90", "--arch", "cpu")
    assert result.exit_code == 0, result.stderr
    for words in (
        "gather at ", "explained.py:18\n", "blocks of 128 threads (64 x 2 x 1), 512 bytes of shared arrays", "turned [T=f32, times=2]",
        "Bounds checks: 1 remains, 2 proved away, 1 unchecked", "remains (2 times)", "unchecked  read index", "lanes per group",
        "the kernel does not write to it", "sm_90   7.8  R520 (CUDA 11.8)", "100%",
    ):  # fmt: skip
        assert words in result.stdout
    assert "\x1b" not in result.stdout
    assert all(line == line.rstrip() for line in result.stdout.splitlines())
    out = tmp_path / "out.txt"
    assert run(module, "--set", "T=f32", "--arch", "sm_90", "--arch", "cpu", "-o", out).stdout == ""
    assert out.read_text() == result.stdout


def test_without_ptxas_the_rest_is_told(run: Run, module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Path:
        raise FileNotFoundError("there is no ptxas")

    monkeypatch.setattr(facts, "find_ptxas", absent)
    result = run(f"{module}:total", "--arch", "sm_90")
    assert result.exit_code == 0, result.stderr
    assert "There is no ptxas" in result.stdout
    assert "R520" in result.stdout
    assert "occupancy per" not in result.stdout
    (found,) = json.loads(run(f"{module}:total", "--arch", "sm_90", "--json").stdout)["kernels"]
    assert (found["ptxas"], found["gpus"][0]["assembled"], found["gpus"][0]["occupancy"]) == ("", None, None)
    failed = run(f"{module}:total", "--arch", "sm_90", "--no-spills")
    assert failed.exit_code == 1
    assert "without ptxas nobody knows" in failed.stderr


def test_what_ptxas_refuses_is_told_and_fails(run: Run, module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(ptx: str, target: str) -> ptxas.Report:
        raise ptxas.AssemblyError("ptxas info : (C7510) Potential Performance Loss\nmore", "")

    monkeypatch.setattr(facts, "assemble", refuse)
    result = run(f"{module}:total")
    assert result.exit_code == 1
    assert "sm_90: ptxas info : (C7510)" in result.stdout
    assert "kdsl: total: sm_90: ptxas info : (C7510) Potential Performance Loss\n" in result.stderr


def test_spills_can_fail(run: Run, module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(f"{module}:spilling", "--arch", "sm_90", "--no-spills").exit_code == 0  # an array in memory is no spill
    (found,) = json.loads(run(f"{module}:spilling", "--arch", "sm_90", "--json").stdout)["kernels"]
    assert (
        found["gpus"][0]["assembled"]["stack"] == 512
    )  # of the array, and of the one that a thread has when it runs again for a failed check

    monkeypatch.setattr(facts, "assemble", lambda ptx, target: ptxas.Report(255, 48, 24, 0, ""))
    assert run(f"{module}:spilling", "--arch", "sm_90").exit_code == 0
    result = run(f"{module}:spilling", "--arch", "sm_90", "--no-spills")
    assert result.exit_code == 1
    assert result.stderr == "kdsl: spilling: sm_90: 48 bytes of registers are spilled to memory\n"
    assert "registers" in result.stdout


def test_errors(run: Run, module: Path, tmp_path: Path) -> None:
    for arguments, words in (
        ((f"{module}:total", "--arch", "sm_1"), "'sm_1' is not a known GPU target"),
        ((f"{module}:turned",), "--set T=f32"),
        ((f"{module}:total", "--set", "n=1"), "no kernel here has a setting n"),
        ((f"{module}:absent",), "has nothing called absent"),
    ):
        result = run(*arguments, "-o", tmp_path / "out.txt")
        assert result.exit_code == 2
        assert result.stdout == ""
        assert words in result.stderr
        assert not (tmp_path / "out.txt").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_gets_tables(module: Path, tmp_path: Path) -> None:
    import pty

    reader, writer = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "kdsl", "explain", f"{module}:total", "--arch", "sm_90"],
        stdout=writer,
        stderr=subprocess.PIPE,
        env={
            **os.environ,
            "TERM": "xterm",
            "COLUMNS": "200",
            "PYTHONPATH": os.pathsep.join(sys.path),
            "KDSL_CACHE_DIR": str(tmp_path / "c"),
        },
    )
    os.close(writer)
    shown = b""
    while True:
        try:
            part = os.read(reader, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(reader)
    _, errors = done.communicate(timeout=120)
    assert done.returncode == 0, errors
    assert b"\x1b[1m" in shown
    assert b"Bounds checks" in shown
    assert b"R520" in shown


DYNAMIC = """
from kdsl import Const, SliceMut, Slice, f32, f64, i32, kernel, shared_array, thread_idx

@kernel(grid=1, block=128)
def sized(y: SliceMut[f32], x: Slice[f32], n: i32, depth: Const[int] = 2) -> None:
    fixed = shared_array(10, f64)
    tile = shared_array((n, depth), f32)
    other = shared_array(len(x) // 2, f64, align=128)
    t = thread_idx.x
    if t in other:
        fixed[t % 10] = 1.0
        tile[t % n, 0] = 1.0
        other[t] = 1.0
"""


def test_shared_memory_that_a_launch_decides(tmp_path: Path) -> None:
    module = tmp_path / "dynamic_kernels.py"
    module.write_text(DYNAMIC)
    place = f"{module}:sized"
    shown = CliRunner().invoke(main, ["explain", place, "--arch", "sm_86"])
    assert "80 bytes of shared arrays + dynamic (tile: f32[n, 2]; other: f64[len(x) // 2])" in shown.output
    assert "80 + dynamic" in shown.output
    assert "--set 'len(x)=1000'" in shown.output
    arguments = ["explain", place, "--arch", "sm_86", "--json", "--set", "n=1001", "--set", "x.shape[0]=3001", "--set", "depth=3"]
    found = json.loads(CliRunner().invoke(main, arguments).output)["kernels"][0]
    # 80 bytes, 1001 times 12 from 80 on, and 1500 times 8 from the next multiple of 128 on
    assert (found["shared"], found["dynamic_bytes"]) == (80, 12160 - 80 + 12_000)
    assert found["gpus"][0]["assembled"]["shared"] == 12160 + 12_000
    assert found["gpus"][0]["occupancy"]["blocks"] == 4
    for wrong in ("n=x", "m=3", "n=-1"):
        texts = ["--set", wrong] + (["--set", "len(x)=4"] if wrong == "n=-1" else [])
        refused = CliRunner().invoke(main, ["explain", place, "--arch", "sm_86", *texts])
        assert refused.exit_code == 2
        assert "kdsl: error: " in refused.output
