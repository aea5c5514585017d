"""Shared and local arrays that no GPU has room for are refused on every target, where they are made."""

from refusal import refused

from kdsl import SliceMut, f32, kernel, local_array, shared_array, thread_idx


@kernel(grid=1)
def shared(y: SliceMut[f32]) -> None:
    a = shared_array(30000, f32)
    b = shared_array((2, 20000), f32)
    a[0] = 1.0
    b[1, 0] = a[0]
    y[0] = b[1, 0]


@kernel(grid=1)
def local(y: SliceMut[f32]) -> None:
    a = local_array(2**61, f32)
    i = thread_idx.x
    a[i] = 1.0
    y[0] = a[i]


def test_shared() -> None:
    refused(shared, "280000 bytes", at="shared_array((2, 20000), f32)", hint="a block of the largest GPU has 232448 bytes")


def test_local() -> None:
    refused(local, "9223372036854775808 bytes", at="local_array(2**61, f32)", hint="a thread has 524288 bytes")
