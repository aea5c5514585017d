"""Forward pass of one growing sequence: each new token costs one row of every product, because keys and values are kept.

For generation only; nothing is kept for a backward pass. Choosing the next token and what to do when the context is full is in `decoding`.
"""

import numpy as np
from numpy.typing import NDArray

import kdsl
from staleynet.model.configuration import Configuration
from staleynet.model.parameters import BlockWeights
from staleynet.model.transformer import Transformer
from staleynet.ops.attention import causal_softmax
from staleynet.ops.elementwise import add, gelu
from staleynet.ops.embedding import embed
from staleynet.ops.matmul import Operand, Version, matmul, row_major, transposed
from staleynet.ops.normalization import rms_norm

_CHUNK = 64  # rows at a time when a prompt is read: enough to use the matrix product's tiles, little enough to keep the scores small


class Incremental:
    """One sequence of at most `context` tokens that grows at its end."""

    def __init__(self, model: Transformer) -> None:
        c, device = model.configuration, model.device
        rows = min(_CHUNK, c.context)
        self.model = model
        self.length = 0
        """Tokens seen so far."""
        self._packed = [device.empty(3 * c.context * c.width, kdsl.f32) for _ in range(c.layers)]
        self._tokens = device.zeros(rows, kdsl.i32)
        self._stream = device.empty(rows * c.width, kdsl.f32)
        self._normed = device.empty(rows * c.width, kdsl.f32)
        self._rms = device.empty(rows, kdsl.f32)
        self._scores = device.empty(c.heads * rows * c.context, kdsl.f32)
        self._mixed = device.empty(rows * c.width, kdsl.f32)
        self._branch = device.empty(rows * c.width, kdsl.f32)
        self._hidden = device.empty(rows * c.feed_forward, kdsl.f32)
        self._logits = device.empty(c.vocabulary, kdsl.f32)

    def clear(self) -> None:
        """Forget the sequence."""
        self.length = 0

    def extend(self, tokens: NDArray[np.int32]) -> None:
        """Append `tokens` and compute the logits of what follows the last of them.

        Raises `ValueError` when there are none, or more than the context still holds.
        """
        room = self.model.configuration.context - self.length
        if not 1 <= len(tokens) <= room:
            raise ValueError(f"{len(tokens)} tokens do not fit: the sequence of {self.length} can grow by 1 to {room}")
        for start in range(0, len(tokens), _CHUNK):
            self._extend(tokens[start : start + _CHUNK])

    def logits(self, first: int, count: int) -> NDArray[np.float32]:
        """The logits of the tokens `first` to `first + count - 1` for the place after the end."""
        return self._logits[first : first + count].numpy()

    def _extend(self, tokens: NDArray[np.int32]) -> None:
        c, weights = self.model.configuration, self.model.weights
        rows, width = len(tokens), c.width
        stream, normed = self._stream[: rows * width], self._normed[: rows * width]
        device_tokens = self._tokens[:rows]
        device_tokens.copy_from(np.ascontiguousarray(tokens, np.int32))
        positions = weights.positions[self.length * width : (self.length + rows) * width]
        embed(stream, device_tokens, weights.embedding, positions, sequences=1, length=rows, width=width, vocabulary=c.vocabulary)
        for block_weights, packed in zip(weights.blocks, self._packed, strict=True):
            self._block(block_weights, packed, rows)
        self.length += rows
        self._normalise(stream, weights.final_norm, rows)
        output = transposed(row_major(weights.embedding, width))
        matmul(
            row_major(self._logits, c.vocabulary),
            row_major(normed[(rows - 1) * width :], width),
            output,
            m=1,
            n=c.vocabulary,
            k=width,
            version=_version(1),
        )

    def _block(self, weights: BlockWeights, packed: kdsl.Array, rows: int) -> None:
        c = self.model.configuration
        width, hidden = c.width, self._hidden[: rows * c.feed_forward]
        stream, normed, branch, mixed = (a[: rows * width] for a in (self._stream, self._normed, self._branch, self._mixed))
        self._normalise(stream, weights.attention_norm, rows)
        _linear(packed[3 * self.length * width : 3 * (self.length + rows) * width], normed, weights.query_key_value, rows, width, 3 * width)
        self._attention(mixed, packed, rows)
        _linear(branch, mixed, weights.attention_out, rows, width, width)
        add(stream, stream, branch)
        self._normalise(stream, weights.feed_forward_norm, rows)
        _linear(hidden, normed, weights.up, rows, width, c.feed_forward)
        gelu(hidden, hidden)
        _linear(branch, hidden, weights.down, rows, c.feed_forward, width)
        add(stream, stream, branch)

    def _attention(self, mixed: kdsl.Array, packed: kdsl.Array, rows: int) -> None:
        """The last `rows` queries look at all keys and values up to their own."""
        c = self.model.configuration
        h, d, keys = c.heads, c.head_width, self.length + rows
        scores = self._scores[: h * rows * keys]
        square = Operand(scores, row=keys, column=1, head=rows * keys)
        query, key, value = _parts(packed, self.length, c)
        matmul(square, query, transposed(key), m=rows, n=keys, k=d, heads=h, version=_version(rows))
        causal_softmax(scores, scores, sequences=1, heads=h, length=keys, queries=rows, scale=d**-0.5)
        merged = Operand(mixed, row=c.width, column=1, head=d)
        matmul(merged, square, value, m=rows, n=d, k=keys, heads=h, version=_version(rows))

    def _normalise(self, stream: kdsl.Array, weight: kdsl.Array, rows: int) -> None:
        c = self.model.configuration
        rms_norm(self._normed[: rows * c.width], self._rms[:rows], stream, weight, rows=rows, columns=c.width, epsilon=c.norm_epsilon)


def _parts(packed: kdsl.Array, first: int, c: Configuration) -> tuple[Operand, Operand, Operand]:
    """Queries from row `first` on, and all keys and values, in one block's packed rows (context, 3, heads, head width)."""
    row = 3 * c.width
    starts = (first * row, c.width, 2 * c.width)
    query, key, value = (Operand(packed[start:], row=row, column=1, head=c.head_width) for start in starts)
    return query, key, value


def _linear(y: kdsl.Array, x: kdsl.Array, weight: kdsl.Array, rows: int, inputs: int, outputs: int) -> None:
    weight_operand = row_major(weight, outputs)
    matmul(row_major(y, outputs), row_major(x, inputs), weight_operand, m=rows, n=outputs, k=inputs, version=_version(rows))


def _version(rows: int) -> Version:
    """Tiles pay when rows share them; with a single row there is nothing to share, and the naive product wastes no part of a tile."""
    return "naive" if rows == 1 else "register_blocked"
