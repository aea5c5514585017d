"""Structs on the host: layout as C has it, construction, conversion and its errors, arrays of structs."""

from __future__ import annotations

import copy
import pickle
from typing import Any, Literal, TypeVar

import ml_dtypes
import numpy as np
import pytest
from samples import Bins, Momentum, Pair, Sample, Step, differing, instance, poisoned, random, type_of

import kdsl
from kdsl import FixedArray, bf16, f32, f64, i16, i32, struct, u8
from kdsl.lang.struct_type import StructType, difference, struct_of
from kdsl.lang.structs import record
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)


# ------------------------------------------------------------------------------------------------------------------------------ layout


def test_layout_is_that_of_c() -> None:
    """Offsets as a C compiler gives them to the same declaration."""
    found = {number.path: number.offset for number in type_of(Sample).numbers}
    assert found == {
        "valid": 0, "value": 4, "history": 8, "momentum.first": 24, "momentum.second": 32, "momentum.steps": 40, "code": 48, "half": 50,
        "brain": 52, "total": 56, "pairs.key": 64, "pairs.tag": 68, "matrix": 80, "last": 128,
    }  # fmt: skip
    assert (type_of(Sample).size, type_of(Sample).alignment) == (136, 8)
    assert (type_of(Pair).size, type_of(Pair).alignment) == (8, 4)
    assert (type_of(Momentum).size, type_of(Bins).size) == (24, 40)


def test_layout_is_numpys_aligned_one() -> None:
    pair = np.dtype([("key", "i4"), ("tag", "u1")], align=True)
    momentum = np.dtype([("first", "f4"), ("second", "f8"), ("steps", "u1")], align=True)
    wanted = np.dtype(
        [
            ("valid", "?"), ("value", "f4"), ("history", "f4", (3,)), ("momentum", momentum), ("code", "i2"), ("half", "f2"),
            ("brain", ml_dtypes.bfloat16), ("total", "i8"), ("pairs", pair, (2,)), ("matrix", "f8", (2, 3)), ("last", "u1"),
        ],
        align=True,
    )  # fmt: skip
    assert np.dtype(Sample) == wanted == Sample.dtype  # type: ignore[attr-defined]
    assert struct_of(wanted) is type_of(Sample)


def test_numbers_and_members_have_their_full_names() -> None:
    assert [member.name for member in type_of(Sample).members] == [
        "valid", "value", "history", "momentum.first", "momentum.second", "momentum.steps", "code", "half", "brain", "total", "pairs",
        "matrix", "last",
    ]  # fmt: skip
    matrix = next(number for number in type_of(Sample).numbers if number.path == "matrix")
    assert (matrix.shape, matrix.strides) == ((2, 3), (24, 8))
    tag = next(number for number in type_of(Sample).numbers if number.path == "pairs.tag")
    assert (tag.shape, tag.strides) == ((2,), (8,))
    assert type_of(Sample).count == 2 + 3 + 3 + 4 + 4 + 6 + 1


# ------------------------------------------------------------------------------------------------------------------------ construction


@struct
class Filter:
    """A filter."""

    weights: FixedArray[f32, Literal[4]]
    """Taps."""
    grid: FixedArray[i32, Literal[2], Literal[3]]
    """Two dimensions."""
    flags: FixedArray[bool, Literal[2]]
    """Bools."""
    narrow: FixedArray[bf16, 1]  # type: ignore[valid-type]
    """A plain number does at run time."""


def made(**given: Any) -> Filter:
    return Filter(**{"weights": [1, 2, 3, 4], "grid": np.zeros((2, 3), np.int8), "flags": (True, False), "narrow": [1.00390625], **given})


def test_arrays_become_tuples_of_converted_numbers() -> None:
    exact = 2**60 + 2**36 + 1  # rounds once to an f32
    filled = made(weights=(1, np.float64(0.1), np.int8(3), exact), grid=[[1, 2, 3], np.arange(3)])
    assert filled.weights == (1.0, float(np.float32(0.1)), 3.0, float(np.float32(2**60 + 2**37)))
    assert filled.grid == ((1, 2, 3), (0, 1, 2))
    assert filled.flags == (True, False)
    assert filled.narrow == (1.0,)  # 1 + 2 ** -8 lies between two bf16, and goes to the even one


def test_equality_hash_repr_and_immutability() -> None:
    a, b, c = made(), made(weights=np.arange(1, 5)), made(weights=(1, 2, 3, 5))
    assert a == b
    assert hash(a) == hash(b)
    assert a != c
    assert repr(a).startswith("Filter(weights=(1.0, 2.0, 3.0, 4.0), grid=((0, 0, 0), (0, 0, 0)), ")
    with pytest.raises(AttributeError, match="Filter cannot be changed"):
        a.weights = (1, 2, 3, 4)
    assert copy.copy(a) == a
    assert copy.deepcopy(a) == a
    step = Step(0.5, 3)
    assert pickle.loads(pickle.dumps(type_of(Step))) is type_of(Step)
    maker, arguments = step.__reduce__()
    assert maker(*arguments) == step


def test_fields_in_order_and_by_name() -> None:
    assert Step(0.5, 3) == Step(rate=0.5, count=3) == Step(0.5, count=3)
    for given, named, words in [
        ((1, 2, 3), {}, "takes 2 values, not 3"),
        ((1,), {"rate": 2}, "two values for rate"),
        ((1,), {}, "lacks count; its fields are rate, count"),
        ((1,), {"size": 2}, "lacks count|has no field size"),
    ]:
        with pytest.raises(TypeError, match=rf"Step\(\) .*({words})"):
            Step(*given, **named)  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"weights": [1, 2, 3]}, ValueError, r"field weights of Filter takes 4 values \(FixedArray\[f32, 4\]\), not 3"),
        ({"weights": np.zeros(5)}, ValueError, r"field weights of Filter takes a NumPy array of shape \(4,\) .*, not \(5,\)"),
        ({"weights": np.zeros((4, 1))}, ValueError, r"of shape \(4,\) .*, not \(4, 1\)"),
        ({"weights": np.zeros(())}, TypeError, "field weights of Filter is made from a sequence or a NumPy array"),
        ({"weights": "abcd"}, TypeError, "field weights of Filter is made from a sequence"),
        ({"weights": 1.0}, TypeError, "field weights of Filter is made from a sequence"),
        ({"weights": {1, 2, 3, 4}}, TypeError, "field weights of Filter is made from a sequence"),
        ({"weights": (x for x in range(4))}, TypeError, "field weights of Filter is made from a sequence"),
        ({"weights": [1, 2, "3", 4]}, TypeError, r"field weights\[2\] of Filter: a number \(f32\) is wanted, not '3'"),
        ({"weights": [1, 2, 3, 1e39]}, OverflowError, r"field weights\[3\] of Filter: f32 cannot hold 1e\+39"),
        ({"grid": [[1, 2, 3]]}, ValueError, "field grid of Filter takes 2 values"),
        ({"grid": [[1, 2, 3], [1, 2]]}, ValueError, r"field grid\[1\] of Filter takes 3 values"),
        ({"grid": [[1, 2, 3], [1, 2, 2**31]]}, OverflowError, r"field grid\[1\]\[2\] of Filter: i32 holds"),
        ({"grid": np.zeros((2, 3))}, TypeError, r"field grid\[0\]\[0\] of Filter: a whole number \(i32\) is wanted"),
        ({"grid": [1, 2]}, TypeError, r"field grid\[0\] of Filter is made from a sequence"),
        ({"flags": [1, 0]}, TypeError, r"field flags\[0\] of Filter: a bool is wanted"),
    ],
)
def test_what_an_array_does_not_take(given: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        made(**given)


def test_structs_in_structs() -> None:
    inner = Momentum(1, 2, 3)
    ready = instance(random(1, Sample)[0], Sample)
    again = Sample(**{**{f.name: getattr(ready, f.name) for f in type_of(Sample).fields}, "momentum": inner, "pairs": [Pair(1, 2)] * 2})
    assert again.momentum is inner
    assert again.pairs == (Pair(1, 2), Pair(1, 2))
    for bad, words in ({"momentum": Pair(1, 2)}, "is a Momentum, not Pair"), ({"momentum": {"first": 1}}, r"make one: Momentum\(\*\*...\)"):
        with pytest.raises(TypeError, match=f"field momentum of Sample .*{words}"):
            Sample(**{**{f.name: getattr(ready, f.name) for f in type_of(Sample).fields}, **bad})
    with pytest.raises(TypeError, match=r"field pairs\[1\] of Sample is a Pair, not"):
        Sample(**{**{f.name: getattr(ready, f.name) for f in type_of(Sample).fields}, "pairs": [Pair(1, 2), Step(1, 2)]})


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        ("float", "field it of struct Wrong has type <class 'float'>; a field is an element type such as f32"),
        ("list[f32]", "field it of struct Wrong has type"),
        ("FixedArray[f32]", "FixedArray takes an element type and an extent"),
        ("FixedArray[f32, 0]", "an extent of a FixedArray is a positive whole number"),
        ("FixedArray[f32, True]", "an extent of a FixedArray"),
        ("FixedArray[f32, Literal[1, 2]]", "an extent of a FixedArray"),
        ("FixedArray[f32, 1.5]", "an extent of a FixedArray"),
        ("FixedArray[FixedArray[f32, 4], 3]", r"write FixedArray\[f32, Literal\[3\], Literal\[4\]\]"),
        ("FixedArray[T, 3]", "the elements of a FixedArray have one type"),
    ],
)
def test_what_is_no_field(annotation: str, words: str) -> None:
    space = {"FixedArray": FixedArray, "Literal": Literal, "f32": f32, "struct": struct, "T": TypeVar("T")}
    with pytest.raises(TypeError, match=words):
        exec(f"@struct\nclass Wrong:\n    it: {annotation}", space)


def test_names_that_a_field_cannot_have() -> None:
    with pytest.raises(TypeError, match=r"cannot be called dtype: Wrong\.dtype is the NumPy type"):

        @struct
        class Wrong:
            dtype: f32


# ---------------------------------------------------------------------------------------------------------------------- arrays of structs


@DEVICES
@pytest.mark.parametrize("n", [0, 1, 31, 33])
@pytest.mark.parametrize("cls", [Sample, Momentum, Pair], ids=lambda cls: cls.__name__)
def test_round_trip(device: Any, cls: type, n: int) -> None:
    host = random(n, cls, seed=n)
    there = device.array(host)
    assert there.dtype is type_of(cls)
    assert there.nbytes == n * type_of(cls).size
    assert not differing(there.numpy(), host)
    assert there.numpy().dtype == np.dtype(cls)
    assert repr(there) == f"<array of {n} {cls.__name__} on {device.name}>"


@DEVICES
def test_shapes_slices_and_copies(device: Any) -> None:
    host = random((5, 7), Sample)
    there = device.array(host)
    assert not differing(there.T[::-2].numpy(), host.T[::-2])
    assert not differing(there[1:3].numpy(), host[1:3])
    other = device.array(poisoned((5, 7), Sample))
    other.copy_from(there)
    assert not differing(other.numpy(), host)
    other.copy_from(host[::-1])
    assert not differing(other.numpy(), host[::-1])


@DEVICES
def test_empty_zeros_full_and_fill(device: Any) -> None:
    assert device.empty(3, Sample).dtype is type_of(Sample)
    assert not differing(device.zeros(33, Sample).numpy(), np.zeros(33, Sample))
    one = random(1, Sample, seed=5)
    value = instance(one[0], Sample)
    assert not differing(device.full(33, value, Sample).numpy(), np.repeat(one, 33))
    there = device.zeros((3, 4), Step)
    there.fill(Step(0.5, 7))
    assert there.numpy().tolist() == [[(0.5, 7)] * 4] * 3
    same = device.full(5, instance(np.zeros(1, Pair)[0], Pair), Pair)  # one pattern of four bytes
    assert not same.numpy()["key"].any()
    for bad in (1.0, Pair(1, 2), None, (0.5, 7)):
        with pytest.raises(TypeError, match="a Step is wanted"):
            there.fill(bad)


@DEVICES
def test_fills_in_a_graph(device: Any) -> None:
    with kdsl.Graph(device) as graph:
        there = device.zeros(9, Sample)
        one = random(1, Sample, seed=6)
        other = device.full(9, instance(one[0], Sample), Sample)
    for _ in range(2):
        graph.launch()
        device.synchronize()
        assert not differing(there.numpy(), np.zeros(9, Sample))
        assert not differing(other.numpy(), np.repeat(one, 9))


@pytest.mark.parametrize(
    ("fields", "options", "words"),
    [
        (
            [("rate", "f4"), ("total", "f8")],
            {},
            "field total lies at byte 4, and a struct has it at byte 8; make the array with the dtype of a @struct",
        ),
        ([("rate", "u1"), ("inner", [("a", "u1"), ("b", "i4")])], {}, "field inner.b lies at byte 1, and a struct has it at byte 4"),
        ([("rate", ">f4")], {}, "field rate: there is no element type for NumPy's >f4"),
        ([("name", "S5")], {}, "field name: there is no element type"),
        ([("rate", "f4"), ("inner", [("a", "O")])], {"align": True}, r"field inner\.a: there is no element type"),
        ([("rate", "f8"), ("tag", "u1")], {}, "the structured type takes 9 bytes, and a struct of its fields 16"),
    ],
)
def test_structured_arrays_of_another_layout(fields: Any, options: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        kdsl.device("cpu").array(np.zeros(3, np.dtype(fields, **options)))


def test_a_layout_without_a_class() -> None:
    there = kdsl.device("cpu").array(np.zeros(3, np.dtype([("odd_name", "f4"), ("other", "u2", (2,))], align=True)))
    assert str(there.dtype) == "struct(odd_name: f32, other: FixedArray[u16, 2])"
    assert isinstance(there.dtype, StructType)


def test_the_difference_is_named() -> None:
    def between(*fields: Any) -> str:
        return difference(type_of(Sample), struct_of(np.dtype(list(fields), align=True)))

    plain: list[Any] = [(name, Sample.dtype.fields[name][0]) for name in Sample.dtype.names]  # type: ignore[attr-defined]
    assert difference(type_of(Sample), type_of(Sample)) == ""
    assert between(*plain[:-1]) == "it has no field last"
    assert between(*plain, ("more", "f4")) == "it has a field more, and Sample has none of that name"
    assert between(plain[1], plain[0], *plain[2:]) == "its field value stands where Sample has valid"
    assert between(plain[0], ("value", "f8"), *plain[2:]) == "its field value is f64, and that of Sample is f32"
    assert (
        between(*plain[:2], ("history", "f4", (4,)), *plain[3:])
        == "its field history is FixedArray[f32, 4], and that of Sample is FixedArray[f32, 3]"
    )
    other = np.dtype([("first", "f4"), ("second", "f4"), ("steps", "u1")], align=True)
    assert (
        between(*plain[:3], ("momentum", other), *plain[4:])
        == "in its field momentum, its field second is f32, and that of Momentum is f64"
    )
    assert difference(type_of(Sample), kdsl.dtype("f32")) == "it holds f32, not a struct"


def test_records_have_zeros_between_fields() -> None:
    held = record(type_of(Pair), Pair(1, 2))
    assert held.tobytes() == b"\x01\x00\x00\x00\x02\x00\x00\x00"
    assert kdsl.dtype(Pair) is type_of(Pair)
    with pytest.raises(TypeError, match="Pair is a struct: make one"):
        type_of(Pair)(1)


def test_two_classes_of_one_layout_share_their_arrays() -> None:
    @struct
    class Twin:
        """Like Step."""

        rate: f32
        """Factor."""
        count: i32
        """How often."""

    assert kdsl.device("cpu").zeros(3, Twin).dtype is kdsl.device("cpu").zeros(3, Step).dtype
    assert type_of(Twin) is not type_of(Step)


@struct
class Odd:
    """Alignment 2."""

    a: u8
    """One."""
    b: i16
    """Two."""
    c: u8
    """Three."""


def test_small_alignment() -> None:
    assert (type_of(Odd).size, type_of(Odd).alignment) == (6, 2)
    assert f64.alignment == 8  # type: ignore[attr-defined]


def test_fields_are_not_inherited() -> None:
    @struct
    class Base:
        """A struct."""

        a: f32
        """A number."""

    class Mixin:
        """Methods for the host are."""

        def twice(self) -> float:
            return 2 * self.b  # type: ignore[attr-defined,no-any-return]

    with pytest.raises(TypeError, match="struct Derived inherits from Base, whose fields it would not have; make one of them a field"):

        @struct
        class Derived(Base):
            """It would have one field only."""

            b: f32
            """Another number."""

    @struct
    class Mixed(Mixin):
        """A struct with a method."""

        b: f32
        """A number."""

    assert Mixed(1.5).twice() == 3
