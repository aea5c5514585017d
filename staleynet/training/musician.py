"""A trained model as a player: tokens are drawn one after another, decoded to mel frames, and turned into sound by Griffin-Lim.

What the command line makes of it is in `staleynet.generate`; training plays a sample with it at its end.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kdsl
from staleynet.audio.griffin_lim import mel_to_audio
from staleynet.audio.mel import MelSettings
from staleynet.data.prepare import mel_settings
from staleynet.model import checkpoint as checkpoints
from staleynet.model.checkpoint import CheckpointError
from staleynet.model.decoding import Sampling, generate
from staleynet.model.transformer import Transformer
from staleynet.tokenizer.quantizer import Quantizer
from staleynet.training.state import RunState

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True)
class Musician:
    """A trained model with what turns its tokens into sound."""

    model: Transformer
    """Predicts tokens."""
    tokenizer: Quantizer
    """Turns tokens into mel frames, and a prompt's frames into tokens."""
    mel: MelSettings
    """What a frame is."""
    openings: NDArray[np.int64]
    """How often each codeword of level 0 occurs in the training tokens (codewords); the first token is drawn from it."""

    @staticmethod
    def load(folder: Path, device: kdsl.Device) -> "Musician":
        """From a checkpoint. Raises `CheckpointError` or `TokenizerError`, which name the file."""
        saved = checkpoints.load(folder)
        tokenizer = Quantizer.load(folder, device)
        state = RunState.from_json(saved.run, source=str(folder / checkpoints.STATE))
        c = saved.configuration
        if (tokenizer.settings.levels, tokenizer.settings.codewords) != (c.levels, c.codewords) or len(state.openings) != c.codewords:
            raise CheckpointError(f"{folder}: the tokenizer is not that of configuration {c.name!r}")
        return Musician(Transformer(c, device, saved.values), tokenizer, mel_settings(tokenizer), np.array(state.openings, np.int64))

    def play(
        self, seconds: float, sampling: Sampling, seed: int, *, prompt: NDArray[np.float32] | None = None, progress: Progress
    ) -> NDArray[np.float32]:
        """At least `seconds` of mono sound at `mel.sample_rate`. `prompt` are log-mel frames (frames, mels) that it continues."""
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
        levels = self.model.configuration.levels
        frames = max(2, math.ceil(seconds * self.mel.frames_per_second) + 1)  # n frames are n - 1 hops
        if prompt is None:
            start, skipped = self._opening(rng), 0
        else:
            start = self.tokenizer.layout.to_stream(self.tokenizer.encode(prompt))
            skipped = len(start)
        total = skipped + frames * levels
        tokens = generate(
            self.model, start, total, sampling, rng, progress=lambda done: progress("generating", done - skipped, total - skipped)
        )
        log_mel = self.tokenizer.decode(self.tokenizer.layout.from_stream(tokens[skipped:]))
        return mel_to_audio(log_mel, self.mel, self.model.device, progress=lambda done, all_: progress("sound", done, all_))

    def _opening(self, rng: np.random.Generator) -> NDArray[np.int32]:
        """The first token, as often as it occurs in the music: the model itself only knows what follows a token."""
        cumulative = np.cumsum(self.openings)
        return np.array([np.searchsorted(cumulative, rng.integers(cumulative[-1]), side="right")], np.int32)
