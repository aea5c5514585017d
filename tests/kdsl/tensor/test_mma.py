"""`mma` in every form, on every device that has it: fragments laid out by the tables of the PTX ISA, one formula per shape, against NumPy in f64 and i64."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from operands import HOST, Matrix, capability, error_bound, exact, random_matrix, words
from written import poison, written

import kdsl
from kdsl import f32, i32, i64, mma_a_column, mma_a_row, mma_b_column, mma_b_row, mma_column, mma_row, unroll
from kdsl.backend.nvptx import TARGETS
from kdsl.lang.intrinsics.fragments import FORMS, Form
from kdsl.lang.types import F64, I32, U32
from kdsl.testing import devices
from kdsl.testing.ptx import assemble

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
EVERY_FORM = pytest.mark.parametrize("form", FORMS, ids=lambda f: f"{f.shape}.{f.a}.{f.b}.{f.c}")
Place = tuple[int, int]

# Row and column of element i of a lane, as section "Matrix Fragments for mma" of the PTX ISA gives them for each shape; g is lane // 4, t is lane % 4.
A: dict[str, Callable[[int, int, int], Place]] = {
    "m16n8k4.tf32": lambda g, t, i: (g + 8 * i, t),
    "m16n8k8.tf32": lambda g, t, i: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4),
    "m8n8k4.f64": lambda g, t, i: (g, t),
    "m16n8k4.f64": lambda g, t, i: (g + 8 * i, t),
    "m16n8k8.f64": lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
    "m16n8k16.f64": lambda g, t, i: (g if i % 2 == 0 else g + 8, t + 4 * (i // 2)),
    "m16n8k8.16": lambda g, t, i: (g if i < 2 else g + 8, 2 * t + (i & 1)),
    "m16n8k16.16": lambda g, t, i: (g if i in (0, 1, 4, 5) else g + 8, 2 * t + (i & 1) + (8 if i >= 4 else 0)),
    "m16n8k16.8": lambda g, t, i: (g if i < 4 else g + 8, 4 * t + (i & 3)),
    "m16n8k32.8": lambda g, t, i: (g if i < 4 or 8 <= i < 12 else g + 8, 4 * t + (i & 3) + (16 if i >= 8 else 0)),
}
B: dict[str, Callable[[int, int, int], Place]] = {
    "m16n8k4.tf32": lambda g, t, i: (t, g),
    "m16n8k8.tf32": lambda g, t, i: (t + 4 * i, g),
    "m8n8k4.f64": lambda g, t, i: (t, g),
    "m16n8k4.f64": lambda g, t, i: (t, g),
    "m16n8k8.f64": lambda g, t, i: (t + 4 * i, g),
    "m16n8k16.f64": lambda g, t, i: (t + 4 * i, g),
    "m16n8k8.16": lambda g, t, i: (2 * t + i, g),
    "m16n8k16.16": lambda g, t, i: (2 * t + (i & 1) + (8 if i >= 2 else 0), g),
    "m16n8k16.8": lambda g, t, i: (4 * t + i, g),
    "m16n8k32.8": lambda g, t, i: (4 * t + (i & 3) + (16 if i >= 4 else 0), g),
}


def place_of_sum(g: int, t: int, i: int) -> Place:
    return (g if i < 2 else g + 8, 2 * t + (i & 1))


def layout(form: Form) -> str:
    return f"{form.shape}.{form.a if form.packed == 1 else 32 // form.packed}"


def pieces(x: Matrix, count: int, place: Callable[[int, int, int], Place]) -> Matrix:
    """The elements of each lane, in a row per lane."""
    return np.stack([[x[place(lane // 4, lane % 4, i)] for i in range(count)] for lane in range(32)])


def fragments(form: Form, a: Matrix, b: Matrix, c: Matrix) -> tuple[Matrix, ...]:
    """The registers of the warp: a row per lane."""
    of_a, of_b, _ = form.registers
    held = (
        pieces(a, of_a * form.packed, A[layout(form)]),
        pieces(b, of_b * form.packed, B[layout(form)]),
        pieces(c, form.sums, place_of_sum),
    )
    return words(held[0]), words(held[1]), words(held[2]) if form.c == "f16" else held[2]


def kernel_of(form: Form, *, saturate: bool = False) -> Any:
    """A kernel that takes the registers of the lanes, a row per lane."""
    counts = form.registers
    kind = {"f16": "f16", "bf16": "bf16", "f64": "f64", "s8": "i8", "u8": "u8"}
    types = [kind.get(of, repr(of)) for of in (form.a, form.b)]
    loads = [", ".join(f"{name}[t * {count} + {i}]" for i in range(count)) + "," for name, count in zip("abc", counts, strict=True)]
    results = "\n".join(f"y[t * {counts[2]} + {i}] = d[{i}]" for i in range(counts[2]))
    return written(
        f"y: SliceMut[{form.accumulator}], a: Slice[{form.operand}], b: Slice[{form.operand}], c: Slice[{form.accumulator}]",
        f't = lane_index()\nd = mma(({loads[0]}), ({loads[1]}), ({loads[2]}), "{form.shape}", ({types[0]}, {types[1]}), {saturate})\n{results}',
    )


def multiply(form: Form, device: Any, a: Matrix, b: Matrix, c: Matrix, *, saturate: bool = False) -> Matrix:
    """D of one product on a device."""
    registers = fragments(form, a, b, c)
    y = device.array(poison(32 * form.registers[2], form.accumulator))
    kernel_of(form, saturate=saturate)(y, *(device.array(r.reshape(-1)) for r in registers))
    d = np.full((form.m, form.n), -1, HOST[form.c])
    for lane, row in enumerate(y.numpy().view(HOST[form.c]).reshape(32, form.sums)):
        for i, value in enumerate(row):
            d[place_of_sum(lane // 4, lane % 4, i)] = value
    return d


@DEVICES
@EVERY_FORM
def test_every_form_multiplies(device: Any, form: Form) -> None:
    if capability(device) < form.least_capability:
        pytest.skip(f"{device} has no {form.shape} of {form.a}")
    a, b = random_matrix((form.m, form.k), form.a, 1), random_matrix((form.k, form.n), form.b, 2)
    c = random_matrix((form.m, form.n), form.c, 3)
    d = multiply(form, device, a, b, c)
    if form.c == "s32":
        np.testing.assert_array_equal(d, (exact(a) @ exact(b) + exact(c)).astype(np.int32))  # wraps
    else:
        assert np.all(np.abs(exact(d) - (exact(a) @ exact(b) + exact(c))) <= error_bound(a, b, c, form.c))


@DEVICES
@pytest.mark.parametrize("form", [f for f in FORMS if f.c == "s32"], ids=lambda f: f"{f.shape}.{f.a}.{f.b}")
def test_integers_are_clamped_if_asked(device: Any, form: Form) -> None:
    a, b = random_matrix((form.m, form.k), form.a, 4), random_matrix((form.k, form.n), form.b, 5)
    c = np.random.default_rng(6).choice(np.array([2**31 - 1, -(2**31), 0, 2**31 - 1000], np.int32), (form.m, form.n))
    expected = exact(a) @ exact(b) + exact(c)
    assert np.any(expected > 2**31 - 1)
    d = multiply(form, device, a, b, c, saturate=True)
    np.testing.assert_array_equal(d, np.clip(expected, -(2**31), 2**31 - 1).astype(np.int32))


@EVERY_FORM
def test_the_cpu_adds_products_in_ascending_order_of_k(form: Form) -> None:
    """The documented accumulation, bit for bit: an fma per product. The sums of a few bits of f64 that model it are exact."""
    if form.a == "f64" or form.c == "s32":
        pytest.skip("nothing to see: f64 has no wider type to model it, integers have no order")
    random = np.random.default_rng(7)
    a, b = (random_matrix(s, of, 8).astype(np.float32) for s, of in (((form.m, form.k), form.a), ((form.k, form.n), form.b)))
    # a wide range, so that the order shows; few enough bits that the model is exact
    a = (np.round(a * 4) / 4 * np.exp2(random.integers(-3, 3, a.shape))).astype(HOST[form.a])
    b = (np.round(b * 4) / 4).astype(HOST[form.b])
    c = random_matrix((form.m, form.n), form.c, 9)
    total = c.astype(np.float32)
    for k in range(form.k):
        total = (exact(a)[:, k : k + 1] * exact(b)[k : k + 1, :] + exact(total)).astype(np.float32)
    d = multiply(form, kdsl.device("cpu"), a, b, c)
    assert d.tobytes() == total.astype(HOST[form.c]).tobytes()


def test_the_cpu_ignores_the_bits_that_a_tf32_has_not() -> None:
    form = next(f for f in FORMS if f.a == "tf32" and f.k == 8)
    a, b = random_matrix((16, 8), "tf32", 1), random_matrix((8, 8), "tf32", 2)
    c = np.zeros((16, 8), np.float32)
    low = (np.random.default_rng(3).integers(0, 1 << 13, a.shape).astype(np.uint32) | a.view(np.uint32)).view(np.float32)
    device = kdsl.device("cpu")
    assert np.array_equal(multiply(form, device, low, b, c), multiply(form, device, a, b, c))


@DEVICES
@pytest.mark.parametrize("kind", ["f16", "bf16", "e5m2"])
def test_infinities_and_nans_go_through(device: Any, kind: str) -> None:
    form = next(f for f in FORMS if f.a == f.b == kind and f.c == "f32")
    if capability(device) < form.least_capability:
        pytest.skip(f"{device} has no {form.shape} of {form.a}")
    a, b = np.zeros((form.m, form.k), HOST[kind]), np.ones((form.k, form.n), HOST[kind])
    a[1, 3], a[5, 2], a[9, 0], a[9, 1] = np.inf, np.nan, np.inf, -np.inf
    d = multiply(form, device, a, b, np.zeros((form.m, form.n), np.float32))
    assert np.all(d[1] == np.inf)
    assert np.all(np.isnan(d[[5, 9]]))
    assert np.all(d[[i for i in range(form.m) if i not in (1, 5, 9)]] == 0)


# ---------------------------------------------------------------------------------------------------------------------- coordinates


@kdsl.kernel(grid=1, block=32)
def coordinates(y: kdsl.SliceMut[i64]) -> None:
    lane = kdsl.lane_index()
    for r in unroll(8):
        y[lane * 48 + r * 6] = mma_row(r)
        y[lane * 48 + r * 6 + 1] = mma_column(r)
        y[lane * 48 + r * 6 + 2] = mma_a_row(r)
        y[lane * 48 + r * 6 + 3] = mma_a_column(r, 2)
        y[lane * 48 + r * 6 + 4] = mma_b_row(r, 4)
        y[lane * 48 + r * 6 + 5] = mma_b_column()


@DEVICES
def test_the_functions_for_places_agree_with_the_tables(device: Any) -> None:
    y = device.array(np.full(32 * 48, -1))
    coordinates(y)
    found = y.numpy().reshape(32, 8, 6)
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for r in range(4):
            assert tuple(found[lane, r, :2]) == place_of_sum(g, t, r)
            assert tuple(found[lane, r, 2:4]) == A["m16n8k16.16"](g, t, 2 * r)
        for r in range(2):
            assert tuple(found[lane, r, 4:]) == B["m16n8k32.8"](g, t, 4 * r)


# ------------------------------------------------------------------------------------------------------------------------- in a loop


@kdsl.kernel(grid=1, block=64)
def powers(y: kdsl.SliceMut[f32], a: kdsl.Slice[f32], b: kdsl.Slice[f32], n: i32) -> None:
    """Accumulates in a local array, in a loop, with operands given as f32; each of two warps another product."""
    t, warp = kdsl.lane_index(), kdsl.warp_index()
    total = kdsl.local_array((2, 4), f32)
    part = kdsl.local_array(4, f32)
    for r in unroll(4):
        part[r] = a[mma_a_row(r) * 8 + mma_a_column(r, 1)]
    other = (b[mma_b_row(0, 1) * 8 + t // 4], b[mma_b_row(1, 1) * 8 + t // 4])
    for _step in range(n):
        for half in unroll(2):
            total[half, :] = kdsl.mma(part[:], other, total[half, :], "m16n8k8", "tf32")
        if warp == 1:
            total[0, :] = kdsl.mma(part[0:4], other, total[0, 0:4], "m16n8k8", "tf32")
    for i in unroll(4):
        y[warp * 128 + mma_row(i) * 8 + mma_column(i)] = total[0, i] + total[1, i]


@DEVICES
def test_accumulators_live_in_local_arrays_across_loops(device: Any) -> None:
    a, b = random_matrix((16, 8), "tf32", 1), random_matrix((8, 8), "tf32", 2)
    y = device.array(np.full(256, np.nan, np.float32))
    powers(y, device.array(a.reshape(-1)), device.array(b.reshape(-1)), 5)
    product = exact(a) @ exact(b)
    np.testing.assert_allclose(y.numpy().reshape(2, 16, 8), [10 * product, 15 * product], rtol=1e-4, atol=1e-4)


# -------------------------------------------------------------------------------------------------------------------- code, documentation


@EVERY_FORM
def test_every_form_assembles_for_its_least_target_and_is_refused_below(form: Form) -> None:
    able = [target for target in TARGETS.values() if target.capability >= form.least_capability]
    for saturate in (False, True) if form.c == "s32" else (False,):
        ptx = kernel_of(form, saturate=saturate).ptx(able[0].name)
        modifier = ".satfinite" if saturate else ""
        assert f"mma.sync.aligned.{form.shape}.row.col{modifier}.{form.c}.{form.a}.{form.b}.{form.c} " in ptx
        version = ptx.split(".version ")[1].split("\n")[0]
        assert tuple(map(int, version.split("."))) == max(form.least_ptx, able[0].least_ptx)
        report = assemble(ptx, able[0].name)
        assert (report.spills, report.stack) == (0, 0)
    for target in TARGETS.values():
        if target.capability < form.least_capability:
            with pytest.raises(kdsl.KernelError, match=rf"mma\(\) {form.variant} cannot be compiled for {target.name}"):
                kernel_of(form).ptx(target.name)


def test_the_page_lists_the_forms() -> None:
    page = (Path(__file__).parents[3] / "docs" / "tensor-cores.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `m")]
    names = {"s8": "`i8`", "u8": "`u8`", "tf32": '`"tf32"`', "e4m3": '`"e4m3"`', "e5m2": '`"e5m2"`'}
    for form in FORMS:
        row = next(line for line in rows if line.startswith(f"| `{form.shape}`") and names.get(form.a, f"`{form.a}`") in line)
        of_a, of_b, of_c = form.registers
        assert f"{of_a}, {of_b}" in row
        assert f"{of_c} of {form.accumulator}" in row
        assert f" {form.least_capability // 10}.{form.least_capability % 10} |" in row


def test_the_table_covers_what_a_warp_holds() -> None:
    for form in FORMS:
        of_a, of_b, of_c = form.registers
        assert of_a * form.packed * 32 == form.m * form.k
        assert of_b * form.packed * 32 == form.k * form.n
        assert of_c * (2 if form.c == "f16" else 1) * 32 == form.m * form.n
        assert form.operand is (F64 if form.a == "f64" else U32)
        assert form.accumulator in (U32, I32, F64) or form.c == "f32"
