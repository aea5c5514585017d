"""Codes to stream and back, and which tokens may stand where."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from staleynet.tokenizer.stream import Layout


@given(levels=st.integers(1, 8), codewords=st.integers(1, 300), frames=st.integers(0, 20), cut=st.integers(0, 7), seed=st.integers(0, 99))
def test_round_trip_with_a_cut_tail(levels: int, codewords: int, frames: int, cut: int, seed: int) -> None:
    layout = Layout(levels, codewords)
    codes = np.random.default_rng(seed).integers(0, codewords, (frames, levels), dtype=np.int32)
    stream = layout.to_stream(codes)
    assert stream.dtype == np.int32
    assert stream.shape == (frames * levels,)
    for position, token in enumerate(stream):
        assert token in layout.allowed(position)
        assert token // codewords == layout.level(position)
    np.testing.assert_array_equal(layout.from_stream(stream), codes)
    kept = max(0, len(stream) - cut)
    np.testing.assert_array_equal(layout.from_stream(stream[:kept]), codes[: kept // levels])


def test_the_order() -> None:
    layout = Layout(levels=3, codewords=10)
    assert layout.vocabulary == 30
    assert layout.to_stream(np.array([[1, 2, 3], [4, 5, 6]], np.int32)).tolist() == [1, 12, 23, 4, 15, 26]
    assert layout.allowed(0) == range(10)
    assert layout.allowed(5) == range(20, 30)


@pytest.mark.parametrize("codes", [[[0, 10]], [[-1, 0]]])
def test_codes_that_do_not_exist(codes: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="between 0 and 9"):
        Layout(2, 10).to_stream(np.array(codes, np.int32))


def test_codes_of_another_number_of_levels() -> None:
    with pytest.raises(ValueError, match=r"\(frames, 2\)"):
        Layout(2, 10).to_stream(np.zeros((4, 3), np.int32))


@pytest.mark.parametrize(("stream", "position"), [([0, 10, 10, 12], 2), ([0, 5], 1), ([0, 20], 1), ([-1, 10], 0)])
def test_tokens_at_a_wrong_place_are_named(stream: list[int], position: int) -> None:
    with pytest.raises(ValueError, match=f"token {stream[position]} at position {position}"):
        Layout(2, 10).from_stream(np.array(stream, np.int32))


def test_a_layout_without_tokens() -> None:
    with pytest.raises(ValueError, match="positive"):
        Layout(0, 5)
