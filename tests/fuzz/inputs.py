"""Arguments for generated programs: random numbers among which the special ones are frequent; and the comparison of results, bit by bit."""

from __future__ import annotations

import ast
import random
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tests.fuzz.arithmetic import BITS, FLOATS, MAXIMUM, MINIMUM
from tests.fuzz.interpret import Parameter

NUMPY: Final = {
    "bool": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32,
    "u64": np.uint64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
_SPECIAL: Final = {
    "f16": (0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 6e-8, -6e-8, 6.1e-5, 6.104e-5, 65504.0, -65504.0, 2048.0, 0.5, 2.5, 255.0),
    "bf16": (0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 9.2e-41, -9.2e-41, 1.17e-38, 3.39e38, -3.39e38, 256.0, 0.5, 2.5, 2147483648.0),
    "f32": (0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-45, -1e-45, 1.1754942e-38, 1.1754944e-38, 3.4028235e38, -3.4028235e38,
            16777216.0, -16777217.0, 2147483648.0, -2147483648.0, 9.223372e18, 0.5, -0.5, 1.5, 2.5, 255.0, 0.1, 1e-20, 1e20),
    "f64": (0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 5e-324, -5e-324, 2.2250738585072014e-308, 2.225073858507201e-308,
            1.7976931348623157e308, -1.7976931348623157e308, 9007199254740993.0, 9.223372036854775807e18, 1.8446744073709552e19, -9.3e18, -2.5, 4294967295.5,
            3.4028235677973366e38, 1e-45, 7e-46, 0.1, 1e-200, 1e200),
}  # fmt: skip


@dataclass
class Arguments:
    """One set of arguments."""

    arrays: dict[str, npt.NDArray[Any]]
    """Views by name; a bool array holds bytes."""
    numbers: dict[str, bool | int | float]
    """Other parameters."""

    def for_interpreter(self) -> dict[str, Any]:
        """Lists and numbers."""
        return {**{name: numbers_of(array) for name, array in self.arrays.items()}, **self.numbers}


def numbers_of(array: npt.NDArray[Any]) -> list[Any]:
    """The elements as Python's numbers."""
    with np.errstate(all="ignore"):
        return [*map(float, array)] if array.dtype == NUMPY["bf16"] else array.tolist()


def scalar(rng: random.Random, of: str) -> bool | int | float:
    """A number of a type."""
    kind = rng.randrange(8)
    if of == "bool":
        return rng.random() < 0.5
    if of in FLOATS:
        if kind < 3:
            value = rng.choice(_SPECIAL[of])
        elif kind < 5:
            value = float(rng.randrange(-9, 10))
        elif kind < 7:
            value = rng.uniform(-10, 10)
        else:
            size = BITS[of] // 8
            value = float(np.frombuffer(rng.randbytes(size), np.dtype(NUMPY[of]))[0])
        return float(NUMPY[of](value))
    if kind == 0:
        return rng.choice((MINIMUM[of], MINIMUM[of] + 1, MAXIMUM[of], MAXIMUM[of] - 1, 0, MAXIMUM[of] // 2 + 1))
    if kind < 5:
        return max(MINIMUM[of], rng.randrange(-5, 12))
    if kind < 7:
        return max(MINIMUM[of], rng.randrange(-100, 127))
    return rng.randrange(MINIMUM[of], MAXIMUM[of] + 1)


def make(parameters: list[Parameter], requires: tuple[str, ...], threads: int, seed: int) -> Arguments:
    """Arguments for a program of so many threads in all, which keep its contract."""
    rng = random.Random(seed)
    lengths: dict[str, int] = {}
    for parameter in parameters:
        if parameter.view == "Slice":
            lengths[parameter.name] = rng.choice((threads, threads + 7, 64, 5, 16, rng.randrange(1, 70), rng.randrange(0, 3)))
        elif parameter.view:
            per_thread = 1 if parameter.view == "DisjointSlice" else 4
            lengths[parameter.name] = max(0, threads * per_thread + rng.choice((0, 0, 0, 3, -2, -threads // 3)))
    for relation in requires:
        compared = ast.parse(relation, mode="eval").body
        assert isinstance(compared, ast.Compare)
        left, right = ast.unparse(compared.left)[4:-1], compared.comparators[0]
        if isinstance(right, ast.Constant):
            assert isinstance(right.value, int)
            lengths[left] = max(lengths[left], right.value)
        else:
            lengths[left] = max(lengths[left], lengths[ast.unparse(right)[4:-1]])
            if isinstance(compared.ops[0], ast.Eq):
                lengths[ast.unparse(right)[4:-1]] = lengths[left]
    arrays: dict[str, npt.NDArray[Any]] = {}
    numbers: dict[str, bool | int | float] = {}
    with np.errstate(all="ignore"):
        for p in parameters:
            if p.view:
                values = [rng.choice((0, 1, 1, 2, 255)) if p.type == "bool" else scalar(rng, p.type) for _ in range(lengths[p.name])]
                arrays[p.name] = np.array(values, NUMPY[p.type])
            else:
                numbers[p.name] = scalar(rng, p.type)
    return Arguments(arrays, numbers)


def difference(name: str, expected: list[Any], got: npt.NDArray[Any]) -> str | None:
    """Where an array differs from what the interpreter has left, or None. NaNs are equal."""
    with np.errstate(all="ignore"):
        wanted = np.array(expected, got.dtype)
        if got.dtype.kind in "iub":
            same = wanted == got
        else:
            bits = f"u{got.dtype.itemsize}"
            same = (wanted.view(bits) == got.view(bits)) | (np.isnan(wanted) & np.isnan(got))
    if same.all():
        return None
    at = int(np.flatnonzero(~same)[0])
    return f"{name}[{at}] is {got[at]!r}, and the interpreter has {wanted[at]!r} ({int((~same).sum())} of {same.size} differ)"
