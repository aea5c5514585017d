"""`a, b = shared_array(…), shared_array(…)`: messages called both of them `shared_array`, as they did with an annotation in front."""

import pytest

import kdsl
from kdsl import BoundsError, SliceMut, f32, i32, kernel, local_array, shared_array


@kernel(grid=1, block=1)
def pair(y: SliceMut[f32], n: i32) -> None:
    first, (second, third) = shared_array(4, f32), (local_array(5, f32), shared_array(6, f32))
    first[n] = 1.0
    second[n] = 2.0
    third[n] = 3.0
    y[0] = first[0] + second[0] + third[0]


@pytest.mark.parametrize(("index", "name"), [(4, "first"), (5, "first")])
def test_the_name_is_that_of_its_place(index: int, name: str) -> None:
    device = kdsl.device("cpu")
    pair(device.zeros(1, f32), index)
    with pytest.raises(BoundsError, match=f"array {name}: index {index}"):
        device.synchronize()
    assert {site.name for site in pair.ir().sites} == {"y", "first", "second", "third"}
