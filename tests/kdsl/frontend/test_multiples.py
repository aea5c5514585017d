"""Multiples that the compiler knows hold for what the program computes, and it knows those that alignment is about."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from text import define

import kdsl
from kdsl import Slice, SliceMut, elements, f32, i64, kernel, struct, thread_idx, u32
from kdsl.frontend.context import Lengths
from kdsl.frontend.multiples import MOST, contract_multiples, multiple_of, power_of_two_in
from kdsl.ir import nodes


@struct
class Sizes:
    """Sizes."""

    k: u32
    """A multiple of 8."""
    n: u32
    """Anything."""


def known(tested: Any) -> int:
    """The multiple of what a kernel stores."""
    context: Any = SimpleNamespace(contract=Lengths({}, {}, contract_multiples(tested.declaration.requires)))
    store = next(op for op in nodes.walk(tested.ir().body) if isinstance(op, nodes.Store))
    return multiple_of(context, store.value)


def test_what_alignment_is_about() -> None:
    @kernel(grid=elements("y"), block=64, requires=("p.k // 8 * 8 == p.k",))
    def row_and_chunk(y: SliceMut[i64], p: Sizes) -> None:
        y[0] = thread_idx.x // 2 * p.k + thread_idx.x % 2 * 8

    @kernel(grid=elements("y"), block=64)
    def swizzled(y: SliceMut[i64]) -> None:
        y[0] = (thread_idx.x % 4 ^ thread_idx.x // 8 % 4) * 8

    @kernel(grid=elements("y"), block=64)
    def stepping(y: SliceMut[i64], n: i64) -> None:
        for k in range(32, n, 16):
            y[0] = k + (n << 5)

    @kernel(grid=elements("y"), block=64)
    def masked(y: SliceMut[i64], n: i64) -> None:
        y[0] = (n & -16) - 48 * n

    @kernel(grid=elements("y"), block=64)
    def halved(y: SliceMut[i64], n: i64) -> None:
        y[0] = n * 64 // 4 + (64 if n > 3 else 32)

    @kernel(grid=elements("y"), block=64, requires=("x.shape[0] == 4 * len(y)", "len(y) == 8 * p.n"))
    def of_a_contract(y: SliceMut[i64], x: Slice[f32], p: Sizes) -> None:
        y[0] = len(x) - 64 + i64(p.n) * 0

    @kernel(grid=elements("y"), block=64)
    def unknown(y: SliceMut[i64], p: Sizes) -> None:
        y[0] = thread_idx.x * p.k + 8

    kernels = (row_and_chunk, swizzled, stepping, masked, halved, of_a_contract, unknown)
    assert {tested.name: known(tested) for tested in kernels} == {
        "row_and_chunk": 8, "swizzled": 8, "stepping": 16, "masked": 16, "halved": 16, "of_a_contract": 32, "unknown": 1,
    }  # fmt: skip


def test_contracts() -> None:
    contract = ("p.k // 8 * 8 == p.k and n == 4 * m", "m == 16 * q", "a.shape[1] == len(b) + 32", "len(b) == 64", "p.n * 2 == 8", "(")
    assert contract_multiples(contract) == {"p.k": 8, "n": 64, "m": 16, "a.shape[1]": 32, "b": 64}
    assert [power_of_two_in(number) for number in (0, 1, 12, -8, 96)] == [MOST, 1, 4, 8, 32]


def test_they_hold_for_random_expressions() -> None:
    """Against what Python computes, wrapped as the language wraps."""
    chance = random.Random(1)

    def expression(depth: int) -> str:
        if depth == 0:
            return chance.choice(["n", "m", str(chance.choice([0, 1, 2, 8, 12, 64, 1 << 40]))])
        left, right = expression(depth - 1), expression(depth - 1)
        op = chance.choice(["+", "-", "*", "&", "|", "^", "// 4", "<< 3", ">> 2", "% 24"])
        return f"({left} {op} {right})" if len(op) == 1 else f"({left} {op})"

    for _ in range(60):
        text = expression(chance.randint(1, 4))
        tested = define(f"@kernel(grid=1)\ndef tested(y: SliceMut[i64], n: i64, m: i64) -> None:\n    y[0] = {text}\n")["tested"]
        multiple = known(tested)
        y = kdsl.device("cpu").zeros(1, i64)
        for _ in range(10):
            n, m = (chance.randint(-(1 << 60), 1 << 60) << chance.choice([0, 0, 3]) for _ in range(2))
            tested(y, n, m)
            assert int(y.numpy()[0]) % multiple == 0, (text, n, m)
