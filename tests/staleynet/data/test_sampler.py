"""Windows begin at frames, come from the recordings, and depend on seed and step only."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staleynet.data.sampler import Sampler, WindowShape, segments, validation_windows


def streams(levels: int, frames: list[int]) -> list[np.ndarray]:
    """Streams whose tokens all differ, so that a window says where it comes from."""
    ends = np.cumsum([0, *frames]) * levels
    return [np.arange(a, b, dtype=np.int32) for a, b in itertools.pairwise(ends)]


SHAPE = WindowShape(levels=4, length=16)


def test_batches_are_windows_of_recordings() -> None:
    recordings = streams(4, [50, 7, 5, 20])
    sampler = Sampler(recordings, SHAPE, batch=64, seed=3)
    batch = sampler.batch(0)
    assert batch.shape == (64, 17)
    assert batch.dtype == np.int32
    first = batch[:, 0]
    assert not np.any(first % 4)
    np.testing.assert_array_equal(batch, first[:, None] + np.arange(17))
    for start in first:
        assert any(start in stream and start + 16 in stream for stream in recordings)
    assert len(set(first.tolist())) > 30


def test_every_place_is_drawn_about_equally_often() -> None:
    recordings = streams(4, [10, 8])  # 6 and 4 places
    sampler = Sampler(recordings, SHAPE, batch=100, seed=0)
    starts, counts = np.unique(np.concatenate([sampler.batch(step)[:, 0] for step in range(50)]), return_counts=True)
    assert starts.tolist() == [0, 4, 8, 12, 16, 20, 40, 44, 48, 52]
    assert counts.min() > 400
    assert counts.max() < 600


def test_any_step_in_any_order() -> None:
    recordings = streams(4, [500])
    sampler = Sampler(recordings, SHAPE, batch=4, seed=7)
    forward = [sampler.batch(step).tobytes() for step in range(6)]
    fresh = Sampler(recordings, SHAPE, batch=4, seed=7)
    assert [fresh.batch(step).tobytes() for step in (5, 2, 2, 0)] == [forward[i] for i in (5, 2, 2, 0)]
    assert len(set(forward)) == 6
    assert Sampler(recordings, SHAPE, batch=4, seed=8).batch(0).tobytes() != forward[0]


def test_short_recordings_are_joined() -> None:
    long, *short = recordings = streams(4, [10, 2, 3, 1])
    result = segments(recordings, SHAPE)
    assert len(result) == 2
    np.testing.assert_array_equal(result[0], long)
    np.testing.assert_array_equal(result[1], np.concatenate(short))
    assert len(segments(streams(4, [10, 2]), SHAPE)) == 1  # 2 frames are not enough even so


def test_too_little() -> None:
    with pytest.raises(ValueError, match="have 16 tokens, and one window takes 17"):
        Sampler(streams(4, [2, 2]), SHAPE, batch=1, seed=0)
    with pytest.raises(ValueError, match="whole frames of 4"):
        segments([np.zeros(18, np.int32)], SHAPE)


@pytest.mark.parametrize(("levels", "length"), [(4, 18), (4, 0), (0, 4)])
def test_windows_that_do_not_end_with_a_frame(levels: int, length: int) -> None:
    with pytest.raises(ValueError, match="multiple of the"):
        WindowShape(levels, length)


@settings(max_examples=50)
@given(levels=st.integers(1, 5), per_window=st.integers(1, 6), frames=st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_validation_targets_are_counted_once(levels: int, per_window: int, frames: list[int]) -> None:
    shape = WindowShape(levels, levels * per_window)
    recordings = streams(levels, frames)
    try:
        parts = segments(recordings, shape)
    except ValueError:
        return
    windows = validation_windows(recordings, shape)
    targets = windows[:, 1:].ravel()
    assert len(set(targets.tolist())) == len(targets)
    # all of each segment but its first token and less than a window at its end
    assert all(len(part) - 1 - shape.length < len(np.intersect1d(part, targets)) for part in parts)
    assert not np.any(windows[:, 0] % levels)


def test_validation_windows_with_a_limit() -> None:
    recordings = streams(4, [401])
    windows = validation_windows(recordings, SHAPE, limit=10)
    assert windows[:, 0].tolist() == [i * 160 for i in range(10)]
    assert len(validation_windows(recordings, SHAPE, limit=1000)) == 100
    np.testing.assert_array_equal(validation_windows(recordings, SHAPE, limit=10), windows)
