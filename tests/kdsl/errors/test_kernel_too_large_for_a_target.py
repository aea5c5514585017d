"""A kernel that a target has no room for is refused with its place, as every mistake is."""

import pytest
from refusal import marked

import kdsl
from kdsl import SliceMut, f32, kernel, shared_array


@kernel(grid=1, block=32)
def roomy(y: SliceMut[f32]) -> None:
    tile = shared_array(27 * 1024, f32)
    tile[0] = 1.0
    y[0] = tile[0]


def test_more_shared_memory_than_a_block_of_the_target_has() -> None:
    assert "roomy" in roomy.ptx("sm_90")
    with pytest.raises(
        kdsl.KernelError, match=r"kernel roomy declares 110592 bytes of shared arrays .* sm_86 .* has at most 101376"
    ) as caught:
        roomy.ptx("sm_86")
    assert marked(caught.value.location) == "roomy"
    assert "smaller arrays" in caught.value.hint
