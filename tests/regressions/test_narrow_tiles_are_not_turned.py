"""Tiles of 16 columns were taken for an operand that is turned in shared memory, where vectors change places over 32 columns: the kernel wrote outside of
its tile. `staleynet.tune` met it, and a product with few columns could have."""

import pytest

from staleynet.kernels.matmul_pipelined import Schedule, product
from staleynet.ops.schedules import SCHEDULES, choose, suits

NARROW = Schedule(64, 16, 2, 1, depth=32)


def test_the_kernel_refuses_them() -> None:
    assert product(NARROW, a_across=False, b_across=True).ir()
    with pytest.raises(ValueError, match="tiles of 64 x 16 are too small to be turned"):
        product(NARROW, a_across=False, b_across=False)
    with pytest.raises(ValueError, match="tiles of 16 x 64"):
        product(Schedule(16, 64, 1, 2, depth=32), a_across=False, b_across=True)


@pytest.mark.parametrize("shape", [(12800, 16, 1024, 1), (64, 16, 64, 1), (512, 2, 4096, 3)])
@pytest.mark.parametrize(("family", "target"), [("fp32", "sm_90"), ("pipelined", "sm_87")])
def test_no_product_takes_them(family: str, target: str, shape: tuple[int, int, int, int]) -> None:
    for across in ((False, False), (True, False)):
        assert suits(SCHEDULES[family][choose(family, target, 132, 166_912, shape, across)], across)
        assert not suits(NARROW, across)
