"""Where a swizzled array had pieces of a number of rows that is no multiple of 8, `wgmma` took a tile of the second piece as if the pattern of the
swizzle began there, and multiplied other elements than the index names. It is an error now, for extents that the launch decides, too."""

from __future__ import annotations

import pytest

from kdsl import Const, KernelError, SliceMut, bf16, f32, i32, kernel, local_array, shared_array, wgmma


@kernel(grid=1, block=128)
def second(y: SliceMut[f32], ROWS: Const[int], PIECE: Const[int]) -> None:
    left = shared_array((2, ROWS, 64), bf16, swizzle=128)
    right = shared_array((8, 64), bf16, swizzle=128)
    sums = local_array(4, f32)
    wgmma(sums, left, (PIECE, 0, 0), right, (0, 0))
    y[0] = sums[0]


@kernel(grid=1, block=128)
def launched(y: SliceMut[f32], n: i32, EIGHTS: Const[bool]) -> None:
    left = shared_array((2, 8 * n if EIGHTS else 2 * n, 64), bf16, swizzle=128)
    right = shared_array((8, 64), bf16, swizzle=128)
    sums = local_array(4, f32)
    wgmma(sums, left.unchecked, (1, 0, 0), right, (0, 0))
    y[0] = sums[0]


@pytest.mark.parametrize("rows", [68, 100])
def test_pieces_that_are_no_patterns(rows: int) -> None:
    with pytest.raises(KernelError, match=f"`left` come in pieces of {rows}, and the pattern of swizzle=128 is 8 rows long") as caught:
        second.ir(ROWS=rows, PIECE=1)
    assert f"such as {-(-rows // 8) * 8}" in caught.value.hint
    with pytest.raises(KernelError, match=r"come in pieces of 2 \* n"):
        launched.ir(EIGHTS=False)


def test_whole_patterns() -> None:
    second.ir(ROWS=72, PIECE=1)
    launched.ir(EIGHTS=True)


def test_a_single_piece_may_have_any_number_of_rows() -> None:
    @kernel(grid=1, block=128)
    def single(y: SliceMut[f32]) -> None:
        left = shared_array((1, 68, 64), bf16, swizzle=128)
        right = shared_array((8, 64), bf16, swizzle=128)
        sums = local_array(4, f32)
        wgmma(sums, left, (0, 0, 0), right, (0, 0))
        y[0] = sums[0]

    single.ir()
