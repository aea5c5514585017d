"""Every construct that the language does not have is refused by its name, also where the program never comes."""

import linecache

import pytest
from refusal import refused

from kdsl import SliceMut, f32, kernel


@pytest.mark.parametrize(
    ("statement", "named", "at"),
    [
        ("del y", "`del`", "del y"),
        ("global x", "`global`", "global x"),
        ("with y: pass", "`with`", "with y: pass"),
        ("try: pass\n    except Exception: pass", "`try`", "try: pass"),
        ("raise ValueError", "`raise`", "raise ValueError"),
        ("f = lambda x: x", "`lambda`", "lambda x: x"),
        ("def g(): pass", "nested function", "def g(): pass"),
        ("class C: pass", "class", "class C: pass"),
        ("y[0] = sum([i for i in range(3)])", "list comprehension", "[i for i in range(3)]"),
        ("y[0] = sum(i for i in range(3))", "generator expression", "(i for i in range(3))"),
        ("z = [1, 2]", "list", "[1, 2]"),
        ("z = {1: 2}", "dict", "{1: 2}"),
        ("z = {1, 2}", "set", "{1, 2}"),
        ('assert y[0] > 0, f"{y[0]}"', "f-string", 'f"{y[0]}"'),
        ("match y:\n        case _: pass", "`match`", "match y:"),
        ("y[0] = (z := 1.0)", "`:=`", "z := 1.0"),
        ("import math", "`import`", "import math"),
        ("from math import pi", "`import`", "from math import pi"),
        ("y[0] = yield 1", "`yield`", "yield 1"),
        ("a, *b = (1, 2, 3)", "unpacking", "*b"),
        ("y[0] = y @ y", "`@`", "y @ y"),
        ("y[0] = 1j", "complex", "1j"),
        ("z = ...", "`...`", "..."),
        ("z = b'a'", "bytes", "b'a'"),
        ("return\n    del y", "`del`", "del y"),
        ("if False:\n        del y", "`del`", "del y"),
    ],
)
def test_refused(statement: str, named: str, at: str) -> None:
    text = f"@kernel(grid=1)\ndef wrong(y: SliceMut[f32]) -> None:\n    {statement}\n"
    name = f"<{statement}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    refused(lambda: exec(compile(text, name, "exec"), {"kernel": kernel, "SliceMut": SliceMut, "f32": f32}), named, at=at, hint="")


def test_async() -> None:
    async def wrong(y: SliceMut[f32]) -> None:
        y[0] = 1.0

    refused(lambda: kernel(grid=1)(wrong), "async", at="wrong", hint="remove")


def test_star_parameters() -> None:
    def wrong(*arrays: SliceMut[f32]) -> None:
        return

    refused(lambda: kernel(grid=1)(wrong), "`*arrays`", at="arrays: SliceMut[f32]", hint="each parameter")
