"""Every operator and conversion with every type: `python -m tests.fuzz.grid`. A kernel per case, a few hundred special and random numbers each.

Random programs reach all of this too, but thinly; here each pair of types meets each operator with many operands, in vectors of lanes and in single ones.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import numpy as np

from kdsl.backend.cpu import HostCpu
from tests.fuzz import inputs
from tests.fuzz.arithmetic import FLOATS, NUMBERS, TYPES, promote
from tests.fuzz.check import Case, Difference, Expected
from tests.fuzz.execute import OnCpu, build_program
from tests.fuzz.interpret import Program

_ELEMENTS = 340
_INTEGER = ("<<", ">>", "&", "|", "^")
_COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")


def _kernel(result: str, operands: dict[str, str], expressions: list[str], block: int, before: str = "") -> str:
    views = ", ".join(f"{name}: Slice[{of}]" for name, of in operands.items())
    head = (
        f"@kernel(grid={-(-_ELEMENTS // block)}, block={block})\ndef k(y: SliceMut[{result}], {views}) -> None:\n    i = thread_index()\n"
    )
    values = "".join(f"    {name.upper()} = {name}[i]\n" for name in operands)
    return head + values + before + "".join(f"    y[i * 16 + {place}] = {code}\n" for place, code in enumerate(expressions))


def cases() -> Iterator[tuple[str, str]]:
    """Names and programs."""
    for a in TYPES:
        for b in TYPES:
            for block in (17, 1):
                yield f"{b}({a}), block {block}", _kernel(b, {"a": a}, [f"{b}(A)"], block)
    for of in NUMBERS:
        real = of in FLOATS
        binary = [f"A {op} B" for op in ("+", "-", "*", "//", "%", *(("/",) if real else _INTEGER))] + ["min(A, B)", "max(A, B)"]
        binary += ["fmin(A, B)", "fmax(A, B)"] if real else ["A ** (B & 15)"]
        unary = ["-A", "abs(A)", "A ** 3"]
        if real:
            unary += [
                "sqrt(A)",
                "floor(A)",
                "ceil(A)",
                "trunc(A)",
                "rint(A)",
                "fma(A, B, C)",
                "A * B + C",
                "A * B - C",
                "C - A * B",
                "A ** -2",
            ]
        else:
            unary += ["~A", "A // 7", "A % 7", "A // 8", "A % 16", *(("A // -3", "A % -8") if of[0] == "i" else ())]
        for block in (17, 1):
            yield f"binary operators of {of}, block {block}", _kernel(of, {"a": of, "b": of}, binary, block)
            yield f"unary operators of {of}, block {block}", _kernel(of, {"a": of, "b": of, "c": of}, unary, block)
            yield f"comparisons of {of}, block {block}", _kernel("bool", {"a": of, "b": of}, [f"A {op} B" for op in _COMPARISONS], block)
        lanes = [f"{name}(A)" for name in ("warp_sum", "warp_max", "warp_min")]
        lanes += [f"{name}(A, {amount})" for name in ("shuffle", "shuffle_xor", "shuffle_up", "shuffle_down") for amount in ("B", "13")]
        for block in (32, 13, 40):
            for before in ("", "    if A > 3:\n        return\n"):
                yield (
                    f"exchange of {of}, block {block}{', after returns' if before else ''}",
                    _kernel(of, {"a": of, "b": "i32"}, lanes, block, before),
                )
        for other in NUMBERS:
            common = promote(of, other)
            if common is not None and of != other:
                mixed = [f"A {op} B" for op in ("+", "-", "*", "//", "%", *(("/",) if common in FLOATS else ("<<", ">>", "&")))]
                yield f"{of} with {other}", _kernel(common, {"a": of, "b": other}, [*mixed, "min(A, B)", f"{common}(A < B)"], 13)


def check(source: str, seed: int) -> None:
    """Compare one program. Raises Difference."""
    built, program = build_program(source), Program(source)
    rng = random.Random(seed)
    arguments = inputs.Arguments({}, {})
    with np.errstate(all="ignore"):
        for p in program.parameters:
            size = _ELEMENTS * (16 if p.name == "y" else 1)
            values = [rng.choice((0, 1, 2, 255)) if p.type == "bool" else inputs.scalar(rng, p.type) for _ in range(size)]
            arguments.arrays[p.name] = np.array(values, inputs.NUMPY[p.type])
    given = arguments.for_interpreter()
    failures = program.run(given)
    expected = Expected(arguments, {name: given[name] for name in arguments.arrays}, set(failures))
    host = HostCpu.detect()
    compiled = OnCpu(built, host, (0, 3))
    for number, (name, _, _) in enumerate(compiled.codes):
        Case(program, built, [expected], seed).compare(name, expected, compiled.run(number, arguments, program.grid))


def main() -> int:
    """All cases; the seed of the operands is the argument, 0 if there is none."""
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    count = wrong = 0
    for name, source in cases():
        count += 1
        try:
            check(source, seed)
        except Difference as difference:
            wrong += 1
            print(f"{name}: {difference}")
    print(f"{count} cases, {wrong} with a difference")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
