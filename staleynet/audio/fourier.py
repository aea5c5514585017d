"""The short-time Fourier transform and its inverse on a device, as products with a cosine/sine matrix.

A frame has `size` samples and a spectrum `bins = size / 2 + 1` complex numbers, stored as a row of 2 x bins: the real parts, then the imaginary parts.
A product costs more arithmetic than a fast transform, but is the same code on every target and runs near the speed of the matrix product.
Magnitudes, mel bands and phases are not computed here.
"""

import numpy as np
from numpy.typing import NDArray

import kdsl
from staleynet.ops import frame, matmul, overlap_add, row_major


def hann(size: int) -> NDArray[np.float32]:
    """The periodic Hann window of `size` samples (its shifted copies add up to a constant, which the symmetric one's do not)."""
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)).astype(np.float32)


def dft_matrix(size: int) -> NDArray[np.float32]:
    """The matrix, shape (size, 2 * bins), that takes a row of real samples to the row [real | imaginary] of its discrete Fourier transform."""
    cosine, sine = _turns(size)
    return np.concatenate([cosine, -sine], axis=1).astype(np.float32)


def inverse_dft_matrix(size: int) -> NDArray[np.float32]:
    """The matrix, shape (2 * bins, size), that takes a row [real | imaginary] back to real samples.

    The bins that are not stored are the conjugates of those that are, so that each counts twice, except the first and the last.
    """
    cosine, sine = _turns(size)
    weight = np.full(size // 2 + 1, 2.0)
    weight[0] = weight[-1] = 1.0
    return (np.concatenate([weight * cosine, -weight * sine], axis=1).T / size).astype(np.float32)


def _turns(size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cosine and sine of 2 pi n k / size, shape (size, bins) each; n k is reduced in integers, so that large products lose nothing."""
    if size < 2 or size % 2:
        raise ValueError(f"a frame must have an even number of samples, not {size}")
    turn = np.outer(np.arange(size), np.arange(size // 2 + 1)) % size
    angle = 2 * np.pi * turn / size
    return np.cos(angle), np.sin(angle)


class Fourier:
    """Analysis and synthesis of overlapping frames of `size` samples, `hop` samples apart, at most `frames` of them at a time, on `device`."""

    def __init__(self, size: int, hop: int, frames: int, device: kdsl.Device) -> None:
        if not 1 <= hop <= size:
            raise ValueError(f"frames of {size} samples cannot be {hop} samples apart: the distance must be 1 to {size}")
        self.size = size
        self.hop = hop
        self.bins = size // 2 + 1
        self.frames = frames
        self._window = device.array(hann(size))
        self._forward = device.array(dft_matrix(size).ravel())
        self._inverse: kdsl.Array | None = None  # only Griffin-Lim needs it
        self._rows = device.empty(frames * size, kdsl.f32)
        self._device = device

    def samples(self, count: int) -> int:
        """The number of samples that `count` frames cover."""
        return (count - 1) * self.hop + self.size if count else 0

    def analyse(self, spectrum: kdsl.Array, signal: kdsl.Array, count: int) -> None:
        """The spectra of `count` windowed frames of `signal` (`samples(count)` samples), into `spectrum`, shape (count, 2 * bins)."""
        rows = self._rows[: count * self.size]
        frame(rows, signal, self._window, count=count, size=self.size, hop=self.hop)
        matmul(
            row_major(spectrum, 2 * self.bins),
            row_major(rows, self.size),
            row_major(self._forward, 2 * self.bins),
            m=count,
            n=2 * self.bins,
            k=self.size,
        )

    def synthesise(self, signal: kdsl.Array, spectrum: kdsl.Array, count: int) -> None:
        """The signal whose windowed frames are nearest, in the sense of least squares, to those of `spectrum` (Griffin and Lim 1984)."""
        if self._inverse is None:
            self._inverse = self._device.array(inverse_dft_matrix(self.size).ravel())
        rows = self._rows[: count * self.size]
        matmul(
            row_major(rows, self.size),
            row_major(spectrum, 2 * self.bins),
            row_major(self._inverse, self.size),
            m=count,
            n=self.size,
            k=2 * self.bins,
        )
        overlap_add(signal, rows, self._window, count=count, size=self.size, hop=self.hop)
