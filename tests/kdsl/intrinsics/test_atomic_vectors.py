"""Atomic operations on vectors: the instructions, and what they do on every device that has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from written import BLOCKS, poison, written

import kdsl
from kdsl.backend.cpu import HostCpu, compile_assembly
from kdsl.backend.nvptx import TARGETS, Target, TargetError
from kdsl.backend.nvptx.targets import version_for
from kdsl.cli.explain import accesses
from kdsl.lang.intrinsics import INTRINSICS, SCOPES, ToAtomic
from kdsl.lang.types import DTYPES
from kdsl.lang.vectors import VECTORS
from kdsl.testing import devices
from kdsl.testing.ptx import assemble, filecheck, unrecorded

DEVICES = pytest.mark.parametrize("device", [d for d in devices() if getattr(d, "capability", (9, 0)) >= (9, 0)], ids=str)
EVERY_DEVICE = pytest.mark.parametrize("device", devices(), ids=str)
FORMS = [
    (name, vector, form)
    for name, row in INTRINSICS.items()
    if isinstance(row.lowering, ToAtomic)
    for vector, form in row.lowering.vectors.items()
]
SUMS = sorted({vector for name, vector, _ in FORMS if name == "atomic_add"})
MOVED = sorted({vector for name, vector, _ in FORMS if name == "atomic_cas"})
READ = sorted({vector for name, vector, _ in FORMS if name == "atomic_load"})


def version_of(ptx: str) -> tuple[int, int]:
    major, minor = ptx.split(".version ")[1].split("\n")[0].split(".")
    return int(major), int(minor)


@pytest.mark.parametrize(("name", "vector", "form"), FORMS, ids=[f"{name}-{vector}" for name, vector, _ in FORMS])
def test_every_vector_scope_order_and_space(name: str, vector: str, form: Any) -> None:
    lowering = INTRINSICS[name].lowering
    assert isinstance(lowering, ToAtomic)
    values = {"cas": "x[0], v, ", "load": ""}.get(lowering.op, "v, ")
    body, expected = [f"s = shared_array(64, {vector})", "t = thread_idx.x", "v = x[t]"], []
    for array, space in (("y", "global"), ("s", "shared")) if form.shared else (("y", "global"),):
        for scope, ptx_scope in SCOPES.items():
            for order in lowering.orders:
                body.append(f'{name}({array}, t, {values}scope="{scope}", order="{order}")')
                expected += [f"CHECK: fence.sc.{ptx_scope};"] if order == "seq_cst" else []
                plain = {"load": "acquire", "store": "release"}.get(lowering.op, "acq_rel") if order == "seq_cst" else order
                head, _, operation = lowering.ptx.partition(".")
                expected.append(f"CHECK: {'.'.join(filter(None, (head, plain, ptx_scope, space, operation, form.ptx)))} ")
    ptx = written(f"x: Slice[{vector}], y: SliceMut[{vector}]", "\n".join(body)).ptx("sm_90")
    filecheck(unrecorded(ptx), "\n".join(expected))
    assemble(ptx, "sm_90")


@pytest.mark.parametrize(("name", "vector", "form"), FORMS, ids=[f"{name}-{vector}" for name, vector, _ in FORMS])
def test_a_vector_compiles_for_its_least_target_and_is_refused_below(name: str, vector: str, form: Any) -> None:
    values = {"atomic_cas": ", x[0], x[1]", "atomic_load": ""}.get(name, ", x[1]")
    call = f"{name}(y, 0{values})" if name == "atomic_store" else f"y[1] = {name}(y, 0{values})"
    kernel = written(f"x: Slice[{vector}], y: SliceMut[{vector}]", call)
    assert kernel.compile("cpu").code
    target = "sm_80" if form.least_capability < 90 else "sm_90"
    ptx = kernel.ptx(target)
    assert version_of(ptx) == max(form.least_ptx, TARGETS[target].least_ptx)
    assemble(ptx, target)
    older = Target("sm_older", form.least_capability - 1, (6, 0), "an older GPU")
    needed = f"{form.least_capability // 10}.{form.least_capability % 10}"
    with pytest.raises(
        TargetError, match=rf"{name}\(\) of {vector} cannot be compiled for sm_older .*it needs compute capability {needed}"
    ):
        version_for(older, [f"{name}:of {vector}"])
    if target == "sm_80":
        return
    with pytest.raises(kdsl.KernelError, match=rf"{name}\(\) of {vector} cannot be compiled for sm_89 .*needs compute capability 9.0"):
        kernel.ptx("sm_89")


@pytest.mark.parametrize("call", ["atomic_load(y, 0", "atomic_store(y, 0, v"])
def test_128_bits_among_the_blocks_of_a_cluster(call: str) -> None:
    """They need the PTX version of 128 bits, and the compute capability of clusters."""
    kernel = written("y: SliceMut[f32x4], a: f32", f'v = f32x4(a)\n{call}, scope="cluster")')
    ptx = kernel.ptx("sm_90")
    assert version_of(ptx) == (8, 4)
    assemble(ptx, "sm_90")
    message = rf'{call.partition("(")[0]}\(\) with scope "cluster" cannot be compiled for sm_89 .*needs compute capability 9.0'
    with pytest.raises(kdsl.KernelError, match=message):
        kernel.ptx("sm_89")


def test_128_bits_are_one_access() -> None:
    kernel = written(
        "data: SliceMut[i32], y: SliceMut[u64x2], out: SliceMut[u64], a: u64",
        'data[0] = 5\natomic_store(y, 0, u64x2(a, a + u64(1)), order="release")\n'
        'seen = atomic_load(y, 1, order="acquire")\nout[0] = seen.x * u64(data[1])\nout[1] = seen.y',
    )
    ptx = kernel.ptx("sm_80")
    filecheck(ptx, """
    CHECK: st.global.b32
    CHECK: { .reg .b128 value; mov.b128 value, {%rd{{[0-9]+}}, %rd{{[0-9]+}}}; st.release.gpu.global.b128 [%rd{{[0-9]+}}], value; }
    CHECK: { .reg .b128 old; ld.acquire.gpu.global.b128 old, [%rd{{[0-9]+}}]; mov.b128 {%rd{{[0-9]+}}, %rd{{[0-9]+}}}, old; }
    CHECK: ld.global.{{b32|s32}}
    CHECK: st.global.{{(v2.)?}}b64
    """)  # fmt: skip
    assemble(ptx, "sm_80")


def test_packed_numbers_are_one_register() -> None:
    ptx = written("y: SliceMut[f16], a: f16, b: f16", "atomic_add(as_vectors(y, f16x2).unchecked, 3, f16x2(a, b), scope='block')").ptx(
        "sm_80"
    )
    filecheck(ptx, """
    CHECK: mov.b32 %r[[V:[0-9]+]], {%rs{{[0-9]+}}, %rs{{[0-9]+}}};
    CHECK: atom.relaxed.cta.global.add.noftz.f16x2 %r{{[0-9]+}}, [%rd{{[0-9]+}}], %r[[V]];
    """)  # fmt: skip


@DEVICES
@pytest.mark.parametrize("vector", SUMS)
def test_sums(device: Any, vector: str) -> None:
    """Integral values, small enough for every partial sum to be exact; what is beside the vectors stays as it is."""
    of = VECTORS[vector]
    shared = f"s = shared_array(2, {vector})\nif thread_idx.x < 2:\n    s[thread_idx.x] = y[thread_idx.x]\nsync_threads()\n"
    on_shared = "    atomic_add(s, i % 2, x[i], scope='block')\n" if of.itemsize == 4 else ""
    kernel = written(
        f"x: Slice[{vector}], y: SliceMut[{vector}], z: SliceMut[{vector}]",
        (shared if on_shared else "")
        + f"i = thread_index()\nif i in x:\n    atomic_add(z, 1 + i % 2, x[i])\n    atomic_sub(z, 4, x[i], order='acq_rel')\n{on_shared}"
        + ("sync_threads()\nif thread_idx.x < 2:\n    atomic_add(z, 6 + thread_idx.x, s[thread_idx.x])" if on_shared else ""),
        96,
        'elements("x")',
    )  # fmt: skip
    element = of.element.numpy
    x = np.random.default_rng(1).integers(-1, 2, (300, of.lanes))
    arrays = [device.array(a.astype(element).reshape(-1)) for a in (x, np.zeros((2, of.lanes)), np.full((8, of.lanes), 3))]
    kernel(*arrays)
    z = arrays[2].numpy().astype(np.int64).reshape(8, of.lanes)
    model = np.full((8, of.lanes), 3)
    sums = [x[0::2].sum(0), x[1::2].sum(0)]
    model[1:3] += sums
    model[4] -= x.sum(0)
    model[6:8] += sums if on_shared else 0
    assert z.tolist() == model.tolist()


@DEVICES
@pytest.mark.parametrize("vector", sorted({vector for name, vector, _ in FORMS if name == "atomic_max"}))
def test_extremes(device: Any, vector: str) -> None:
    of = VECTORS[vector]
    kernel = written(
        f"x: Slice[{vector}], y: SliceMut[{vector}]",
        "i = thread_index()\nif i in x:\n    atomic_min(y, 1 + i % 2, x[i])\n    atomic_max(y, 4, x[i], order='acq_rel')",
        96,
        'elements("x")',
    )
    x = np.random.default_rng(2).integers(-900, 900, (300, of.lanes)).astype(of.element.numpy)
    x[x == 0] = 1
    y = device.array(np.full(8 * of.lanes, 5, of.element.numpy))
    kernel(device.array(x.reshape(-1)), y)
    model = np.full((8, of.lanes), 5, of.element.numpy)
    exact = x.astype(np.float64)
    model[1:3], model[4] = [np.minimum(5, exact[first::2].min(0)) for first in (0, 1)], np.maximum(5, exact.max(0))
    assert y.numpy().astype(np.float64).reshape(8, -1).tolist() == model.astype(np.float64).tolist()


@DEVICES
@pytest.mark.parametrize("vector", MOVED)
def test_moves_of_128_bits(device: Any, vector: str) -> None:
    of = VECTORS[vector]
    kernel = written(
        f"x: Slice[{vector}], y: SliceMut[{vector}], old: SliceMut[{vector}]",
        f"s = shared_array(3, {vector})\nfor k in range(3):\n    s[k] = y[k]\n"
        "old[0] = atomic_exchange(y, 0, x[0])\nold[1] = atomic_cas(y, 1, x[1], x[2])\nold[2] = atomic_cas(y, 2, x[2], x[0])\n"
        "old[3] = atomic_exchange(s, 0, x[0])\nold[4] = atomic_cas(s, 1, x[1], x[2], scope='block', order='acq_rel')\n"
        "old[5] = atomic_cas(s, 2, x[2], x[0])\nfor k in range(3):\n    y[3 + k] = s[k]",
        1,
    )  # fmt: skip
    numbers = (np.arange(3 * of.lanes) + 1).astype(of.element.numpy)
    before = (np.arange(6 * of.lanes) + 100).astype(of.element.numpy)
    before[of.lanes : 2 * of.lanes] = numbers[of.lanes : 2 * of.lanes]
    before[3 * of.lanes - 1] = numbers[-1]  # only its last number is what is compared with
    arrays = [device.array(a) for a in (numbers, before, poison(6 * of.lanes, of.element))]
    kernel(*arrays)
    x, start = numbers.reshape(3, -1), before.reshape(6, -1)
    assert arrays[2].numpy().reshape(6, -1).tolist() == [*start[:3].tolist()] * 2
    assert arrays[1].numpy().reshape(6, -1).tolist() == [x[0].tolist(), x[2].tolist(), start[2].tolist()] * 2


@EVERY_DEVICE
@pytest.mark.parametrize("vector", READ)
def test_loads_and_stores_of_128_bits(device: Any, vector: str) -> None:
    of = VECTORS[vector]
    kernel = written(
        f"x: Slice[{vector}], y: SliceMut[{vector}], seen: SliceMut[{vector}]",
        f"s = shared_array(40, {vector})\nt = thread_index()\nif t % 3 != 1:\n    atomic_store(y, t, x[t])\n"
        'atomic_store(s, 39 - t, x[t], scope="block", order="seq_cst")\nsync_threads()\n'
        'if t % 5 != 2:\n    seen[t] = atomic_load(s, t, scope="block")\n    seen[40 + t] = atomic_load(y, t, order="acquire")',
        40,
    )  # fmt: skip
    x = np.frombuffer(np.random.default_rng(3).bytes(40 * 16), of.element.numpy)
    before = poison(40 * of.lanes, of.element)
    y, seen = device.array(before), device.array(np.zeros(80 * of.lanes, of.element.numpy))
    kernel(device.array(x), y, seen)
    t = np.arange(40)
    given, model = x.reshape(40, -1), before.reshape(40, -1).copy()
    model[t % 3 != 1] = given[t % 3 != 1]
    found = np.zeros((80, of.lanes), of.element.numpy)
    found[:40][t % 5 != 2], found[40:][t % 5 != 2] = given[::-1][t % 5 != 2], model[t % 5 != 2]
    assert y.numpy().tobytes() == model.tobytes()
    assert seen.numpy().tobytes() == found.tobytes()


@pytest.mark.parametrize(
    ("generation", "load", "store"),
    [("x86-64-v3", "vmovdqa", "cmpxchg16b"), ("x86-64-v4", "vmovdqa", "cmpxchg16b"), ("aarch64", "ldaxp", "stlxp")],
)
def test_every_processor_has_instructions_for_128_bits(generation: str, load: str, store: str) -> None:
    for call, instruction in (("y[t] = atomic_load(x, t, order='acquire')", load), ("atomic_store(x, t, y[t], order='release')", store)):
        kernel = written("x: SliceMut[u64x2], y: SliceMut[u64x2]", f"t = thread_index()\nif t in y:\n    {call}")
        text = compile_assembly(kernel.ir(), HostCpu(generation))
        assert instruction in text
        assert "__atomic" not in text


@EVERY_DEVICE
def test_a_load_sees_what_one_store_has_written(device: Any) -> None:
    """Some threads store pairs, the others look: a torn one would be one that no thread wrote."""
    kernel = written(
        "y: SliceMut[u64x2], torn: SliceMut[i32]",
        "i = thread_index()\nfor k in range(50):\n    if i % 2 == 0:\n        n = u64(i * 50 + k) << 20\n        atomic_store(y, 0, u64x2(n, n * u64(3)))\n"
        "    else:\n        seen = atomic_load(y, 0)\n        if seen.y != seen.x * u64(3):\n            atomic_store(torn, 0, 1)",
        96,
        "16",
    )
    y, torn = device.array(np.zeros(2, np.uint64)), device.array(np.zeros(1, np.int32))
    kernel(y, torn)
    last = y.numpy()
    assert torn.numpy()[0] == 0
    assert last[1] == 3 * last[0]
    assert last[0] % (50 << 20) == 49 << 20


@EVERY_DEVICE
@pytest.mark.parametrize("index", [2, -1, 1 << 60])
def test_a_load_or_store_outside_is_left_out(device: Any, index: int) -> None:
    y, old = device.array(np.full(11, 7, np.float32)), device.array(np.full(8, 7, np.float32))
    for call in ("old[t] = atomic_load(as_vectors(y, 4), n)", "atomic_store(as_vectors(y, 4), n, f32x4(1.0))"):
        written("y: SliceMut[f32], old: SliceMut[f32x4], n: i64", f"t = thread_index()\n{call}", 1)(y, old, index)
        with pytest.raises(kdsl.BoundsError, match=rf"atomic operation outside array y: index {index} is out of bounds for 2 "):
            y.numpy()
    assert y.numpy().tolist() == [7] * 11
    assert old.numpy().tolist() == [0] * 4 + [7] * 4


@DEVICES
@pytest.mark.parametrize("block", BLOCKS)
def test_a_pair_changes_as_one(device: Any, block: int) -> None:
    """Every thread adds to both halves at once, however many try; a torn pair would be one that no thread wrote."""
    kernel = written(
        "y: SliceMut[u64x2], torn: SliceMut[i32], count: i64",
        "if thread_index() < count:\n    seen = u64x2(0)\n    done = False\n    while not done:\n"
        "        if seen.y != u64(3) * seen.x:\n            torn[0] = 1\n"
        "        found = atomic_cas(y, 0, seen, u64x2(seen.x + u64(1), seen.y + u64(3)))\n"
        "        done = found.x == seen.x and found.y == seen.y\n        seen = found",
        block,
        "3",
    )
    y, torn = device.array(np.zeros(2, np.uint64)), device.array(np.zeros(1, np.int32))
    kernel(y, torn, 3 * block - 5)
    assert y.numpy().tolist() == [3 * block - 5, 3 * (3 * block - 5)]
    assert torn.numpy()[0] == 0


@DEVICES
@pytest.mark.parametrize("index", [2, -1, 1 << 61, 1 << 62])
def test_outside_nothing_happens_and_it_is_recorded(device: Any, index: int) -> None:
    """The index counts in vectors, also in what is reported; the old value is 0."""
    kernel = written(
        "y: SliceMut[f32], old: SliceMut[f32x4], n: i64", "old[thread_index()] = atomic_add(as_vectors(y, 4), n, f32x4(1.0))", 33
    )
    y, old = device.array(np.full(11, 7, np.float32)), device.array(poison(4 * 33, DTYPES["f32"]))
    kernel(y, old, index)
    with pytest.raises(kdsl.BoundsError, match=rf"atomic operation outside array y: index {index} is out of bounds for 2 ") as caught:
        y.numpy()
    assert (caught.value.array, caught.value.index, caught.value.extent) == ("y", index, 2)
    assert y.numpy().tolist() == [7] * 11
    assert not old.numpy().any()


@DEVICES
def test_rows_and_the_parts_of_a_warp(device: Any) -> None:
    kernel = written(
        "x: Slice[f16, D2], y: SliceMut[f16, D2]",
        "i = thread_index()\nif i % 3 == 0 and i < 40:\n    atomic_add(as_vectors(y, f16x2), (i % 2, i // 20), as_vectors(x, f16x2)[i % 2, 1])",
        48,
    )
    x, y = np.arange(8).reshape(2, 4).astype(np.float16), np.zeros((2, 4), np.float16)
    held = [device.array(x), device.array(y)]
    kernel(*held)
    for i in range(0, 40, 3):
        y[i % 2, 2 * (i // 20) : 2 * (i // 20) + 2] += x[i % 2, 2:4]
    assert held[1].numpy().tolist() == y.tolist()


def test_explain_lists_their_checks() -> None:
    kernel = written(
        "y: SliceMut[f32x4], n: i64",
        "atomic_add(y, n, f32x4(1.0))\nif thread_index() in y:\n    atomic_add(y, thread_index(), f32x4(1.0))",
    )
    assert [(a.state, a.operation, a.array) for a in accesses(kernel.ir())] == [
        ("remains", "atomic", "y"),
        ("proved", "atomic", "y"),
    ]
