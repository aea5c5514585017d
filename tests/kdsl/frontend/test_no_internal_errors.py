"""Whatever is written, the frontend answers with IR that verifies, or with a KernelError; never with an internal error."""

from __future__ import annotations

import math
import random
from typing import TypeVar

import pytest
from text import define

import kdsl
from kdsl.ir.verifier import verify

T = TypeVar("T")
ATOMS = (
    "y", "x", "flags", "p", "p.a", "p.b", "n", "u", "h", "w", "i", "j", "t", "0", "1", "-3", "300", "2.5", "True", "None", "'inf'", "f32", "bool", "i64",
    "math.pi", "math", "kdsl.sqrt", "helper", "pair", "(n, u)", "()", "tile", "own", "len", "range", "thread_idx", "thread_idx.x", "K", "LIST", "y.dtype",
    "y.unchecked", "is_first_thread()", "thread_index()", "block_index()", "exp", "Scale", "int", "y.shape", "tile_index()",
)  # fmt: skip
CALLS = (
    "f32", "bool", "len", "min", "max", "abs", "helper", "pair", "sqrt", "fma", "exp", "warp_sum", "warp_any", "shuffle_xor", "int", "u8", "float",
    "float_bits", "clear", "shared_array", "local_array", "sync_threads", "range", "unroll", "kdsl.floor", "y", "p.a", "print", "fmin", "f64", "i32",
)  # fmt: skip
OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "<", "<=", "==", "!=", "in", "not in", "is", "and", "or")
HEADER = """
@struct
class Scale:
    a: f32
    b: u32

@function
def helper(x, z=1):
    if x > 3:
        return x
    return x * z

@function
def pair(x: T, z: f32 = 2) -> tuple[T, f32]:
    return x, z

@function
def clear(a: SliceMut[f32], k: i64) -> None:
    a[k] = 0

@kernel(grid=tiles(rows=4, columns=4, tile=(4, 4)), block=64)
def k(y: SliceMut[f32], x: DisjointSlice[i32], flags: Slice[bool], p: Scale, n: i32, u: u64, h: i16, w: f64) -> None:
    i = thread_index()
    j = 0
    t = (n, 1.5)
    tile = shared_array((4, 4), f32)
    own = local_array(3, i32)
"""


class Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def expression(self, depth: int) -> str:
        pick = self.random.choice
        kind = self.random.randrange(10)
        if depth == 0 or kind < 2:
            return pick(ATOMS)
        a, b = self.expression(depth - 1), self.expression(depth - 1)
        match kind:
            case 2 | 3 | 4:
                return f"({a} {pick(OPERATORS)} {b})"
            case 5:
                return f"{pick(('-', 'not ', '~', '+'))}({a})"
            case 6:
                return f"({a} if {b} else {self.expression(depth - 1)})"
            case 7:
                return f"{pick(('y', 'x', 'flags', 'tile', 'own', 't', 'n'))}[{a}]"
            case 8:
                return f"{pick(CALLS)}({pick(('', a, f'{a}, {b}', f'{a}, {b}, {a}', f'z={a}'))})"
            case _:
                return f"({a}, {b})"

    def statement(self) -> str:
        pick = self.random.choice
        e = self.expression(2)
        target = pick(("y[i]", "x[i]", "n", "j", "t", "own[0]", "tile[n, 1]", "a, b", "i", "p.a", "y[j]", "q"))
        return pick(
            (
                f"{target} = {e}",
                f"{target} {pick(OPERATORS[:12])}= {e}",
                f"if {e}:\n        {target} = {self.expression(1)}",
                f"for j in {pick(('range', 'unroll'))}({e}):\n        {target} = {self.expression(1)}",
                f"while {e}:\n        {target} = {self.expression(1)}",
                f"q: {pick(('f32', 'bool', 'i64', '3'))} = {e}",
                f"assert {e}, 'text'",
                f"{pick(CALLS)}({e})",
                f"for q in range(3):\n        if {e}:\n            {pick(('break', 'continue', 'return'))}\n        {target} = {self.expression(1)}",
            )
        )


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("seed", range(40))
def test_any_text(seed: int) -> None:
    writer = Writer(seed)
    refused: list[kdsl.KernelError] = []
    for _ in range(25):
        body = "".join(f"    {writer.statement()}\n" for _ in range(writer.random.randint(1, 2)))
        try:
            ir = define(HEADER + body, math=math, kdsl=kdsl, K=7, LIST=[1], T=T)["k"].ir()
        except kdsl.KernelError as error:
            refused.append(error)
        except SyntaxError:
            pass  # refused by Python itself
        else:
            verify(ir)
    assert all(error.hint and str(error) for error in refused)
