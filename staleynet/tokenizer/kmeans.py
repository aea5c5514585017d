"""k-means on a device: a codebook for a set of vectors, and the nearest codeword of each vector.

Distances are a matrix product, |c|^2 - 2 x . c (the |x|^2 that is left out is the same for all codewords of a row). The start is k-means++ (Arthur and
Vassilvitskii 2007) on the host, the iterations are Lloyd's (1982) on the device. How codebooks combine to a quantiser is in `quantizer`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import kdsl
from staleynet.ops import Operand, add_bias, codeword_update, matmul, nearest_codeword, row_major, token_index, transposed
from staleynet.tokenizer.errors import TokenizerError

_CHUNK = 8192  # rows at a time: 16 MB of distances at 512 codewords
_START_SAMPLE = 4096  # vectors that the start looks at; more of them cost time and hardly change where it begins


@dataclass(frozen=True)
class Codebook:
    """Codewords on a device, with what the distances to them need."""

    words: kdsl.Array
    """The codewords, shape (count, columns), float32."""
    norms: kdsl.Array
    """The squared length of each codeword, shape (count,)."""
    count: int
    """Number of codewords."""
    columns: int
    """Elements of a codeword."""

    @staticmethod
    def on(device: kdsl.Device, words: NDArray[np.float32]) -> "Codebook":
        """Copy `words`, shape (count, columns), to `device`."""
        return Codebook(device.array(words.ravel()), device.array(_squares(words)), len(words), words.shape[1])

    def numpy(self) -> NDArray[np.float32]:
        """A copy of the codewords on the host, shape (count, columns)."""
        return self.words.numpy().reshape(self.count, self.columns)

    def refresh(self) -> None:
        """Recompute the squared lengths after the codewords have changed."""
        self.norms.copy_from(_squares(self.numpy()))


def _squares(words: NDArray[np.float32]) -> NDArray[np.float32]:
    wide = words.astype(np.float64)
    squares: NDArray[np.float32] = np.einsum("ij,ij->i", wide, wide).astype(np.float32)
    return squares


class Assignment:
    """Buffers for finding nearest codewords, a chunk of rows at a time, for codebooks of up to `codewords` codewords."""

    def __init__(self, device: kdsl.Device, codewords: int, *, chunk: int = _CHUNK) -> None:
        self._chunk = chunk
        self._distances = device.empty(chunk * codewords, kdsl.f32)

    def __call__(self, index: kdsl.Array, vectors: Operand, codebook: Codebook, rows: int) -> None:
        """The nearest codeword of each of `rows` rows of `vectors` (rows x columns of the codebook) into `index`, int32; the lower one of equals."""
        count = codebook.count
        for start in range(0, rows, self._chunk):
            some = min(self._chunk, rows - start)
            part = self._distances[: some * count]
            chunk = Operand(vectors.array[start * vectors.row :], vectors.row, vectors.column)
            words = transposed(row_major(codebook.words, codebook.columns))
            matmul(row_major(part, count), chunk, words, m=some, n=count, k=codebook.columns, alpha=-2.0)
            add_bias(part, part, codebook.norms, rows=some, columns=count)
            nearest_codeword(index[start : start + some], part, rows=some, codewords=count)


def train_codebook(
    vectors: NDArray[np.float32], codewords: int, *, iterations: int, generator: np.random.Generator, device: kdsl.Device
) -> tuple[Codebook, NDArray[np.int32]]:
    """A codebook of `codewords` codewords for `vectors`, shape (rows, columns), and the codeword of each row.

    Ends early when no row changes its codeword. A codeword that no row is nearest to moves to the row that is farthest from its own codeword. Raises
    `TokenizerError` if there are fewer rows than codewords.
    """
    rows, columns = vectors.shape
    if rows < codewords:
        raise TokenizerError(f"{rows} frames cannot train {codewords} codewords: use more or longer recordings, or fewer codewords")
    codebook = Codebook.on(device, _first_codewords(vectors, codewords, generator))
    on_device = device.array(np.ascontiguousarray(vectors).ravel())
    index = device.empty(rows, kdsl.i32)
    assign = Assignment(device, codewords, chunk=min(_CHUNK, rows))
    assign(index, row_major(on_device, columns), codebook, rows)
    chosen = index.numpy()
    for _ in range(iterations):
        codeword_update(codebook.words, on_device, token_index(chosen, codewords, device), codewords=codewords, columns=columns)
        _reseed(codebook, vectors, chosen)
        codebook.refresh()
        assign(index, row_major(on_device, columns), codebook, rows)
        before, chosen = chosen, index.numpy()
        if np.array_equal(before, chosen):
            break
    return codebook, chosen


def _first_codewords(vectors: NDArray[np.float32], codewords: int, generator: np.random.Generator) -> NDArray[np.float32]:
    """k-means++: each next codeword is a row drawn with a probability in proportion to its squared distance from those drawn before."""
    sample = vectors
    if len(vectors) > max(_START_SAMPLE, 4 * codewords):
        sample = vectors[np.sort(generator.choice(len(vectors), max(_START_SAMPLE, 4 * codewords), replace=False))]
    chosen = np.empty((codewords, vectors.shape[1]), dtype=np.float32)
    chosen[0] = sample[generator.integers(len(sample))]
    nearest = _distances(sample, chosen[0])
    for i in range(1, codewords):
        cumulative = np.cumsum(nearest)
        # all rows may be codewords already (silence repeats itself): then any will do
        if cumulative[-1] > 0:
            row = min(int(np.searchsorted(cumulative, generator.random() * cumulative[-1], side="right")), len(sample) - 1)
        else:
            row = int(generator.integers(len(sample)))
        chosen[i] = sample[row]
        np.minimum(nearest, _distances(sample, chosen[i]), out=nearest)
    return chosen


def _distances(vectors: NDArray[np.float32], word: NDArray[np.float32]) -> NDArray[np.float64]:
    # float32 differences, which are exact for equal rows, and a sum in double precision
    difference = vectors - word
    distance: NDArray[np.float64] = np.einsum("ij,ij->i", difference, difference, dtype=np.float64)
    return distance


def _reseed(codebook: Codebook, vectors: NDArray[np.float32], chosen: NDArray[np.int32]) -> None:
    """Move each codeword without members onto a row of its own: the ones farthest from their codewords, the lower row of equals first."""
    empty = np.flatnonzero(np.bincount(chosen, minlength=codebook.count) == 0)
    if not len(empty):
        return
    words = codebook.numpy()
    difference = vectors - words[chosen]
    error = np.einsum("ij,ij->i", difference, difference, dtype=np.float64)
    farthest = np.argsort(-error, kind="stable")[: len(empty)]
    for word, row in zip(empty, farthest, strict=True):
        if error[row] > 0:  # a row that is its codeword already needs no second one
            words[word] = vectors[row]
    codebook.words.copy_from(words.ravel())
