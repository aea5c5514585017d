"""The steps between sound, spectra and codewords that are not matrix products.

The discrete Fourier transform and the tokenizer's distances are `matmul`. Left out: padding (the caller pads the signal) and the mel filter
bank (a product, too).
"""

from kdsl import Array
from staleynet.kernels import signal as kernels
from staleynet.ops.checks import check_size
from staleynet.ops.embedding import TokenIndex


def frame(frames: Array, signal: Array, window: Array, *, count: int, size: int, hop: int) -> None:
    """frames[i, j] = signal[i * hop + j] * window[j]; `frames` (count, size), `window` (size), and the signal reaches at least to the end
    of the last frame.

    Raises `kdsl.LaunchError` or `ValueError` if a size does not fit.
    """
    check_size("frame", count=count)
    check_size("frame", least=1, size=size, hop=hop)
    # Valid: a thread per element of the frames; the contract says that the last frame ends inside the signal.
    kernels.frame(frames, signal, window, kernels.Framing(count=count, size=size, hop=hop))


def power_spectrum(power: Array, spectrum: Array, *, frames: int, bins: int) -> None:
    """power = real^2 + imaginary^2; `power` (frames, bins), `spectrum` (frames, 2 * bins), each of its rows the real parts and then the
    imaginary ones.

    Raises `kdsl.LaunchError` or `ValueError` if a size does not fit.
    """
    check_size("power_spectrum", frames=frames, bins=bins)
    # Valid: a thread per element of the power; the contract compares both lengths.
    kernels.power_spectrum(power, spectrum, kernels.Spectrum(frames=frames, bins=bins, inertia=0.0))


def log_compress(y: Array, x: Array, *, floor: float) -> None:
    """y = log(max(x, floor)), natural logarithm; may be in place. Raises `ValueError` for a floor that is not greater than 0,
    `kdsl.LaunchError` if the lengths differ.
    """
    if not floor > 0:
        raise ValueError(f"log_compress: floor must be greater than 0, got {floor}")
    # Valid: a thread per element, which touches only its own; the contract compares the lengths.
    kernels.log_compress(y, x, floor)


def nearest_codeword(index: Array, distances: Array, *, rows: int, codewords: int) -> None:
    """index = the column of the least distance of each row, the lower one of equals; `index` (rows) int32, `distances` (rows, codewords).
    NaNs are passed over.

    Any distance that differs from the squared one by a constant per row will do: |c|^2 - 2 x.c, a product and `add_bias`.

    Raises `kdsl.LaunchError` or `ValueError` if a size does not fit.
    """
    check_size("nearest_codeword", rows=rows)
    check_size("nearest_codeword", least=1, codewords=codewords)
    # Valid: a warp per row; the contract compares both lengths.
    kernels.nearest_codeword(index, distances, kernels.Distances(rows=rows, codewords=codewords))


def codeword_update(codebook: Array, vectors: Array, index: TokenIndex, *, codewords: int, columns: int) -> None:
    """Every codeword becomes the mean of its members, added in ascending order; a codeword without members stays as it is (one step of
    k-means).

    `codebook` (codewords, columns), `vectors` (members, columns), `index` the `token_index` of the members' codewords.

    Raises `kdsl.LaunchError` or `ValueError` if a size does not fit.
    """
    check_size("codeword_update", codewords=codewords, columns=columns)
    # Valid: a thread per codeword and column; the contract compares the lengths, and `token_index` made an index whose offsets and places
    # lie inside.
    kernels.codeword_update(codebook, vectors, index.first, index.place, kernels.Codebook(codewords=codewords, columns=columns))


def subtract_codeword(residual: Array, codebook: Array, index: Array, *, rows: int, columns: int) -> None:
    """residual -= codebook[index], what the next quantiser of a residual quantisation sees.

    `residual` (rows, columns), `codebook` (codewords, columns), `index` (rows) int32; an index outside the codebook is
    reported as `kdsl.BoundsError` by the next synchronisation.

    Raises `kdsl.LaunchError` or `ValueError` if a size does not fit.
    """
    check_size("subtract_codeword", rows=rows, columns=columns)
    # Valid: a warp per row; the contract compares the lengths, and an index that is not in the codebook fails the codebook's own check.
    kernels.subtract_codeword(residual, codebook, index, kernels.Rows(rows=rows, columns=columns, codewords=len(codebook) // columns))


def overlap_add(signal: Array, frames: Array, window: Array, *, count: int, size: int, hop: int) -> None:
    """Each sample is the sum of window * frame over the frames that contain it, ascending, divided by the sum of the squared windows: the
    least-squares inverse of `frame` (Griffin and Lim 1984). Where that sum is below `kernels.LEAST_WEIGHT`, the sample is 0.

    `signal` (at most (count - 1) * hop + size), `frames` (count, size), `window` (size).

    Raises `kdsl.LaunchError` or `ValueError` if a size does not fit.
    """
    check_size("overlap_add", count=count)
    check_size("overlap_add", least=1, size=size, hop=hop)
    # Valid: a thread per sample; it visits only frames that contain the sample, and the contract compares the lengths.
    kernels.overlap_add(signal, frames, window, kernels.Framing(count=count, size=size, hop=hop))


def phase_step(spectrum: Array, rebuilt: Array, previous: Array, magnitude: Array, *, frames: int, bins: int, momentum: float) -> None:
    """One step of Griffin-Lim with momentum (Perraudin et al. 2013): the given magnitudes with the phase of rebuilt + momentum * (rebuilt -
    previous).

    `rebuilt` is the transform of the signal that the last spectrum gave, `previous` the one a step before (zeros at first). `spectrum` (the
    next one), `rebuilt` and `previous` (frames, 2 * bins), each row the real parts and then the imaginary ones; `magnitude` (frames, bins).
    Where the sum vanishes the phase is 0.

    Raises `ValueError` for a negative momentum, `kdsl.LaunchError` or `ValueError` if a size does not fit.
    """
    check_size("phase_step", frames=frames, bins=bins)
    if not momentum >= 0:
        raise ValueError(f"phase_step: momentum must not be negative, got {momentum}")
    # Only the direction matters, so the sum is divided by 1 + momentum. Valid: a thread per frame and bin, which writes its real and its
    # imaginary part; the contract compares all lengths.
    kernels.phase_step(
        spectrum, rebuilt, previous, magnitude, kernels.Spectrum(frames=frames, bins=bins, inertia=momentum / (1 + momentum))
    )
