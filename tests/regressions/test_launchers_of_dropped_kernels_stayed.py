"""The generated source of every launcher stayed in memory for ever, also when kernels were made and dropped by the thousand."""

from __future__ import annotations

import gc
import inspect
import linecache
import weakref
from typing import Any

import kdsl
from kdsl import SliceMut, f32, kernel


def make(c: float) -> Any:
    @kernel(grid=1, block=1)
    def k(y: SliceMut[f32]) -> None:
        y[0] = c

    return k


def test_nothing_of_a_kernel_that_is_gone_is_left() -> None:
    y = kdsl.device("cpu").zeros(1, f32)
    make(0.5)(y)
    gc.collect()
    before, watched = set(linecache.cache), []
    for _ in range(20):
        kernel_ = make(0.5)
        kernel_(y)
        launch = kernel_.on(y.device.default_stream)
        launch(y)
        watched += [weakref.ref(kernel_), weakref.ref(kernel_.func), weakref.ref(kernel_._source)]
        del kernel_, launch
    gc.collect()
    assert [reference for reference in watched if reference() is not None] == []
    assert set(linecache.cache) <= before


def test_the_source_of_one_that_is_kept_can_be_shown() -> None:

    kept = make(1.5)
    gc.collect()
    assert inspect.getsource(kept.func).startswith("def k(")
