"""From a log-mel spectrogram back to sound: magnitudes that fit the mel bands, then phases by Griffin-Lim with momentum.

Mel bands keep neither the phases nor how the power of a band is spread over its frequencies; both are estimated, and what comes out sounds like the
original through a short tube. A trained vocoder is out of scope.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import kdsl
from staleynet.audio.fourier import Fourier
from staleynet.audio.mel import MelSettings, mel_filters
from staleynet.ops import matmul, phase_step, row_major, transposed

_TINY = 1e-10  # keeps quotients finite where a bin or band has no power; far below the floor of the spectrogram
_FIT_ITERATIONS = (
    30  # on music, the mean error of a band is then below 0.2 dB, and more iterations do not bring the magnitudes nearer to the true ones
)


@dataclass(frozen=True)
class GriffinLimSettings:
    """How phases are found."""

    iterations: int = 32
    """Rounds of synthesis and analysis."""
    momentum: float = 0.99
    """How far each round goes beyond the last result (Perraudin, Balazs and Søndergaard 2013); 0 is the method of Griffin and Lim (1984)."""
    seed: int = 0
    """Of the first phases."""

    def __post_init__(self) -> None:
        """Refuse what cannot be done, with the field's name."""
        if self.iterations < 1:
            raise ValueError(f"iterations must be positive, not {self.iterations}")
        if not 0 <= self.momentum <= 1:
            raise ValueError(f"momentum must be between 0 and 1, not {self.momentum}")


def mel_to_magnitude(log_mel: NDArray[np.float32], settings: MelSettings, device: kdsl.Device) -> NDArray[np.float32]:
    """Magnitudes, shape (frames, bins), whose mel bands are those of `log_mel`, shape (frames, mels).

    There are more bins than bands, so that many magnitudes fit. A pseudo-inverse gives negative power, whose clipping leaves 0.8 nepers of error in
    a band, and exact non-negative least squares puts all power of a band into a few bins. This takes the multiplicative updates of Lee and
    Seung (2001) for the generalised Kullback-Leibler divergence from a flat start: they keep power non-negative and smooth and weigh quiet bands like
    loud ones. Bins outside all bands stay 0.
    """
    frames = _check_mel(log_mel, settings)
    target = np.exp(log_mel.astype(np.float32))
    filters = mel_filters(settings)
    bank = row_major(device.array(filters.ravel()), settings.bins)
    reach = np.maximum(filters.sum(axis=0), np.float32(_TINY))
    covered = (filters.sum(axis=0) > 0).astype(np.float32)
    power: NDArray[np.float32] = np.ones((frames, settings.bins), dtype=np.float32) * covered
    on_bins = device.array(power.ravel())
    on_mels = device.empty(frames * settings.mels, kdsl.f32)
    bins, mels = row_major(on_bins, settings.bins), row_major(on_mels, settings.mels)
    for _ in range(_FIT_ITERATIONS):
        matmul(mels, bins, transposed(bank), m=frames, n=settings.mels, k=settings.bins)
        on_mels.copy_from(target.ravel() / np.maximum(on_mels.numpy(), np.float32(_TINY)))
        matmul(bins, mels, bank, m=frames, n=settings.bins, k=settings.mels)
        power *= on_bins.numpy().reshape(power.shape) / reach
        on_bins.copy_from(power.ravel())
    magnitude: NDArray[np.float32] = np.sqrt(power)
    return magnitude


def griffin_lim(
    magnitude: NDArray[np.float32],
    settings: MelSettings,
    device: kdsl.Device,
    *,
    how: GriffinLimSettings = GriffinLimSettings(),
    progress: Callable[[int, int], None] | None = None,
) -> NDArray[np.float32]:
    """Sound whose spectrogram has magnitudes near `magnitude`, shape (frames, bins): mono, (frames - 1) * hop samples.

    The frames are centred as `LogMel` has them. `progress(done, all)` is called after every iteration. The same settings give the same bytes. All frames
    are on the device at once: with the default settings that takes 1.7 MB for each second.
    """
    if magnitude.ndim != 2 or magnitude.shape[1] != settings.bins or len(magnitude) < 1:
        raise ValueError(f"griffin_lim takes magnitudes of shape (frames, {settings.bins}) with at least one frame, not {magnitude.shape}")
    frames, bins = magnitude.shape
    fourier = Fourier(settings.fft_size, settings.hop, frames, device)
    target = device.array(magnitude.astype(np.float32).ravel())
    spectrum = device.array(_first_spectrum(magnitude, how.seed))
    rebuilt = device.empty(len(spectrum), kdsl.f32)
    previous = device.zeros(len(spectrum), kdsl.f32)
    signal = device.empty(fourier.samples(frames), kdsl.f32)
    for done in range(1, how.iterations + 1):
        _synthesise(signal, spectrum, fourier, frames)
        fourier.analyse(rebuilt, signal, frames)
        phase_step(spectrum, rebuilt, previous, target, frames=frames, bins=bins, momentum=how.momentum)
        rebuilt, previous = previous, rebuilt
        if progress is not None:
            progress(done, how.iterations)
    _synthesise(signal, spectrum, fourier, frames)
    half = settings.fft_size // 2
    return signal.numpy()[half : len(signal) - half]


def mel_to_audio(
    log_mel: NDArray[np.float32],
    settings: MelSettings,
    device: kdsl.Device,
    *,
    how: GriffinLimSettings = GriffinLimSettings(),
    progress: Callable[[int, int], None] | None = None,
) -> NDArray[np.float32]:
    """Mono samples for a log-mel spectrogram, shape (frames, mels): `mel_to_magnitude` and `griffin_lim` together."""
    return griffin_lim(mel_to_magnitude(log_mel, settings, device), settings, device, how=how, progress=progress)


def _synthesise(signal: kdsl.Array, spectrum: kdsl.Array, fourier: Fourier, frames: int) -> None:
    """One synthesis, with silence before the first frame's centre and after the last one's, where `LogMel` has it, too."""
    fourier.synthesise(signal, spectrum, frames)
    half = fourier.size // 2
    signal[:half].fill(0.0)
    signal[len(signal) - half :].fill(0.0)


def _first_spectrum(magnitude: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """The magnitudes with random phases, rows [real | imaginary], flat."""
    phase = 2 * np.pi * np.random.Generator(np.random.PCG64(seed)).random(magnitude.shape)
    return np.concatenate([magnitude * np.cos(phase), magnitude * np.sin(phase)], axis=1).astype(np.float32).ravel()


def _check_mel(log_mel: NDArray[np.float32], settings: MelSettings) -> int:
    if log_mel.ndim != 2 or log_mel.shape[1] != settings.mels or len(log_mel) < 1:
        raise ValueError(f"a log-mel spectrogram has shape (frames, {settings.mels}) with at least one frame, not {log_mel.shape}")
    if not np.isfinite(log_mel).all():
        raise ValueError("the log-mel spectrogram contains NaN or infinity")
    return len(log_mel)
