"""Each part of the language stands in a fair share of the programs, and the interpreter gives it the meaning that the page says."""

from __future__ import annotations

import math
import os
import random
import re

import pytest

from tests.fuzz import specified
from tests.fuzz.batch import batch
from tests.fuzz.generate import Generator
from tests.fuzz.interpret import Program
from tests.fuzz.kinds import Fixed
from tests.fuzz.run import PER_SEED
from tests.fuzz.values import IllTyped, Type

SEED = int(os.environ.get("KDSL_FUZZ_SEED") or random.SystemRandom().randrange(10**6))


def read(source: str) -> Program | None:
    """A program as the interpreter reads it; None for one that has no meaning, such as a quotient by 0."""
    try:
        return Program(source)
    except IllTyped:
        return None


@pytest.fixture(scope="module")
def made() -> list[tuple[Generator, str]]:
    """Writers with what they have written."""
    writers = [Generator(SEED * PER_SEED + n) for n in range(200)]
    return [(writer, writer.program()) for writer in writers]


def test_functions_are_called_with_several_types(made: list[tuple[Generator, str]]) -> None:
    programs = [program for writer, source in made if writer.generic and (program := read(source)) is not None]
    several = 0
    for program in programs:
        calls = {(key[0], repr(of)) for key in program.instances for of in key[1:] if "Type(" in repr(of)}
        several += len(calls) > len({name for name, _ in calls})
    assert several > 15, f"seed {SEED}: {several} of {len(programs)}"


def test_type_variables_by_hand() -> None:
    head = 'T = TypeVar("T", i8, i64, f32)\n@function\ndef h(a: T, b: T) -> T:\n    v: T = 1\n'
    head += "    if T is f32:\n        return a / 2\n    if not T is not i8:\n        v = T(100) + a\n    return v + b\n"
    kernel = "@kernel(grid=1, block=1)\ndef k(y: SliceMut[i64], x: Slice[i8]) -> None:\n"
    program = Program(f"{head}{kernel}    y[0] = h(x[0], 3)\n    y[1] = h(i64(x[0]), 3)\n    y[2] = i64(h(9.0, 1))\n    y[3] = h(1, 2)\n")
    arguments = {"y": [0] * 4, "x": [100]}
    assert not program.run(arguments)
    assert arguments["y"] == [-53, 4, 4, 3]  # 200 wraps to -56
    assert {of for key in program.instances for of in key if of[0] == "T"} == {("T", repr(Type(of))) for of in ("i8", "i64", "f32")}
    for call, why in (("h(x[0], y[0])", "T would be i64 and i8"), ("h(i16(1), 2)", "T is no i16")):
        with pytest.raises(IllTyped, match=why):
            Program(f"{head}{kernel}    y[0] = {call}\n")


def test_constants_decide_branches_and_trips(made: list[tuple[Generator, str]]) -> None:
    sources = [source for writer, source in made if writer.constants]
    branches = sum("if CP" in source or "if (CP" in source or "if not CP" in source for source in sources)
    trips = sum("unroll(CP" in source or "range(CP" in source for source in sources)
    assert len(sources) > 15, f"seed {SEED}: {len(sources)}"
    assert branches > 5, f"seed {SEED}: {branches}"
    assert trips > 0, f"seed {SEED}: {trips}"


def test_constants_by_hand() -> None:
    program = Program(
        "@kernel(grid=1, block=1)\n"
        "def k(y: SliceMut[i64], x: Slice[i8], N: Const[int] = 3, F: Const[float] = 0.5, B: Const[bool] = False) -> None:\n"
        "    v = f32(x[0]) + i64(1) if B or N < 3 else x[0] * N\n"
        "    a = local_array(N, i64)\n"
        "    for n in unroll(N):\n"
        "        a[n] = v * n\n"
        "    if not B and F > 0.25:\n"
        "        y[0] = a[2] + len(a)\n"
        "    else:\n"
        "        y[0] = a\n"
    )
    arguments = {"y": [0], "x": [50]}
    assert not program.run(arguments)
    assert arguments["y"] == [-106 * 2 + 3]  # 150 wraps to -106
    assert [p.name for p in program.parameters] == ["y", "x"]


def test_structs_hold_structs_and_arrays(made: list[tuple[Generator, str]]) -> None:
    records = [writer for writer, _ in made if writer.records]
    structs = sum(any(isinstance(kind, tuple) for _, kind in writer.fields) for writer in records)
    arrays = sum(any(isinstance(kind, Fixed) for _, kind in writer.fields) for writer in records)
    assert len(records) > 15, f"seed {SEED}: {len(records)}"
    assert min(structs, arrays) > 2, f"seed {SEED}: {structs}, {arrays} of {len(records)}"


def test_structs_in_structs_by_hand() -> None:
    program = Program(
        "@struct\nclass P:\n    x: i16\n    b: bool\n\n"
        "@struct\nclass R:\n    p: P\n    path: FixedArray[P, 2]\n    taps: FixedArray[i8, 2, 2]\n\n"
        "@kernel(grid=1, block=1)\n"
        "def k(y: SliceMut[i64], r: SliceMut[R]) -> None:\n"
        "    a = local_array(1, R)\n"
        "    y[0] = a[0].path[1].x + a[0].taps[1, 0]\n"
        "    a[0].path[1] = P(7, r[0].p.b)\n"
        "    v = a[0]\n"
        "    a[0].path[1].x += 32767\n"
        "    y[1] = v.path[1].x + a[0].path[y[0] + 1].x\n"
        "    r[0].taps[1, 0] += 120\n"
        "    r[1].p = r[0].path[1]\n"
        "    r[0].path[2].x = 9\n"
        "    r[0].p.b = v.taps[1, 2] == 0\n"
    )
    arguments = {"y": [9, 9], "r": [((1, 255), ((2, 0), (3, 2)), (1, 2, 30, 4))]}
    failures = program.run(arguments)
    assert arguments == {"y": [0, 7 + 7 + 32767 - 65536], "r": [((1, 1), ((2, 0), (3, 2)), (1, 2, -106, 4))]}
    assert {(line, index, extent) for line, index, extent, _, _ in failures} == {(21, 1, 1), (22, 2, 2), (23, 2, 2)}


def test_tables_are_read(made: list[tuple[Generator, str]]) -> None:
    tabled = [source for writer, source in made if writer.tables]
    reading = sum(source.count("TAB0[") > 0 or source.count("TAB1[") > 0 for source in tabled)
    assert len(tabled) > 15, f"seed {SEED}: {len(tabled)}"
    assert reading > 8, f"seed {SEED}: {reading}"


def test_tables_by_hand() -> None:
    program = Program(
        "T = constant_array([[1, -2, 3], [4, 5, 6]], i8)\n"
        "@function\ndef h(n: i64) -> i8:\n    return T[1, n] * 30\n\n"
        "@kernel(grid=1, block=1)\ndef k(y: SliceMut[i64]) -> None:\n"
        "    y[0] = T[0, 1] + T.shape[1]\n    y[1] = h(y[1])\n    y[2] = h(y[2]) + len(T)\n"
    )
    arguments = {"y": [9, 1, 3]}
    failures = program.run(arguments)
    assert arguments["y"] == [1, -106, 2]
    assert {(line, index, extent) for line, index, extent, _, _ in failures} == {(4, 3, 3)}


def test_functions_that_are_specified_are_called(made: list[tuple[Generator, str]]) -> None:
    some = sum(any(f"{name}(" in source for name in specified.FUNCTIONS) for _, source in made)
    assert some > 30, f"seed {SEED}: {some}"
    names = [name for name in specified.FUNCTIONS if any(f"{name}(" in source for _, source in made)]
    assert len(names) > 6, f"seed {SEED}: {names}"


def test_functions_that_are_specified_by_hand() -> None:
    program = Program(
        "@kernel(grid=1, block=1)\ndef k(y: SliceMut[u32], n: Slice[i32], x: SliceMut[f32]) -> None:\n"
        "    y[0] = funnel_shift_left(0x80000001, 0x40000000, 33)\n    y[1] = funnel_shift_right(0x80000001, 3, 4)\n"
        "    y[2] = permute_bytes(0x83020100, 0x07060504, 0x7BB0)\n    y[3] = u32(dp4a(n[0], y[3], 5))\n"
        "    x[0] = fmod(x[0], 2)\n    x[1] = copysign(x[1], -0.0)\n"
        "    y[4] = u32(isnan(x[2])) + u32(isinf(x[2])) * 2 + u32(isfinite(x[2])) * 4 + u32(isfinite(x[0])) * 8\n"
    )
    arguments = {"y": [0, 0, 0, 0xFF000001, 0], "n": [-256 * 256 * 256 - 1], "x": [-5.5, 3.0, math.inf]}
    assert not program.run(arguments)
    # n has the bytes -2, -1, -1, -1 from the highest: -2 * 255 - 1 + 5
    assert arguments["y"] == [0x80000001, 0x38000000, 0x07FFFF00, 2**32 - 506, 10]
    assert arguments["x"] == [-1.5, -3.0, math.inf]


def test_elements_that_nothing_wrote_are_read(made: list[tuple[Generator, str]]) -> None:
    unwritten = [source for _, source in made if re.search(r"\blu\d+ = local_array", source)]
    inside = sum(re.search(r"^ {8,}lu\d+ = local_array", source, re.MULTILINE) is not None for source in unwritten)
    assert len(unwritten) > 10, f"seed {SEED}: {len(unwritten)}"
    assert inside > 2, f"seed {SEED}: {inside}"


def test_elements_that_nothing_wrote_by_hand() -> None:
    program = Program(
        "@struct\nclass R:\n    a: i8\n    b: FixedArray[f32, 2]\n\n"
        "@kernel(grid=1, block=1)\ndef k(y: SliceMut[i64], x: SliceMut[f32]) -> None:\n"
        "    for n in range(3):\n        a = local_array((2, 2), i64)\n        a[n % 2, 1] += n + 1\n"
        "        y[n] = a[0, 1] * 10 + a[1, 1]\n"
        "    r = local_array(2, R)\n    r[0].b[1] = 2.5\n    x[0] = r[0].b[1] + r[1].b[1]\n    y[3] = i64(r[0].a)\n"
    )
    arguments = {"y": [9] * 4, "x": [9.0]}
    assert not program.run(arguments)
    assert arguments == {"y": [10, 2, 30, 0], "x": [2.5]}


@pytest.mark.parametrize("seed", [910000001347, 910000002501])
def test_a_literal_need_only_fit_its_parameter(seed: int) -> None:
    """The interpreter asked that it fit the type that a literal has alone: 9429997068906580783 for a u64, 1e308 for an f64."""
    report = batch(seed, 1, None)
    assert report.programs == 1
    assert not report.differences
