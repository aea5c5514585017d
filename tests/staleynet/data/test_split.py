"""Every frame is on one side, both sides have enough, and a recording's side depends on its content."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staleynet.data.errors import TooLittleMusic
from staleynet.data.split import Piece, Split, split


def digests(count: int) -> list[str]:
    return [hashlib.sha256(str(i).encode()).hexdigest() for i in range(count)]


def total(pieces: tuple[Piece, ...]) -> int:
    return sum(piece.last - piece.first for piece in pieces)


@given(frames=st.lists(st.integers(1, 500), min_size=1, max_size=30), least=st.integers(1, 300))
def test_a_division_or_too_little(frames: list[int], least: int) -> None:
    if sum(frames) < 2 * least:
        with pytest.raises(TooLittleMusic, match=f"have {sum(frames)} frames"):
            split(digests(len(frames)), frames, least)
        return
    result = split(digests(len(frames)), frames, least)
    assert min(total(result.training), total(result.validation)) >= least
    covered = sorted((p.recording, i) for p in (*result.training, *result.validation) for i in range(p.first, p.last))
    assert covered == [(r, i) for r, count in enumerate(frames) for i in range(count)]


@pytest.mark.parametrize(("count", "validation"), [(2, 1), (5, 1), (14, 1), (16, 2), (30, 3)])
def test_about_a_tenth_of_the_recordings(count: int, validation: int) -> None:
    result = split(digests(count), [100] * count, 10)
    assert len(result.validation) == validation
    assert len(result.training) == count - validation
    assert all((p.first, p.last) == (0, 100) for p in (*result.training, *result.validation))


def test_order_and_names_do_not_matter() -> None:
    names = digests(9)
    chosen = {names[p.recording] for p in split(names, [100] * 9, 10).validation}
    turned = names[4:] + names[:4]
    assert {turned[p.recording] for p in split(turned, [100] * 9, 10).validation} == chosen == {min(names)}


def test_a_single_recording_gives_its_last_tenth() -> None:
    assert split(digests(1), [1000], 10) == Split((Piece(0, 0, 900),), (Piece(0, 900, 1000),))
    assert split(digests(1), [1000], 300) == Split((Piece(0, 0, 700),), (Piece(0, 700, 1000),))


def test_recordings_too_short_for_a_side_are_taken_as_one() -> None:
    assert split(digests(3), [40, 40, 40], 50) == Split((Piece(0, 0, 40), Piece(1, 0, 30)), (Piece(1, 30, 40), Piece(2, 0, 40)))
