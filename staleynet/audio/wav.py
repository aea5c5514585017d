"""Mono float32 samples become a 16-bit WAV file."""

from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from staleynet.audio.decode import AudioError
from staleynet.files import atomic

PEAK = 0.98  # of full scale: resampling or lossy coding by a player's chain still finds room above it


def write_wav(path: Path, samples: NDArray[np.float32], sample_rate: int, *, peak: float = PEAK) -> None:
    """Write `samples`, shape (n,), full scale 1, as 16-bit PCM; the file appears whole or not at all.

    Sound that goes beyond `peak` is scaled down as a whole, which keeps its shape where clipping would add harmonics; quieter sound is left as
    it is. Raises `AudioError` where the samples are not finite, and `OSError` where the file cannot be written.
    """
    if samples.ndim != 1:
        raise ValueError(f"write_wav takes mono samples of one dimension, not of shape {samples.shape}")
    if not np.isfinite(samples).all():
        raise AudioError(path, "not written: the samples contain NaN or infinity")
    loudest = float(np.abs(samples).max(initial=0.0))
    scale = 32767.0 * min(1.0, peak / loudest if loudest > 0 else 1.0)
    # rounded here, because libsndfile's conversion truncates on some platforms and rounds on others
    pcm = np.rint(samples.astype(np.float64) * scale).astype(np.int16)
    with atomic(path) as temporary:
        soundfile.write(str(temporary), pcm, sample_rate, format="WAV", subtype="PCM_16")
