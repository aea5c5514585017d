"""What the functions of the mathematics library are measured against, in NumPy: references, arguments, distances. The benchmark that sweeps uses it too.

References compute in the type of their arguments: float64 for f32, longdouble for f64 (64 bits of precision on x86-64, 113 on AArch64).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import kdsl
from kdsl import DisjointSlice, Slice, elements, f32, f64, kernel, thread_index

Array = NDArray[Any]
F = TypeVar("F", f32, f64)
L = np.longdouble
SQRT_PI = np.sqrt(L(np.pi) + L(1.2246467991473532e-16))


def exp10(x: Array) -> Array:
    """10 ** x, which NumPy has as a power only."""
    result: Array = np.power(x.dtype.type(10), x)
    return result


def erf(x: Array) -> Array:
    """Error function: the series exp(-x**2) sum of 2**k x**(2k+1) / (2k+1)!!, whose terms are all positive (Abramowitz and Stegun 7.1.6)."""
    limit = 7.0  # 1 in every precision from there on
    a = np.minimum(np.abs(x), x.dtype.type(limit))
    term, total = a.copy(), a.copy()
    for k in range(1, 190):
        term = term * (2 * a * a / (2 * k + 1))
        total = total + term
    return np.copysign(np.where(a == limit, 1, total * np.exp(-a * a) * (2 / SQRT_PI).astype(x.dtype)), x)


def erfc(x: Array) -> Array:
    """Complementary error function: from 1 on the continued fraction (Abramowitz and Stegun 7.1.14), with the rounding of x**2 made good."""
    a = np.clip(x, 1, 40)
    fraction = np.zeros_like(a)
    for k in range(320, 0, -1):
        fraction = (k / x.dtype.type(2)) / (a + fraction)
    short = np.rint(a * 2**12) / 2**12
    tail = np.exp(-short * short) * np.exp((short - a) * (short + a)) / ((a + fraction) * SQRT_PI.astype(x.dtype))
    return np.where(x > 1, tail, 1 - erf(np.minimum(x, 1)))


def remainder(x: Array, y: Array) -> Array:
    """IEEE 754's remainder, which is a float64 if both arguments are, also where they have a wider type."""
    defined = np.isfinite(x) & ~np.isnan(y) & (y != 0)
    exact = [math.remainder(*pair) if known else np.nan for *pair, known in zip(x.tolist(), y.tolist(), defined, strict=True)]
    return np.array(exact, x.dtype)


ONE: dict[str, Callable[..., Array]] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": exp10, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "erf": erf, "erfc": erfc, "cbrt": np.cbrt,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
}  # fmt: skip
"""Functions of one argument."""
TWO: dict[str, Callable[..., Array]] = {"atan2": np.arctan2, "pow": np.power, "hypot": np.hypot, "fmod": np.fmod, "remainder": remainder}
"""Functions of two arguments."""
FLOATS: dict[str, tuple[Any, Any, Any]] = {"f32": (np.float32, np.uint32, np.float64), "f64": (np.float64, np.uint64, np.longdouble)}
"""Per type: NumPy's, the unsigned integer of its width, the type of the reference."""


def kernel_of_one(function: Any) -> Any:
    """A kernel y = function(x) over elements."""

    @kernel(grid=elements("y"), requires=("len(x) == len(y)",))
    def apply(y: DisjointSlice[F], x: Slice[F]) -> None:
        i = thread_index()
        if i in y:
            y[i] = function(x[i])

    return apply


def kernel_of_two(function: Any) -> Any:
    """A kernel y = function(a, b) over elements."""

    @kernel(grid=elements("y"), requires=("len(a) == len(y)", "len(b) == len(y)"))
    def apply(y: DisjointSlice[F], a: Slice[F], b: Slice[F]) -> None:
        i = thread_index()
        if i in y:
            y[i] = function(a[i], b[i])

    return apply


def run(device: Any, name: str, operands: Sequence[Array]) -> Array:
    """The values of `kdsl.NAME` on a device."""
    return run_kernel(device, (kernel_of_one if len(operands) == 1 else kernel_of_two)(getattr(kdsl, name)), operands)


def run_kernel(device: Any, apply: Any, operands: Sequence[Array]) -> Array:
    """What a kernel of `kernel_of_one` or `kernel_of_two` writes."""
    y = device.full(operands[0].size, np.nan, f32 if operands[0].dtype == np.float32 else f64)
    apply(y, *(device.array(operand) for operand in operands))
    result: Array = y.numpy()
    return result


def expected(name: str, operands: Sequence[Array]) -> Array:
    """The values of the reference."""
    with np.errstate(all="ignore"):
        wider = np.float64 if operands[0].dtype == np.float32 else np.longdouble
        return (ONE | TWO)[name](*(operand.astype(wider) for operand in operands))


def ulps(result: Array, exact: Array) -> Array:
    """Distance in units of the last place of the float that the exact value rounds to. Infinite where only one of them is a NaN, or an infinity beyond the
    largest float, and where the sign of a zero is wrong; 0 where both are NaN, or the same infinity.
    """
    limits = np.finfo(result.dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(result.dtype)
        unit = np.spacing(np.minimum(np.abs(rounded), limits.max)).astype(exact.dtype)
        distance = np.abs(result.astype(exact.dtype) - exact) / unit
    same = (np.isinf(rounded) & (result == rounded)) | (np.isnan(result) & np.isnan(exact))
    wrong_zero = (result == 0) & (exact == 0) & (np.signbit(result) != np.signbit(exact))
    return np.where(same, 0, np.where(np.isnan(distance) | wrong_zero, np.inf, distance))


def special_values(of: str) -> Array:
    """Zeros, infinities, a NaN, the ends of the range, small integers and halves, of both signs."""
    numpy_type, _, _ = FLOATS[of]
    limits = np.finfo(numpy_type)
    sizes = [0, 1, 0.5, 2, 3, 10, 1000, np.inf, limits.max, limits.tiny, limits.smallest_subnormal, limits.tiny - limits.smallest_subnormal]
    positive = np.array(sizes, numpy_type)
    return np.concatenate([positive, -positive, np.array([np.nan], numpy_type)])


def arguments(of: str, count: int, seed: int) -> Array:
    """Special values, and `count` arguments of each kind: random bits, around 0, around 1, where exponentials are finite, and where a careless
    reduction of angles loses everything.
    """
    numpy_type, unsigned, _ = FLOATS[of]
    rng = np.random.default_rng(seed)
    sign = rng.choice([-1.0, 1.0], count)
    return np.concatenate([
        special_values(of),
        rng.integers(0, np.iinfo(unsigned).max, count, dtype=unsigned, endpoint=True).view(numpy_type),
        *(rng.uniform(-width, width, count).astype(numpy_type) for width in (1, 3, 10, 30, 110, 760)),
        (sign * np.exp(rng.uniform(-40, 20, count))).astype(numpy_type),
        (1 + sign * np.exp(rng.uniform(-40, 0, count))).astype(numpy_type),
        (np.arange(1, count + 1) * (np.pi / 2)).astype(numpy_type),
    ])  # fmt: skip


def pairs(name: str, of: str, count: int, seed: int) -> tuple[Array, Array]:
    """Every pair of special values, random pairs, and such as the function finds hard."""
    special = special_values(of)
    a, b = (grid.ravel() for grid in np.meshgrid(special, special))
    x = arguments(of, count, seed)
    rng = np.random.default_rng(seed + 1)
    left, right = [a, x, x], [b, rng.permutation(x), np.roll(x, 1)]
    if name == "pow":  # powers within the range of the type
        base = np.abs(rng.permutation(x))
        with np.errstate(all="ignore"):
            exponent = rng.uniform(-1, 1, base.size) * (128 if of == "f32" else 1024) / np.log2(base)
        left, right = [*left, base, -base], [*right, exponent.astype(base.dtype), np.rint(exponent).astype(base.dtype)]
    return np.concatenate(left), np.concatenate(right)
