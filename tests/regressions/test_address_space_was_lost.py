"""Elsewhere a pointer that had gone through a struct or a function lost its space: generic loads, a third of the bandwidth; or a whole local array was
copied to read one element.

Every access in PTX names its space, however the array came there.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from from_text import kernel_of, module

import kdsl
from kdsl.testing.ptx import assemble

HELPERS = """
@function
def copied(into, source, i):
    into[i] = source[i]
@function
def element(a, i):
    return a[i] * 2.0
@function
def total(a, count: Const[int]):
    t = a[0]
    for k in range(1, count):
        t += a[k]
    return t
@function
def either(a, b, c, i):
    if c:
        return a[i]
    return b[i]
"""
BODIES: dict[str, str] = {
    "a copy": "i = thread_index()\nif i in y:\n    y[i] = x[i]",
    "through functions": "i = thread_index()\ncopied(y, x, i)\ny[i] += element(x, i)",
    "under another name": "i = thread_index()\nw = x\nv = y\nv[i] = w[i]",
    "a choice of arrays": "i = thread_index()\ny[i] = either(x, z, n > 0, i)",
    "a choice of kinds of memory": "i = thread_index()\ns = shared_array(64, f32)\ns[thread_idx.x] = x[i]\nsync_threads()\ny[i] = either(s, x, n > 0, 3)",
    "shared through functions": "s = shared_array(64, f32)\nt = thread_idx.x\ncopied(s, x, t)\nsync_threads()\ny[t] = total(s, 64) + element(s, 63 - t)",
    "local through functions": "a = local_array(8, f32)\nfor k in range(8):\n    a[k] = x[k]\ny[0] = total(a, 8) + element(a, n)",
    "two dimensions": "t = thread_idx.x\ns = shared_array((2, 64), f64)\ns[n & 1, t] = m[t, 3]\nsync_threads()\ny[t] = f32(s[0, 63 - t])",
    "atomic operations": "s = shared_array(4, f32)\natomic_add(s, n & 3, 1.0)\nsync_threads()\natomic_add(y, 0, s[0])",
    "narrow elements": "t = thread_idx.x\ns = shared_array(64, f16)\ns[t] = h[t]\nsync_threads()\ny[t] = f32(s[63 - t]) + f32(b[t])",
    "a stage of several arrays": "t = thread_idx.x\np = shared_array(64, f32)\nq = shared_array(64, f32)\nfor k in range(n):\n    "
    "if k % 2 == 0:\n        p[t] = x[k]\n    else:\n        q[t] = x[k]\n    sync_threads()\n"
    "    y[t] += either(p, q, k % 2 == 0, 63 - t)\n    sync_threads()",
}
PARAMETERS = "y: SliceMut[f32], x: Slice[f32], z: Slice[f32], m: Slice[f64, D2], h: Slice[f16], b: Slice[bool], n: i32"


def entry(ptx: str) -> str:
    return ptx[ptx.index(".entry") : ptx.index("\n}", ptx.index(".entry"))]


@pytest.mark.parametrize("case", BODIES)
def test_every_access_names_its_space(case: str) -> None:
    functions = {name: value for name, value in module(HELPERS).items() if isinstance(value, kdsl.frontend.function.Function)}
    kernel = kernel_of(PARAMETERS, BODIES[case], "grid=4, block=64", **functions)
    ptx = kernel.ptx("sm_90")
    body = entry(ptx)
    accesses = [line.strip() for line in body.splitlines() if re.match(r"\s*(@\S+ )?(ld|st|atom|red)\.", line)]
    assert accesses
    nameless = [line for line in accesses if not re.search(r"\.(global|shared|local|param|const)\b", line)]
    assert not nameless
    assemble(ptx, "sm_90")


def test_one_element_of_a_local_array_is_one_access() -> None:
    """No copy of the whole: beside the zeros with which it begins as many stores as the program has, one load per read."""
    kernel = kernel_of(
        "y: SliceMut[f32], n: i32, m: i32",
        "a = local_array((8, 8), f32)\na[n & 7, m & 7] = 3.0\na[m & 7, n & 7] = 4.0\ny[0] = a[n & 7, n & 7] + a[m & 7, 0]",
        "grid=1, block=32",
    )
    body = entry(kernel.ptx("sm_90"))
    assert body.count(".local .align") == 1
    assert 2 <= len(re.findall(r"st\.local.*[^0 {},];", body)) <= 3
    assert body.count("ld.local") == 2


def test_a_local_array_of_known_indices_needs_no_memory() -> None:
    body = (
        "a = local_array((4, 4), f32)\nfor i in unroll(4):\n    for j in unroll(4):\n        "
        "a[i, j] = x[i * 4 + j]\nt = 0.0\nfor i in unroll(4):\n    t += a[i, 3 - i] * a[3 - i, i]\ny[0] = t"
    )
    ptx = kernel_of("y: SliceMut[f32], x: Slice[f32]", body, "grid=1, block=32").ptx("sm_90")
    assert ".local" not in entry(ptx)
    assert assemble(ptx, "sm_90").spills == 0


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120"])
def test_a_choice_among_four_shared_arrays_assembles(target: str) -> None:
    """Elsewhere it became a table of shared addresses in global memory, which ptxas refuses."""
    names = "abcd"
    lines = [f"{name} = shared_array(32, f32)" for name in names] + ["t = thread_idx.x"]
    for number, name in enumerate(names):
        lines += [f"{'if' if number == 0 else 'elif'} n % 4 == {number}:", f"    {name}[t] = x[t]"]
    lines += ["sync_threads()", "v = 0.0"]
    for number, name in enumerate(names):
        lines += [f"{'if' if number == 0 else 'elif'} n % 4 == {number}:", f"    v = {name}[31 - t]"]
    ptx: Any = kernel_of("y: SliceMut[f32], x: Slice[f32], n: i32", "\n".join([*lines, "y[t] = v"]), "grid=1, block=32").ptx(target)
    assert not re.search(r"\.global[^;]*=\s*\{", ptx)
    assemble(ptx, target)
