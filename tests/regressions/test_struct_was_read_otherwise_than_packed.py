"""Elsewhere the host and the device disagreed about where the fields of a struct lie, and the test that should have told ignored the error.

Structs of fields of every width in awkward orders, several of them, between views and numbers: each field arrives as it was given.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, module

import kdsl
from kdsl.lang.types import DTYPES, DType

F64, I64 = kdsl.dtype("f64"), kdsl.dtype("i64")


def value(of: DType, number: int) -> Any:
    """A value that no other field has, near the limits of its type."""
    if of.is_bool:
        return number % 2 == 0
    if of.is_float:
        return float(of.numpy.type(number + 0.5))
    return of.maximum - number if number % 2 else of.minimum + number


def read(field: str, of: DType) -> str:
    """The field as an i64 or f64, exactly."""
    return f"f64({field})" if of.is_float else f"i64({field} >> 1)" if of.name == "u64" else f"i64({field})"


@DEVICES
@pytest.mark.parametrize("seed", range(6))
def test_fields_arrive(device: Any, seed: int) -> None:
    order = list(DTYPES.values()) * 2
    random.Random(seed).shuffle(order)
    parts = [order[:9], order[9:10], order[10:]]
    text = ""
    for name, fields in zip("ABC", parts, strict=True):
        text += f'@struct\nclass {name}:\n    """Fields."""\n' + "".join(f'    f{n}: {of}\n    """One."""\n' for n, of in enumerate(fields))
    reads = [(f"{p}.f{n}", of) for p, fields in zip("abc", parts, strict=True) for n, of in enumerate(fields)]
    stores = "".join(f"    {'z' if of.is_float else 'y'}[{n}] = {read(field, of)}\n" for n, (field, of) in enumerate(reads))
    text += (
        f"@kernel(grid=1, block=1)\ndef k(y: SliceMut[i64], a: A, flag: u8, b: B, z: SliceMut[f64], c: C, last: i16) -> None:\n"
        f"{stores}    y[30] = flag\n    y[31] = last\n"
    )
    space = module(text)
    values = [[value(of, n + 10 * p) for n, of in enumerate(fields)] for p, fields in enumerate(parts)]
    made = [space[name](**{f"f{n}": v for n, v in enumerate(given)}) for name, given in zip("ABC", values, strict=True)]
    y, z = device.full(32, -7, I64), device.full(32, -7.0, F64)
    space["k"](y, made[0], 255, made[1], z, made[2], -32768)
    integers, floats = y.numpy(), z.numpy()
    for n, ((_, of), given) in enumerate(zip(reads, [v for row in values for v in row], strict=True)):
        found = floats[n] if of.is_float else integers[n]
        assert found == (given >> 1 if of.name == "u64" else given), reads[n]
    assert integers[30:].tolist() == [255, -32768]


@DEVICES
def test_fields_called_like_what_is_hidden(device: Any) -> None:
    """Names of the launcher's own, of the hidden arguments, and of one field in two structs."""
    names = [
        "claim",
        "record",
        "kernel",
        "grid_x",
        "stream",
        "device",
        "plan",
        "self",
        "address",
        "length",
        "y_address",
        "len",
        "refuse",
        "KERNEL",
        "grid",
    ]
    text = '@struct\nclass P:\n    """Fields."""\n' + "".join(f'    {n}: i32\n    """One."""\n' for n in names)
    stores = "".join(f"    y[{n}] = p.{name} * 100 + q.{name} + {name}\n" for n, name in enumerate(names) if name not in ("self",))
    parameters = ", ".join(f"{name}: i32" for name in names if name != "self")
    space = module(text + f"@kernel(grid=1, block=1)\ndef k(y: SliceMut[i32], p: P, q: P, {parameters}) -> None:\n{stores}")
    p, q = (space["P"](**{name: n * f for n, name in enumerate(names)}) for f in (1, 2))
    y = device.zeros(len(names), np.int32)
    space["k"](y, p, q, **{name: 10000 * n for n, name in enumerate(names) if name != "self"})
    assert y.numpy().tolist() == [n * 100 + 2 * n + 10000 * n if name != "self" else 0 for n, name in enumerate(names)]
