"""The kernels that the tests of this folder run on a GPU, assembled without one: no note, and no spills where accumulators are many."""

from __future__ import annotations

from typing import Any

import pytest
import test_barriers as barriers
import test_launched_shapes as launched
import test_matmul as matrices
import test_products as products
import test_tensor_copies as copies

from kdsl import bf16, f16, f32, i8, i32, u8
from kdsl.compiler import Kernel
from kdsl.lang.types import dtype
from kdsl.testing.ptx import assemble

PLAIN: list[tuple[Any, dict[str, Any]]] = [
    (found, {})
    for module in (barriers, copies, launched, matrices, products)
    for found in vars(module).values()
    if isinstance(found, Kernel)
    and not found.declaration.type_variables
    and not any("Const" in str(p.type) for p in found.declaration.parameters)
]
ALONG = [
    (products.along, {"T": dtype(of), "S": i32 if of.kind in "iu" else f32, "N": n, **products.settings(of, span)})
    for of, n, span in products.ALONG
    if n <= 128
]
ACROSS = [
    (products.across, {"T": dtype(of), "N": n, "SPAN": span, "WIDE": (span or 16) // of.itemsize, "A": a, "B": b})
    for of, n, span, a, b in products.ACROSS
]
EIGHTS = [
    (products.eights, {"N": n, "A": a == products.E5M2, "B": b == products.E5M2, "REGISTERS": registers})
    for a, b, n, registers in products.EIGHTS
]
SHORT = [
    (products.short_sums, {"T": u8 if of.itemsize == 1 else f16, "N": n, "FRESH": fresh, **products.short_settings(of)})
    for of, n, fresh in products.SHORT
    if n <= 128
]
OTHERS = [
    *[(copies.box, {"T": of, "ROWS": 8, "WIDE": (span or 16) // of.itemsize, "SPAN": span}) for of in (f32, i8) for span in (0, 32, 128)],
    *[
        (copies.written_box, {"T": of, "SPAN": 128, "WIDE": 128 // of.itemsize, "ADD": add})
        for of in (f32, f16, bf16)
        for add in (True, False)
    ],
    *[(copies.written_of_five, {"ADD": add}) for add in (True, False)],
    *[(matrices.matmul, {"STAGES": stages}) for stages in (1, 4)],
    *[(found, {"STAGES": 4}) for found in (matrices.persistent, matrices.in_turn, matrices.in_pairs, matrices.wide)],
]


@pytest.mark.parametrize(
    ("kernel", "settings"),
    [*PLAIN, *ALONG, *ACROSS, *EIGHTS, *SHORT, *OTHERS],
    ids=lambda v: v.name if isinstance(v, Kernel) else "-".join(map(str, v.values())),
)
def test_it_assembles(kernel: Any, settings: dict[str, Any]) -> None:
    report = assemble(kernel.ptx("sm_90a", **settings), "sm_90a")
    assert report.spills == 0
