"""New random programs in each run: the CPU target against the interpreter, bit by bit.

The seed is drawn anew each time, or is KDSL_FUZZ_SEED; KDSL_FUZZ_PROGRAMS sets how many programs. A failure prints seeds, and the smallest program found.
"""

import ast
import math
import os
import random
import warnings
from typing import ClassVar

import pytest

from kdsl.frontend.errors import KernelError
from kdsl.ir.nodes import Location
from kdsl.lang.types import DTYPES, convert_constant
from tests.fuzz import arithmetic, grid, processes
from tests.fuzz.batch import Report, batch, expected_refusal, refusal
from tests.fuzz.check import Case, Difference
from tests.fuzz.execute import build_program
from tests.fuzz.expressions import EXCHANGES
from tests.fuzz.generate import Generator, generate
from tests.fuzz.interpret import Program
from tests.fuzz.run import PER_SEED, run
from tests.fuzz.scope import Scope
from tests.fuzz.shrink import shrink
from tests.fuzz.values import IllTyped

SEED = int(os.environ.get("KDSL_FUZZ_SEED") or random.SystemRandom().randrange(10**6))
PROGRAMS = int(os.environ.get("KDSL_FUZZ_PROGRAMS") or 300)
PARTS = 2
SECONDS = 120.0
"""After so long a part begins no further programs, and warns how many it has run. A quiet machine takes a third of that for all of them."""


@pytest.mark.parametrize("part", range(PARTS))
def test_compiled_code_does_what_the_interpreter_does(part: int) -> None:
    wanted = PROGRAMS // PARTS
    report, begun = run(wanted, SEED * PARTS + part, seconds=SECONDS)
    if report.differences:
        seeds = "\n".join(f"{seed}: {what}" for seed, what in report.differences)
        pytest.fail(
            f"KDSL_FUZZ_SEED={SEED}; programs that differ:\n{seeds}\n\n{shrink(generate(report.differences[0][0]), report.differences[0][0])}"
        )
    assert 3 * report.programs >= 2 * begun > 0, (
        f"seed {SEED}: only {report.programs} of {begun} were compared, refused were {report.refused}"
    )
    if begun < wanted:
        warnings.warn(f"{begun} of {wanted} programs ran within {SECONDS:.0f} s", stacklevel=1)


def test_operators_and_types() -> None:
    """A share of the grid of operators and types, another one each time."""
    for name, source in list(grid.cases())[SEED % 61 :: 61]:
        try:
            grid.check(source, SEED)
        except Difference as difference:
            pytest.fail(f"seed {SEED}, {name}: {difference}\n{source}")


class Mortal:
    """A worker that ends at some programs."""

    programs = 0
    seed = 0
    on_device = False
    at: ClassVar[dict[int, bool]] = {}
    """Programs at which it ends, and whether on the GPU."""

    def __init__(self, device: str | None, on_cpu: bool) -> None:
        pass

    def piece(self, first: int, count: int) -> Report | None:
        for self.seed in range(first, first + count):
            if self.at.get(self.seed) is False:
                return None
        self.on_device = any(self.at.get(seed) for seed in range(first, first + count))
        return None if self.on_device else Report(programs=count)

    def end(self) -> int:
        return -6


@pytest.mark.parametrize("on_device", [False, True])
def test_a_program_that_ends_its_process_is_a_difference(monkeypatch: pytest.MonkeyPatch, on_device: bool) -> None:
    monkeypatch.setattr(processes, "_Worker", Mortal)
    monkeypatch.setattr(Mortal, "at", {17: on_device, 41: on_device})
    report, following = processes.run_all(3, 60, device="cuda:0" if on_device else None, processes=2, seconds=1e9, heard=lambda _: None)
    assert report.programs == 58
    assert [seed for seed, _ in report.differences] == [17, 41]
    assert all("status -6" in what for _, what in report.differences)
    assert following == 63


def test_time_that_is_up_leaves_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_Worker", Mortal)
    report, following = processes.run_all(0, 10**6, device=None, processes=3, seconds=0.05, heard=lambda _: None)
    assert report.programs == following


def test_the_part_of_a_gpu_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the CPU target programs are interpreted, and not compiled for it."""

    def refuse(self: Case) -> None:
        raise AssertionError

    monkeypatch.setattr(Case, "check_cpu", refuse)
    report = batch(SEED * PER_SEED, 5, None, on_cpu=False)
    assert report.programs + sum(report.refused.values()) == 5
    assert not report.differences


def test_a_seed_always_gives_the_same_program() -> None:
    assert [generate(SEED * PER_SEED + n) for n in range(20)] == [generate(SEED * PER_SEED + n) for n in range(20)]


def test_the_interpreter_by_hand() -> None:
    program = Program(
        "@kernel(grid=1, block=3)\n"
        "def k(y: SliceMut[i8], x: Slice[i8]) -> None:\n"
        "    i = thread_index()\n"
        "    total = 0\n"
        "    for n in range(3, -1, -2):\n"
        "        if n == 1 and i == 2:\n"
        "            break\n"
        "        total += x[i] * 50\n"
        "    else:\n"
        "        total = total // -7\n"
        "    y[i] = total\n"
    )
    arguments = {"y": [9, 9, 9], "x": [1, 2]}
    failures = program.run(arguments)
    # 100 // -7; 200 wraps to -56, and -56 // -7; the third thread reads outside, twice 0
    assert arguments["y"] == [-15, 8, 0]
    assert {(line, index, extent) for line, index, extent, _, _ in failures} == {(8, 2, 2)}


@pytest.mark.parametrize("line", ["v = v % 1.5", "v = i64(v)"])
def test_refusals_that_are_right(line: str) -> None:
    source = f"@kernel(grid=1, block=1)\ndef k(y: SliceMut[i16], x: Slice[i16]) -> None:\n    v = x[0]\n    {line}\n    y[0] = v\n"
    with pytest.raises(KernelError) as refused:
        build_program(source)
    assert expected_refusal(refused.value, source) is not None
    with pytest.raises(IllTyped):
        Program(source)


def test_a_refusal_that_the_interpreter_does_not_share_is_a_difference() -> None:
    source = "@kernel(grid=1, block=1)\ndef k(y: SliceMut[i16]) -> None:\n    y[0] = 1\n"
    assert expected_refusal(KernelError("`v` would have two types, i16 and i64", Location("file", 1, 0, 1, 1)), source) is None


def vectors_of_the_fuzzer(seed: int) -> tuple[Generator, Scope]:
    """A writer of expressions, and a place where all lanes come together, with vectors of four i16: the name `q`, the array `v`."""
    generator = Generator(seed)
    generator.exchanges = True
    names = {"t": "i64", "q[1]": "i16"}
    wide = {"v": ("i16", 4)}
    return generator, Scope(in_kernel=True, convergent=True, variables=names, fixed=set(names), vectors={"q": ("i16", 4)}, wide=wide)


def test_quotients_of_vectors_are_vectors() -> None:
    """Not of two numbers, where a literal was replaced that stood in a vector."""
    head = "@kernel(grid=1, block=32)\ndef k(y: SliceMut[i16x4], v: Slice[i16x4]) -> None:\n    i = t = thread_index()\n    q = v[i]\n"
    for seed in range(20):
        generator, scope = vectors_of_the_fuzzer(seed)
        Program(head + "".join(f"    y[i] = {generator.vector_quotient(scope, 'i16', 4, 1)}\n" for _ in range(20)))


def test_sides_of_a_conditional_vector_hold_no_exchanges() -> None:
    for seed in range(300):
        generator, scope = vectors_of_the_fuzzer(seed)
        for choice in ast.walk(ast.parse(generator.vector(scope, "i16", 4, 3))):
            if isinstance(choice, ast.IfExp):
                sides = ast.unparse(choice.body) + ast.unparse(choice.orelse)
                assert not any(f"{name}(" in sides for name in EXCHANGES), seed


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("(2 >> v[0].x)", "another vector is wanted"),
        ("i16x2(max(v[0].x))", "max() of one number"),
        ("h(v[0])", "another vector is wanted"),
        ("v[0] + v[0].z", "a vector has no z"),
    ],
)
def test_a_number_is_no_vector(expression: str, why: str) -> None:
    source = "@function\ndef h(a: i16x2) -> i16x2:\n    return a.x\n\n" if "h(" in expression else ""
    source += f"@kernel(grid=1, block=1)\ndef k(y: SliceMut[i16x2], v: Slice[i16x2]) -> None:\n    y[0] = {expression}\n"
    with pytest.raises(KernelError) as refused:
        build_program(source)
    assert expected_refusal(refused.value, source) is None
    assert refusal(source) == f"kdsl refuses it, and the interpreter does ({why})"


def test_vectors_structs_and_masks_by_hand() -> None:
    program = Program(
        "@struct\nclass R:\n    a: i16\n    b: bool\n\n"
        "@kernel(grid=1, block=3)\n"
        "def k(y: SliceMut[f32x2], x: Slice[f32], r: SliceMut[R], n: SliceMut[u32]) -> None:\n"
        "    i = thread_index()\n"
        "    v = as_vectors(x, 2)[i]\n"
        "    y[i] = v * v.x + f32x2(1, i)\n"
        "    r[i].a += 5\n"
        "    r[2] = R(7, r[1].b)\n"
        "    odd = i != 1\n"
        "    m = warp_ballot(odd)\n"
        "    if odd:\n"
        "        n[i] = warp_sum(u32(i + 1), mask=m)\n"
    )
    arguments = {"y": [9.0] * 6, "x": [3.0, 4.0, 5.0, 6.0, 7.0], "r": [(1, 0), (32767, 255)], "n": [0, 9, 0]}
    failures = program.run(arguments)
    assert arguments == {
        "y": [10.0, 12.0, 26.0, 31.0, 1.0, 2.0],
        "x": [3.0, 4.0, 5.0, 6.0, 7.0],
        "r": [(6, 0), (-32764, 255)],
        "n": [4, 9, 4],
    }
    assert {(line, index, extent) for line, index, extent, _, _ in failures} == {(9, 2, 2), (11, 2, 2), (12, 2, 2)}


def test_some_programs_have_each_feature() -> None:
    made = [Generator(SEED * PER_SEED + n) for n in range(200)]
    assert all(0 < sum(getattr(generator, feature) for generator in made) < 100 for feature in ("wide", "records", "masked")), SEED


def test_rounding_against_exact_fractions() -> None:
    """The interpreter's fused products and conversions against those of the constant folding, which uses fractions."""
    from kdsl.frontend.folding import fma

    rng = random.Random(SEED)
    for name in arithmetic.FLOATS:
        of = DTYPES[name]
        for _ in range(2000):
            a, b, c = (convert_constant(of, math.ldexp(rng.uniform(-2, 2), rng.randrange(-140, 100))) for _ in range(3))
            c = convert_constant(of, rng.choice((c, -a * b, 1e-45)))
            expected = fma(of, a, b, c)
            if expected is not None:
                assert arithmetic.fused(name, a, b, c) == expected, (name, a, b, c)
        for _ in range(2000):
            value = rng.getrandbits(rng.randrange(1, 65)) * rng.choice((1, -1))
            assert arithmetic.from_integer(name, value) == convert_constant(of, value)
