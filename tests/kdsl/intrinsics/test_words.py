"""Operations on words of 32 bits that take three operands, and the mask of the lanes that are here: on every device against Python, in PTX, and refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from refusal import refused
from written import BLOCKS, poison, written

import kdsl
from kdsl import DisjointSlice, dp4a, elements, f32, funnel_shift_left, i32, i64, kernel, permute_bytes, thread_index, u32
from kdsl.backend.cpu import HostCpu, compile_assembly
from kdsl.lang.types import DTYPES
from kdsl.testing import devices
from kdsl.testing.ptx import assemble, filecheck

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
WORD = 0xFFFFFFFF


def permuted(a: int, b: int, selector: int) -> int:
    of = [*a.to_bytes(4, "little"), *b.to_bytes(4, "little")]
    found = []
    for place in range(4):
        nibble = selector >> (4 * place) & 15
        byte = of[nibble & 7]
        found.append((255 if byte >= 128 else 0) if nibble & 8 else byte)
    return int.from_bytes(bytes(found), "little")


MODELS: dict[str, Any] = {
    "funnel_shift_left": lambda a, b, c: ((b << 32 | a) << (c % 32)) >> 32 & WORD,
    "funnel_shift_right": lambda a, b, c: (b << 32 | a) >> (c % 32) & WORD,
    "permute_bytes": permuted,
}


@DEVICES
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("block", [17, 96])
def test_words_of_words(device: Any, name: str, block: int) -> None:
    """With shifts and selectors of every kind, and with an operand that all threads share."""
    kernel = written(
        "a: Slice[u32], b: Slice[u32], c: Slice[u32], y: SliceMut[u32]",
        f"i = thread_index()\nif i in a:\n    y[i] = {name}(a[i], b[i], c[i])\n    y[i + len(a)] = {name}(a[i], b[1], c[3])",
        block,
        'elements("a")',
    )
    random = np.random.default_rng(block)
    a, b, c = (random.integers(0, 1 << 32, 400).astype(np.uint32) for _ in range(3))
    c[:80] = np.arange(80)
    c[80:96] = 0x1111 * np.arange(16)
    y = device.array(poison(800, DTYPES["u32"]))
    kernel(device.array(a), device.array(b), device.array(c), y)
    own = [MODELS[name](*map(int, three)) for three in zip(a, b, c, strict=True)]
    assert y.numpy().tolist() == own + [MODELS[name](int(v), int(b[1]), int(c[3])) for v in a]


@DEVICES
@pytest.mark.parametrize("a_type", ["i32", "u32"])
@pytest.mark.parametrize("b_type", ["i32", "u32"])
def test_products_of_bytes(device: Any, a_type: str, b_type: str) -> None:
    of = "u32" if a_type == b_type == "u32" else "i32"
    kernel = written(
        f"a: Slice[{a_type}], b: Slice[{b_type}], c: Slice[{of}], y: SliceMut[{of}]",
        "i = thread_index()\ny[i] = dp4a(a[i], b[i], c[i])",
        48,
        "8",
    )
    random = np.random.default_rng(1)
    a, b, c = (random.integers(0, 1 << 32, 384).astype(np.uint32) for _ in range(3))
    a[:4], b[:4], c[:4] = [0x80808080, WORD, WORD, 0x7F7F7F7F], [0x80808080, WORD, 0x80808080, 0x80808080], [0, 1, WORD, 0x80000000]
    y = device.array(poison(384, DTYPES[of]))
    kernel(*(device.array(words.view(DTYPES[kind].numpy)) for words, kind in ((a, a_type), (b, b_type), (c, of))), y)
    factors = [
        words.view(np.int8 if kind == "i32" else np.uint8).reshape(-1, 4).astype(np.int64) for words, kind in ((a, a_type), (b, b_type))
    ]
    expected = ((factors[0] * factors[1]).sum(1) + c) & WORD
    assert y.numpy().view(np.uint32).tolist() == expected.tolist()


def test_one_instruction_each() -> None:
    ptx = written(
        "x: Slice[u32], y: SliceMut[u32]",
        "a = x[0]\nb = x[1]\nc = x[2]\ny[0] = funnel_shift_left(a, b, c)\ny[1] = funnel_shift_right(a, b, c)\ny[2] = permute_bytes(a, b, c)\n"
        "y[3] = dp4a(a, b, c)\ny[4] = u32(dp4a(i32(a), b, i32(c)))\ny[5] = u32(dp4a(a, i32(b), i32(c)))\ny[6] = u32(dp4a(i32(a), i32(b), i32(c)))\n"
        "y[7] = active_mask()",
    ).ptx("sm_80")
    filecheck(ptx, """
    CHECK: shf.l.wrap.b32
    CHECK: shf.r.wrap.b32
    CHECK: prmt.b32
    CHECK: dp4a.u32.u32
    CHECK: dp4a.s32.u32
    CHECK: dp4a.u32.s32
    CHECK: dp4a.s32.s32
    CHECK: activemask.b32
    """)  # fmt: skip
    assemble(ptx, "sm_80")


@pytest.mark.parametrize("generation", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_every_processor_has_them(generation: str) -> None:
    kernel = written(
        "x: Slice[u32], y: SliceMut[u32]",
        "i = thread_index()\ny[i] = permute_bytes(funnel_shift_left(x[i], x[i + 1], x[3]), funnel_shift_right(x[i], 7, x[i]), dp4a(x[i], x[i + 2], 5))",
        64,
    )
    called = re.findall(r"\t(?:callq?|bl)\t(\S+)", compile_assembly(kernel.ir(), HostCpu(generation)))
    assert all(name.lstrip("_").startswith(("check.", "record.", "kdsl_")) for name in called)  # none of a library


@DEVICES
@pytest.mark.parametrize("block", BLOCKS)
def test_the_active_mask(device: Any, block: int) -> None:
    """It names the lane itself, and none that is somewhere else: not beyond the block, not returned, not in the other branch."""
    kernel = written(
        "y: SliceMut[u32]",
        "t = thread_idx.x\nlane = lane_index()\nwhole = warp_ballot(True)\nif t % 7 == 5:\n    return\nmine = u32(1) << u32(lane)\n"
        "left = warp_ballot(True)\neven = warp_ballot(lane % 2 == 0)\n"
        "seen = active_mask()\ny[t] = u32(seen & mine != 0) + 2 * u32(seen & ~left == 0)\n"
        "if lane % 2 == 0:\n    seen = active_mask()\n    y[t] += 4 * u32(seen & mine != 0) + 8 * u32(seen & ~even == 0)\n"
        "else:\n    seen = active_mask()\n    y[t] += 4 * u32(seen & mine != 0) + 8 * u32(seen & even == 0)\n",
        block,
    )
    y = device.array(poison(block, DTYPES["u32"]))
    kernel(y)
    t = np.arange(block)
    assert y.numpy().tolist() == np.where(t % 7 == 5, 0xA5A5A5A5, 15).tolist()


def test_the_active_mask_on_the_cpu_is_exact() -> None:
    kernel = written("y: SliceMut[u32]", "t = thread_idx.x\ny[t] = active_mask()\nif t % 3 == 0:\n    y[t] = active_mask()", 40)
    y = kdsl.device("cpu").array(poison(40, DTYPES["u32"]))
    kernel(y)
    whole = [WORD] * 32 + [0xFF] * 8
    for t, found in enumerate(y.numpy().tolist()):
        first = t // 32 * 32
        lanes = [n for n in range(first, min(first + 32, 40)) if n % 3 == 0]
        assert found == (sum(1 << (n - first) for n in lanes) if t % 3 == 0 else whole[t])


def test_types_are_those_of_words() -> None:
    @kernel(grid=elements("y"))
    def wide(y: DisjointSlice[u32], n: i64) -> None:
        y[thread_index()] = permute_bytes(n, 2, 3)

    refused(wide, "i64", "`a` of permute_bytes()", at="n", hint="u32(n)")

    @kernel(grid=elements("y"))
    def shift(y: DisjointSlice[u32], n: i32) -> None:
        y[thread_index()] = funnel_shift_left(1, 2, n)

    refused(shift, "i32", "`shift` of funnel_shift_left()", at="n", hint="u32(n)")

    @kernel(grid=elements("y"))
    def floats(y: DisjointSlice[i32], v: f32) -> None:
        y[thread_index()] = dp4a(v, 1, 2)

    refused(floats, "f32", "`a` of dp4a()", at="v", hint="i32(v)")

    @kernel(grid=elements("y"))
    def mixed(y: DisjointSlice[u32], a: u32, b: i32) -> None:
        y[thread_index()] = u32(dp4a(a, b, a))

    refused(mixed, "u32", "`c` of dp4a()", at="a", hint="i32(a)")
