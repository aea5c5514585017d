"""`--nan`: an infinity is found where it is made of finite numbers, a NaN where none was given. What was there before, and what functions pass through on the
way to a finite result, is silent."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.mathematics
from kdsl import (
    Kernel,
    Slice,
    SliceMut,
    atomic_add,
    atomic_sub,
    bf16,
    block_prefix_sum,
    block_sum,
    exp,
    f16,
    f32,
    f64,
    fma,
    function,
    i32,
    kernel,
    lane_index,
    log,
    log2,
    log10,
    mma,
    pow,
    shared_array,
    sqrt,
    sync_threads,
    thread_idx,
    u32,
    warp_prefix_sum,
    warp_sum,
)
from kdsl.runtime.sanitizer import Finding
from kdsl.testing import sanitized

THREADS = 64
INF, NAN = math.inf, math.nan


def watched(run: Kernel, *inputs: Any) -> tuple[list[Finding], Any]:
    """What is found in a launch with these inputs and one output, and the output."""
    device = kdsl.device("cpu")
    y = device.array(np.zeros_like(inputs[0]))
    with sanitized(numbers=True) as found:
        run(*(device.array(each) for each in inputs), y)
    return found, y.numpy()


def messages(found: Iterable[Finding]) -> list[str]:
    """What findings say, which are all of one kind and in this file."""
    for finding in found:
        assert finding.kind == "not a number"
        assert all(place.startswith(__file__) for place in (finding.spot.place, *finding.spot.callers))
    return [finding.message for finding in found]


# --------------------------------------------------------------------------------------------------------------------- mathematics


@function
def remainder(x: Any, y: Any) -> Any:
    return x % y


@function
def floored(x: Any, y: Any) -> Any:
    return x // y


@function
def power(x: Any, y: Any) -> Any:
    return x**y


@function
def quotient(x: Any, y: Any) -> Any:
    return x / y


@function
def product(x: Any, y: Any) -> Any:
    return x * y


@function
def difference(x: Any, y: Any) -> Any:
    return x - y


@function
def fused(x: Any, y: Any) -> Any:
    return fma(x, y, -y)


TWO = {
    **{name: getattr(kdsl.mathematics, name) for name in ("atan2", "copysign", "fmod", "hypot", "pow", "remainder")},
    "%": remainder, "//": floored, "**": power, "/": quotient, "*": product, "-": difference, "fma": fused,
}  # fmt: skip
OTHERS = ("isfinite", "isinf", "isnan", "modulo", "floor_divide", "ldexp", "frexp")
"""Those that give no float, those that stand behind an operator, and those of an exponent."""
ONE = {
    "sqrt": sqrt,
    **{name: getattr(kdsl.mathematics, name) for name in kdsl.mathematics.__all__ if name not in TWO and name not in OTHERS},
}


def of_one(applied: Any, element: Any) -> Kernel:
    @kernel(grid=1, block=32)
    def one(x: Slice[element], y: SliceMut[element]) -> None:
        y[thread_idx.x] = applied(x[thread_idx.x])

    return one


def of_two(applied: Any, element: Any) -> Kernel:
    @kernel(grid=1, block=32)
    def two(x: Slice[element], z: Slice[element], y: SliceMut[element]) -> None:
        y[thread_idx.x] = applied(x[thread_idx.x], z[thread_idx.x])

    return two


VALUES = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 7.0, 1e30, -1e30, 1e-40, INF, -INF, NAN)


def is_found(run: Kernel, of: Any, *given: float) -> None:
    """A finding is made where the result is infinite and all that was given is not, or where it is a NaN and nothing that was given is."""
    found, y = watched(run, *(np.full(32, value, of) for value in given))
    result = float(y[0])
    arises = not any(map(math.isnan, given)) if math.isnan(result) else math.isinf(result) and all(map(math.isfinite, given))
    said = messages(found)
    assert len(said) == arises, (given, result, said)
    assert not arises or said[0].endswith("gives a NaN and was given none" if math.isnan(result) else "gives an infinity of finite numbers")


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("element", [f32, f64], ids=str)
def test_functions_of_one_number(name: str, element: Any) -> None:
    run = of_one(ONE[name], element)
    for value in (*VALUES, 100.0, 1000.0):
        is_found(run, element.numpy, value)


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_numbers(name: str) -> None:
    run = of_two(TWO[name], f32)
    for x in VALUES:
        for z in VALUES:
            is_found(run, np.float32, x, z)


def test_a_report_names_the_function_where_it_is_called() -> None:
    (finding,) = watched(of_one(log, f32), np.arange(32, dtype=np.float32))[0]
    assert finding.message == "`log` gives an infinity of finite numbers"
    assert finding.spot.thread == (0, 0, 0)
    assert "applied(x[thread_idx.x])" in Path(__file__).read_text(encoding="utf-8").splitlines()[finding.spot.line - 1]


@kernel(grid=1, block=32)
def in_common(x: Slice[f32], y: SliceMut[f32]) -> None:
    """The functions have steps in common, and one takes the result of another."""
    v = x[thread_idx.x]
    y[thread_idx.x] = pow(v, 2.0) + pow(v, 3.0) + log2(v) + log10(v) + log(exp(v))


def test_what_calls_have_in_common() -> None:
    for silent in (NAN, INF, 2.0):
        assert not watched(in_common, np.full(32, silent, np.float32))[0]
    assert [said.split("`")[1] for said in messages(watched(in_common, np.full(32, 100, np.float32))[0])] == ["exp"]
    assert [said.split("`")[1] for said in messages(watched(in_common, np.full(32, 0, np.float32))[0])] == ["log2", "log10"]


@kernel(grid=1, block=THREADS)
def guarded(x: Slice[f32], y: SliceMut[f32]) -> None:
    """A constant that is infinite is meant, and lanes that are elsewhere compute nothing."""
    t = thread_idx.x
    s = shared_array(THREADS, f32)
    v = x[t]
    s[t] = v
    sync_threads()
    largest = f32("-inf")
    for k in range(3):
        sync_threads()
        largest = max(largest, log(s[t]) if v > 0.0 else f32("-inf"))
        s[t] = s[t] + f32(k)
    y[t] = exp(largest)
    if v != 0.0:
        y[t] = y[t] + 1.0 / v


def test_guarded_operations_are_silent() -> None:
    found, y = watched(guarded, np.arange(THREADS, dtype=np.float32))
    assert not found
    assert np.isfinite(y).all()


@kernel(grid=1, block=THREADS)
def repeated(x: Slice[f32], y: SliceMut[f32]) -> None:
    """The first trip that overflows is found behind a barrier, in a loop."""
    t = thread_idx.x
    v = x[t]
    for _ in range(2 + i32(x[0])):
        sync_threads()
        v = exp(v)
    y[t] = v


def test_functions_in_loops() -> None:
    assert not watched(repeated, np.full(THREADS, -1, np.float32))[0]
    assert messages(watched(repeated, np.full(THREADS, 3, np.float32))[0]) == ["`exp` gives an infinity of finite numbers"]


# ------------------------------------------------------------------------------------------------------------ numbers of several lanes


def summing(applied: Any, element: Any) -> Kernel:
    @kernel(grid=1, block=THREADS)
    def sums(x: Slice[element], y: SliceMut[element]) -> None:
        y[thread_idx.x] = applied(x[thread_idx.x])

    return sums


@function
def of_halves(value: Any) -> Any:
    return warp_sum(value, mask=u32(0xFFFF) if lane_index() < 16 else u32(0xFFFF0000))


SUMS: dict[str, tuple[Any, int]] = {
    "warp_sum": (warp_sum, 32),
    "of_halves": (of_halves, 16),
    "block_sum": (block_sum, THREADS),
    "warp_prefix_sum": (warp_prefix_sum, 32),
    "block_prefix_sum": (block_prefix_sum, THREADS),
}
"""Each with the number of lanes whose numbers it adds."""


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("element", [f32, f64, f16], ids=str)
def test_sums_of_lanes(name: str, element: Any) -> None:
    applied, lanes = SUMS[name]
    run, of = summing(applied, element), element.numpy
    largest = float(np.finfo(of).max)
    x = np.full(THREADS, largest / lanes / 2, of)
    found, y = watched(run, x)
    assert not found
    assert np.isfinite(y).all()
    x = np.full(THREADS, largest / lanes * 2, of)
    found, y = watched(run, x)
    said = messages(found)
    assert np.isinf(y).any()
    assert len(said) == 1
    assert said[0].endswith("gives an infinity of finite numbers")
    (x[::2], x[1::2]) = INF, INF  # all were given
    assert not watched(run, x)[0]
    x[::4] = -INF
    assert messages(watched(run, x)[0])[0].endswith("gives a NaN and was given none")
    x[:] = NAN
    assert not watched(run, x)[0]


def test_a_lane_has_a_sum_of_its_own() -> None:
    """In each warp the last lane was given an infinity, the sums of those below it become one."""
    x = np.full(THREADS, 3e37, np.float32)
    x[31::32] = INF
    (finding,) = watched(summing(warp_prefix_sum, f32), x)[0]
    assert finding.spot.thread == (11, 0, 0)  # 12 times 3e37
    x[:] = 0
    x[31::32] = INF
    assert not watched(summing(warp_prefix_sum, f32), x)[0]


def test_halves_have_sums_of_their_own() -> None:
    x = np.full(THREADS, 3e37, np.float32)
    x[:16] = INF
    (finding,) = watched(summing(of_halves, f32), x)[0]
    assert finding.spot.thread == (16, 0, 0)


def added_to(change: Any, element: Any, shared: bool) -> Kernel:
    @kernel(grid=1, block=THREADS)
    def changes(x: Slice[element], y: SliceMut[element]) -> None:
        if shared:
            s = shared_array(1, element)
            if thread_idx.x == 0:
                s[0] = element(0)
            sync_threads()
            change(s, 0, x[thread_idx.x])
            sync_threads()
            if thread_idx.x == 0:
                y[0] = s[0]
        else:
            change(y, 0, x[thread_idx.x])

    return changes


@pytest.mark.parametrize("shared", [False, True], ids=["global", "shared"])
@pytest.mark.parametrize("change", [atomic_add, atomic_sub], ids=["atomic_add", "atomic_sub"])
@pytest.mark.parametrize("element", [f32, f64, f16], ids=str)
def test_atomic_sums(element: Any, change: Any, shared: bool) -> None:
    run, of = added_to(change, element, shared), element.numpy
    largest = float(np.finfo(of).max)
    assert not watched(run, np.full(THREADS, largest / THREADS / 2, of))[0]
    found, y = watched(run, np.full(THREADS, largest / THREADS * 2, of))
    assert np.isinf(y[0])
    name = "atomic_add" if change is atomic_add else "atomic_sub"
    assert messages(found) == [f"`{name}` gives an infinity of finite numbers"]
    assert found[0].count == 1  # those behind it find one there
    assert not watched(run, np.full(THREADS, INF, of))[0]
    x = np.resize(np.array([INF, -INF], of), THREADS)
    assert messages(watched(run, x)[0]) == [f"`{name}` gives a NaN and was given none"]


def product_of_matrices(of: str, shape: str, sums: Any) -> Kernel:
    """A is all a, B all b, C all c, given as the words of registers or as floats."""
    type_ = {"f16": f16, "bf16": bf16}.get(of, of)

    @kernel(grid=1, block=32)
    def multiplies(c: Slice[sums], a: Slice[u32], b: Slice[u32], y: SliceMut[sums]) -> None:
        t = thread_idx.x
        left = (a[t], a[t], a[t], a[t])
        right = (b[t], b[t])
        if sums == f32:
            y[t] = mma(left, right, (c[t], c[t], c[t], c[t]), shape, type_)[3]
        else:
            y[t] = mma(left, right, (c[t], c[t]), shape, type_)[1]

    return multiplies


WORDS = {
    "f16": {1.0: 0x3C003C00, 0.0: 0, 6e4: 0x7B537B53, INF: 0x7C007C00, NAN: 0x7E007E00},
    "bf16": {1.0: 0x3F803F80, 0.0: 0, 1e38: 0x7E967E96, INF: 0x7F807F80, NAN: 0x7FC07FC0},
    "tf32": {1.0: 0x3F800000, 0.0: 0, 1e38: 0x7E967000, INF: 0x7F800000, NAN: 0x7FC00000},
    "e4m3": {1.0: 0x38383838, 0.0: 0, 448.0: 0x7E7E7E7E, NAN: 0x7F7F7F7F},
    "e5m2": {1.0: 0x3C3C3C3C, 0.0: 0, 5e4: 0x7B7B7B7B, INF: 0x7C7C7C7C, NAN: 0x7F7F7F7F},
}
"""Registers whose numbers are all the same, by that number."""


@pytest.mark.parametrize("of", WORDS)
def test_products_of_matrices(of: str) -> None:
    run = product_of_matrices(of, {"tf32": "m16n8k8", "e4m3": "m16n8k32", "e5m2": "m16n8k32"}.get(of, "m16n8k16"), f32)
    words = WORDS[of]
    for a in words:
        for b in words:
            for c in (0.0, 3e38, INF, NAN):
                given = a, b, c
                found, y = watched(run, np.full(32, c, np.float32), np.full(32, words[a], np.uint32), np.full(32, words[b], np.uint32))
                result = float(y[0])
                arises = not any(map(math.isnan, given)) if math.isnan(result) else math.isinf(result) and all(map(math.isfinite, given))
                said = messages(found)
                assert len(said) == arises, (given, result, said)
                assert not arises or said[0].startswith("`mma` gives a")


def test_products_that_are_summed_in_half_precision() -> None:
    run = product_of_matrices("f16", "m16n8k16", u32)
    words = {number: np.full(32, word, np.uint32) for number, word in WORDS["f16"].items()}
    assert not watched(run, words[0.0], words[1.0], words[1.0])[0]
    assert not watched(run, words[INF], words[1.0], words[1.0])[0]
    assert messages(watched(run, words[0.0], words[6e4], words[1.0])[0]) == ["`mma` gives an infinity of finite numbers"]
    assert messages(watched(run, words[0.0], words[INF], words[0.0])[0]) == ["`mma` gives a NaN and was given none"]
