"""Causal self-attention over a packed query-key-value array, forward and backward.

Queries, keys and values of all heads stay where the projection wrote them: every product reads and writes them by strides, nothing is
transposed or copied. The scores of the whole batch are kept (length x length per head), as the backward pass needs the probabilities.
"""

import math
from dataclasses import dataclass

import kdsl
from staleynet.ops.attention import causal_softmax, causal_softmax_backward
from staleynet.ops.matmul import Operand, matmul, transposed


@dataclass(frozen=True)
class Heads:
    """How a batch of sequences is divided for attention."""

    sequences: int
    """Sequences in the batch."""
    heads: int
    """Heads of each sequence."""
    length: int
    """Positions of each sequence."""
    head_width: int
    """Elements of one head's query, key or value."""

    @property
    def width(self) -> int:
        """Elements of all heads at one position."""
        return self.heads * self.head_width

    @property
    def scale(self) -> float:
        """Factor of the scores: 1 / sqrt(head width) (Vaswani et al. 2017)."""
        return 1.0 / math.sqrt(self.head_width)

    def packed(self, array: kdsl.Array, part: int) -> Operand:
        """The queries (part 0), keys (1) or values (2) in a packed array: (sequences, length, 3, heads, head width)."""
        row = 3 * self.width
        return Operand(array[part * self.width :], row=row, column=1, sequence=self.length * row, head=self.head_width)

    def merged(self, array: kdsl.Array) -> Operand:
        """The heads in an array of the residual stream's shape: (sequences, length, heads, head width)."""
        return Operand(array, row=self.width, column=1, sequence=self.length * self.width, head=self.head_width)

    def square(self, array: kdsl.Array) -> Operand:
        """Scores or probabilities: (sequences, heads, length, length)."""
        matrix = self.length * self.length
        return Operand(array, row=self.length, column=1, sequence=self.heads * matrix, head=matrix)


def attention(mixed: kdsl.Array, probabilities: kdsl.Array, packed: kdsl.Array, shape: Heads) -> None:
    """mixed <- softmax(mask(q k^T / sqrt(d))) v, keeping the probabilities.

    `mixed` is (sequences, length, width), `probabilities` (sequences, heads, length, length), `packed` (sequences, length, 3 * width).
    """
    s, h, t, d = shape.sequences, shape.heads, shape.length, shape.head_width
    query, key, value = (shape.packed(packed, part) for part in range(3))
    matmul(shape.square(probabilities), query, transposed(key), m=t, n=t, k=d, sequences=s, heads=h)
    causal_softmax(probabilities, probabilities, sequences=s, heads=h, length=t, scale=shape.scale)
    matmul(shape.merged(mixed), shape.square(probabilities), value, m=t, n=d, k=t, sequences=s, heads=h)


def attention_backward(
    d_packed: kdsl.Array, d_scores: kdsl.Array, d_mixed: kdsl.Array, packed: kdsl.Array, probabilities: kdsl.Array, shape: Heads
) -> None:
    """d_packed <- gradient of the packed projection's output, from `d_mixed`, the gradient of `attention`'s.

    `d_scores` is scratch of the probabilities' shape; other shapes as in `attention`.
    """
    s, h, t, d = shape.sequences, shape.heads, shape.length, shape.head_width
    query, key, value = (shape.packed(packed, part) for part in range(3))
    d_query, d_key, d_value = (shape.packed(d_packed, part) for part in range(3))
    matmul(shape.square(d_scores), shape.merged(d_mixed), transposed(value), m=t, n=t, k=d, sequences=s, heads=h)
    matmul(d_value, transposed(shape.square(probabilities)), shape.merged(d_mixed), m=t, n=d, k=t, sequences=s, heads=h)
    causal_softmax_backward(d_scores, probabilities, d_scores, sequences=s, heads=h, length=t, scale=shape.scale)
    matmul(d_query, shape.square(d_scores), key, m=t, n=d, k=t, sequences=s, heads=h)
    matmul(d_key, transposed(shape.square(d_scores)), query, m=t, n=d, k=t, sequences=s, heads=h)
