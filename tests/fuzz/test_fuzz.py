"""New random programs in each run: the CPU target against the interpreter, bit by bit.

The seed is that of the day, or KDSL_FUZZ_SEED; KDSL_FUZZ_PROGRAMS sets how many programs. A failure prints seeds, and the smallest program found.
"""

import datetime
import math
import os
import random

import pytest

from kdsl.lang.types import DTYPES, convert_constant
from tests.fuzz import arithmetic, grid
from tests.fuzz.check import Difference
from tests.fuzz.generate import generate
from tests.fuzz.interpret import Program
from tests.fuzz.run import PER_SEED, run
from tests.fuzz.shrink import shrink

SEED = int(os.environ.get("KDSL_FUZZ_SEED") or datetime.datetime.now(datetime.UTC).strftime("%Y%m%d"))
PROGRAMS = int(os.environ.get("KDSL_FUZZ_PROGRAMS") or 300)
PARTS = 2
SECONDS = 15.0
"""A slow machine runs fewer programs rather than for longer."""


@pytest.mark.parametrize("part", range(PARTS))
def test_compiled_code_does_what_the_interpreter_does(part: int) -> None:
    report = run(PROGRAMS // PARTS, SEED * PARTS + part, seconds=SECONDS)
    if report.differences:
        seeds = "\n".join(f"{seed}: {what}" for seed, what in report.differences)
        pytest.fail(
            f"seed {SEED}; programs that differ:\n{seeds}\n\n{shrink(generate(report.differences[0][0]), report.differences[0][0])}"
        )
    assert report.programs > 0
    assert sum(report.refused.values()) < report.programs, f"seed {SEED}: most programs were refused: {report.refused}"


def test_operators_and_types() -> None:
    """A share of the grid of operators and types, another one each day."""
    for name, source in list(grid.cases())[SEED % 61 :: 61]:
        try:
            grid.check(source, SEED)
        except Difference as difference:
            pytest.fail(f"seed {SEED}, {name}: {difference}\n{source}")


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
