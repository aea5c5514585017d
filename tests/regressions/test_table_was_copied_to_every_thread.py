"""Elsewhere a table of constants that was indexed at run time was copied to local memory by every thread, 1 KiB each.

A `constant_array` is read where it lies, with `ld.const` for a run-time index, and is a number in the code for one that the compiler knows; nothing is local.
An array in a struct parameter is read where the launch has put it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from from_text import DEVICES, kernel_of, module, result_of

from kdsl import constant_array, f32
from kdsl.testing.ptx import assemble

TABLE = constant_array(np.arange(256, dtype=np.float32).reshape(32, 8) * 0.5, f32)
FILTER = "@struct\nclass Filter:\n    taps: FixedArray[f32, 64]\n    '''Weights.'''\n"


def body_of(ptx: str) -> str:
    return ptx.split(".entry")[1]


def test_a_run_time_index_reads_constant_memory() -> None:
    ptx = kernel_of("y: SliceMut[f32], k: Slice[i32]", "i = thread_index()\ny[i] = TABLE[k[i], i % 8]", TABLE=TABLE).ptx("sm_90")
    assert "ld.const.b32" in body_of(ptx)
    assert ".local" not in ptx
    assert assemble(ptx, "sm_90").spills == 0


def test_a_known_index_reads_nothing() -> None:
    ptx = kernel_of("y: SliceMut[f32]", "y[0] = TABLE[3, 5] + TABLE[31, 7]", TABLE=TABLE).ptx("sm_90")
    assert "ld.const" not in body_of(ptx)
    assert ".local" not in ptx


def test_a_table_that_is_chosen_by_a_condition() -> None:
    other = constant_array(np.arange(32, dtype=np.float32), f32)
    body = "i = thread_index()\nif k[i] > 3:\n    y[i] = TABLE[k[i] % 32, 0]\nelse:\n    y[i] = OTHER[k[i] % 32]"
    ptx = kernel_of("y: SliceMut[f32], k: Slice[i32]", body, TABLE=TABLE, OTHER=other).ptx("sm_90")
    assert ".local" not in ptx
    assemble(ptx, "sm_90")


def test_an_array_in_a_struct_parameter_stays_where_it_is() -> None:
    body = "i = thread_index()\ny[i] = p.taps[k[i]]"
    ptx = kernel_of("y: SliceMut[f32], k: Slice[i32], p: Filter", body, Filter=module(FILTER)["Filter"]).ptx("sm_90")
    assert "ld.param.b32" in body_of(ptx)
    assert ".local" not in ptx
    assemble(ptx, "sm_90")


@DEVICES
def test_every_element(device: Any) -> None:
    k = kernel_of(
        "y: SliceMut[f32], k: Slice[i32]",
        "i = thread_index()\nif i < len(y):\n    y[i] = TABLE[k[i] // 8, k[i] % 8]",
        "grid=8",
        TABLE=TABLE,
    )
    order = np.random.default_rng(1).permutation(256).astype(np.int32)
    np.testing.assert_array_equal(result_of(device, k, 256, f32, order), order * np.float32(0.5))
