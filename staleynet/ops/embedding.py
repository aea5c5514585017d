"""The embedding table: look-up with positions, and both gradients in a fixed order.

Left out: a table that is shared with the output projection; the product with its transpose is `matmul`.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kdsl import Array, Device
from staleynet.kernels import embedding as kernels
from staleynet.ops.checks import check_size


def embed(
    y: Array, tokens: Array, table: Array, positions: Array | None, *, sequences: int, length: int, width: int, vocabulary: int
) -> None:
    """y = table[token] + positions[place in the sequence]; without `positions` the table's row alone.

    `y` (sequences, length, width), `tokens` (sequences, length) int32, `table` (vocabulary, width), `positions` (length or more, width). A
    token outside the vocabulary is reported as `kdsl.BoundsError` by the next synchronisation.

    Raises `kdsl.LaunchError` or `ValueError` if a size does not fit.
    """
    check_size("embed", sequences=sequences, length=length, width=width, vocabulary=vocabulary)
    shape = kernels.Embedding(sequences=sequences, length=length, width=width, vocabulary=vocabulary, accumulate=0)
    # Valid: a thread per element of y; the contract compares the lengths, and a token that is not in the table fails the table's own check.
    if positions is None:
        kernels.look_up(y, tokens, table, shape)
    else:
        kernels.look_up_with_positions(y, tokens, table, positions, shape)


@dataclass(frozen=True)
class TokenIndex:
    """Where each token occurs, in compressed sparse row form: token t at the places `place[first[t]:first[t + 1]]`, ascending."""

    first: Array
    """vocabulary + 1 offsets into `place`, int32; `token_index` guarantees that they ascend from 0 to len(place)."""
    place: Array
    """All places, grouped by token, int32."""


def token_index(tokens: npt.NDArray[np.integer], vocabulary: int, device: Device) -> TokenIndex:
    """The index of `tokens` (any shape, read in C order), made on the host by counting sort and copied to `device`.

    Raises `ValueError` for a token outside the vocabulary.
    """
    check_size("token_index", vocabulary=vocabulary)
    flat = np.ascontiguousarray(tokens).ravel()
    if flat.size and not (flat.min() >= 0 and flat.max() < vocabulary):
        raise ValueError(f"token_index: tokens must be from 0 to {vocabulary - 1}, they are from {flat.min()} to {flat.max()}")
    first = np.zeros(vocabulary + 1, np.int32)
    np.cumsum(np.bincount(flat, minlength=vocabulary), dtype=np.int32, out=first[1:])
    # NumPy's stable sort of 16-bit numbers is a counting sort by bytes; a larger vocabulary gets its merge sort, with the same result.
    place = np.argsort(flat.astype(np.uint16) if vocabulary <= 2**16 else flat, kind="stable").astype(np.int32)
    return TokenIndex(device.array(first), device.array(place))


def embedding_gradient(d_table: Array, dy: Array, index: TokenIndex, *, vocabulary: int, width: int, accumulate: bool = True) -> None:
    """The gradient of the table: for each token the sum of the rows of `dy` at its places, ascending; added to `d_table`, or written over
    it without `accumulate`.

    `d_table` (vocabulary, width), `dy` (places, width). No atomics: the same bits on every run.

    Raises `kdsl.LaunchError` or `ValueError` if a size does not fit.
    """
    check_size("embedding_gradient", vocabulary=vocabulary, width=width)
    shape = kernels.Table(tokens=vocabulary, width=width, accumulate=int(accumulate))
    # Valid: a thread per token and column; the contract compares the lengths, and `token_index` made an index whose offsets and places lie
    # inside.
    kernels.embedding_gradient(d_table, dy, index.first, index.place, shape)


def position_gradient(d_positions: Array, dy: Array, *, sequences: int, length: int, width: int, accumulate: bool = True) -> None:
    """The gradient of the positions: the sum of `dy` over the sequences, ascending; added to `d_positions`, or written over it without
    `accumulate`.

    `d_positions` (length or more, width): rows from `length` on are left alone. `dy` (sequences, length, width).

    Raises `kdsl.LaunchError` or `ValueError` if a size does not fit.
    """
    check_size("position_gradient", sequences=sequences, length=length, width=width)
    if len(d_positions) < length * width:
        raise ValueError(
            f"position_gradient: d_positions must have at least length * width = {length * width} elements, it has {len(d_positions)}"
        )
    shape = kernels.Embedding(sequences=sequences, length=length, width=width, vocabulary=0, accumulate=int(accumulate))
    # Valid: a thread per element of the first `length` rows; the contract compares both lengths.
    kernels.position_gradient(d_positions[: length * width], dy, shape)
