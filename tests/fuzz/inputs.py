"""Arguments for generated programs: random numbers among which the special ones are frequent; and the comparison of results, bit by bit."""

from __future__ import annotations

import ast
import random
from dataclasses import dataclass, field
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tests.fuzz.arithmetic import BITS, FLOATS, MAXIMUM, MINIMUM
from tests.fuzz.cells import Strided
from tests.fuzz.interpret import Parameter
from tests.fuzz.kinds import Fixed, Kind

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
    places: dict[str, Strided] = field(default_factory=dict)
    """Where the elements of a view of several dimensions lie in its array."""

    def for_interpreter(self) -> dict[str, Any]:
        """Lists and numbers."""
        return {**{name: numbers_of(array) for name, array in self.arrays.items()}, **self.numbers}


def numbers_of(array: npt.NDArray[Any]) -> list[Any]:
    """The elements as Python's numbers."""
    with np.errstate(all="ignore"):
        if array.ndim > 1:  # arrays in structs
            items, size = numbers_of(array.reshape(-1)), array[0].size if len(array) else 1
            return [tuple(items[at : at + size]) for at in range(0, len(items), size)]
        if array.dtype.names:
            return list(zip(*(numbers_of(array[name]) for name in array.dtype.names), strict=True))
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
    extents: dict[str, int] = {}
    for p in parameters:
        if p.rank > 1:
            shape = [rng.choice((1, 2, 3, 3, 4, 5, 6, rng.randrange(7))) for _ in range(p.rank)]
            if p.view == "SliceMut":  # a row for each thread
                shape[0] = max(0, threads + rng.choice((0, 0, 0, 2, -1)))
            extents.update({f"{p.name}.shape[{dimension}]": extent for dimension, extent in enumerate(shape)})
        elif p.view == "Slice":
            extents[f"len({p.name})"] = rng.choice((threads, threads + 7, 64, 5, 16, rng.randrange(1, 70), rng.randrange(0, 3)))
        elif p.view:
            per_thread = 1 if p.view == "DisjointSlice" or p.lanes > 1 or p.fields else 4
            extents[f"len({p.name})"] = max(0, threads * per_thread + rng.choice((0, 0, 0, 3, -2, -threads // 3)))
    for relation in requires:
        _keep(relation, extents)
    arguments = Arguments({}, {})
    with np.errstate(all="ignore"):
        for p in parameters:
            if not p.view:
                arguments.numbers[p.name] = scalar(rng, p.type)
                continue
            if p.rank > 1:
                shape = [extents[f"{p.name}.shape[{dimension}]"] for dimension in range(p.rank)]
                arguments.places[p.name], size = strided(rng, shape, repeats=p.view == "Slice")
            else:
                size = extents[f"len({p.name})"] * p.lanes
            if p.fields:
                elements = [_element(rng, p.fields) for _ in range(size)]
                arguments.arrays[p.name] = np.array(elements, _dtype(p.fields))
                continue
            values = [_element(rng, p.type) for _ in range(size)]
            arguments.arrays[p.name] = np.array(values, NUMPY[p.type])
    return arguments


def _dtype(kind: Kind) -> Any:
    if isinstance(kind, str):
        return np.dtype(NUMPY[kind])
    if isinstance(kind, Fixed):
        return np.dtype((_dtype(kind.of), kind.shape))
    return np.dtype([(name, _dtype(of)) for name, of in kind], align=True)


def _element(rng: random.Random, of: Kind) -> Any:
    """A number or a struct as NumPy takes it."""
    if isinstance(of, Fixed):
        items = [_element(rng, of.of) for _ in range(of.size)]
        for extent in reversed(of.shape[1:]):
            items = [items[at : at + extent] for at in range(0, len(items), extent)]
        return items
    if not isinstance(of, str):
        return tuple(_element(rng, field) for _, field in of)
    return rng.choice((0, 1, 1, 2, 255)) if of == "bool" else scalar(rng, of)


def _keep(relation: str, extents: dict[str, int]) -> None:
    """Change extents so that a relation holds."""
    compared = ast.parse(relation, mode="eval").body
    assert isinstance(compared, ast.Compare)
    left, right = ast.unparse(compared.left), compared.comparators[0]
    wanted = right.value if isinstance(right, ast.Constant) else extents[ast.unparse(right)]
    assert isinstance(wanted, int)
    extents[left] = max(extents[left], wanted)
    if isinstance(compared.ops[0], ast.Eq):
        if isinstance(right, ast.Constant):
            extents[left] = wanted
        else:
            extents[ast.unparse(right)] = extents[left]


def strided(rng: random.Random, shape: list[int], *, repeats: bool) -> tuple[Strided, int]:
    """Somewhere for the elements of a view: dimensions in any order, gaps, steps backwards, and (if it may repeat elements) strides of 0; the places in all."""
    strides, offset, step = [0] * len(shape), rng.choice((0, 0, 3)), rng.choice((1, 1, 1, 2))
    order = list(range(len(shape)))
    if rng.random() < 0.5:
        rng.shuffle(order)
    size = offset
    for dimension in reversed(order):
        if repeats and rng.random() < 0.1:
            continue
        strides[dimension] = step
        size += max(shape[dimension] - 1, 0) * step
        if rng.random() < 0.15:
            strides[dimension] = -step
            offset += max(shape[dimension] - 1, 0) * step
        step = step * max(shape[dimension], 1) + rng.choice((0, 0, 0, 1, 5))
    return Strided(offset, tuple(shape), tuple(strides)), size + 1 if all(shape) else 0


def difference(name: str, expected: list[Any], got: npt.NDArray[Any]) -> str | None:
    """Where an array differs from what the interpreter has left, or None. NaNs are equal."""
    if got.ndim > 1:  # arrays in structs
        return difference(name, [item for items in expected for item in items], got.reshape(-1))
    if got.dtype.names:
        columns = list(zip(*expected, strict=True)) or [()] * len(got.dtype.names)
        found = (difference(f"{name}.{field}", list(column), got[field]) for field, column in zip(got.dtype.names, columns, strict=True))
        return next((what for what in found if what is not None), None)
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
