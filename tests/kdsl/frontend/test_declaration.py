"""What a kernel declares: parameters in order, geometry, block, contract."""

from __future__ import annotations

from typing import TypeVar

import pytest

from kdsl import Const, DisjointSlice, Slice, elements, f32, f64, i32, struct, tiles, u32
from kdsl.frontend.declare import declare
from kdsl.ir.abi import layout
from kdsl.lang.geometry import Elements, Grid, Tiles
from kdsl.lang.types import BOOL, F32
from kdsl.lang.views import ConstAnnotation, ViewAnnotation

T = TypeVar("T", f32, f64)


@struct
class Size:
    """A size."""

    rows: u32
    """Rows."""
    columns: u32
    """Columns."""


def everything(y: DisjointSlice[T], x: Slice[T], scale: T, p: Size, flag: bool, n: i32 = 3, *, exponent: Const[int] = 2) -> None:
    """Does nothing.

    At all.
    """


def test_parameters() -> None:
    declaration = declare(everything, elements("y"), requires=("len(x) == len(y)",))
    assert [(p.name, p.keyword_only, p.default) for p in declaration.parameters] == [
        ("y", False, None), ("x", False, None), ("scale", False, None), ("p", False, None), ("flag", False, None), ("n", False, 3),
        ("exponent", True, 2),
    ]  # fmt: skip
    types = [p.type for p in declaration.parameters]
    assert types[0] == ViewAnnotation("DisjointSlice", T)
    assert types[2] is T
    assert types[3] is Size.__kdsl_struct__  # type: ignore[attr-defined]
    assert declaration.parameters[3].python_class is Size
    assert types[4] is BOOL
    assert types[6] == ConstAnnotation(int)
    assert declaration.type_variables == (T,)
    assert declaration.doc == "Does nothing.\n\nAt all."
    assert declaration.geometry == Elements("y")
    assert declaration.block_dim == (256, 1, 1)
    assert declaration.contract_fma


def test_a_struct_is_flattened_in_order() -> None:
    from text import kernel_of

    kernel = kernel_of("y[0] = f32(p.columns)", "y: SliceMut[f32], p: Size", Size=Size)
    assert [slot.name for slot in layout(kernel).slots[:4]] == ["y.address", "y.length", "p.rows", "p.columns"]


@pytest.mark.parametrize(
    ("block", "expected"), [(None, (16, 8, 1)), (64, (64, 1, 1)), ((8, 4), (8, 4, 1)), ((2, 3, 4), (2, 3, 4))], ids=str
)
def test_block(block: object, expected: tuple[int, int, int]) -> None:
    def f(y: Slice[f32]) -> None:
        return

    assert declare(f, tiles(rows=4, columns="len(y)", tile=(8, 16)), block).block_dim == expected


@pytest.mark.parametrize(
    ("grid", "expected"),
    [
        (5, Grid(5)),
        ("len(y)", Grid("len(y)")),
        ((2, "n"), Grid(2, "n")),
        (tiles(rows=1, columns=2, tile=(3, 4)), Tiles(1, 2, 1, (3, 4))),
    ],
    ids=str,
)
def test_grid(grid: object, expected: object) -> None:
    def f(y: Slice[f32], n: i32) -> None:
        return

    assert declare(f, grid).geometry == expected


def test_types_of_a_generic_kernel() -> None:
    from text import define

    k = define(
        "@kernel(grid=elements('y'))\ndef k(y: DisjointSlice[T], a: T) -> None:\n    i = thread_index()\n    if i in y:\n        y[i] = a\n",
        T=T,
    )["k"]
    ir = k.ir(T="f32")
    assert [p.type for p in ir.parameters] == [F32, F32]
    assert ir.grid_rank == 1
