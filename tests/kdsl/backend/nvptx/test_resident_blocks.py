"""`resident=` limits the registers of a thread so that several blocks fit on a multiprocessor."""

from typing import Any

import pytest

from kdsl import Kernel, KernelError, Slice, SliceMut, f32, kernel, local_array, thread_idx, unroll
from kdsl.testing.ptx import assemble


def summing(resident: int) -> Kernel:
    """A kernel whose threads hold 160 numbers, unless they have fewer registers."""

    @kernel(grid=1, block=128, resident=resident)
    def sums(y: SliceMut[f32], x: Slice[f32]) -> None:
        held = local_array(160, f32)
        for i in unroll(160):
            at = thread_idx.x + 128 * i
            held[i] = x[at] if at < len(x) else 0.0
        for i in unroll(160):
            for j in unroll(2):
                held[i] += held[(7 * i + j) % 160]
        for i in unroll(160):
            at = thread_idx.x + 128 * i
            if at < len(y):
                y[at] = held[i]

    return sums


def test_the_assembler_gives_fewer_registers() -> None:
    texts = {count: summing(count).ptx("sm_90a") for count in (1, 4, 5)}  # the same text otherwise, and none is taken for another
    assert [f".minnctapersm {count}" in text for count, text in texts.items()] == [False, True, True]
    registers = {count: assemble(text, "sm_90a").registers for count, text in texts.items()}
    assert registers[1] > 128
    assert registers[4] <= 128
    assert registers[5] <= 96


@pytest.mark.parametrize("count", [0, 33, 2.0, True, "4"])
def test_what_is_no_number_of_blocks(count: Any) -> None:
    with pytest.raises(KernelError, match="expected an integer from 1 to 32") as caught:

        @kernel(grid=1, block=32, resident=count)
        def wrong(y: SliceMut[f32]) -> None:
            y[0] = 1.0

    assert caught.value.hint
