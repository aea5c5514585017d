"""The language of contracts: what it means, and where its errors point."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdsl.errors import ContractError, LaunchError
from kdsl.launch.contract import Names, extent, quotient, relations, size

NAMES = Names(
    {"y": "y_length", "x": "x_length"},
    {"n": "n", "p.rows": "p_rows", "p.start": "p_start"},
    {"a": "a float (f32)", "p.rate": "a float (f32)"},
)
VALUES: dict[str, Any] = {
    "y_length": 4,
    "x_length": 10,
    "n": -7,
    "p_rows": 3,
    "p_start": 7,
    "extent": extent,
    "quotient": quotient,
    "KERNEL": "k",
}


def holds(text: str, **values: Any) -> bool:
    return all(eval(part.source, {**VALUES, **values}) for part in relations(text, NAMES, "requires[0] of kernel k"))


def value(text: str) -> int:
    return int(eval(size(text, NAMES, "grid of kernel k"), dict(VALUES)))


@pytest.mark.parametrize(
    "text",
    [
        "len(x) >= len(y)", "p.start + len(y) == 11", "0 < p.rows < len(y) <= 4", "n < 0 and p.rows == 3", "n > 0 or p.rows == 3",
        "n == -7", "-n == 7", "(n == 1 or n == -7) and (p.rows != 3 or len(x) == 10)", "len(x) - len(y) - 1 == 5", "len(x) - (len(y) - 1) == 7",
        "n // 2 == -4", "n // -2 == 3", "2 * (p.rows + 1) == 8", "len(x) // p.rows * p.rows == 9", "len(x) // (p.rows * 2) == 1",
        " \n len(x) == 10 \n", "extent((p.rows, 4), (2, 1)) == 10", "extent((0, 5)) == 0",
    ],
)  # fmt: skip
def test_a_true_relation(text: str) -> None:
    assert holds(text)


@pytest.mark.parametrize(
    "text", ["len(x) < len(y)", "0 < p.rows < 3", "n < 0 and p.rows == 4", "n > 0 or p.rows == 4", "extent((3, 4)) == 12"]
)
def test_a_false_relation(text: str) -> None:
    assert not holds(text)


def test_integers_do_not_wrap() -> None:
    assert value("n * n * n * n * n * n * n * n * n * n * n * n * n * n * n * n * n * n * n * n * n * n * n * n") == 7**24


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # a loaded machine is no mistake
@given(st.recursive(st.sampled_from(["n", "p.rows", "len(x)", "5", "0"]), lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner)))
def test_values_are_those_of_python(tree: Any) -> None:
    def text(part: Any) -> str:
        return part if isinstance(part, str) else f"({text(part[0])} {part[1]} {text(part[2])})"

    written = text(tree)
    assert value(written) == eval(written.replace("p.rows", "3").replace("len(x)", "10"), {"n": -7})


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-5, 5)), min_size=1, max_size=3))
def test_extent_is_the_largest_offset_and_one(axes: list[tuple[int, int]]) -> None:
    places = itertools.product(*(range(count) for count, _ in axes))
    offsets = [sum(i * stride for i, (_, stride) in zip(place, axes, strict=True)) for place in places]
    assert extent(*axes) == (max(offsets) + 1 if offsets else 0)


def test_operands_and_parts_for_messages() -> None:
    first, second = relations("p.start + len(y) <= len(x) and 0 < n", NAMES, "it")
    assert [operand.text for operand in first.operands] == ["p.start + len(y)", "len(x)"]
    assert (second.part, [operand.text for operand in second.operands]) == ("0 < n", ["n"])


def test_division_by_zero_names_the_expression() -> None:
    with pytest.raises(LaunchError, match=r"k: .*len\(x\) // n divides by zero"):
        holds("len(x) // n > 1", n=0)


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("len(z) > 1", "len takes an array parameter: y, x", "len(z)"),
        ("1 < len(x) <= q", "q is not a parameter; the parameters are y, x, n, p, a", "q"),
        ("len(x) > p", "p is a struct; name one of its fields: rows, start, rate", "p"),
        ("len(x) > p.size", "p has no field size; its fields are rows, start, rate", "p.size"),
        ("len(x) > p.rate", "p.rate is a float (f32)", "p.rate"),
        ("a > 1", "a is a float (f32)", "a"),
        ("y > 1", "y is an array; its length is len(y)", "y"),
        ("y.size > 1", "y is an array; its length is len(y)", "y.size"),
        ("q.size > 1", "q is not a parameter", "q"),
        ("n > 1.5", "literals are whole numbers", "1.5"),
        ("n > True", "literals are whole numbers", "True"),
        ("n ** 2 > 1", "only len, parameters", "n ** 2"),
        ("n / 2 > 1", "only len, parameters", "n / 2"),
        ("n // 0 > 1", "division by zero", "0"),
        ("n in x", "only < <= > >= == !=", "n in x"),
        ("n is 1", "only < <= > >= == !=", "n is 1"),
        ("not n > 1", "a relation compares integers", "not n > 1"),
        ("n + 1", "a relation compares integers", "n + 1"),
        ("(n > 1) + 1 > 0", "an integer is wanted here", "n > 1"),
        ("min(n, 1) > 0", "only len, parameters", "min(n, 1)"),
        ("extent(n, 1) > 0", "extent takes pairs (count, stride)", "n"),
        ("extent() > 0", "extent takes pairs", "extent()"),
        ("len(x, y) > 0", "len takes an array parameter", "len(x, y)"),
        ("n > (lambda: 1)()", "only len, parameters", "(lambda: 1)()"),
        ("__import__('os').system('x') > 0", "only len, parameters", "__import__('os').system('x')"),
        ("len(x) > größe", "größe is not a parameter", "größe"),
        ("  ﬁ + 1 > q", "is not a parameter", "ﬁ"),
    ],
)
def test_an_error_points_at_its_place(text: str, message: str, marked: str) -> None:
    with pytest.raises(ContractError) as caught:
        relations(text, NAMES, "requires[0] of kernel k")
    first, shown, caret = str(caught.value).splitlines()
    assert first.startswith("requires[0] of kernel k: ")
    assert message in first
    assert shown == f"    {text}"
    assert caret == " " * (4 + text.rindex(marked)) + "^" * len(marked)


@pytest.mark.parametrize(
    "text", ["", "len(x) >", "n >> ", "(", "x = 1", "n > 1\0", "(" * 1000 + "1" + ")" * 1000, "n" * 5000, "-" * 4000 + "1 > 0"]
)
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(ContractError, match=r"requires\[0\] of kernel k"):
        relations(text, NAMES, "requires[0] of kernel k")


def test_a_relation_that_is_no_string() -> None:
    not_text: Any = 3
    with pytest.raises(ContractError, match="is a string"):
        relations(not_text, NAMES, "requires[0] of kernel k")


def test_a_whole_shape_is_no_integer() -> None:
    names = dataclasses.replace(NAMES, shapes={"x": ("x0", "x1"), "y": ("y0", "y1")})
    with pytest.raises(ContractError, match=r"x\.shape is a tuple, .* say it of x\.shape\[0\] and x\.shape\[1\]"):
        relations("x.shape == y.shape", names, "it")
