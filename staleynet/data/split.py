"""Which part of the music is for training and which for validation.

A tenth of the recordings, at least one, is for validation: those whose content has the least SHA-256, so that neither the seed nor a file's name nor a
new neighbour changes the side of a recording. Where that leaves either side shorter than one window (a single recording does), the recordings are taken
as one, and its last tenth is for validation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from staleynet.data.errors import TooLittleMusic


@dataclass(frozen=True)
class Piece:
    """Some frames of a recording."""

    recording: int
    """Which one, counted from 0."""
    first: int
    """Its first frame."""
    last: int
    """The frame after its last one."""


@dataclass(frozen=True)
class Split:
    """All frames of all recordings, each on one side."""

    training: tuple[Piece, ...]
    """In the order of the recordings."""
    validation: tuple[Piece, ...]
    """In the order of the recordings."""


def split(digests: Sequence[str], frames: Sequence[int], least: int) -> Split:
    """Divide recordings with these checksums and numbers of frames, so that each side has at least `least` frames.

    Raises `TooLittleMusic` if that cannot be done.
    """
    order = sorted(range(len(digests)), key=lambda i: digests[i])
    chosen = sorted(order[: max(1, round(len(order) / 10))])
    others = sorted(set(order) - set(chosen))
    if min(sum(frames[i] for i in chosen), sum(frames[i] for i in others)) >= least:
        return Split(*(tuple(Piece(i, 0, frames[i]) for i in side) for side in (others, chosen)))
    return _split_as_one(frames, least)


def _split_as_one(frames: Sequence[int], least: int) -> Split:
    total = sum(frames)
    border = total - max(total // 10, least)
    if border < least:
        raise TooLittleMusic(
            f"the recordings have {total} frames, and a window of training and one of validation need {2 * least}: "
            "use more or longer recordings, or a model with a shorter context"
        )
    training, validation = [], []
    start = 0
    for i, count in enumerate(frames):
        cut = min(max(border - start, 0), count)
        if cut > 0:
            training.append(Piece(i, 0, cut))
        if cut < count:
            validation.append(Piece(i, cut, count))
        start += count
    return Split(tuple(training), tuple(validation))
