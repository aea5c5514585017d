"""Elsewhere three constructs that the compiler did not know left no trace in PTX: the program compiled, and did something else.

Every class of Python's syntax tree is either compiled or refused at its place, wherever it stands; a new version of Python that brings another one shows here.
"""

from __future__ import annotations

import ast
from typing import Any

import pytest
from from_text import module

import kdsl

STATEMENTS: dict[str, str] = {
    "FunctionDef": "def g(): pass",
    "AsyncFunctionDef": "async def g(): pass",
    "ClassDef": "class C: pass",
    "Return": "return",
    "Delete": "del n",
    "Assign": "m = n",
    "AugAssign": "n += 1",
    "AnnAssign": "m: i32 = n",
    "For": "for k in range(3): y[k] = 1.0",
    "AsyncFor": "async for k in y: pass",
    "While": "while n > 0: n -= 1",
    "If": "if n > 0: y[0] = 1.0",
    "With": "with y: pass",
    "AsyncWith": "async with y: pass",
    "Match": "match n:\n    case 1: pass",
    "Raise": "raise ValueError",
    "Try": "try: pass\nexcept ValueError: pass",
    "TryStar": "try: pass\nexcept* ValueError: pass",
    "Assert": "assert n > 0",
    "Import": "import math",
    "ImportFrom": "from math import pi",
    "Global": "global other",
    "Nonlocal": "nonlocal outer",
    "Expr": "y[0] == 1.0",
    "Pass": "pass",
    "Break": "while True: break",
    "Continue": "for k in range(2): continue",
    "TypeAlias": "type T = int",
}
EXPRESSIONS: dict[str, str] = {
    "BoolOp": "n > 0 and n < 3",
    "NamedExpr": "(m := n) > 0",
    "BinOp": "n + 1 > 0",
    "UnaryOp": "-n > 0",
    "Lambda": "(lambda: 1)() > 0",
    "IfExp": "(1 if n > 0 else 2) > 1",
    "Dict": "{1: 2}",
    "Set": "{1, 2}",
    "ListComp": "[k for k in range(3)]",
    "SetComp": "{k for k in range(3)}",
    "DictComp": "{k: k for k in range(3)}",
    "GeneratorExp": "(k for k in range(3))",
    "Await": "await y",
    "Yield": "(yield n)",
    "YieldFrom": "(yield from y)",
    "Compare": "n < 3",
    "Call": "abs(n) > 0",
    "FormattedValue": "f'{n}'",
    "JoinedStr": "f'{n}'",
    "Constant": "True",
    "Attribute": "thread_idx.x > 0",
    "Subscript": "y[0] > 0.0",
    "Starred": "max(*y)",
    "Name": "n",
    "List": "[1, 2]",
    "Tuple": "(1, n)[1] > 0",
    "Slice": "y[0:1]",
    "TemplateStr": "t'{n}'",
    "Interpolation": "t'{n}'",
}
_PLACES = {
    "at the top": "{}",
    "under a condition": "if n > 5:\n    {}",
    "where the program never comes": "return\n{}",
    "in a branch that is known to be dead": "if False:\n    {}",
    "in the else of a loop": "for j in range(2):\n    pass\nelse:\n    {}",
    "in an unrolled loop without trips": "for j in unroll(0):\n    {}",
}
SUPPORTED = {
    "Return",
    "Assign",
    "AugAssign",
    "AnnAssign",
    "For",
    "While",
    "If",
    "Assert",
    "Pass",
    "Break",
    "Continue",
    "BoolOp",
    "BinOp",
    "UnaryOp",
    "IfExp",
    "Compare",
    "Call",
    "Constant",
    "Attribute",
    "Subscript",
    "Name",
    "Tuple",
}


def subclasses(of: type) -> set[str]:
    deprecated = {"Num", "Str", "Bytes", "NameConstant", "Ellipsis", "AugLoad", "AugStore", "Param", "Suite", "Index", "ExtSlice"}
    return {c.__name__ for c in of.__subclasses__() if c.__module__ in ("ast", "_ast")} - deprecated


def test_every_class_has_a_sample() -> None:
    assert subclasses(ast.stmt) <= STATEMENTS.keys()
    assert subclasses(ast.expr) <= EXPRESSIONS.keys()


def outcome(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    text = f"@kernel(grid=1, block=1)\ndef k(y: SliceMut[f32], n: i32) -> None:\n{lines}"
    error: kdsl.KernelError | None = None
    try:
        module(text)["k"].ir()
    except SyntaxError:
        return "no Python"
    except kdsl.KernelError as found:
        error = found
    if error is None:
        return "compiled"
    assert error.hint
    assert error.location.line >= 3
    return "refused"


@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("name", [*STATEMENTS, *EXPRESSIONS])
def test_compiled_or_refused(name: str, place: str) -> None:
    sample = STATEMENTS.get(name) or f"if {EXPRESSIONS[name]}:\n    y[1] = 2.0"
    indent = _PLACES[place].rsplit("\n", 1)[-1].split("{")[0]
    found = outcome(_PLACES[place].format(sample.replace("\n", "\n" + indent)))
    if name in SUPPORTED:
        assert found == "compiled"
    elif found == "no Python":
        assert name in (
            "TypeAlias",
            "TemplateStr",
            "Interpolation",
            "Nonlocal",
            "Await",
            "AsyncFor",
            "AsyncWith",
            "YieldFrom",
            "Yield",
            "TryStar",
            "Return",
        )
    elif name in ("Expr", "Slice"):  # an expression without effect, or of the wrong type: what is never compiled is never typed
        assert found == ("refused" if place in ("at the top", "under a condition", "in the else of a loop") else "compiled")
    else:
        assert found == "refused"


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "@"])
def test_every_operator_of_floats_and_integers(operator: str) -> None:
    """Compiled, or refused for its type; `a op= b` is refused where `a op b` is."""
    plain = [outcome(f"y[0] = f32({a} {operator} {b})") for a, b in (("y[1]", "y[2]"), ("n", "n"), ("n", "y[1]"))]
    other = [outcome(f"v = {a}\nv {operator}= {b}\ny[0] = f32(v)") for a, b in (("y[1]", "y[2]"), ("n", "n"), ("n", "y[1]"))]
    assert plain == other
    assert plain[0] == ("refused" if operator in ("<<", ">>", "&", "|", "^", "@") else "compiled")
    assert plain[1] == ("refused" if operator in ("/", "@") else "compiled")
    assert plain[2] == "refused"


@pytest.mark.parametrize(
    "call",
    [
        "print(n, file=n)",
        "sum((1, 2))",
        "round(y[0])",
        "divmod(n, 2)",
        "all((n > 0,))",
        "any((n > 0,))",
        "sorted(y)",
        "list(y)",
        "zip(y, y)",
        "map(abs, y)",
        "isinstance(n, int)",
        "hash(n)",
        "id(y)",
        "input()",
        "open('x')",
        "eval('1')",
        "type(n)",
        "range(n)",
        "unroll(3)",
        "str(n)",
        "pow(2, 3, 5)",
    ],
)
def test_functions_that_there_are_not(call: str) -> None:
    for body in (call, f"m = {call}", f"y[0] = f32({call})"):
        assert outcome(body) == "refused", body


@pytest.mark.parametrize(
    "body",
    [
        "abs(n, n)",
        "len()",
        "len(y, y)",
        "len(y=y)",
        "min(n, key=n)",
        "f32()",
        "f32(n, n)",
        "f32(x=n)",
        "sync_threads(0)",
        "warp_sum()",
        "warp_sum(n, 1, 2)",
        "warp_sum(n, mask=0)",
        "thread_index(0)",
        "thread_index(axis=0)",
        "shared_array(4)",
        "shared_array(4, f32, 1)",
        "atomic_add(y, 0)",
        "atomic_add(y, 0, 1.0, 'everywhere')",
        "atomic_add(y, 0, 1.0, order='consume')",
        "exp(y[0], base=2)",
        "static_assert(True)",
        "fma(1.0, 2.0)",
        "for k in range(): pass",
        "for k in range(1, 2, 3, 4): pass",
        "for k in range(stop=3): pass",
        "for k in unroll(n): pass",
        "for k in unroll(3, start=1): pass",
        "for k, j in range(3): pass",
        "for y[0] in range(3): pass",
    ],
)
def test_arguments_too_many_too_few_or_by_a_name_that_is_none(body: str) -> None:
    """An argument is never passed over."""
    assert outcome(body if body.startswith("for") else f"v = {body}") == "refused"


def test_names_of_arguments_are_heeded() -> None:
    """Where an intrinsic has names they mean what they say, in any order."""
    space: dict[str, Any] = module(
        "@kernel(grid=1, block=32)\ndef k(y: SliceMut[i32]) -> None:\n    i = thread_index()\n    "
        "y[i] = shuffle(width=8, lane=3, value=i32(i))\n    atomic_add(value=1, array=y, index=32)\n"
    )
    device = kdsl.device("cpu")
    y = device.zeros(33, kdsl.i32)
    space["k"](y)
    assert y.numpy().tolist() == [i // 8 * 8 + 3 for i in range(32)] + [32]
    space = module(
        "@kernel(grid=1)\ndef k(y: SliceMut[f64]) -> None:\n    s = shared_array(dtype=f64, shape=(3, 5))\n    s[2, 4] = y[0]\n    y[1] = s[2, 4]\n"
    )
    (array,) = space["k"].ir().arrays
    assert (array.type, array.shape) == (kdsl.dtype("f64"), (3, 5))
