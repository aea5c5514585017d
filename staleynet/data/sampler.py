"""Windows of tokens for training and validation.

A training batch depends on the seed and the step only, so that a run that is resumed sees what it would have seen. All windows begin with the first
level of a frame. Which recordings are for what is decided in `split`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_STREAM = 1  # separates these random numbers from others that are derived from the same seed


@dataclass(frozen=True)
class WindowShape:
    """The windows that a model is trained on."""

    levels: int
    """Tokens of a frame."""
    length: int
    """Tokens that the model sees at once, a multiple of `levels`; a window has one more, the last target."""

    def __post_init__(self) -> None:
        """Refuse windows that do not end with a frame."""
        if self.levels < 1 or self.length < 1 or self.length % self.levels:
            raise ValueError(f"a window's length must be a positive multiple of the {self.levels} levels, not {self.length}")

    @property
    def tokens(self) -> int:
        """Tokens of a window: the length and one more."""
        return self.length + 1

    @property
    def frames(self) -> int:
        """Frames that a window touches."""
        return self.length // self.levels + 1

    def starts(self, tokens: int) -> int:
        """How many places a window can begin at in a stream of so many tokens."""
        return max(0, (tokens - self.tokens) // self.levels + 1)


class Sampler:
    """Draws training windows, every place of every recording with the same probability."""

    def __init__(self, recordings: Sequence[NDArray[np.int32]], shape: WindowShape, *, batch: int, seed: int) -> None:
        """`recordings` are streams of whole frames. Raises `ValueError` if they are shorter than a window even when joined."""
        self.shape = shape
        self.batch_size = batch
        self.seed = seed
        self._segments = segments(recordings, shape)
        self._ends = np.cumsum([shape.starts(len(segment)) for segment in self._segments])

    def batch(self, step: int) -> NDArray[np.int32]:
        """The batch of a step, shape (batch, length + 1); any step may be asked for, in any order."""
        generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed, spawn_key=(_STREAM, step))))
        result = np.empty((self.batch_size, self.shape.tokens), dtype=np.int32)
        for row, place in zip(result, generator.integers(self._ends[-1], size=self.batch_size), strict=True):
            which = int(np.searchsorted(self._ends, place, side="right"))
            start = int(place - (self._ends[which - 1] if which else 0)) * self.shape.levels
            row[:] = self._segments[which][start : start + self.shape.tokens]
        return result


def segments(recordings: Sequence[NDArray[np.int32]], shape: WindowShape) -> list[NDArray[np.int32]]:
    """The streams that windows are cut from: each recording by itself, but those that are shorter than a window joined to one.

    Joining lets a folder of short sounds be used; the model then sees a few borders between recordings. What is too short even so is left out.
    Raises `ValueError` if nothing is left, or if a stream does not consist of whole frames.
    """
    for stream in recordings:
        if len(stream) % shape.levels:
            raise ValueError(f"a stream of {len(stream)} tokens does not consist of whole frames of {shape.levels}")
    long = [stream for stream in recordings if len(stream) >= shape.tokens]
    short = [stream for stream in recordings if len(stream) < shape.tokens]
    joined = np.concatenate(short) if short else np.empty(0, dtype=np.int32)
    result = [*long, joined] if len(joined) >= shape.tokens else long
    if not result:
        raise ValueError(f"the recordings have {len(joined)} tokens, and one window takes {shape.tokens}")
    return result


def validation_windows(recordings: Sequence[NDArray[np.int32]], shape: WindowShape, *, limit: int | None = None) -> NDArray[np.int32]:
    """Windows, shape (windows, length + 1), that cover the recordings from their starts: no token is a target twice.

    With `limit`, so many of them at most, spread evenly. Raises `ValueError` as `segments` does.
    """
    windows = [
        segment[start : start + shape.tokens]
        for segment in segments(recordings, shape)
        for start in range(0, len(segment) - shape.tokens + 1, shape.length)
    ]
    if limit is not None and len(windows) > limit:
        windows = [windows[i * len(windows) // limit] for i in range(limit)]
    return np.stack(windows)
