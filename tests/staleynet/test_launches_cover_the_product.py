"""What `ops.matmul` launches computes each element of C once, whatever the device, the shape, the precision, the layouts and the element types: without a GPU,
by models of the kernels in NumPy. Numbers are small and whole, so that all sums are exact."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from kdsl import bf16, f16, f32
from staleynet.ops.matmul import Operand, Precision, matmul
from staleynet.ops.matmul_operands import parts_along_k
from staleynet.ops.schedules import forced
from tests.staleynet.modelled_launches import MULTIPROCESSORS, Launches, Modelled, install, seen

PRECISIONS: tuple[Precision, ...] = ("fp32", "3xtf32", "tf32", "bf16", "f16")
SHAPES = [
    (1, 1, 1), (17, 9, 33), (130, 70, 257), (129, 257, 65), (3, 1026, 700), (1026, 3, 700), (40, 24, 4096), (33, 31, 4100), (257, 130, 640),
    (512, 40, 4096), (200, 300, 4132), (256, 768, 8192), (1030, 1026, 320), (2048, 324, 200), (4264, 1026, 96), (520, 2300, 1024),
]  # fmt: skip
"""Rows, columns and steps of k: beside tiles, beyond whole rounds of them, rows that no vectors fill, parts along k."""
DEVICES = {target: Modelled(target) for target in MULTIPROCESSORS}


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    return install(monkeypatch)


def whole(random: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return random.integers(-1, 2, shape).astype(np.float32)


def placed(device: Modelled, x: Any, element: Any, *, is_turned: bool, gap: int) -> Operand:
    """A batch (p, q, rows, columns) in memory, with rows and columns exchanged or not, and with `gap` unused elements behind each row."""
    stored = x.swapaxes(2, 3) if is_turned else x
    p, q, rows, columns = stored.shape
    room = np.full((p, q, rows, columns + gap), np.nan, np.float32)
    room[..., :columns] = stored
    row, column = (1, columns + gap) if is_turned else (columns + gap, 1)
    return Operand(device.array(room.astype(element.numpy).ravel()), row, column, q * rows * (columns + gap), rows * (columns + gap))


def check(
    device: Modelled, launches: Launches, precision: Precision, size: tuple[int, int, int], *, batch: tuple[int, int] = (1, 1),
    layouts: tuple[bool, ...] = (False, False, False), gap: int = 0, elements: tuple[Any, Any, Any] = (f32, f32, f32), ending: int = 0,
) -> int:  # fmt: skip
    """One product; bits of `ending` ask for what is in C, a bias, and GELU. The number of parts along k."""
    (m, n, k), (p, q) = size, batch
    random = np.random.default_rng(k)
    a, b, before, bias = (whole(random, shape) for shape in ((p, q, m, k), (p, q, k, n), (p, q, m, n), (n,)))
    left, right, c = (
        placed(device, x, element, is_turned=turned, gap=gap) for x, element, turned in zip((a, b, before), elements, layouts, strict=True)
    )
    launches.clear(c.array)
    accumulate, with_bias, gelu = (bool(ending >> bit & 1) for bit in range(3))
    if not accumulate:
        c.array.copy_from(np.full(c.array.size, np.nan, elements[2].numpy))
    matmul(
        c, left, right, m=m, n=n, k=k, sequences=p, heads=q, precision=precision, accumulate=accumulate, alpha=0.5,
        bias=device.array(bias) if with_bias else None, activation="gelu" if gelu else None,
    )  # fmt: skip
    wanted = 0.5 * (a @ b) + (bias if with_bias else 0)
    if gelu:
        wanted = 0.5 * wanted * (1 + np.tanh(np.sqrt(2 / np.pi) * (wanted + 0.044715 * wanted**3)))
    wanted = wanted + (before if accumulate else 0)
    place = c.array.strided((p, q, m, n), (c.sequence, c.head, c.row, c.column))
    what = f"{device.target} {precision} {size} {batch} {layouts} {gap} {elements} {ending}: {launches.names}"
    np.testing.assert_allclose(seen(place).astype(np.float32), wanted, rtol=2e-2, atol=1e-2, err_msg=what)
    written = np.lib.stride_tricks.as_strided(launches.written, place.shape, [8 * stride for stride in place.strides])
    assert (written == 1).all(), what
    assert launches.written.sum() == m * n * p * q, what
    return launches.parts


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_each_element_of_c_is_computed_once(launches: Launches, device: Modelled, precision: Precision) -> None:
    narrow = {"bf16": bf16, "f16": f16}.get(precision, f32)
    types = [(f32, f32, f32), *([] if precision == "fp32" else [(narrow, narrow, narrow), (bf16, f16, f32), (narrow, narrow, bf16)])]
    layouts = list(itertools.product((False, True), repeat=3))
    for number, size in enumerate(SHAPES):  # in the course of which all layouts, types and endings come
        for turn, gap in enumerate((0, 1, 8)):
            way = number + 3 * turn
            check(
                device, launches, precision, size, gap=gap, layouts=layouts[way % 8], elements=types[way % len(types)], ending=way // 2 % 8
            )


@pytest.mark.parametrize("precision", PRECISIONS)
def test_parts_along_k_are_the_same_on_all_devices_and_for_all_layouts(launches: Launches, precision: Precision) -> None:
    """What `parts_along_k` says, also where C lies transposed and its rows and columns are exchanged."""
    wanted = [(40, 24, 4096), (200, 300, 4132), (300, 130, 2400)]
    for size in wanted:
        m, n, k = size
        parts = parts_along_k(precision, m, n, k, 1)
        for (number, device), layouts in itertools.product(enumerate(DEVICES.values()), itertools.product((False, True), repeat=3)):
            assert check(device, launches, precision, size, layouts=layouts, gap=4 * (number % 2), ending=number % 4) == parts
    assert parts_along_k(precision, *wanted[0], 1) > 1


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_batches(launches: Launches, device: Modelled) -> None:
    for precision, layouts, size in itertools.product(
        PRECISIONS, itertools.product((False, True), repeat=3), ((40, 72, 24), (130, 262, 130))
    ):
        check(device, launches, precision, size, batch=(2, 3), layouts=layouts, gap=2, ending=sum(layouts))


def test_copies_beside_products(launches: Launches) -> None:
    with forced("tf32", "128x256 beside"):
        for size in ((512, 700, 8192), (700, 512, 4128), (1000, 2100, 1032), (2100, 1000, 132)):
            check(DEVICES["sm_90"], launches, "tf32", size, layouts=(True, False, False), gap=4, ending=1)
            assert launches.names[:2] == ["matmul_turn_heads", "matmul_tf32_beside"]


def test_blocks_that_hold_their_rows(launches: Launches) -> None:
    """33 rows of 15 tiles are four rounds for 132 multiprocessors, whoever takes which; 34 rows would be five."""
    for number, (size, name) in enumerate(
        (((1000, 4096, 40), "matmul_held"), ((4100, 1800, 130), "matmul_held"), ((4300, 1800, 130), "matmul_hopper"))
    ):
        layouts = number > 1, number > 0, False
        check(DEVICES["sm_90"], launches, "bf16", size, layouts=layouts, gap=8, elements=(bf16, bf16, bf16), ending=3 * number)
        assert launches.names[-1] == name
