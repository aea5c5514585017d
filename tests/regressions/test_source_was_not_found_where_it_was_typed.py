"""Elsewhere kernels from a prompt, a notebook, `exec` or under other decorators failed with an OSError, or were compiled from the text of another one.

Where Python keeps the source a kernel works, wherever that is; where it does not, the error says what to do.
"""

from __future__ import annotations

import functools
import importlib
import linecache
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from from_text import module

import kdsl
from kdsl import SliceMut, f32, function, kernel

TEXT = """
from kdsl import *
import kdsl
@kernel(grid=1, block=1)
def k(y: SliceMut[f32]) -> None:
    y[0] = {}
y = kdsl.device("cpu").zeros(1, f32)
k(y)
print(y.numpy()[0])
"""


def run(*arguments: str, folder: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, input=text, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("how", ["script", "relative after chdir", "module", "optimised", "interactive", "archive", "runpy", "link"])
def test_from_a_file(tmp_path: Path, how: str) -> None:
    text = TEXT.format("2.5")
    if how == "relative after chdir":
        text = 'import os\nos.chdir("/")\n' + text
    (tmp_path / "program.py").write_text(text)
    if how == "archive":
        with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
            archive.write(tmp_path / "program.py", "inside.py")
        arguments = ["-c", "import sys; sys.path.insert(0, 'archive.zip'); import inside"]
    elif how == "runpy":
        arguments = ["-c", "import runpy; runpy.run_path('program.py')"]
    elif how == "link":
        (tmp_path / "link.py").symlink_to("program.py")
        arguments = ["link.py"]
    else:
        arguments = {"module": ["-m", "program"], "optimised": ["-OO", "program.py"], "interactive": ["-i", "program.py"]}.get(
            how, ["program.py"]
        )
    ended = run(*arguments, folder=tmp_path)
    assert (ended.returncode, ended.stdout.strip()) == (0, "2.5"), ended.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(["-c", TEXT.format("2.5")], ""), (["-"], TEXT.format("2.5")), (["-c", f"exec({TEXT.format('2.5')!r})"], "")],
    ids=["-c", "stdin", "exec"],
)
def test_where_python_may_keep_no_source(tmp_path: Path, arguments: list[str], text: str) -> None:
    """It depends on the version of Python: either it works, or the error names the remedy."""
    ended = run(*arguments, folder=tmp_path, text=text)
    if ended.returncode == 0:
        assert ended.stdout.strip() == "2.5"
    else:
        assert "KernelError" in ended.stderr
        assert "linecache.cache[filename]" in ended.stderr


def test_a_module_without_its_source(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TEXT.format("2.5"))
    assert run("-m", "compileall", "-b", "-q", "program.py", folder=tmp_path).returncode == 0
    (tmp_path / "program.py").unlink()
    ended = run("-c", "import program", folder=tmp_path)
    assert ended.returncode == 1
    assert "the source of `k` is not available" in ended.stderr


def cell(number: int, text: str, space: dict[str, Any]) -> None:
    """What a notebook does with a cell: a file name of its own, its text in `linecache`, without a modification time."""
    name = f"<ipython-input-{number}-abcdef>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), space)


def test_cells_of_a_notebook() -> None:
    """A cell that is run again after an edit, and one that defines a kernel of the same name at the same line."""
    device = kdsl.device("cpu")
    space: dict[str, Any] = {"__name__": "__main__"}
    cell(1, "from kdsl import *\nN = 3\n@function\ndef h(x):\n    return x + N\n", space)
    text = "@kernel(grid=1, block=1)\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = h({})\n"
    y = device.zeros(1, f32)
    for number, value in ((2, 1.0), (3, 2.0), (4, 1.0)):
        cell(number, text.format(value), space)
        linecache.checkcache()
        space["k"](y)
        assert y.numpy()[0] == value + 3
    old = space["k"]
    cell(5, "N = 4\n", space)
    with pytest.raises(kdsl.LaunchError, match="captured value N"):
        old(y)
    cell(6, "@function\ndef h(x):\n    return x * N\n", space)
    with pytest.raises(kdsl.LaunchError, match="captured value"):
        old(y)
    cell(7, text.format(5.0), space)
    space["k"](y)
    assert y.numpy()[0] == 20


FACTORY = """
from kdsl import SliceMut, f32, function, kernel

def make(n):
    @kernel(grid=1, block=1)
    def k(y: SliceMut[f32]) -> None:
        assert y[0] >= 0
        y[0] = helper()(n) + {first}

    return k

def helper():
    @function
    def add(n):
        return n + {second}

    return add
"""


@pytest.mark.parametrize("how", ["in place", "another file in its place", "with an old date"])
def test_an_edit_while_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """A kernel that is made later, from a file whose text is another one by now: what Python runs and what would be compiled are not the same."""
    path = tmp_path / "factories.py"
    path.write_text(FACTORY.format(first="1.0", second="10.0"))
    monkeypatch.syspath_prepend(str(tmp_path))
    factories = importlib.import_module("factories")
    monkeypatch.delitem(sys.modules, "factories")
    y = kdsl.device("cpu").zeros(1, f32)
    text = FACTORY.format(first="2.0", second="20.0")
    for edited in (text, text + "# longer"):
        if how == "in place":
            path.write_text(edited)
        else:
            other = tmp_path / "other.py"
            other.write_text(edited)
            if how == "with an old date":
                os.utime(other, (1e9, 1e9))
            os.replace(other, path)
        with pytest.raises(kdsl.KernelError, match="import it again"):
            factories.make(3)
        with pytest.raises(kdsl.KernelError, match="import it again"):
            factories.helper()
    again = importlib.import_module("factories")
    add = again.helper()
    space = module("@kernel(grid=1, block=1)\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = add(3) + 2.0\n", add=add)
    space["k"](y)
    assert y.numpy()[0] == 25
    assert again.make(3).name == "k"


def noisy(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def wrapper(*arguments: Any) -> Any:
        return f(*arguments)

    return wrapper


def with_option(option: Callable[[int], int]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    assert option(1) == 2
    return noisy


def test_stacks_of_decorators() -> None:
    """Below `@kernel`: one with functools.wraps, one that takes a lambda, over several lines."""

    @kernel(grid=1, block=1)
    @with_option(
        lambda n: n + 1,
    )
    @noisy
    def k(y: SliceMut[f32]) -> None:
        y[0] = 1.5

    @function
    @noisy
    def h(x: f32) -> f32:
        return x + 1

    @kernel(grid=(lambda n: n)(1), block=(lambda n: n)(1))
    def k2(y: SliceMut[f32]) -> None:
        y[0] = h(y[0])

    device = kdsl.device("cpu")
    y = device.zeros(1, f32)
    k(y)
    k2(y)
    assert y.numpy()[0] == 2.5


class Holder:
    """Kernels and functions in the body of a class."""

    @function
    def twice(x):  # type: ignore[no-untyped-def]
        return x * 2

    inner = twice

    @staticmethod
    @kernel(grid=1, block=1)
    def static(y: SliceMut[f32]) -> None:
        y[0] += 1.0

    @kernel(grid=1, block=1)
    def plain(y: SliceMut[f32]) -> None:
        y[0] += 2.0


def test_in_a_class() -> None:
    device = kdsl.device("cpu")
    y = device.zeros(1, f32)
    Holder.static(y)
    Holder().static(y)
    Holder.plain(y)
    Holder().plain(y)
    assert y.numpy()[0] == 6
    space = module("@kernel(grid=1, block=1)\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = twice(y[0])\n", twice=Holder.inner)
    space["k"](y)
    assert y.numpy()[0] == 12


@pytest.mark.parametrize(
    ("made", "error", "words"),
    [
        ("kernel(grid=1)(lambda y: None)", kdsl.KernelError, "a lambda cannot be a kernel"),
        ("function(lambda x: x)", kdsl.KernelError, "a lambda cannot be a kernel"),
        ("kernel(grid=1)(len)", TypeError, "plain Python functions"),
        ("kernel(grid=1)(functools.partial(print, 1))", TypeError, "plain Python functions"),
        ("kernel(grid=1)(int)", TypeError, "plain Python functions"),
        ("kernel(grid=1)(3)", TypeError, "plain Python functions"),
        ("kernel(k)", TypeError, "needs a grid"),
        ("kernel()(k)", TypeError, "needs a grid"),
    ],
)
def test_what_cannot_be_a_kernel(made: str, error: type[Exception], words: str) -> None:
    def k(y: SliceMut[f32]) -> None:
        y[0] = 1.0

    with pytest.raises(error, match=words):
        eval(made, {"kernel": kernel, "function": function, "k": k, "functools": functools})


def test_a_method_is_told_to_leave_self_out() -> None:
    with pytest.raises(kdsl.KernelError, match="`self` has no type") as caught:
        module("class C:\n    @kernel(grid=1)\n    def k(self, y: SliceMut[f32]) -> None:\n        y[0] = 1.0\n")
    assert "leave `self` out" in caught.value.hint
