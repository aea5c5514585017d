"""The order in which the model sees tokens: frame by frame, and within a frame level by level.

Code c of level l is the token l * codewords + c, so that every token says its level and the model needs no other mark of it. The levels of a frame always
come in the same order; position modulo levels is the level.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Layout:
    """How codes lie in the stream."""

    levels: int
    """Tokens of one frame."""
    codewords: int
    """Codes of one level."""

    def __post_init__(self) -> None:
        """Refuse a layout without tokens."""
        if self.levels < 1 or self.codewords < 1:
            raise ValueError(f"levels and codewords must be positive, not {self.levels} and {self.codewords}")

    @property
    def vocabulary(self) -> int:
        """Number of different tokens."""
        return self.levels * self.codewords

    def level(self, position: int) -> int:
        """The level of the token at a position of the stream."""
        return position % self.levels

    def allowed(self, position: int) -> range:
        """The tokens that may stand at a position of the stream."""
        first = self.level(position) * self.codewords
        return range(first, first + self.codewords)

    def to_stream(self, codes: NDArray[np.int32]) -> NDArray[np.int32]:
        """The stream, shape (frames * levels,), of `codes`, shape (frames, levels). Raises `ValueError` for codes that do not fit the layout."""
        if codes.ndim != 2 or codes.shape[1] != self.levels:
            raise ValueError(f"codes have shape (frames, {self.levels}), not {codes.shape}")
        if codes.size and not (codes.min() >= 0 and codes.max() < self.codewords):
            raise ValueError(f"codes must be between 0 and {self.codewords - 1}, not between {codes.min()} and {codes.max()}")
        return (codes + np.arange(self.levels, dtype=np.int32) * self.codewords).astype(np.int32).ravel()

    def from_stream(self, tokens: NDArray[np.int32]) -> NDArray[np.int32]:
        """The codes, shape (frames, levels), of a stream that begins with level 0; a frame that is not complete at its end is dropped.

        Raises `ValueError` for a token that may not stand where it stands.
        """
        frames = len(tokens) // self.levels
        codes = tokens[: frames * self.levels].reshape(frames, self.levels) - np.arange(self.levels, dtype=np.int32) * self.codewords
        wrong = np.argwhere((codes < 0) | (codes >= self.codewords))
        if len(wrong):
            position = int(wrong[0][0]) * self.levels + int(wrong[0][1])
            allowed = self.allowed(position)
            raise ValueError(
                f"token {tokens[position]} at position {position}: level {self.level(position)} has tokens {allowed.start} to {allowed.stop - 1}"
            )
        return codes.astype(np.int32)
