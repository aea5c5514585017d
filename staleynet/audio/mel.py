"""Log-mel spectrograms by librosa's conventions, computed on a device.

Mel scale and normalisation of the filters are those of Slaney's Auditory Toolbox (1998), as in librosa's default: linear up to 1 kHz, logarithmic
above, each triangle of unit area. The window is a periodic Hann window, frames are centred (half a frame of zeros before and after the signal),
the power spectrum is used, and the logarithm is the natural one. Decoding lies in `decode`, the way back to sound in `griffin_lim`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import kdsl
from staleynet.audio.fourier import Fourier
from staleynet.ops import log_compress, matmul, power_spectrum, row_major, transposed

_CHUNK = 1024  # frames at a time: 13 MB of frames, spectra and power at 1024 samples, however long the recording is


@dataclass(frozen=True)
class MelSettings:
    """How sound is described by mel bands.

    The defaults are those of widely used neural vocoders (Prenger et al. 2018, Kong et al. 2020): at 22,050 Hz a frame of 1024 samples lasts 46 ms, between
    telling neighbouring notes apart and saying when they begin, and three quarters of it overlap with the next one, which Griffin-Lim needs.
    """

    sample_rate: int = 22050
    """Samples per second of the sound that the model hears; files of other rates are resampled to it."""
    fft_size: int = 1024
    """Samples of a frame, and of its Fourier transform; even."""
    hop: int = 256
    """Samples from one frame to the next."""
    mels: int = 80
    """Number of mel bands."""
    low: float = 0.0
    """Lower edge of the lowest band, in Hz."""
    high: float = 8000.0
    """Upper edge of the highest band, in Hz; above 8 kHz there is mostly noise, which would cost codewords that the notes need."""
    floor: float = 1e-5
    """Power below which the logarithm does not look: 70 to 80 dB below a full-scale tone, by the band."""

    def __post_init__(self) -> None:
        """Refuse settings that describe nothing, with the field's name."""
        if self.sample_rate < 1000:
            raise ValueError(f"sample_rate must be at least 1000 Hz, not {self.sample_rate}")
        if self.fft_size < 2 or self.fft_size % 2:
            raise ValueError(f"fft_size must be even and positive, not {self.fft_size}")
        if not 1 <= self.hop <= self.fft_size:
            raise ValueError(f"hop must be between 1 and fft_size ({self.fft_size}), not {self.hop}")
        if self.mels < 1:
            raise ValueError(f"mels must be positive, not {self.mels}")
        if not 0 <= self.low < self.high <= self.sample_rate / 2:
            raise ValueError(
                f"low and high must satisfy 0 <= low < high <= sample_rate / 2 = {self.sample_rate / 2:g} Hz, not low {self.low:g}, high {self.high:g}"
            )
        if not self.floor > 0:
            raise ValueError(f"floor must be positive, not {self.floor}")

    @property
    def bins(self) -> int:
        """Number of frequencies of the spectrum."""
        return self.fft_size // 2 + 1

    @property
    def frames_per_second(self) -> float:
        """How many frames describe a second of sound."""
        return self.sample_rate / self.hop

    def frames(self, samples: int) -> int:
        """How many centred frames a signal of so many samples has."""
        return 1 + samples // self.hop


def hz_to_mel(hz: NDArray[np.float64]) -> NDArray[np.float64]:
    """Slaney's mel scale: 3 mel per 200 Hz up to 1 kHz, then 27 mel per factor of 6.4."""
    return np.where(hz < 1000, hz * 0.015, 15 + 27 * np.log(np.maximum(hz, 1000) / 1000) / np.log(6.4))


def mel_to_hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of `hz_to_mel`."""
    return np.where(mel < 15, mel / 0.015, 1000 * np.exp((np.maximum(mel, 15) - 15) * np.log(6.4) / 27))


def mel_filters(settings: MelSettings) -> NDArray[np.float32]:
    """The filter bank, shape (mels, bins): triangles between neighbouring points of the mel scale, each of area 1 over its width in Hz."""
    edges = hz_to_mel(np.array([settings.low, settings.high], dtype=np.float64))
    points = mel_to_hz(np.linspace(edges[0], edges[1], settings.mels + 2))
    frequencies = np.arange(settings.bins) * (settings.sample_rate / settings.fft_size)
    lower, centre, upper = points[:-2, None], points[1:-1, None], points[2:, None]
    rising = (frequencies - lower) / (centre - lower)
    falling = (upper - frequencies) / (upper - centre)
    return (np.maximum(0, np.minimum(rising, falling)) * 2 / (upper - lower)).astype(np.float32)


class LogMel:
    """Computes log-mel spectrograms on one device; keeps its constants and buffers there, so make one and use it for many recordings."""

    def __init__(self, settings: MelSettings, device: kdsl.Device, *, chunk: int = _CHUNK) -> None:
        """`chunk` is the number of frames that are computed at a time; it does not change the result."""
        self.settings = settings
        self._chunk = chunk
        self._fourier = Fourier(settings.fft_size, settings.hop, chunk, device)
        self._filters = device.array(mel_filters(settings).ravel())
        self._signal = device.empty(self._fourier.samples(chunk), kdsl.f32)
        self._spectrum = device.empty(chunk * 2 * settings.bins, kdsl.f32)
        self._power = device.empty(chunk * settings.bins, kdsl.f32)
        self._mel = device.empty(chunk * settings.mels, kdsl.f32)

    def __call__(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """The natural logarithm of the mel power, shape (frames, mels), of mono `samples` at the settings' rate."""
        total = self.settings.frames(len(samples))
        result = np.empty((total, self.settings.mels), dtype=np.float32)
        for start in range(0, total, self._chunk):
            count = min(self._chunk, total - start)
            result[start : start + count] = self._frames(samples, start, count)
        return result

    def _frames(self, samples: NDArray[np.float32], start: int, count: int) -> NDArray[np.float32]:
        s = self.settings
        first = start * s.hop - s.fft_size // 2  # frame i is centred on sample i * hop
        padded = np.zeros(self._fourier.samples(count), dtype=np.float32)
        inside = slice(max(first, 0), min(first + len(padded), len(samples)))
        padded[inside.start - first : inside.stop - first] = samples[inside]
        signal = self._signal[: len(padded)]
        signal.copy_from(padded)
        spectrum, power = self._spectrum[: count * 2 * s.bins], self._power[: count * s.bins]
        mel = self._mel[: count * s.mels]
        self._fourier.analyse(spectrum, signal, count)
        power_spectrum(power, spectrum, frames=count, bins=s.bins)
        matmul(
            row_major(mel, s.mels),
            row_major(power, s.bins),
            transposed(row_major(self._filters, s.bins)),
            m=count,
            n=s.mels,
            k=s.bins,
        )
        log_compress(mel, mel, floor=s.floor)
        return mel.numpy().reshape(count, s.mels)
