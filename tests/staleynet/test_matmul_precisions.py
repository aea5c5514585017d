"""The matrix product in every precision, layout and way, against float64: on the CPU, where tensor cores have a meaning of their own, and on a GPU where
there is one."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import bf16, f16, f32
from staleynet.kernels import matmul_held
from staleynet.ops import matmul_paths
from staleynet.ops.matmul import Operand, Precision, Version, matmul, row_major
from staleynet.ops.matmul_operands import parts_along_k, steps_of_part
from staleynet.ops.schedules import SCHEDULES, asked, forced, mma_alone, suits

PRECISIONS: tuple[Precision, ...] = ("fp32", "3xtf32", "tf32", "bf16", "f16")
SIZES = [(1, 1, 1), (17, 9, 33), (5, 129, 31), (64, 128, 32), (130, 264, 72)]
LARGE = [(300, 520, 96), (257, 1026, 640)]
NUMPY = {f32: np.dtype(np.float32), bf16: np.dtype(ml_dtypes.bfloat16), f16: np.dtype(np.float16)}
ROUNDING = {f32: 2.0**-24, bf16: 2.0**-9, f16: 2.0**-12}
"""The largest relative error of rounding to a type."""


@pytest.fixture(params=kdsl.testing.devices(), ids=str)
def device(request: pytest.FixtureRequest) -> kdsl.Device:
    found: kdsl.Device = request.param
    return found


def nearest_tf32(x: np.ndarray) -> np.ndarray:
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0xFFF + ((bits >> np.uint64(13)) & np.uint64(1))) & np.uint64(0xFFFFE000)).astype(np.uint32).view(np.float32)


def as_seen(x: np.ndarray, precision: Precision) -> np.ndarray:
    """The operand as the tensor cores see it."""
    if precision in ("bf16", "f16"):
        return x.astype(NUMPY[bf16 if precision == "bf16" else f16]).astype(np.float64)
    return (nearest_tf32(x) if precision == "tf32" else x).astype(np.float64)


def place(device: kdsl.Device, x: np.ndarray, element: Any, *, turned: bool, gap: int = 0) -> Operand:
    """A batch (p, q, rows, columns) in memory, with rows and columns exchanged, and with `gap` unused elements behind each row."""
    stored = x.swapaxes(2, 3) if turned else x
    p, q, rows, columns = stored.shape
    room = np.full((p, q, rows, columns + gap), 7.0, np.float32)
    room[..., :columns] = stored
    row, column = (1, columns + gap) if turned else (columns + gap, 1)
    return Operand(device.array(room.astype(NUMPY[element]).ravel()), row, column, q * rows * (columns + gap), rows * (columns + gap))


def taken(c: Operand, shape: tuple[int, int, int, int]) -> np.ndarray:
    strides = (c.sequence, c.head, c.row, c.column)
    flat = c.array.numpy()
    return np.lib.stride_tricks.as_strided(flat, shape, [s * flat.itemsize for s in strides]).astype(np.float64)


def check(
    device: kdsl.Device, precision: Precision, size: tuple[int, int, int], *, elements: tuple[Any, Any, Any] = (f32, f32, f32),
    turned: tuple[bool, bool, bool] = (False, False, False), gap: int = 0, batch: tuple[int, int] = (1, 1), seed: int = 0, **options: Any,
) -> None:  # fmt: skip
    m, n, k = size
    p, q = batch
    random = np.random.default_rng(seed)
    a, b = random.standard_normal((p, q, m, k)).astype(np.float32), random.standard_normal((p, q, k, n)).astype(np.float32)
    if elements[0] is not f32:
        a, b = (x.astype(NUMPY[elements[0]]).astype(np.float32) for x in (a, b))
    before = random.standard_normal((p, q, m, n)).astype(NUMPY[elements[2]]).astype(np.float32)
    accumulate = options.get("accumulate", False)
    start = before if accumulate else np.full_like(before, np.nan)
    left, right = place(device, a, elements[0], turned=turned[0], gap=gap), place(device, b, elements[1], turned=turned[1], gap=gap)
    c = place(device, start, elements[2], turned=turned[2], gap=gap)
    bias = options.pop("bias", None)
    matmul(
        c, left, right, m=m, n=n, k=k, sequences=p, heads=q, precision=precision,
        bias=None if bias is None else device.array(bias), **options,
    )  # fmt: skip
    x, y = as_seen(a, precision), as_seen(b, precision)
    exact, scale = x @ y, np.abs(x) @ np.abs(y)
    alpha = options.get("alpha", 1.0)
    exact, scale = alpha * exact, abs(alpha) * scale
    if bias is not None:
        exact, scale = exact + bias, scale + np.abs(bias)
    if options.get("activation"):
        u = np.sqrt(2 / np.pi) * (exact + 0.044715 * exact**3)
        exact = 0.5 * exact * (1 + np.tanh(u))
    rounded = np.zeros_like(exact)
    if accumulate:  # what is added to a narrow C may be rounded before
        rounded = 2 * ROUNDING[elements[2]] * np.abs(exact)
        exact, scale = exact + before, scale + np.abs(before)
    got = taken(c, (p, q, m, n))
    allowed = (
        3e-6 * scale
        + rounded
        + 2 * ROUNDING[elements[2]] * np.abs(exact)
        + (2e-3 if options.get("activation") and precision != "fp32" else 0.0)
    )
    assert not np.isnan(got).any()
    worst = np.max(np.abs(got - exact) / (allowed + 1e-30))
    assert worst <= 1, f"{worst} times the allowed error"
    if gap:
        flat = c.array.numpy().astype(np.float32).reshape(-1, (m if turned[2] else n) + gap)
        assert (flat[:, -gap:] == 7.0).all()


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_precisions_at_awkward_sizes(device: kdsl.Device, precision: Precision, size: tuple[int, int, int]) -> None:
    check(device, precision, size)


@pytest.mark.parametrize("turned", list(itertools.product((False, True), repeat=3)), ids=str)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_transposed_operands(device: kdsl.Device, precision: Precision, turned: tuple[bool, bool, bool]) -> None:
    check(device, precision, (72, 136, 40), turned=turned, seed=1)
    if device.target != "cpu":
        for size in LARGE:
            check(device, precision, size, turned=turned, seed=2)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_batches_gaps_alpha_and_accumulation(device: kdsl.Device, precision: Precision) -> None:
    check(device, precision, (40, 72, 24), batch=(2, 3), gap=4, alpha=-0.5, accumulate=True, seed=3)
    check(device, precision, (33, 31, 19), batch=(3, 1), gap=1, alpha=2.0, accumulate=True, seed=4)
    if device.target != "cpu":
        check(device, precision, (256, 264, 128), batch=(2, 2), gap=8, alpha=0.25, accumulate=True, seed=5)


@pytest.mark.parametrize("result", [f32, bf16, f16], ids=str)
@pytest.mark.parametrize("element", [bf16, f16], ids=str)
def test_narrow_arrays(device: kdsl.Device, element: Any, result: Any) -> None:
    precision: Precision = "bf16" if element is bf16 else "f16"
    check(device, precision, (72, 136, 40), elements=(element, element, result), seed=6)
    check(device, precision, (33, 31, 19), elements=(element, element, result), turned=(True, True, False), accumulate=True, seed=7)
    if device.target != "cpu":
        for size, turned in itertools.product([*LARGE, (256, 512, 192)], itertools.product((False, True), repeat=3)):
            check(device, precision, size, elements=(element, element, result), turned=turned, seed=8)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_bias_and_gelu(device: kdsl.Device, precision: Precision) -> None:
    for size in [(33, 31, 19), (64, 72, 40), *([(256, 520, 192)] if device.target != "cpu" else [])]:
        bias = np.random.default_rng(9).standard_normal(size[1]).astype(np.float32)
        check(device, precision, size, bias=bias, activation="gelu", seed=10)
        check(device, precision, size, bias=bias, seed=11)
        check(device, precision, size, activation="gelu", seed=12)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_residual_behind_bias_and_gelu(device: kdsl.Device, precision: Precision) -> None:
    """Also in parts along k, and on a GPU with large tiles, and rows of C that the copy engine writes and does not."""
    bias = np.random.default_rng(38).standard_normal(72).astype(np.float32)
    check(device, precision, (40, 72, 24), batch=(2, 3), gap=4, accumulate=True, bias=bias, activation="gelu", seed=39)
    sizes = [(33, 31, 19), (64, 72, 40), (40, 24, 4096), *([(256, 520, 192), (130, 1026, 136)] if device.target != "cpu" else [])]
    narrow = {"bf16": bf16, "f16": f16}.get(precision)
    for size, element in itertools.product(sizes, (f32, narrow) if narrow else (f32,)):
        bias = np.random.default_rng(34).standard_normal(size[1]).astype(np.float32)
        ways: dict[str, Any] = {"elements": (element, element, element), "accumulate": True}
        check(device, precision, size, **ways, bias=bias, activation="gelu", alpha=-0.5, seed=35)
        check(device, precision, size, **ways, bias=bias, turned=(True, False, False), gap=1, seed=36)
        check(device, precision, size, **ways, activation="gelu", turned=(False, True, True), seed=37)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("k", [1, 0])
def test_the_residual_is_added_last(device: kdsl.Device, k: int, precision: Precision) -> None:
    """(1 + 2^26) - 2^26 is 0, 1 + (2^26 - 2^26) would be 1; and GELU(-8) + 8 is 8, GELU(-8 + 8) would be 0."""
    one = row_major(device.array(np.ones(k, np.float32)), 1)
    for bias, before, activation, after in ((2.0**26, -(2.0**26), None, 0.0), (-8.0 - k, 8.0, "gelu", 8.0)):
        c = row_major(device.array(np.array([before], np.float32)), 1)
        matmul(
            c,
            one,
            one,
            m=1,
            n=1,
            k=k,
            accumulate=True,
            bias=device.array(np.array([bias], np.float32)),
            activation=activation,
            precision=precision,
        )  # type: ignore[arg-type]
        assert c.array.numpy()[0] == after


@pytest.mark.parametrize("version", ["naive", "tiled", "register_blocked"])
def test_every_version_has_every_ending(device: kdsl.Device, version: Version) -> None:
    bias = np.random.default_rng(40).standard_normal(31).astype(np.float32)
    for accumulate in (False, True):
        check(device, "fp32", (33, 31, 19), version=version, bias=bias, activation="gelu", accumulate=accumulate, gap=3, seed=41)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_parts_along_k(device: kdsl.Device, precision: Precision) -> None:
    size = (40, 24, 4096)
    assert parts_along_k(precision, *size, 1) == (16 if precision in ("3xtf32", "tf32") else 8)
    check(device, precision, size, seed=13)
    check(device, precision, size, turned=(True, True, True), alpha=0.5, accumulate=True, seed=14)


@pytest.mark.parametrize("precision", [precision for precision in PRECISIONS if precision != "fp32"])
def test_a_last_part_that_is_shorter(device: kdsl.Device, precision: Precision) -> None:
    """By less than a stage of k, and by more."""
    for m, n, k in ((40, 24, 4132), (40, 24, 2400), *([(200, 300, 4132), (200, 300, 6208)] if device.target != "cpu" else [])):
        parts = parts_along_k(precision, m, n, k, 1)
        assert parts > 1
        assert k % steps_of_part(precision, k, parts)
        for turned in itertools.product((False, True), repeat=2):
            check(device, precision, (m, n, k), turned=(*turned, False), seed=27)
        check(device, precision, (m, n, k), turned=(True, True, True), alpha=0.5, accumulate=True, seed=28)


@pytest.mark.parametrize("name", SCHEDULES["tf32"])
def test_every_schedule_of_tf32_with_k_across(device: kdsl.Device, name: str) -> None:
    """Also those that copy the smaller operand where k lies across both, in vectors of four, and where there are none."""
    if device.target == "cpu":
        pytest.skip("the CPU takes mma")
    for turned in itertools.product((False, True), repeat=2):
        if turned == (False, True) or not suits(SCHEDULES["tf32"][name], (turned[0], not turned[1])):
            continue
        with forced("tf32", name):
            for size in ((72, 136, 40), (136, 72, 40), (130, 264, 70), (600, 520, 200), (300, 200, 4128)):
                check(device, "tf32", size, turned=(*turned, False), seed=29)
            check(device, "tf32", (130, 262, 72), turned=(*turned, True), gap=2, batch=(2, 3), accumulate=True, seed=30)


def test_an_operand_of_tf32_is_copied_ahead(device: kdsl.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first columns are a round of tiles, and the smaller operand is copied for the others meanwhile."""
    if device.target != "sm_90" or getattr(device, "multiprocessors", 0) != 132:
        pytest.skip("the sizes are whole rounds of 132 tiles")
    found: list[int] = []
    choose = matmul_paths._columns_copied_first

    def recorded(*what: Any) -> int:
        found.append(choose(*what))
        return found[-1]

    monkeypatch.setattr(matmul_paths, "PASSING", 0)
    monkeypatch.setattr(matmul_paths, "_columns_copied_first", recorded)
    with forced("tf32", "128x256 copied"):
        for size in ((5632, 2304, 72), (2300, 5628, 72)):
            check(device, "tf32", size, turned=(True, False, False), alpha=0.5, accumulate=True, gap=4, seed=32)
    assert found == [768, 768]


def test_an_operand_of_tf32_is_copied_beside_the_products(device: kdsl.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """With edges, parts along k, both orders of C, and in many runs of a graph, on two streams at once: bits are those of a copy made before."""
    if device.target != "sm_90":
        pytest.skip("a way for Hopper")
    found: list[int] = []
    choose = matmul_paths._copied_before

    def recorded(*what: Any) -> int:
        found.append(choose(*what))
        return found[-1]

    monkeypatch.setattr(matmul_paths, "_copied_before", recorded)
    with forced("tf32", "128x256 beside"):
        for size in ((512, 700, 8192), (700, 512, 4128), (1000, 2100, 1032), (2100, 1000, 132)):
            check(device, "tf32", size, turned=(True, False, False), alpha=0.5, accumulate=True, gap=4, seed=48)
    assert found == [12, 8, 16, 2]
    m, n, k = 512, 1536, 8192
    random = np.random.default_rng(49)
    results, graphs = {}, {}
    a, b = (random.standard_normal((1, 1, *shape)).astype(np.float32) for shape in ((m, k), (k, n)))
    left, right = place(device, a, f32, turned=True), place(device, b, f32, turned=False)
    for name in ("128x256 copied", "128x256 beside", "128x256 beside"):
        c = place(device, np.full((1, 1, m, n), np.nan, np.float32), f32, turned=False)
        with forced("tf32", name):
            matmul(c, left, right, m=m, n=n, k=k, precision="tf32")
            with kdsl.Graph(device) as graph:
                for _ in range(20):
                    matmul(c, left, right, m=m, n=n, k=k, precision="tf32")
        results[graph], graphs[graph] = c, device.stream()
    for graph, stream in graphs.items():
        graph.launch(stream)
    for stream in graphs.values():
        stream.synchronize()
    bits = [c.array.numpy().view(np.uint32) for c in results.values()]
    for other in bits[1:]:
        np.testing.assert_array_equal(other, bits[0])


def test_what_adds_parts_of_tf32_is_spread(device: kdsl.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """C has 5.8 blocks for each multiprocessor; with twice as many rows it has more than find room at a time."""
    if device.target != "sm_90" or getattr(device, "multiprocessors", 0) != 132:
        pytest.skip("the sizes are for 132 multiprocessors")
    found: list[bool] = []
    make = matmul_paths._combine

    def recorded(*what: Any) -> kdsl.Kernel:
        found.append(what[-1])
        return make(*what)

    monkeypatch.setattr(matmul_paths, "_combine", recorded)
    for m in (512, 1024):
        check(device, "tf32", (m, 1536, 2600), turned=(True, False, False), alpha=0.5, accumulate=True, gap=4, seed=33)
    assert found == [True, False]


@pytest.mark.parametrize("element", [bf16, f16, f32], ids=str)
def test_parts_in_stages(device: kdsl.Device, element: Any) -> None:
    """With a last part that has less of k than the others, in all layouts, with all endings."""
    if device.target == "cpu":
        pytest.skip("kernels for a GPU")
    precision: Precision = {bf16: "bf16", f16: "f16", f32: "tf32"}[element]  # type: ignore[assignment]
    assert parts_along_k(precision, 200, 300, 4104, 1) > 1
    for turned in itertools.product((False, True), repeat=2):
        check(device, precision, (200, 300, 4104), elements=(element, element, element), turned=(*turned, False), seed=18)
    for result in (element, f32):
        check(device, precision, (130, 301, 4100), elements=(element, element, result), alpha=0.5, accumulate=True, seed=19)
        bias = np.random.default_rng(20).standard_normal(257).astype(np.float32)
        ending: dict[str, Any] = {"bias": bias, "activation": "gelu"}
        for accumulate in (False, True):
            check(device, precision, (64, 257, 8192), elements=(element, element, result), **ending, accumulate=accumulate, gap=1, seed=21)


@pytest.mark.parametrize("shares", [1, 2, 5])
@pytest.mark.parametrize("element", [bf16, f16], ids=str)
def test_blocks_that_hold_their_rows(device: kdsl.Device, monkeypatch: pytest.MonkeyPatch, element: Any, shares: int) -> None:
    """In all layouts, with all endings, at edges of m, n and k, and with blocks of one tile and of none."""
    if device.target != "sm_90":
        pytest.skip("a way for Hopper")
    monkeypatch.setattr(matmul_held, "blocks_of", lambda m, n, _: -(-m // matmul_held.ROWS) * shares)
    precision: Precision = "bf16" if element is bf16 else "f16"
    with forced("held", "128x128 held"):
        for size, turned in itertools.product(
            [(300, 520, 96), (257, 1032, 512), (64, 72, 505)], itertools.product((False, True), repeat=3)
        ):
            check(device, precision, size, elements=(element, element, element), turned=turned, gap=8, seed=41)
        bias = np.random.default_rng(42).standard_normal(520).astype(np.float32)
        for result, accumulate in itertools.product((element, f32), (False, True)):
            ways: dict[str, Any] = {"elements": (element, element, result), "alpha": -0.5, "accumulate": accumulate}
            check(device, precision, (300, 520, 256), **ways, seed=43)
            check(device, precision, (300, 520, 200), **ways, bias=bias, seed=44)
            check(device, precision, (300, 520, 8), **ways, bias=bias, activation="gelu", seed=45)
        monkeypatch.setattr(matmul_paths, "PASSING_HELD", 0)
        check(device, precision, (300, 520, 320), elements=(element, element, element), seed=46)
        assert asked("held")


def test_holding_rows_changes_no_bit(device: kdsl.Device) -> None:
    if device.target != "sm_90" or getattr(device, "multiprocessors", 0) != 132:
        pytest.skip("the size is for 132 multiprocessors")
    random = np.random.default_rng(47)
    a, b = (random.standard_normal((1, 1, *shape)).astype(np.float32) for shape in ((8190, 510), (510, 1000)))
    results = []
    for name in ("128x128 held", "128x128 in turn", "128x256"):
        c = place(device, np.full((1, 1, 8190, 1000), np.nan, np.float32), bf16, turned=False)
        with forced("held", name):
            matmul(
                c,
                place(device, a, bf16, turned=False, gap=2),
                place(device, b, bf16, turned=False),
                m=8190,
                n=1000,
                k=510,
                precision="bf16",
            )
            assert asked("held")
        results.append(c.array.numpy().view(np.uint16))
    assert not np.isnan(results[0].view(ml_dtypes.bfloat16).astype(np.float32)).any()
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize("name", [name for name in SCHEDULES["mma"] if name != "32x16"])
def test_mma_with_every_schedule(device: kdsl.Device, name: str) -> None:
    """Also on a GPU that would take `wgmma`: whole tiles and edges, a batch, results that leave by 16 bytes and by pairs, parts along k."""
    if device.target == "cpu" or SCHEDULES["mma"][name].shared_bytes > device.shared_limit:
        pytest.skip("the CPU has one schedule, and others are for GPUs with so much shared memory")
    with mma_alone(), forced("mma", name):
        for turned in itertools.product((False, True), repeat=2):
            check(device, "bf16", (768, 1536, 192), elements=(bf16, bf16, bf16), turned=(*turned, False), seed=27)
        check(device, "bf16", (768, 1536, 64), elements=(bf16, bf16, bf16), turned=(True, True, False), batch=(2, 3), seed=28)
        check(device, "f16", (257, 1026, 640), elements=(f16, f16, f16), accumulate=True, seed=29)
        check(device, "f16", (257, 1026, 640), elements=(f16, f16, f16), accumulate=True, activation="gelu", seed=29)
        check(device, "tf32", (300, 520, 96), alpha=-0.5, accumulate=True, seed=30)
        check(device, "bf16", (200, 300, 4096), elements=(bf16, bf16, bf16), turned=(True, True, False), seed=31)


def test_rows_that_the_copy_engine_does_not_write(device: kdsl.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of elements and single ones; also operands and results that pass the cache."""
    if device.target == "cpu":
        pytest.skip("the CPU has no copy engine")
    for result, columns in ((bf16, 1026), (bf16, 1025), (f16, 1025), (f32, 1026)):
        element = f16 if result is f16 else bf16
        precision: Precision = "f16" if result is f16 else "bf16"
        check(device, precision, (150, columns, 136), elements=(element, element, result), batch=(2, 3), alpha=-2.0, seed=23)
    bias = np.random.default_rng(24).standard_normal(1026).astype(np.float32)
    check(device, "bf16", (300, 1026, 136), elements=(bf16, bf16, bf16), bias=bias, activation="gelu", seed=24)
    check(device, "bf16", (300, 1026, 136), elements=(bf16, bf16, bf16), accumulate=True, seed=25)
    monkeypatch.setattr(matmul_paths, "PASSING", 0)
    check(device, "bf16", (300, 64, 512), elements=(bf16, bf16, bf16), batch=(2, 3), seed=26)
    check(device, "bf16", (300, 64, 512), elements=(bf16, bf16, bf16), batch=(2, 3), turned=(True, True, False), seed=26)


def test_parts_depend_on_the_shape_alone() -> None:
    assert parts_along_k("fp32", 512, 2048, 8192, 1) == 4
    assert parts_along_k("fp32", 4096, 4096, 4096, 1) == 1
    assert parts_along_k("bf16", 512, 2048, 8192, 1) == 1
    assert parts_along_k("bf16", 512, 512, 16384, 1) == 4
    assert parts_along_k("fp32", 512, 512, 16384, 1) == 16
    assert parts_along_k("tf32", 512, 2048, 8192, 1) == 4
    assert parts_along_k("3xtf32", 512, 2048, 8192, 1) == 2
    assert parts_along_k("3xtf32", 256, 256, 8192, 1) == 32
    assert parts_along_k("fp32", 1, 1, 100003, 1) == 1  # odd: no part would begin where rows may
    assert parts_along_k("fp32", 64, 64, 8192, 2) == 1
    assert parts_along_k("bf16", 256, 256, 8192, 1) == parts_along_k("f16", 256, 256, 8192, 1) == 16
    assert parts_along_k("bf16", 256, 768, 8192, 1) == 5
    assert steps_of_part("bf16", 8192, 5) == 1664
    assert parts_along_k("tf32", 512, 1536, 8192, 1) == 5
    assert steps_of_part("tf32", 8192, 5) == 1664
    assert parts_along_k("tf32", 64, 1024, 1024, 1) == 4
    assert parts_along_k("tf32", 1024, 1024, 1024, 1) == 1
    for precision, parts in itertools.product(("tf32", "bf16"), range(1, 20)):  # no part is empty
        for k in (512 * parts + 31, 512 * parts + 1, 512 * parts - 63):
            found = parts_along_k(precision, 64, 64, k, 1)
            assert (found - 1) * steps_of_part(precision, k, found) < k


@pytest.mark.parametrize(
    "size", [(128, 256, 64), (200, 300, 100), (257, 1026, 640), (1030, 1026, 320), (1024, 523, 96), (1024, 512, 512)], ids=str
)
def test_fp32_has_the_bits_of_the_naive_kernel(device: kdsl.Device, size: tuple[int, int, int]) -> None:
    if device.target == "cpu" and size[2] > 100:
        pytest.skip("large sizes are for a GPU")
    m, n, k = size
    random = np.random.default_rng(15)
    a, b = random.standard_normal((1, 1, m, k)).astype(np.float32), random.standard_normal((1, 1, k, n)).astype(np.float32)
    results = []
    for turned, version in itertools.product(itertools.product((False, True), repeat=2), (None, "naive")):
        left, right = place(device, a, f32, turned=turned[0]), place(device, b, f32, turned=turned[1])
        c = place(device, np.full((1, 1, m, n), np.nan, np.float32), f32, turned=False)
        matmul(c, left, right, m=m, n=n, k=k, version=version)  # type: ignore[arg-type]
        results.append(c.array.numpy().view(np.uint32))
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("128x128", (1030, 1026, 320)),
        ("pipelined 64x128", (1024, 523, 96)),
        ("256x80", (2048, 324, 200)),
        ("128x128", (8488, 256, 100)),
        ("128x256", (4264, 1026, 96)),
    ],
)
def test_few_rows_and_columns_beyond_whole_rounds_of_tiles(device: kdsl.Device, name: str, size: tuple[int, int, int]) -> None:
    """Those are computed by themselves; bits are the same. (On 132 multiprocessors the last two have 40 rows beyond.)"""
    if device.target == "cpu":
        pytest.skip("a way for a GPU")
    m, n, k = size
    random = np.random.default_rng(31)
    a, b = random.standard_normal((1, 1, m, k)).astype(np.float32), random.standard_normal((1, 1, k, n)).astype(np.float32)
    results = []
    versions: tuple[Version | None, ...] = (None, "naive")
    for version in versions:
        c = place(device, np.full((1, 1, m, n), np.nan, np.float32), f32, turned=False, gap=2)
        with forced("fp32", name):
            matmul(c, place(device, a, f32, turned=False), place(device, b, f32, turned=False), m=m, n=n, k=k, version=version, alpha=0.5)
        results.append(c.array.numpy().view(np.uint32))
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_reruns_are_identical(device: kdsl.Device, precision: Precision) -> None:
    random = np.random.default_rng(16)
    m, n, k = (100, 72, 2048) if device.target == "cpu" else (1000, 520, 2048)
    a, b = random.standard_normal((1, 1, m, k)).astype(np.float32), random.standard_normal((1, 1, k, n)).astype(np.float32)
    results = []
    for _ in range(2):
        c = place(device, np.full((1, 1, m, n), np.nan, np.float32), f32, turned=False)
        matmul(c, place(device, a, f32, turned=False), place(device, b, f32, turned=False), m=m, n=n, k=k, precision=precision)
        results.append(c.array.numpy().view(np.uint32))
    np.testing.assert_array_equal(*results)


def test_three_products_of_tf32_are_as_exact_as_fp32(device: kdsl.Device) -> None:
    """Also where numbers lie halfway between two of tf32, which the copy engine and the low parts have to round the same way."""
    random = np.random.default_rng(17)
    a = random.standard_normal((1, 1, 128, 512)).astype(np.float32)
    a = ((a.view(np.uint32) & np.uint32(0xFFFFE000)) | np.uint32(0x1000)).view(np.float32)
    b = random.standard_normal((1, 1, 512, 128)).astype(np.float32)
    c = place(device, np.full((1, 1, 128, 128), np.nan, np.float32), f32, turned=False)
    matmul(c, place(device, a, f32, turned=False), place(device, b, f32, turned=True), m=128, n=128, k=512, precision="3xtf32")
    exact = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    assert np.max(np.abs(taken(c, (1, 1, 128, 128)) - exact) / scale) < 1e-6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "fp8"}, "there is no precision 'fp8'"),
        ({"precision": "bf16", "version": "naive"}, "version 'naive' is one of fp32"),
        ({"activation": "relu"}, "there is no activation 'relu'"),
    ],
    ids=str,
)
def test_what_is_refused(options: dict[str, Any], message: str) -> None:
    device = kdsl.device("cpu")
    x = Operand(device.zeros(16, f32), 4, 1)
    with pytest.raises(ValueError, match=message):
        matmul(Operand(device.zeros(16, f32), 4, 1), x, x, m=4, n=4, k=4, **options)
