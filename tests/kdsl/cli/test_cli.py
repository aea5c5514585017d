"""`kdsl dump-ptx` and `kdsl dump-launcher`: what they print, what they refuse, and that they leave nothing half-written."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kdsl.cli.main import main
from kdsl.testing.ptx import assemble

SOURCE = '''
"""Three kernels."""

from typing import TypeVar

from kdsl import Const, DisjointSlice, Slice, elements, f32, i32, kernel, thread_index, unroll

T = TypeVar("T", f32, i32)


@kernel(grid=elements("y"))
def zero(y: DisjointSlice[f32]) -> None:
    """Set all to 0."""
    i = thread_index()
    if i in y:
        y[i] = 0.0


@kernel(grid=elements("y"), requires=("len(x) == len(y)",))
def power(y: DisjointSlice[T], x: Slice[T], *, exponent: Const[int]) -> None:
    """Raise to a power."""
    i = thread_index()
    if i in y:
        value = y.dtype(1)
        for _ in unroll(exponent):
            value *= x[i]
        y[i] = value


@kernel(grid=elements("y"))
def gather(y: DisjointSlice[f32], x: Slice[f32], index: Slice[i32]) -> None:
    """Read from the places that `index` names."""
    i = thread_index()
    if i in y:
        y[i] = x[index[i]]
'''

Run = Callable[..., Result]


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "three.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("KDSL_CACHE_DIR", str(tmp_path / "cache"))

    def invoke(*arguments: object) -> Result:
        known = set(sys.modules)
        try:
            return CliRunner().invoke(main, [str(a) for a in arguments])
        finally:
            for name in set(sys.modules) - known:
                if "three" in name or "broken" in name:
                    del sys.modules[name]

    return invoke


def refused(result: Result, *words: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("kdsl: error: ")
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


def test_dump_ptx_of_one_kernel(run: Run, module: Path) -> None:
    result = run("dump-ptx", f"{module}:gather", "--arch", "sm_87")
    assert result.exit_code == 0
    assert ".target sm_87" in result.stdout
    assert ".visible .entry gather(" in result.stdout
    assert "zero" not in result.stdout
    assemble(result.stdout, "sm_87")


def test_dump_ptx_of_a_module_assembles_with_all_kernels_in_order(run: Run, module: Path) -> None:
    result = run("dump-ptx", module, "--set", "T=i32", "--set", "exponent=2")
    assert result.exit_code == 0, result.stderr
    entries = [line.split()[2].rstrip("(") for line in result.stdout.splitlines() if line.startswith(".visible .entry")]
    assert entries == ["zero", "power", "gather"]
    assert ".target sm_90\n" in result.stdout
    assemble(result.stdout, "sm_90")


def test_the_dotted_name_of_a_module_does_as_well(run: Run, module: Path) -> None:
    result = run("dump-ptx", "three:zero")
    assert result.exit_code == 0, result.stderr
    assert ".entry zero(" in result.stdout


def test_settings_choose_the_version(run: Run, module: Path) -> None:
    one = run("dump-ptx", f"{module}:power", "--set", "T=f32", "--set", "exponent=3")
    other = run("dump-ptx", f"{module}:power", "--set", "exponent=0x3", "--set", "T=i32")
    assert "mul.rn.f32" in one.stdout
    assert "mul.lo.s32" in other.stdout


def test_the_output_file_holds_the_same_text(run: Run, module: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.ptx"
    assert run("dump-ptx", f"{module}:zero", "-o", out).stdout == ""
    assert out.read_text() == run("dump-ptx", f"{module}:zero").stdout
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith((".out", "out"))) == ["out.ptx"]


def test_dump_launcher_is_python(run: Run, module: Path) -> None:
    result = run("dump-launcher", f"{module}:gather")
    assert result.exit_code == 0
    compile(result.stdout, "launcher", "exec")
    assert "gather" in result.stdout


def test_errors_are_one_message(run: Run, module: Path, tmp_path: Path) -> None:
    refused(run("dump-ptx", f"{module}:power"), "kernel power", "--set T=f32 --set exponent=1")
    refused(run("dump-ptx", f"{module}:power", "--set", "T=f16", "--set", "exponent=1"), "T is an element type: f32, i32; not 'f16'")
    refused(run("dump-ptx", f"{module}:power", "--set", "T=f32", "--set", "exponent=x"), "exponent is an integer; not 'x'")
    refused(run("dump-ptx", f"{module}:zero", "--set", "n=1"), "no kernel here has a setting n")
    refused(run("dump-ptx", f"{module}:zero", "--set", "n"), "NAME=VALUE")
    refused(run("dump-ptx", f"{module}:power", "--set", "T=f32", "--set", "T=i32"), "twice")
    refused(run("dump-ptx", f"{module}:zero", "--arch", "sm_1"), "'sm_1'", "sm_87")
    refused(run("dump-ptx", f"{module}:nothing"), "nothing called nothing", "zero, power, gather")
    refused(run("dump-ptx", f"{module}:SOURCE"), "nothing called SOURCE")
    refused(run("dump-ptx", f"{module}:T"), "a TypeVar, not a kernel, called T")
    refused(run("dump-ptx", "no_such_module"), "there is no module no_such_module")
    refused(run("dump-ptx", "no/such.py"), "there is no file")
    refused(run("dump-ptx", "not-a-name"), "'not-a-name'")
    refused(run("dump-ptx", "json"), "json defines no kernel")
    refused(run("dump-launcher", module), "3 kernels", f"{module}:zero")
    refused(run("dump-ptx", f"{module}:zero", "-o", tmp_path / "nowhere" / "x.ptx"), "nowhere")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / 0\n", ["broken.py", ":1", "ZeroDivisionError"]), ("import no_such_thing\n", ["no_such_thing"]), ("def f(:\n", ["SyntaxError"]),
        ("raise SystemExit(3)\n", ["SystemExit"]), ("\0", ["null bytes"]),
    ],
)  # fmt: skip
def test_a_module_that_cannot_be_imported_is_told(run: Run, tmp_path: Path, text: str, words: list[str]) -> None:
    (tmp_path / "broken.py").write_text(text)
    refused(run("dump-ptx", tmp_path / "broken.py"), "importing", *words)
    refused(run("dump-ptx", "broken"), "importing broken failed", *words[-1:])


def test_a_mistake_in_a_kernel_shows_its_place_and_nothing_is_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(SOURCE.replace("y[i] = x[index[i]]", "y[i] = x[index]"))
    out = tmp_path / "out.ptx"
    out.write_text("before")
    refused(run("dump-ptx", tmp_path / "broken.py:gather", "-o", out), "broken.py", "x[index]", "^")
    assert out.read_text() == "before"


def test_python_m_kdsl_is_the_same_command_and_needs_no_gpu(module: Path, tmp_path: Path) -> None:
    program = (
        "import runpy, sys\n"
        "sys.argv[:] = ['kdsl', 'dump-ptx', sys.argv[1]]\n"
        "try:\n    runpy.run_module('kdsl', run_name='__main__')\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "assert not any(name.startswith('cuda.bindings') for name in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, f"{module}:zero"], capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert ".entry zero(" in done.stdout


def test_importing_kdsl_imports_no_command_line() -> None:
    # cuda-python 12.9 itself puts the empty package `cuda` there when the interpreter starts
    program = "import kdsl, sys; assert not {'click', 'cuda.bindings', 'matplotlib', 'soundfile', 'soxr', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
