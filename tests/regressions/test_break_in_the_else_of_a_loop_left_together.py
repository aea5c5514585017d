"""A `break` in the `else` of a loop was taken for one of that loop: threads that left the loop around it alone were thought to leave it together."""

from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import KernelError, Slice, SliceMut, i64, kernel, sync_threads, thread_index


@kernel(grid=2, block=40, requires=("len(trips) == len(x)", "len(rounds) == len(x)", "len(x) == 80"))
def counted(trips: SliceMut[i64], rounds: SliceMut[i64], x: Slice[i64]) -> None:
    i = thread_index()
    count = 0
    while count < 5:
        count += 1
        for _ in range(1, 3):
            pass
        else:
            if x[i] == count:
                break
    trips[i] = count
    total = 0
    for outer in range(4):
        while total < 0:
            total += 1
        else:
            if (x[i] + outer) % 2 == 1:
                continue
        total += 1
        for _inner in range(2):
            if x[i] == 5:
                break
        else:
            if x[i] > 6:
                break
    rounds[i] = total


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_each_thread_leaves_on_its_own(device: Any) -> None:
    x = np.arange(80) % 9
    trips, rounds = device.zeros(80, kdsl.i64), device.zeros(80, kdsl.i64)
    counted(trips, rounds, device.array(x))
    assert trips.numpy().tolist() == [n if 1 <= n <= 5 else 5 for n in x.tolist()]
    assert rounds.numpy().tolist() == [1 if n > 6 else 2 for n in x.tolist()]


def test_a_barrier_behind_it_is_refused() -> None:
    @kernel(grid=1, block=64)
    def wrong(y: SliceMut[i64], x: Slice[i64]) -> None:
        i = thread_index()
        for _ in range(3):
            for _inner in range(2):
                pass
            else:
                if x[i] > 0:
                    break
            sync_threads()
        y[i] = 1

    with pytest.raises(KernelError, match="sync_threads"):
        wrong.ir()
