"""The grid of types and operators, written down a second time: where two types meet, operands, and what NumPy says of them.

Integers are exact. Floats of 32 and 64 bits are IEEE's, and NumPy's own; those of 16 bits are computed in 64 and rounded once (`rounding.Narrow`), which is as
good as once for sums, products, quotients and roots (Figueroa 1995).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt
from rounding import BF16, F16, Narrow

Array = npt.NDArray[Any]

_TABLE: Final = """
        i8    i16   i32   i64   u8    u16   u32   u64   f16   bf16  f32   f64
  i8    i8    i16   i32   i64   i16   i32   i64   -     f16   bf16  f32   f64
  i16   i16   i16   i32   i64   i16   i32   i64   -     -     -     f32   f64
  i32   i32   i32   i32   i64   i32   i32   i64   -     -     -     -     f64
  i64   i64   i64   i64   i64   i64   i64   i64   -     -     -     -     -
  u8    i16   i16   i32   i64   u8    u16   u32   u64   f16   bf16  f32   f64
  u16   i32   i32   i32   i64   u16   u16   u32   u64   -     -     f32   f64
  u32   i64   i64   i64   i64   u32   u32   u32   u64   -     -     -     f64
  u64   -     -     -     -     u64   u64   u64   u64   -     -     -     -
  f16   f16   -     -     -     f16   -     -     -     f16   f32   f32   f64
  bf16  bf16  -     -     -     bf16  -     -     -     f32   bf16  f32   f64
  f32   f32   f32   -     -     f32   f32   -     -     f32   f32   f32   f64
  f64   f64   f64   f64   -     f64   f64   f64   -     f64   f64   f64   f64
"""
_HEAD, *_ROWS = [line.split() for line in _TABLE.strip().splitlines()]
INTEGERS: Final = tuple(_HEAD[:8])
FLOATS: Final = tuple(_HEAD[8:])
NUMBERS: Final = (*INTEGERS, *FLOATS)
TYPES: Final = ("bool", *NUMBERS)
MEETS: Final[dict[tuple[str, str], str | None]] = {
    **{(row[0], other): found if found != "-" else None for row in _ROWS for other, found in zip(_HEAD, row[1:], strict=True)},
    **{pair: None for number in NUMBERS for pair in (("bool", number), (number, "bool"))},
    ("bool", "bool"): "bool",
}
"""The type in which two types meet; None where the language refuses them."""
NUMPY: Final[dict[str, Any]] = {
    "bool": np.bool_, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    **{name: np.dtype({"i": "int", "u": "uint"}[name[0]] + name[1:]).type for name in INTEGERS},
}  # fmt: skip
NARROW: Final[dict[str, Narrow]] = {"f16": F16, "bf16": BF16}


# ------------------------------------------------------------------------------------------------------------------------- operands


def values(of: str) -> Array:
    """What is special in a type: the ends, powers of two and their neighbours, subnormals, ties, infinities, a NaN."""
    if of == "bool":
        return np.array([False, True])
    if of in INTEGERS:
        bounds = np.iinfo(NUMPY[of])
        powers = [
            sign * 2**n + step
            for n in range(bounds.bits)
            for step in (-1, 0, 1)
            for sign in (1, -1)
            if n < 10 or n % 8 in (0, 7) or step == 0
        ]
        some = np.random.default_rng(bounds.bits).integers(bounds.min, bounds.max, 6, NUMPY[of], endpoint=True).tolist()
        plain = [*range(-9, 10), 100, -100, bounds.bits + 1, bounds.min, bounds.min + 1, bounds.max]
        return np.array(sorted({n for n in (*plain, *powers, *some) if bounds.min <= n <= bounds.max}), NUMPY[of])
    limits = ml_dtypes.finfo(NUMPY[of])
    one, unit = 1.0, float(limits.eps)
    ends = [float(v) for v in (limits.smallest_subnormal, limits.smallest_normal, limits.max)]
    positive = [
        0.0, one, one + unit, one - unit / 2, 0.5, 1.5, 2.0, 2.5, 3.0, 7.0, 8.0, 0.1, 1 / 3, 100.0, 255.0, 1 / unit, 1 / unit + 1, 2 / unit, np.inf, np.nan,
        *ends, ends[0] * 3, ends[1] - ends[0], ends[1] * 1.5, ends[2] / 2, ends[2] * (1 - unit), float(np.sqrt(ends[2])), float(np.sqrt(ends[1])),
    ]  # fmt: skip
    size = np.dtype(NUMPY[of]).itemsize
    bits = np.random.default_rng(size).integers(0, 1 << 8 * size, 8, np.dtype(f"u{size}"), endpoint=False)
    with np.errstate(all="ignore"):
        return np.concatenate([np.array([*positive, *(-v for v in positive)]).astype(NUMPY[of]), bits.view(NUMPY[of])])


def pairs(a: str, b: str) -> tuple[Array, Array]:
    """Operands: all pairs of special values, of types of 8 bits all pairs there are."""
    if a[1:] == b[1:] == "8":
        first, second = (np.arange(256).astype(np.uint8).view(NUMPY[of]) for of in (a, b))
    else:
        first, second = values(a), values(b)
    return np.repeat(first, second.size), np.tile(second, first.size)


def every(of: str) -> Array:
    """All values of a type of up to 16 bits."""
    if of == "bool":
        return np.array([False, True])
    size = np.dtype(NUMPY[of]).itemsize
    return np.arange(1 << 8 * size).astype(f"u{size}").view(NUMPY[of])


# ------------------------------------------------------------------------------------------------------------------------ reference


def meet(a: Array, b: Array, of: str) -> tuple[Array, Array]:
    """Two operands in the type where they meet; no value changes."""
    with np.errstate(all="ignore"):
        return a.astype(NUMPY[of]), b.astype(NUMPY[of])


def rounded(of: str, exact: Array) -> Array:
    """Doubles in a float type, rounded once."""
    with np.errstate(all="ignore"):
        return (NARROW[of].rounded(exact) if of in NARROW else exact).astype(NUMPY[of])


def _once(operation: Callable[..., Array]) -> Callable[..., Array]:
    """An operation of NumPy's, for 16 bits in 64 and rounded."""

    def computed(of: str, *operands: Array) -> Array:
        if of in NARROW:
            return rounded(of, operation(*(v.astype(np.float64) for v in operands)))
        return np.asarray(operation(*operands), NUMPY[of])

    return computed


def _division(operation: Callable[..., Array]) -> Callable[..., Array]:
    """`//` or `%` of floats: NumPy's is CPython's, but for a quotient by zero. Of 16 bits in f32."""

    def computed(of: str, a: Array, b: Array) -> Array:
        wide = [v.astype(np.float32) if of in NARROW else v for v in (a, b)]
        result = np.where(wide[1] == 0, np.nan, operation(*wide))
        return rounded(of, result.astype(np.float64)) if of in NARROW else result.astype(NUMPY[of])

    return computed


def _extreme(name: str) -> Callable[..., Array]:
    """`min`, `max` (a NaN if either is), `fmin`, `fmax` (a NaN is left out); -0 is below 0."""

    def computed(of: str, a: Array, b: Array) -> Array:
        if of in INTEGERS:
            return np.asarray((np.minimum if name == "min" else np.maximum)(a, b))
        below = (a < b) | ((a == b) & np.signbit(a))
        chosen = np.where(below == name.endswith("min"), a, b)
        if name in ("min", "max"):
            return np.where(np.isnan(a) | np.isnan(b), NUMPY[of](np.nan), chosen)
        return np.where(np.isnan(a), b, np.where(np.isnan(b), a, chosen))

    return computed


def power(a: Array, b: Array) -> Array:
    """Integers: squares and products, modulo two to the width; 0 for a negative exponent."""
    base, result = a.astype(np.uint64), np.ones(a.size, np.uint64)
    for place in range(8 * b.itemsize - (b.dtype.kind == "i")):
        result = np.where(b >> b.dtype.type(place) & b.dtype.type(1), result * base, result)
        base = base * base
    return np.where(b < 0, np.uint64(0), result).astype(a.dtype)


def real_power(of: str, a: Array, n: int) -> Array:
    """Floats to a literal power: products of squares, the lowest bit of the exponent first, each rounded; the reciprocal for a negative one."""
    multiply, divide = _once(np.multiply), _once(np.true_divide)
    one = np.ones(a.size, NUMPY[of])
    if n < 0:
        return divide(of, one, real_power(of, a, -n))
    result: Array | None = None
    while n:
        if n & 1:
            result = a if result is None else multiply(of, result, a)
        n >>= 1
        if n:
            a = multiply(of, a, a)
    return one if result is None else result


def _exactly(operation: Callable[..., Array]) -> Callable[..., Array]:
    return lambda of, a, b: np.asarray(operation(a, b), NUMPY[of])


INTEGER_OPERATORS: Final[dict[str, Callable[[str, Array, Array], Array]]] = {
    "+": _exactly(np.add), "-": _exactly(np.subtract), "*": _exactly(np.multiply), "//": _exactly(np.floor_divide), "%": _exactly(np.remainder),
    "&": _exactly(np.bitwise_and), "|": _exactly(np.bitwise_or), "^": _exactly(np.bitwise_xor),
    "<<": _exactly(np.left_shift), ">>": _exactly(np.right_shift), "min": _extreme("min"), "max": _extreme("max"),
}  # fmt: skip
"""NumPy's integers wrap, floor, give 0 for a division by zero, and shift by any amount as the language does."""
REAL_OPERATORS: Final[dict[str, Callable[[str, Array, Array], Array]]] = {
    "+": _once(np.add), "-": _once(np.subtract), "*": _once(np.multiply), "/": _once(np.true_divide),
    "//": _division(np.floor_divide), "%": _division(np.remainder),
    "min": _extreme("min"), "max": _extreme("max"), "fmin": _extreme("fmin"), "fmax": _extreme("fmax"),
}  # fmt: skip
COMPARISONS: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


def assert_bits(found: Array, wanted: Array, what: str, *operands: Array) -> None:
    """The same bits; any NaN is like any other."""
    assert found.dtype == wanted.dtype, f"{what}: {found.dtype}, not {wanted.dtype}"
    bits = f"u{found.dtype.itemsize}"
    same = found.view(bits) == wanted.view(bits)
    if found.dtype.kind not in "iub":
        with np.errstate(invalid="ignore"):
            same |= (found != found) & (wanted != wanted)
    if not same.all():
        rows = [
            f"  {what} of {', '.join(repr(o[p]) for o in operands)} is {found[p]!r}, not {wanted[p]!r}" for p in np.flatnonzero(~same)[:6]
        ]
        raise AssertionError(f"{what}: {(~same).sum()} of {same.size} differ\n" + "\n".join(rows))


def poisoned(device: Any, of: str, size: int) -> Any:
    """An array of which every element must be written."""
    return device.array(np.full(size * np.dtype(NUMPY[of]).itemsize, 0xA5, np.uint8).view(NUMPY[of]))
