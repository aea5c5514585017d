"""What the mathematics library gives exactly: results that are floats, signs, classes of numbers, integral quotients and remainders."""

import math
from fractions import Fraction
from typing import Any

import mathematics_reference as reference
import numpy as np
import pytest

import kdsl
import kdsl.mathematics
import kdsl.testing
from kdsl import DisjointSlice, KernelError, Slice, elements, f32, i32, kernel, thread_index
from kdsl.ir.printer import print_kernel

DEVICES = pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
TYPES = pytest.mark.parametrize("of", reference.FLOATS)


def values(device: Any, of: str, name: str, *operands: Any) -> list[float]:
    """`kdsl.NAME` of lists of numbers."""
    numpy_type = reference.FLOATS[of][0]
    result: list[float] = reference.run(device, name, [np.array(operand, numpy_type) for operand in operands]).tolist()
    return result


@DEVICES
@TYPES
def test_results_that_are_floats(of: str, device: Any) -> None:
    lowest, highest = (-149, 127) if of == "f32" else (-1074, 1023)
    powers = [math.ldexp(1.0, n) for n in range(lowest, highest + 1)]
    integers = [float(n) for n in range(lowest, highest + 1)]
    assert values(device, of, "exp2", integers) == powers
    assert values(device, of, "log2", powers) == integers
    tens = range(11 if of == "f32" else 23)  # powers of ten that are exact
    assert values(device, of, "log10", [10.0**n for n in tens]) == [float(n) for n in tens]
    assert values(device, of, "exp10", [float(n) for n in tens]) == [10.0**n for n in tens]
    assert values(device, of, "cbrt", [float(n**3) for n in range(-200, 200)]) == [float(n) for n in range(-200, 200)]
    assert values(device, of, "pow", [float(n) for n in range(1, 60)] * 2, [2.0] * 59 + [3.0] * 59) == [
        *(float(n**2) for n in range(1, 60)),
        *(float(n**3) for n in range(1, 60)),
    ]
    assert values(device, of, "hypot", [3.0, 5.0, -8.0], [-4.0, 12.0, 15.0]) == [5.0, 13.0, 17.0]


@DEVICES
@TYPES
def test_signs_and_classes(of: str, device: Any) -> None:
    numpy_type = reference.FLOATS[of][0]
    x = reference.special_values(of)
    for name, expected in {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}.items():
        function = getattr(kdsl, name)

        @kernel(grid=elements("y"), requires=("len(x) == len(y)",))
        def apply(y: DisjointSlice[i32], x: Slice[reference.F]) -> None:
            i = thread_index()
            if i in y:
                y[i] = i32(function(x[i]))  # noqa: B023

        y = device.full(x.size, -1, i32)
        apply(y, device.array(x))
        np.testing.assert_array_equal(y.numpy() != 0, expected(x))
    a, b = (grid.ravel() for grid in np.meshgrid(x, x))
    result, exact = reference.run(device, "copysign", [a, b]), np.copysign(a, b)
    assert result.dtype == numpy_type
    np.testing.assert_array_equal(result, exact)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(exact))


@DEVICES
@pytest.mark.parametrize("name", ["sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "expm1", "log1p", "erf", "cbrt"])
@TYPES
def test_signs_of_zeros_are_kept(name: str, of: str, device: Any) -> None:
    assert [math.copysign(1.0, v) for v in values(device, of, name, [0.0, -0.0])] == [1.0, -1.0]


def quotient_kernel(which: str) -> Any:
    """y = a // b, or y = a % b."""
    floor_division = which == "//"

    @kernel(grid=elements("y"), requires=("len(a) == len(y)", "len(b) == len(y)"))
    def apply(y: DisjointSlice[reference.F], a: Slice[reference.F], b: Slice[reference.F]) -> None:
        i = thread_index()
        if i in y:
            if floor_division:
                y[i] = a[i] // b[i]
            else:
                y[i] = a[i] % b[i]

    return apply


@DEVICES
@TYPES
def test_float_division_is_python_s(of: str, device: Any) -> None:
    a, b = reference.pairs("fmod", of, 300, 23)
    quotient = reference.run_kernel(device, quotient_kernel("//"), [a, b])
    remainder = reference.run_kernel(device, quotient_kernel("%"), [a, b])
    raises = (b == 0) | np.isinf(a) | np.isnan(a) | np.isnan(b)
    assert np.isnan(remainder[raises]).all()
    assert np.isnan(quotient[raises]).all()
    a, b, quotient, remainder = a[~raises], b[~raises], quotient[~raises], remainder[~raises]
    with np.errstate(all="ignore"):
        # NumPy's scalars follow Python's algorithm, each in its own precision
        expected = [(x // y, x % y) for x, y in zip(a, b, strict=True)]
    for got, wanted in ((quotient, [e[0] for e in expected]), (remainder, [e[1] for e in expected])):
        exact = np.array(wanted, a.dtype)
        np.testing.assert_array_equal(got, exact)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(exact))


def test_remainder_of_the_largest_by_the_smallest_is_exact() -> None:
    for of in reference.FLOATS:
        limits = np.finfo(reference.FLOATS[of][0])
        x, y = float(limits.max), 3 * float(limits.smallest_subnormal)
        assert values(kdsl.device("cpu"), of, "fmod", [x], [y]) == [float(Fraction(x) % Fraction(y))]


@DEVICES
@TYPES
def test_nearest_remainder_of_ties_and_of_the_ends_of_the_range(of: str, device: Any) -> None:
    limits = np.finfo(reference.FLOATS[of][0])
    large, small = float(limits.max), float(limits.smallest_subnormal)
    x = [1.0, 3.0, 5.0, -3.0, 2.0, -2.0, large, large, 3 * small, small, -small]
    y = [2.0, 2.0, -2.0, 2.0, 2.0, 2.0, large / 2, math.inf, 2 * small, 2 * small, 3 * small]
    found = values(device, of, "remainder", x, y)
    assert found == [1.0, -1.0, 1.0, 1.0, 0.0, -0.0, 0.0, large, -small, small, -small]
    assert [math.copysign(1.0, v) for v in found[4:6]] == [1.0, -1.0]


def test_powers_are_there_as_an_operator() -> None:
    @kernel(grid=elements("y"), requires=("len(x) == len(y)",))
    def apply(y: DisjointSlice[f32], x: Slice[f32]) -> None:
        i = thread_index()
        if i in y:
            y[i] = x[i] ** x[i] + 2.0 ** x[i]

    x = np.array([0.5, 1.0, 2.5, 3.0], np.float32)
    np.testing.assert_allclose(reference.run_kernel(kdsl.device("cpu"), apply, [x]), x**x + 2**x, rtol=3e-7)


@pytest.mark.parametrize("name", [*reference.ONE, *reference.TWO, "copysign", "isnan"])
def test_integers_have_to_be_converted(name: str) -> None:
    function = getattr(kdsl, name)
    two = name in reference.TWO or name == "copysign"

    @kernel(grid=elements("y"), requires=("len(n) == len(y)",))
    def apply(y: DisjointSlice[f32], n: Slice[i32]) -> None:
        i = thread_index()
        if i in y:
            y[i] = f32(function(n[i], n[i]) if two else function(n[i]))

    with pytest.raises(KernelError, match=rf"{name}\(f32\(n\[i\]\){', f32' if two else ''}"):
        apply.ir()


@pytest.mark.parametrize("name", [*reference.ONE, *reference.TWO, "modulo", "floor_divide"])
def test_contraction_turned_off_changes_nothing(name: str) -> None:
    function = getattr(kdsl.mathematics, name)
    two = name not in reference.ONE

    def text(contract: bool) -> str:
        @kernel(grid=elements("y"), requires=("len(a) == len(y)", "len(b) == len(y)"), contract=contract)
        def apply(y: DisjointSlice[f32], a: Slice[f32], b: Slice[f32]) -> None:
            i = thread_index()
            if i in y:
                y[i] = function(a[i], b[i]) if two else function(a[i])

        return print_kernel(apply.ir())

    assert text(contract=False) == text(contract=True)
