"""What only a GPU has, compiled for the CPU."""

import pytest

from kdsl import KernelError, SliceMut, clock, function, i64, kernel, nanosleep, u32


def test_the_call_is_shown_with_the_way_to_it() -> None:
    @function
    def wait() -> None:
        nanosleep(u32(100))

    @kernel(grid=1, block=32)
    def timed(y: SliceMut[i64]) -> None:
        wait()
        y[0] = clock()

    assert timed.compile("sm_80").code
    with pytest.raises(KernelError, match=r"nanosleep\(\) is GPU only") as caught:
        timed.compile("cpu")
    text = str(caught.value)
    assert "nanosleep(u32(100))" in text
    assert "in the call of wait" in text
    assert "run kernel timed on a GPU" in text
