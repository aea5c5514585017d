"""Where source comes from, and how it is written: every way that Python allows compiles, with true positions."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from text import define

import kdsl
from kdsl import SliceMut, f32, function, kernel
from kdsl.frontend.errors import display_width
from kdsl.frontend.source import parse
from kdsl.ir import nodes


def load(path: Path, text: str) -> dict[str, Any]:
    path.write_bytes(text.encode())
    space: dict[str, Any] = {"__name__": "text"}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space


HEADER = "from kdsl import *\n"


@pytest.mark.parametrize(
    "text",
    [
        "@kernel(grid=1)\ndef k(y: SliceMut[f32]) -> None:\n\ty[0] = 1.0\n\tif y[1] > 0:\n\t\ty[2] = 2.0\n",
        "@kernel(grid=1)\r\ndef k(y: SliceMut[f32]) -> None:\r\n    y[0] = 1.0\r\n    # 日本語\r\n    y[2] = 2.0\r\n",
        "@kernel(\n  grid=1,\n)\ndef k(\n  y: SliceMut[f32],\n) -> None:\n  '''Doc\n string at the margin.\n'''\n  y[0] = \\\n1.0\n  y[2] = (\n2.0\n)\n",
        "@kernel(grid=1)\ndef k(y: SliceMut[f32]) -> None:  y[0] = 1.0; y[2] = 2.0\n",
        "class Holder:\n    @staticmethod\n    @kernel(grid=1)\n    def k(y: SliceMut[f32]) -> None:\n        y[0] = 1.0\n        y[2] = 2.0\nk = Holder.k\n",
        "def outer():\n    if True:\n        @kernel(grid=1)\n        def k(y: SliceMut[f32]) -> None:\n            y[0] = 1.0\n            y[2] = 2.0\n"
        "    return k\nk = outer()\n",
        "f = lambda x: x; g = [lambda: 1, lambda: 2]\n@kernel(grid=(lambda n: n)(1))\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = 1.0\n    y[2] = 2.0\n",
        "\x0c\n@kernel(grid=1)\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = 1.0\n\x0c\n    y[2] = 2.0\n",
        "def k(): pass\n@kernel(grid=1)\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = 1.0\n    y[2] = 2.0\n",
        "from __future__ import annotations\nfrom kdsl import *\n@kernel(grid=1)\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = 1.0\n    y[2] = 2.0\n",
        "@kernel(grid=1)\ndef k(y: 'SliceMut[f32]') -> 'None':\n    y[0] = 1.0\n    y[2] = 2.0\n",
    ],
    ids=[
        "tabs", "crlf", "continuation", "one line", "class body", "nested function", "lambdas nearby", "form feed", "defined twice",
        "future annotations", "string annotations",
    ],
)  # fmt: skip
def test_layout(tmp_path: Path, text: str) -> None:
    future = text.startswith("from __future__")
    k = load(tmp_path / "written.py", text if future else HEADER + text)["k"]
    ir = k.ir()
    stores = [op for op in nodes.walk(ir.body) if isinstance(op, nodes.Store)]
    assert stores[0].value.value == 1.0
    line = (tmp_path / "written.py").read_text().split("\n")[stores[0].location.line - 1]
    assert line[stores[0].location.column : stores[0].location.end_column] == "y[0]"


def test_names_that_are_not_ascii(tmp_path: Path) -> None:
    text = HEADER + "@kernel(grid=1)\ndef δ(ψ: SliceMut[f32]) -> None:\n    φ = '日本語' if False else 2.0; ψ[0] = φ + ω\n"
    with pytest.raises(kdsl.KernelError) as caught:
        load(tmp_path / "griechisch.py", text)["δ"].ir()
    assert caught.value.message == "`ω` is not defined"
    source, carets = str(caught.value).splitlines()[1:3]
    # the caret stands under ω, three wide characters further than a count of characters would say
    assert display_width(source[: source.index("ω")]) == carets.index("^")
    assert carets.strip() == "^"


def test_decorators_may_be_stacked() -> None:
    def noisy(f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def wrapper(*arguments: Any) -> Any:
            return f(*arguments)

        return wrapper

    @kernel(grid=1)
    @noisy
    def k(y: SliceMut[f32]) -> None:
        y[0] = 1.0

    assert k.name == "k"
    assert k.ir().location.line == parse(k.__wrapped__).tree.lineno


def test_a_closure_is_frozen_per_definition() -> None:
    def make(factor: float) -> Any:
        @kernel(grid=1)
        def k(y: SliceMut[f32]) -> None:
            y[0] = factor

        return k

    for factor in (4.0, 8.0):
        constants = [op.value for op in nodes.walk(make(factor).ir().body) if isinstance(op, nodes.Constant) and op.type.is_float]
        assert constants == [factor]


def test_an_edited_cell_is_read_anew() -> None:
    for value in (1.0, 2.0):
        text = f"@kernel(grid=1)\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = {value}\n"
        name = f"<cell {value}>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        space: dict[str, Any] = {"kernel": kernel, "SliceMut": SliceMut, "f32": f32}
        exec(compile(text, name, "exec"), space)
        constants = [op.value for op in nodes.walk(space["k"].ir().body) if isinstance(op, nodes.Constant) and op.type.is_float]
        assert constants == [value]


def test_a_file_that_changed_since_its_import_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "changing.py"
    text = HEADER + "def k(y: SliceMut[f32]) -> None:\n    y[0] = 1.0\n"
    space = load(path, text)
    path.write_text("\n\n\n" + text)
    linecache.clearcache()
    with pytest.raises(kdsl.KernelError, match="import it again"):
        kernel(grid=1)(space["k"])


def test_an_error_keeps_the_line_that_was_compiled(tmp_path: Path) -> None:
    path = tmp_path / "edited.py"
    space = load(path, HEADER + "@kernel(grid=1)\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = missing\n")
    path.write_text("nothing like it\n" * 9)
    linecache.clearcache()
    with pytest.raises(kdsl.KernelError, match=r"y\[0\] = missing"):
        space["k"].ir()


def test_strings_and_pass_are_allowed_as_statements() -> None:
    @function
    def nothing(y: SliceMut[f32]) -> None:
        """A docstring."""

    names = define(
        "@kernel(grid=1)\ndef k(y: SliceMut[f32]) -> None:\n    'Doc'\n    y[0] = 1.0\n    'about y'\n    pass\n    nothing(y)\n",
        nothing=nothing,
    )
    assert names["k"].ir()


def test_errors_survive_pickling() -> None:
    import pickle

    with pytest.raises(kdsl.KernelError) as caught:
        define("@kernel(grid=1)\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = missing\n")["k"].ir()
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
