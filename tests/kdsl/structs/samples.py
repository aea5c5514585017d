"""Structs of every awkward kind for the tests of this folder: padding, structs and arrays in structs, arrays of structs; random arrays of them."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kdsl import FixedArray, bf16, f16, f32, f64, i16, i32, i64, struct, u8, u32
from kdsl.lang.struct_type import StructType

Taps: TypeAlias = Literal[3]


@struct
class Pair:
    """Eight bytes, three of them padding."""

    key: i32
    """A number."""
    tag: u8
    """A small one."""


@struct
class Momentum:
    """24 bytes, of which C uses 17."""

    first: f32
    """Mean of the gradient."""
    second: f64
    """Mean of its square."""
    steps: u8
    """Steps so far."""


@struct
class Sample:
    """Everything that a struct can hold."""

    valid: bool
    """Whether it counts."""
    value: f32
    """A number."""
    history: FixedArray[f32, Taps]
    """Values before."""
    momentum: Momentum
    """A struct with padding behind."""
    code: i16
    """A short number behind that padding."""
    half: f16
    """A narrow float."""
    brain: bf16
    """Another."""
    total: i64
    """A wide number."""
    pairs: FixedArray[Pair, Literal[2]]
    """An array of structs."""
    matrix: FixedArray[f64, Literal[2], Literal[3]]
    """Two dimensions."""
    last: u8
    """Makes the size uneven."""


@struct
class Step:
    """A plain one."""

    rate: f32
    """Factor."""
    count: i32
    """How often."""


@struct
class Bins:
    """Counters."""

    label: u8
    """Padding before the counters."""
    counts: FixedArray[u32, Literal[5]]
    """One per bin."""
    total: i64
    """All of them."""
    mass: f32
    """Weights."""


def random(n: int | tuple[int, ...], of: type, seed: int = 0) -> npt.NDArray[Any]:
    """A structured array of random numbers, with 0 in its padding."""
    made = np.zeros(n, of)
    _fill(made, np.random.default_rng(seed))
    return made


def _fill(held: npt.NDArray[Any], generator: np.random.Generator) -> None:
    if held.dtype.names is not None:
        for name in held.dtype.names:
            _fill(held[name], generator)
    elif held.dtype.kind == "b":
        held[...] = generator.integers(0, 2, held.shape)
    elif held.dtype.kind in "iu":
        held[...] = generator.integers(0, 100, held.shape)
    else:
        held[...] = generator.standard_normal(held.shape).astype(held.dtype)


def poisoned(n: int | tuple[int, ...], of: type) -> npt.NDArray[Any]:
    """A structured array that no result looks like: whatever is not written shows."""
    made = np.zeros(n, of)
    made.reshape(-1).view(np.uint8)[...] = 0xA5
    return made


def differing(a: npt.NDArray[Any], b: npt.NDArray[Any], path: str = "") -> str:
    """The first field in which two structured arrays differ, bit by bit; empty if they are the same. Padding does not count."""
    if a.dtype.names is not None:
        found = (differing(a[name], b[name], f"{path}.{name}") for name in a.dtype.names)
        return next((text for text in found if text), "")
    x, y = (np.ascontiguousarray(each).view(np.dtype(f"u{each.dtype.itemsize}")) for each in (a, b))
    places = np.argwhere(x != y)
    return f"{path}{places[0].tolist()}: {a[tuple(places[0])]} and {b[tuple(places[0])]}" if len(places) else ""


def type_of(cls: type) -> StructType:
    """The struct type of a class."""
    found: StructType = cls.__kdsl_struct__  # type: ignore[attr-defined]
    return found


def instance(record: Any, cls: type) -> Any:
    """A struct made of a record of NumPy's."""

    def value(of: Any, held: Any) -> Any:
        if isinstance(of, StructType):
            return next(c for c in (Pair, Momentum, Sample, Step, Bins) if type_of(c) is of)(
                **{f.name: value(f.type, held[f.name]) for f in of.fields}
            )
        if hasattr(of, "shape"):
            return [value(of.element, item) if len(of.shape) == 1 else [value(of.element, x) for x in item] for item in held]
        return held

    return value(type_of(cls), record)
