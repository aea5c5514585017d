"""Random programs of integers mean what they mean in Python: assignments, branches, loops with every kind of jump, calls, tuples."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ir_evaluator import run
from text import define

from kdsl.ir.verifier import verify

NAMES = ("a", "b", "c", "d")


class Writer:
    """Writes one function."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 0
        self.counters = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * (self.depth + 1) + text)

    def atom(self) -> str:
        return self.random.choice((*NAMES, str(self.random.randint(-5, 9))))

    def expression(self, depth: int = 2) -> str:
        kind = self.random.randrange(9)
        if depth == 0 or kind < 2:
            return self.atom()
        x, y = self.expression(depth - 1), self.expression(depth - 1)
        match kind:
            case 2 | 3:
                return f"({x} {self.random.choice('+-*')} {y})"
            case 4:
                return f"({x} {self.random.choice(('//', '%'))} {self.random.choice((2, 3, 5, -4))})"
            case 5:
                return f"({x} if {self.condition(depth - 1)} else {y})"
            case 6:
                return f"{self.random.choice(('min', 'max'))}({x}, {y})"
            case 7:
                return f"({x} {self.random.choice('&|^')} {y})"
            case _:
                return f"abs({x})"

    def condition(self, depth: int = 1) -> str:
        x, y = self.expression(depth), self.expression(depth)
        comparison = f"{x} {self.random.choice(('<', '<=', '==', '!=', '>', '>='))} {y}"
        kind = self.random.randrange(6)
        if depth == 0 or kind < 3:
            return comparison
        if kind == 3:
            return f"{self.atom()} < {x} <= {y}"
        if kind == 4:
            return f"not ({self.condition(depth - 1)})"
        return f"({comparison} {self.random.choice(('and', 'or'))} {self.condition(depth - 1)})"

    def block(self, in_loop: bool) -> None:
        self.depth += 1
        for _ in range(self.random.randint(1, 3)):
            self.statement(in_loop)
        self.depth -= 1

    def statement(self, in_loop: bool) -> None:
        kind = self.random.randrange(12) if self.depth < 4 else self.random.randrange(4)
        name = self.random.choice(NAMES)
        match kind:
            case 0 | 1:
                self.line(f"{name} = {self.expression()} % 97")
            case 2:
                self.line(f"{name} {self.random.choice(('+=', '-=', '^='))} {self.expression(1)} % 13")
            case 3:
                first, second = self.random.sample(NAMES, 2)
                self.line(f"{first}, {second} = {self.expression(1)} % 89, {self.expression(1)} % 83")
            case 4 | 5:
                self.line(f"if {self.condition()}:")
                self.block(in_loop)
                if self.random.random() < 0.6:
                    self.line("else:")
                    self.block(in_loop)
            case 6 | 7:
                variable = self.random.choice((f"i{self.depth}", f"i{self.depth}", name))
                bounds = (self.random.randint(-3, 4), self.expression(0), self.random.choice((1, 1, 2, -1, -3)))
                self.line(f"for {variable} in range({bounds[0]}, {bounds[1]} % 7, {bounds[2]}):")
                self.loop_body(f"{name} += {variable}")
            case 8:
                self.counters += 1
                counter = f"n{self.counters}"
                self.line(f"{counter} = 0")
                self.line(f"while {counter} < {self.random.randint(1, 5)} and {self.condition(0)}:")
                self.loop_body(f"{counter} += 1")
            case 9:
                self.line(f"{name} = helper({self.expression(1)} % 50, {self.expression(1)} % 50)")
            case _:
                if in_loop:
                    jump = self.random.choice(("break", "continue", "return a - d"))
                    self.line(f"if {self.condition()}:")
                    self.line(f"    {jump}")
                else:
                    self.line(f"if {self.condition()}:")
                    self.line(f"    return {self.expression(1)}")

    def loop_body(self, first: str) -> None:
        self.line(f"    {first}")
        self.block(in_loop=True)
        if self.random.random() < 0.3:
            self.line("else:")
            self.block(in_loop=False)

    def function(self) -> str:
        self.line("c, d = a - b, 3")
        for _ in range(self.random.randint(3, 6)):
            self.statement(in_loop=False)
        self.line("return (a * 31 + b * 17 + c * 7 + d) % 1000003")
        return "\n".join(self.lines) + "\n"


HELPER = """def helper(x, y):
    for i in range(x % 5):
        if i * y > 40:
            return i - y
        y += i
    if y < 0:
        return 0
    return x + y
"""


@pytest.mark.parametrize("seed", range(150))
def test_same_as_python(seed: int) -> None:
    body = Writer(seed).function()
    plain: dict[str, object] = {}
    exec(f"{HELPER}def f(a, b):\n{body}", plain)
    names = define(
        f"@function\n{HELPER}@function\ndef f(a: i64, b: i64) -> i64:\n{body}"
        "@kernel(grid=1, block=1)\ndef k(y: SliceMut[i64], a: i64, b: i64) -> None:\n    y[0] = f(a, b)\n"
    )
    ir = names["k"].ir()
    verify(ir)
    for a, b in ((0, 0), (7, -3), (-20, 41), (5, 5), (90, 2)):
        y = np.zeros(1, np.int64)
        run(ir, y=y, a=a, b=b)
        assert y[0] == plain["f"](a, b), f"a={a} b={b}\n{body}"  # type: ignore[operator]
