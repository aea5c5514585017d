"""Clocks and sleeping: on a GPU time passes, on the CPU they are refused where they stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from written import poison, written

import kdsl
from kdsl.testing import devices
from kdsl.testing.ptx import filecheck

BODY = "t0 = global_timer()\nc0 = clock()\nfor k in range(20):\n    nanosleep(u32(50000))\nc1 = clock()\nt1 = global_timer()\ny[0] = c1 - c0\ny[1] = t1 - t0"


@pytest.mark.parametrize("device", devices(), ids=str)
def test_time_passes(device: Any) -> None:
    kernel = written("y: SliceMut[i64]", BODY, 1)
    y = device.array(poison(2, kdsl.dtype("i64")))
    if device.target == "cpu":
        with pytest.raises(kdsl.KernelError, match=r"global_timer\(\) is GPU only: it has no meaning on the CPU target"):
            kernel(y)
        return
    kernel(y)
    cycles, nanoseconds = y.numpy()
    assert 0 < cycles < 10**10
    assert 0 < nanoseconds < 10**9
    assert np.all(y.numpy() > 0)


def test_the_order_of_reading_is_kept() -> None:
    filecheck(written("y: SliceMut[i64]", BODY, 1).ptx("sm_80"), """
    CHECK: mov.u64 %rd{{[0-9]+}}, %globaltimer;
    CHECK: mov.u64 %rd{{[0-9]+}}, %clock64;
    CHECK: nanosleep.u32
    CHECK: mov.u64 %rd{{[0-9]+}}, %clock64;
    CHECK: mov.u64 %rd{{[0-9]+}}, %globaltimer;
    CHECK: st.global
    """)  # fmt: skip
