"""Between sound, spectra and codewords: framing, power, logarithm, nearest codeword and codebook update, overlap-add, Griffin-Lim.

The transforms and the distances in between are matrix products (`matmul`). A row of a complex spectrum holds its real parts and then its
imaginary parts.
"""

from kdsl import (
    WARP_SIZE,
    DisjointSlice,
    Slice,
    SliceMut,
    elements,
    f32,
    i32,
    i64,
    is_first_lane,
    kernel,
    lane_index,
    log,
    row_index,
    rows,
    sqrt,
    struct,
    thread_index,
    u32,
    warp_min,
)
from staleynet.kernels.device import set_element

LEAST_WEIGHT = 1e-8
"""Sum of squared windows below which a sample of `overlap_add` counts as covered by no frame: dividing by less would only amplify rounding
errors.
"""


@struct
class Framing:
    """How a signal is cut into overlapping frames."""

    count: u32
    """Number of frames."""
    size: u32
    """Samples of a frame, at least 1."""
    hop: u32
    """Samples from the start of a frame to that of the next, at least 1."""


@kernel(
    grid=elements("frames"),
    requires=("len(frames) == p.count * p.size", "len(window) == p.size", "extent((p.count, p.hop), (p.size, 1)) <= len(signal)"),
)
def frame(frames: DisjointSlice[f32], signal: Slice[f32], window: Slice[f32], p: Framing) -> None:
    """A thread per element of the frames: the sample times the window."""
    i = thread_index()
    if i in frames:
        number, j = i // p.size, i % p.size
        frames[i] = signal[number * p.hop + j] * window[j]


@kernel(
    grid=elements("signal"),
    requires=(
        "len(signal) <= extent((p.count, p.hop), (p.size, 1))",
        "len(frames) == p.count * p.size",
        "len(window) == p.size",
        "p.hop >= 1",
    ),
)
def overlap_add(signal: DisjointSlice[f32], frames: Slice[f32], window: Slice[f32], p: Framing) -> None:
    """A thread per element of the signal: sum(window * frame) / sum(window * window) over the frames that contain the sample, ascending
    (Griffin and Lim 1984).
    """
    i = thread_index()
    if i in signal:
        first = max((i - p.size) // p.hop + 1, 0)  # floor division: frames before it end at or before the sample
        end = min(i // p.hop + 1, p.count)
        total = f32(0)
        weight = f32(0)
        for number in range(first, end):
            j = i - number * p.hop
            total += window[j] * frames[number * p.size + j]
            weight += window[j] * window[j]
        signal[i] = total / weight if weight >= LEAST_WEIGHT else 0.0


@struct
class Spectrum:
    """A sequence of spectra."""

    frames: u32
    """Number of spectra."""
    bins: u32
    """Frequencies of each."""
    inertia: f32
    """Momentum / (1 + momentum) of the phase step; nothing else uses it."""


@kernel(grid=elements("power"), requires=("len(power) == p.frames * p.bins", "len(spectrum) == 2 * p.frames * p.bins"))
def power_spectrum(power: DisjointSlice[f32], spectrum: Slice[f32], p: Spectrum) -> None:
    """A thread per element of the power: the squared magnitude."""
    i = thread_index()
    if i in power:
        real_at = 2 * (i // p.bins) * p.bins + i % p.bins
        real, imaginary = spectrum[real_at], spectrum[real_at + p.bins]
        power[i] = real * real + imaginary * imaginary


@kernel(grid=elements("y"), requires=("len(x) == len(y)",))
def log_compress(y: DisjointSlice[f32], x: Slice[f32], floor: f32) -> None:
    """A thread per element: y = log(max(x, floor))."""
    i = thread_index()
    if i in y:
        y[i] = log(max(x[i], floor))


@kernel(
    grid=elements("magnitude"),
    requires=(
        "len(magnitude) == p.frames * p.bins",
        "len(spectrum) == 2 * len(magnitude)",
        "len(rebuilt) == len(spectrum)",
        "len(previous) == len(spectrum)",
    ),
)
def phase_step(spectrum: SliceMut[f32], rebuilt: Slice[f32], previous: Slice[f32], magnitude: Slice[f32], p: Spectrum) -> None:
    """A thread per element of the magnitude, which owns its real and imaginary part: the magnitude with the phase of rebuilt - inertia *
    previous, or phase 0 where that vanishes (Perraudin, Balazs and Søndergaard 2013, https://doi.org/10.1109/WASPAA.2013.6701851).
    """
    i = thread_index()
    if i in magnitude:
        real_at = 2 * (i // p.bins) * p.bins + i % p.bins
        imaginary_at = real_at + p.bins
        real = rebuilt[real_at] - p.inertia * previous[real_at]
        imaginary = rebuilt[imaginary_at] - p.inertia * previous[imaginary_at]
        size = sqrt(real * real + imaginary * imaginary)
        set_element(spectrum, real_at, magnitude[i] * (real / size) if size > 0.0 else magnitude[i])
        set_element(spectrum, imaginary_at, magnitude[i] * (imaginary / size) if size > 0.0 else 0.0)


@struct
class Distances:
    """Distances of vectors to codewords."""

    rows: u32
    """Number of vectors."""
    codewords: u32
    """Number of codewords, at least 1."""


@kernel(grid=rows("p.rows"), requires=("len(index) == p.rows", "len(distances) == p.rows * p.codewords"))
def nearest_codeword(index: DisjointSlice[i32], distances: Slice[f32], p: Distances) -> None:
    """A warp per row: the column of its least distance, the lower one of equals; each lane finds its own, then the warp the least value and
    the first column that has it.
    """
    row = row_index()
    if row >= p.rows:  # whole warps leave together
        return
    first = row * p.codewords
    least = f32("inf")
    nearest = lane_index()
    for column in range(lane_index(), p.codewords, WARP_SIZE):
        distance = distances[first + column]
        if distance < least:
            least = distance
            nearest = column
    candidate = nearest if least == warp_min(least) else i64(p.codewords)
    winner = warp_min(candidate)
    if is_first_lane():
        index[row] = i32(winner)


@struct
class Codebook:
    """A codebook of k-means."""

    codewords: u32
    """Number of codewords."""
    columns: u32
    """Numbers of a codeword."""


@kernel(
    grid=elements("codebook"),
    requires=("len(codebook) == p.codewords * p.columns", "len(first) == p.codewords + 1", "len(vectors) == len(member) * p.columns"),
)
def codeword_update(codebook: DisjointSlice[f32], vectors: Slice[f32], first: Slice[i32], member: Slice[i32], p: Codebook) -> None:
    """A thread per element (codeword and column): the mean of the codeword's members, added in ascending order; one without members
    stays.
    """
    i = thread_index()
    if i in codebook:
        codeword, column = i // p.columns, i % p.columns
        start, end = first[codeword], first[codeword + 1]
        if end > start:
            total = f32(0)
            for n in range(start, end):
                total += vectors[member[n] * p.columns + column]
            codebook[i] = total / f32(end - start)


@struct
class Rows:
    """Vectors, row by row, and the codebook that they are compared with."""

    rows: u32
    """Number of vectors."""
    columns: u32
    """Numbers of a vector."""
    codewords: u32
    """Number of codewords."""


@kernel(
    grid=elements("residual"),
    requires=(
        "len(residual) == p.rows * p.columns",
        "len(vectors) == len(residual)",
        "len(index) == p.rows",
        "len(codebook) == p.codewords * p.columns",
        "p.codewords <= 2147483648",
    ),
)
def subtract_codeword(residual: DisjointSlice[f32], vectors: Slice[f32], codebook: Slice[f32], index: Slice[i32], p: Rows) -> None:
    """A thread per element: the vector minus its codeword. The vectors may be changed in place."""
    i = thread_index()
    if i in residual:
        residual[i] = vectors[i] - codebook[index[i // p.columns] * p.columns + i % p.columns]
