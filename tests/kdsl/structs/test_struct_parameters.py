"""Structs that a launch passes by value: every number arrives, arrays are indexed at run time, contract and geometry reach into them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import struct_kernels as kernels
from samples import Sample, Step, instance, random

import kdsl
from kdsl import BoundsError, FixedArray, LaunchError, Slice, SliceMut, elements, f32, i32, kernel, struct, thread_index, u8
from kdsl.errors import ArgumentError, ContractError
from kdsl.ir.abi import layout
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)


def expected(p: Any) -> np.ndarray[Any, Any]:
    single = [
        p["valid"],
        p["value"],
        p["momentum"]["first"],
        p["momentum"]["second"],
        p["momentum"]["steps"],
        p["code"],
        p["half"],
        p["brain"],
    ]
    wanted = [float(number) for number in (*single, p["total"], p["last"], *p["history"], *p["pairs"]["key"], *p["pairs"]["tag"])]
    wanted += p["matrix"].reshape(-1).tolist()
    return np.array([*wanted, p["matrix"][1, 2] + float(p["pairs"]["tag"][1]) + float(p["history"][2])])


@DEVICES
@pytest.mark.parametrize("seed", range(4))
def test_every_number_arrives(device: Any, seed: int) -> None:
    p = random(1, Sample, seed)[0]
    y = device.full(24, np.nan, kdsl.f64)
    kernels.numbers_of(y, instance(p, Sample))
    assert np.array_equal(y.numpy(), expected(p))


@DEVICES
@pytest.mark.parametrize("n", [1, 31, 33, 300])
def test_an_index_of_the_run(device: Any, n: int) -> None:
    p, q = random(2, Sample, n)
    index = np.random.default_rng(n).integers(0, 3, n).astype(np.int32)
    y = device.full(n, np.nan, kdsl.f32)
    kernels.picked_taps(y, device.array(index), 1, instance(p, Sample), instance(q, Sample))
    assert np.array_equal(y.numpy(), p["history"][index] + q["history"][1])


@DEVICES
@pytest.mark.parametrize("bad", [3, -1, 2**31 - 1])
def test_an_index_that_is_outside(device: Any, bad: int) -> None:
    p = random(1, Sample)[0]
    index = np.arange(70, dtype=np.int32) % 3
    index[65] = bad
    y = device.full(70, np.nan, kdsl.f32)
    kernels.picked_taps(y, device.array(index), 0, instance(p, Sample), instance(p, Sample))
    with pytest.raises(
        BoundsError,
        match=rf"read outside array p\.history: index {bad} is out of bounds for 3 elements, in block \(2, 0, 0\), thread \(1, 0, 0\)",
    ):
        device.synchronize()
    wanted = p["history"][np.where(index == bad, 0, index)] + p["history"][0]
    wanted[65] = p["history"][0]
    assert np.array_equal(y.numpy(), wanted)


@DEVICES
def test_geometry_and_contract_over_fields_of_fields(device: Any) -> None:
    held = random(1, Sample)
    held["momentum"]["steps"], held["pairs"]["tag"], held["pairs"]["key"] = 7, [1, 3], [0, 0]
    y = device.full(21, -1, kdsl.i32)
    kernels.row_numbers(y, instance(held[0], Sample))
    wanted = np.full(21, -1)
    wanted[::3] = range(7)
    assert np.array_equal(y.numpy(), wanted)
    held["pairs"]["tag"] = [1, 4]
    with pytest.raises(LaunchError, match=r"p\.momentum\.steps \* p\.pairs\[1\]\.tag is 28, len\(y\) is 21"):
        kernels.row_numbers(y, instance(held[0], Sample))


@struct
class Shape:
    """Extents."""

    rows: i32
    """How many rows."""
    sizes: FixedArray[i32, 2, 3]  # type: ignore[valid-type]
    """Two dimensions."""
    scale: f32
    """A float."""


@struct
class Outer:
    """A shape and more."""

    tag: u8
    """A byte."""
    shape: Shape
    """The shape."""
    shapes: FixedArray[Shape, 2]  # type: ignore[valid-type]
    """Several."""
    weights: FixedArray[f32, 2]  # type: ignore[valid-type]
    """Floats."""


def declared(relation: str) -> Any:
    @kernel(grid=elements("y"), requires=(relation,))
    def k(y: SliceMut[f32], p: Outer) -> None:
        i = thread_index()
        if i in y:
            y[i] = p.weights[0]

    return k


def outer(**given: Any) -> Any:
    shape = Shape(rows=5, sizes=[[1, 2, 3], [4, 5, 6]], scale=1.0)
    return Outer(**{"tag": 1, "shape": shape, "shapes": [shape, shape], "weights": [1, 2], **given})


@pytest.mark.parametrize(
    "relation",
    [
        "p.shape.sizes[1, 2] == 6",
        "p.shape.rows + p.shape.sizes[0, 1] <= 7",
        "extent((p.shape.rows, p.tag)) == 5",
        "p.shapes[1].sizes[0, 2] == len(p.shape.sizes) + p.tag",
    ],
)
def test_relations_that_hold(relation: str) -> None:
    device = kdsl.device("cpu")
    y = device.full(3, np.nan, f32)
    declared(relation)(y, outer())
    assert y.numpy().tolist() == [1, 1, 1]


def test_a_relation_that_fails_shows_its_sides() -> None:
    with pytest.raises(LaunchError, match=r"p\.shape\.sizes\[1, 2\] \* p\.tag is 6, p\.shape\.rows is 5"):
        declared("p.shape.sizes[1, 2] * p.tag <= p.shape.rows")(kdsl.device("cpu").zeros(3, f32), outer())


@pytest.mark.parametrize(
    ("relation", "words"),
    [
        ("p.shape > 1", r"p\.shape is a struct; name one of its fields: rows, sizes, scale"),
        ("p.shape.size > 1", r"p\.shape has no field size; its fields are rows, sizes, scale"),
        ("p.shape.scale > 1", r"p\.shape\.scale is a float \(f32\)"),
        ("p.shape.sizes > 1", r"p\.shape\.sizes is an array; name an element, such as p\.shape\.sizes\[0, 0\]"),
        ("p.shape.sizes[0] > 1", r"elements of p\.shape\.sizes are p\.shape\.sizes\[0, 0\] to p\.shape\.sizes\[1, 2\]"),
        ("p.shape.sizes[0, 3] > 1", r"elements of p\.shape\.sizes are"),
        ("p.shape.sizes[0, -1] > 1", r"elements of p\.shape\.sizes are"),
        ("p.shape.sizes[p.tag, 0] > 1", r"elements of p\.shape\.sizes are"),
        ("p.weights[0] > 1", r"p\.weights\[0\] is a float \(f32\); contracts are about integers"),
        ("p.shapes[0] > 1", r"p\.shapes\[0\] is a struct; name one of its fields: rows, sizes, scale"),
        ("p.shapes[2].rows > 1", r"elements of p\.shapes are p\.shapes\[0\] to p\.shapes\[1\]"),
        ("p.shapes[0].size > 1", r"p\.shapes\[0\] has no field size; its fields are rows, sizes, scale"),
        ("len(p.tag) > 1", "len takes an array parameter: y"),
        ("q.shape.rows > 1", "q is not a parameter"),
    ],
)
def test_what_a_contract_cannot_name(relation: str, words: str) -> None:
    with pytest.raises(ContractError, match=words):
        declared(relation)


def test_the_launcher_documents_every_field() -> None:
    text = declared("p.tag == 1").__doc__
    assert text is not None
    for line in (
        "p : Outer", "tag : u8", "A byte.", "shape : Shape", "The shape.", "shape.rows : i32", "How many rows.",
        "shape.sizes : FixedArray[i32, 2, 3]", "shapes : FixedArray[Shape, 2]", "shapes[…].rows : i32", "weights : FixedArray[f32, 2]", "Floats.",
    ):  # fmt: skip
        assert any(found.strip() == line for found in text.splitlines()), line


def test_arguments_lie_as_c_has_them() -> None:
    ir = declared("p.tag == 1").ir()
    found = {slot.name: (slot.kind, slot.offset, slot.size) for slot in layout(ir).slots}
    start = 16  # behind the address and the length of y
    assert {name: found[name] for name in found if name.startswith("p.")} == {
        "p.tag": ("value", start, 1), "p.shape.rows": ("value", start + 4, 4), "p.shape.sizes": ("array", start + 8, 24),
        "p.shape.scale": ("value", start + 32, 4), "p.shapes": ("array", start + 36, 64), "p.weights": ("array", start + 100, 8),
    }  # fmt: skip
    assert found["claim"] == ("hidden", start + 112, 8)
    (whole,) = [argument for argument in layout(ir).arguments if argument.struct is not None]
    assert (whole.offset, whole.struct.type.size if whole.struct else 0, len(whole.slots)) == (start, 108, 6)


@struct
class Wide:
    """Alignment 8, padding behind."""

    big: kdsl.f64
    """Eight bytes."""
    small: u8
    """One."""


@struct
class Tail:
    """A struct whose first field has padding behind that the next one must not use."""

    wide: Wide
    """Sixteen bytes."""
    after: u8
    """At byte 16."""


@DEVICES
def test_padding_behind_an_inner_struct_is_kept(device: Any) -> None:
    @kernel(grid=1, block=32)
    def k(y: SliceMut[f32], small: u8, p: Tail, last: u8, q: Tail) -> None:
        if thread_index() == 0:
            y[0] = f32(p.wide.big) + f32(p.wide.small) + f32(p.after) + f32(small) + f32(last) + f32(q.after)

    found = {slot.name: slot.offset for slot in layout(k.ir()).slots}
    assert [found[name] for name in ("small", "p.wide.big", "p.after", "last", "q.wide.big", "q.after")] == [16, 24, 40, 48, 56, 72]
    y = device.full(1, np.nan, f32)
    k(y, 1, Tail(Wide(10, 100), 2), 3, Tail(Wide(0, 0), 50))
    assert y.numpy().tolist() == [166]


@DEVICES
def test_a_captured_launch_keeps_its_struct(device: Any) -> None:
    @kernel(grid=elements("y"))
    def scaled(y: SliceMut[f32], p: Outer) -> None:
        i = thread_index()
        if i in y:
            y[i] = p.weights[i % 2] * p.shape.scale

    y = device.full(3, np.nan, f32)
    with kdsl.Graph(device) as graph:
        node = scaled(y, outer())
    graph.launch()
    assert y.numpy().tolist() == [1, 2, 1]
    graph.update(node, p=outer(weights=[5, 6]))
    graph.launch()
    assert y.numpy().tolist() == [5, 6, 5]


def test_another_struct_is_refused() -> None:
    with pytest.raises(ArgumentError, match="parameter p is a Outer; the argument is Step"):
        declared("p.tag == 1")(kdsl.device("cpu").zeros(3, f32), Step(1, 2))


@struct
class Large:
    """More than parameters can take."""

    weights: FixedArray[f32, 1024]  # type: ignore[valid-type]
    """4096 bytes."""


def test_too_large_a_struct_is_refused() -> None:
    @kernel(grid=elements("y"))
    def k(y: SliceMut[f32], x: Slice[i32], p: Large) -> None:
        i = thread_index()
        if i in y:
            y[i] = p.weights[x[i]]

    with pytest.raises(Exception, match="bytes of arguments; at most 4096 can be passed"):
        k.ptx()
