"""`kdsl.fast` on every device: within the errors that the documentation gives, with the values that it has at the ends of the range; and on the CPU with the
bits of the accurate functions.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import mathematics_reference as reference
import numpy as np
import pytest
from mathematics_reference import Array

import kdsl
import kdsl.testing
from kdsl import DisjointSlice, Slice, bf16, elements, f16, f32, fast, kernel, thread_index

DEVICES = pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
N = TypeVar("N", f16, bf16, f32)

ACCURATE: dict[str, Callable[..., Array]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "log10": np.log10, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x, "divide": np.divide, "pow": np.power,
}  # fmt: skip
"""In float64."""


def apply(name: str, device: Any, *operands: Array, of: Any = f32) -> Array:
    """The values of `fast.NAME` on a device."""
    function = getattr(fast, name)

    @kernel(grid=elements("y"), requires=("len(x) == len(y)",))
    def one(y: DisjointSlice[N], x: Slice[N]) -> None:
        i = thread_index()
        if i in y:
            y[i] = function(x[i])

    @kernel(grid=elements("y"), requires=("len(a) == len(y)", "len(b) == len(y)"))
    def two(y: DisjointSlice[f32], a: Slice[f32], b: Slice[f32]) -> None:
        i = thread_index()
        if i in y:
            y[i] = function(a[i], b[i])

    y = device.full(operands[0].size, np.nan, of)
    (one if len(operands) == 1 else two)(y, *(device.array(operand) for operand in operands))
    result: Array = y.numpy()
    return result


def signed(low: float, high: float, seed: int) -> Array:
    """Numbers of both signs, their logarithms spread evenly."""
    rng = np.random.default_rng(seed)
    return (rng.choice([-1.0, 1.0], 4000) * np.exp(rng.uniform(np.log(low), np.log(high), 4000))).astype(np.float32)


def operands_of(name: str) -> tuple[Array, ...]:
    """Arguments whose results are floats, subnormals among them."""
    rng = np.random.default_rng(5)
    near_one = rng.uniform(0.5, 2, 1000).astype(np.float32)
    positive = np.concatenate([np.abs(signed(1e-45, 3e38, 6)), near_one])
    match name:
        case "exp":
            return (rng.uniform(-100, 88, 4000).astype(np.float32),)
        case "exp2":
            return (rng.uniform(-148, 127, 4000).astype(np.float32),)
        case "log" | "log2" | "log10" | "sqrt" | "rsqrt":
            return (positive,)
        case "sin" | "cos":
            return (np.concatenate([rng.uniform(-6.28, 6.28, 2000), rng.uniform(-314, 314, 2000), signed(1e-45, 1, 7)]).astype(np.float32),)
        case "reciprocal":
            return (signed(4e-39, 3e38, 8),)
        case "divide":
            return signed(1e-18, 1e18, 9), signed(1e-18, 1e18, 10)
        case "pow":
            with np.errstate(divide="ignore"):
                exponent = rng.uniform(-80, 80, positive.size) / np.log(positive.astype(float))
            return positive, np.clip(exponent, -200, 200).astype(np.float32)
        case _:
            return (np.concatenate([signed(1e-45, 100, 11), np.linspace(-10, 10, 2000, dtype=np.float32)]),)


def allowed(name: str, operands: tuple[Array, ...], exact: Array) -> Array:
    """The error that the documentation allows."""
    x = operands[0].astype(float)
    ulp = np.spacing(np.abs(exact).astype(np.float32)).astype(float)
    middle = (x > 0.5) & (x < 2)
    size = np.abs(exact)
    match name:
        case "exp":
            return (2.5 + 1.3 * np.abs(x)) * ulp
        case "exp2":
            return 2.5 * ulp
        case "log":
            return np.where(middle, 2**-22, 2**-21.6 * size)
        case "log2":
            return np.where(middle, 2**-22, 2**-22 * size)
        case "log10":
            return np.where(middle, 2**-23, 2**-21.4 * size)
        case "sin" | "cos":
            return np.where(np.abs(x) <= 2 * np.pi, 2**-20.5, 2**-14.7)
        case "tanh":
            return np.maximum(2**-11 * size, 2.0**-149)
        case "sqrt":
            return 2**-23 * size
        case "rsqrt":
            return 2**-22.9 * size
        case "reciprocal":
            return ulp
        case "divide":
            return 2 * ulp
        case _:
            y = operands[1].astype(float)
            power = np.abs(y * np.log(x))
            return (2.5 + np.where(middle, 2.8 * np.abs(y) + 1.1 * power, 5.1 * power)) * ulp


@DEVICES
@pytest.mark.parametrize("name", fast.__all__)
def test_errors_are_within_what_is_documented(name: str, device: Any) -> None:
    operands = operands_of(name)
    result = apply(name, device, *operands).astype(float)
    exact = ACCURATE[name](*(operand.astype(float) for operand in operands))
    ratio = np.abs(result - exact) / allowed(name, operands, exact)
    worst = int(np.argmax(np.where(np.isnan(ratio), np.inf, ratio)))
    shown = ", ".join(repr(operand[worst].item()) for operand in operands)
    assert ratio[worst] <= 1, f"{name}({shown}) is {result[worst]!r}, exactly {exact[worst]!r}: {ratio[worst]:.3f} of the error allowed"


@DEVICES
@pytest.mark.parametrize("of", [f16, bf16], ids=str)
@pytest.mark.parametrize("name", ["exp2", "tanh"])
def test_sixteen_bits(name: str, of: Any, device: Any) -> None:
    """Of all arguments whose results are in the range of the type."""
    if of is bf16 and device.target in ("sm_80", "sm_86", "sm_87", "sm_89"):
        pytest.skip("needs compute capability 9.0")
    x = np.arange(1 << 16, dtype=np.uint16).view(of.numpy)
    with np.errstate(invalid="ignore"):
        x = x[np.abs(x) < (15 if of is f16 else 120)]
    wide = x.astype(float)
    result = apply(name, device, x, of=of).astype(float)
    if name == "tanh":
        # PTX ISA: 2^-8 of bf16; on an H200 it is 2.5e-7 more, at ±0.746
        np.testing.assert_allclose(result, np.tanh(wide), rtol=0, atol=2**-10.987 if of is f16 else 2**-8 + 2**-21)
    else:
        # a unit in the last place of a subnormal of f16; bf16 takes them for zero
        np.testing.assert_allclose(result, np.exp2(wide), rtol=2**-9.9 if of is f16 else 2**-7, atol=2.0**-24 if of is f16 else 2.0**-126)


INFINITY, NAN = np.inf, np.nan
ENDS: dict[str, dict[float, float]] = {
    "exp": {-INFINITY: 0.0, 0.0: 1.0, INFINITY: INFINITY, NAN: NAN},
    "exp2": {-INFINITY: 0.0, 0.0: 1.0, INFINITY: INFINITY, NAN: NAN},
    "log": {-INFINITY: NAN, -1.0: NAN, 0.0: -INFINITY, INFINITY: INFINITY, NAN: NAN},
    "log2": {-INFINITY: NAN, -1.0: NAN, 0.0: -INFINITY, INFINITY: INFINITY, NAN: NAN},
    "log10": {-INFINITY: NAN, -1.0: NAN, 0.0: -INFINITY, INFINITY: INFINITY, NAN: NAN},
    "sin": {-INFINITY: NAN, 0.0: 0.0, INFINITY: NAN, NAN: NAN},
    "cos": {-INFINITY: NAN, 0.0: 1.0, INFINITY: NAN, NAN: NAN},
    "tanh": {-INFINITY: -1.0, 0.0: 0.0, INFINITY: 1.0, NAN: NAN},
    "sqrt": {-INFINITY: NAN, -1.0: NAN, 0.0: 0.0, INFINITY: INFINITY, NAN: NAN},
    "rsqrt": {-INFINITY: NAN, -1.0: NAN, 0.0: INFINITY, INFINITY: 0.0, NAN: NAN},
    "reciprocal": {-INFINITY: -0.0, 0.0: INFINITY, INFINITY: 0.0, NAN: NAN},
}
"""Results at the ends of the range (PTX ISA, the tables of the instructions)."""


@DEVICES
@pytest.mark.parametrize("name", ENDS)
def test_ends_of_the_range(name: str, device: Any) -> None:
    result = apply(name, device, np.array(list(ENDS[name]), np.float32))
    np.testing.assert_array_equal(result, np.array(list(ENDS[name].values()), np.float32))


@DEVICES
def test_signs_of_zeros_are_kept(device: Any) -> None:
    for name in ("sin", "tanh", "sqrt"):
        assert np.signbit(apply(name, device, np.array([0.0, -0.0], np.float32))).tolist() == [False, True]


@pytest.mark.parametrize("name", fast.__all__)
def test_on_the_cpu_it_is_the_accurate_function(name: str) -> None:
    cpu = kdsl.device("cpu")
    operands = reference.pairs("pow", "f32", 500, 3) if name in ("divide", "pow") else (reference.arguments("f32", 1000, 3),)
    result = apply(name, cpu, *operands)
    with np.errstate(all="ignore"):
        one = np.float32(1)
        exact = {
            "sqrt": lambda x: np.sqrt(x), "rsqrt": lambda x: one / np.sqrt(x), "reciprocal": lambda x: one / x, "divide": lambda x, y: x / y,
        }.get(name, lambda *x: reference.run(cpu, name, x))(*operands)  # fmt: skip
    numbers = ~np.isnan(exact)
    assert np.isnan(result[~numbers]).all()
    np.testing.assert_array_equal(result[numbers].view(np.uint32), exact[numbers].view(np.uint32))


@DEVICES
def test_vectors_literals_and_mixed_types(device: Any) -> None:
    @kernel(grid=1, block=32)
    def mixed(y: DisjointSlice[f32], x: Slice[kdsl.f32x4], h: Slice[f16]) -> None:
        i = thread_index()
        if i in y:
            quarters = fast.reciprocal(x[i])
            y[i] = quarters[0] + quarters[3] + fast.divide(h[i], x[i][1]) + fast.sqrt(4) + fast.divide(1.0, 2.0)

    x = np.array([2.0, 4.0, 8.0, 0.25] * 32, np.float32)
    y = device.full(32, np.nan, f32)
    mixed(y, device.array(x), device.array(np.full(32, 6.0, np.float16)))
    np.testing.assert_allclose(y.numpy(), 0.5 + 4 + 1.5 + 2 + 0.5, rtol=1e-6)
