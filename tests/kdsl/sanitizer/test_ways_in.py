"""`kdsl check`, the environment variable, and the plugin of pytest: what they print, and how they end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FAULTY = """
import sys
import numpy as np
import kdsl
from kdsl import *

@kernel(grid=1, block=64)
def reverse(x: Slice[f32], y: SliceMut[f32]) -> None:
    s = shared_array(64, f32)
    t = thread_idx.x
    s[t] = x[t]
    y[t] = s[63 - t]

def main():
    device = kdsl.device()
    y = device.zeros(64, f32)
    reverse(device.array(np.arange(64, dtype=np.float32)), y)
    print(device, sys.argv[1:], len(y.numpy()))

"""
START = "if __name__ == '__main__':\n    main()\n"
MENDED = FAULTY.replace("    y[t]", "    sync_threads()\n    y[t]")
BARRIER_IS_MISSING = "kernel reverse: race on s["


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("KDSL_SANITIZE")}
    command = [sys.executable, *map(str, arguments)]
    known["PYTHONPATH"] = os.pathsep.join(path for path in (str(Path(__file__).parents[3]), known.get("PYTHONPATH")) if path)
    return subprocess.run(command, capture_output=True, text=True, check=False, env=known | environment)


def test_check_reports_and_ends_with_1(tmp_path: Path) -> None:
    program = tmp_path / "faulty.py"
    program.write_text(FAULTY + START)
    ended = run("-m", "kdsl", "check", program, "--size", "3")
    assert ended.returncode == 1
    assert ended.stdout == "cpu ['--size', '3'] 64\n"
    assert BARRIER_IS_MISSING in ended.stderr
    assert f"write at {program}:11:5, block (0, 0, 0), thread (" in ended.stderr
    assert f"read at {program}:12:12, block (0, 0, 0), thread (" in ended.stderr
    assert "       y[t] = s[63 - t]\n              ^\n" in ended.stderr
    assert "kdsl: 1 finding in 1 launch of 1 kernel" in ended.stderr


def test_check_of_several_processes_as_json(tmp_path: Path) -> None:
    """The same in a child is the same finding."""
    program = tmp_path / "faulty.py"
    program.write_text(
        FAULTY
        + "import subprocess\nif __name__ == '__main__':\n    main()\n    sys.argv[1:] or subprocess.run([sys.executable, __file__, 'x'])\n"
    )
    ended = run("-m", "kdsl", "check", "--json", program)
    assert ended.returncode == 1
    report = json.loads(ended.stdout)
    assert [(f["kind"], f["kernel"], f["array"], f["count"]) for f in report["findings"]] == [("race", "reverse", "s", 128)]
    assert report["launches"] == 2


def test_check_of_a_program_that_is_right(tmp_path: Path) -> None:
    """It ends as the program does."""
    (tmp_path / "mended.py").write_text(MENDED + START + "    sys.exit(3)\n")
    ended = run("-m", "kdsl", "check", "-m", "mended", PYTHONPATH=os.pathsep.join((str(tmp_path), str(Path(__file__).parents[3]))))
    assert ended.returncode == 3
    assert "kdsl: nothing found in 1 launch of 1 kernel" in ended.stderr


def test_the_environment_variable(tmp_path: Path) -> None:
    program = tmp_path / "faulty.py"
    program.write_text(FAULTY + START)
    ended = run(program, KDSL_SANITIZE="1")
    assert ended.returncode == 1
    assert BARRIER_IS_MISSING in ended.stderr


@pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["alone", "two workers"])
def test_the_plugin(tmp_path: Path, processes: tuple[str, ...]) -> None:
    """A test fails whose kernel is faulty, and no other; a check that the kernel makes itself is the test's affair. Workers count together."""
    (tmp_path / "test_both.py").write_text(
        FAULTY
        + MENDED.replace("reverse", "mended").replace("main", "right")
        + """
@kernel(grid=1, block=64)
def outside(y: SliceMut[f32]) -> None:
    y[thread_idx.x + 1] = 1.0

def test_faulty(): main()
def test_mended(): right()
def test_outside():
    y = kdsl.device().zeros(64, f32)
    outside(y)
    try:
        y.numpy()
    except kdsl.BoundsError:
        return
    raise AssertionError
"""
    )
    ended = run("-m", "pytest", "-p", "kdsl.testing.plugin", "--kdsl-sanitize", "-q", "-p", "no:cacheprovider", *processes, tmp_path)
    assert "1 failed, 2 passed" in ended.stdout
    assert BARRIER_IS_MISSING in ended.stdout
    assert "3 launches of 3 kernels were watched" in ended.stdout
