"""The decoder-only transformer: logits for the next token at every position, the loss, and the gradient of every parameter.

The passes are written by hand over `staleynet.ops`; every buffer is allocated once for a batch's shape and used again in each step.
Generating token by token is in `incremental`.
"""

import numpy as np
from numpy.typing import NDArray

import kdsl
from staleynet.model.block import (
    BackwardScratch,
    BlockActivations,
    ForwardScratch,
    Shape,
    block,
    block_backward,
    normalise,
    normalise_backward,
)
from staleynet.model.configuration import Configuration
from staleynet.model.parameters import Weights, weights
from staleynet.ops.embedding import embed, embedding_gradient, position_gradient, token_index
from staleynet.ops.loss import cross_entropy, cross_entropy_backward
from staleynet.ops.matmul import matmul, row_major, transposed


class Transformer:
    """The parameters of a model on a device.

    `values` is the arena (see `parameters.layout`), float32. Raises `ValueError` when its length does not fit the configuration.
    """

    def __init__(self, configuration: Configuration, device: kdsl.Device, values: NDArray[np.float32]) -> None:
        self.configuration = configuration
        self.device = device
        self.weights = weights(configuration, device.array(values))


class Pass:
    """The buffers of a forward pass over batches of one shape: `sequences` of `length` tokens."""

    def __init__(self, model: Transformer, sequences: int, length: int) -> None:
        c, device = model.configuration, model.device
        if not 1 <= length <= c.context:
            raise ValueError(f"sequences of {length} tokens do not fit configuration {c.name!r}: 1 to {c.context}")
        self.model = model
        self.shape = Shape(sequences, length, c)
        rows = self.shape.rows
        self.tokens = device.zeros(rows, kdsl.i32)
        """Input tokens (sequences, length)."""
        self.targets = device.zeros(rows, kdsl.i32)
        """The token that follows at each position; -1 leaves a position out of the loss."""
        self.embedded = device.empty(self.shape.stream, kdsl.f32)
        """The stream before the first block."""
        self.blocks = [BlockActivations(self.shape, device) for _ in range(c.layers)]
        """What each block keeps."""
        self.final_input = device.empty(self.shape.stream, kdsl.f32)
        """Normalised stream before the output projection."""
        self.final_rms = device.empty(rows, kdsl.f32)
        """1 / root mean square of each row of the last stream."""
        self.logits = device.empty(rows * c.vocabulary, kdsl.f32)
        """(rows, vocabulary); the backward pass replaces them by their gradient."""
        self.losses = device.empty(rows, kdsl.f32)
        """Cross-entropy of each position in nats."""
        self.scratch = ForwardScratch(self.shape, device)

    def forward(self, tokens: NDArray[np.int32]) -> None:
        """Compute `logits` for `tokens` (sequences, length)."""
        c, weights, shape = self.model.configuration, self.model.weights, self.shape
        self.tokens.copy_from(np.ascontiguousarray(tokens, np.int32).reshape(-1))
        embed(
            self.embedded,
            self.tokens,
            weights.embedding,
            weights.positions[: shape.length * c.width],
            sequences=shape.sequences,
            length=shape.length,
            width=c.width,
            vocabulary=c.vocabulary,
        )
        stream = self.embedded
        for block_weights, kept in zip(weights.blocks, self.blocks, strict=True):
            block(stream, block_weights, kept, self.scratch, shape)
            stream = kept.output
        normalise(self.final_input, self.final_rms, stream, weights.final_norm, shape)
        output = transposed(row_major(weights.embedding, c.width))
        matmul(row_major(self.logits, c.vocabulary), row_major(self.final_input, c.width), output, m=shape.rows, n=c.vocabulary, k=c.width)

    def loss(self, tokens: NDArray[np.int32], targets: NDArray[np.int32]) -> float:
        """Mean cross-entropy in nats of `targets` given `tokens`, both (sequences, length); the one copy to the host of a step."""
        self.start_loss(tokens, targets)
        return self.finish_loss(targets)

    def start_loss(self, tokens: NDArray[np.int32], targets: NDArray[np.int32]) -> None:
        """Compute `losses` without waiting for them."""
        self.forward(tokens)
        self.targets.copy_from(np.ascontiguousarray(targets, np.int32).reshape(-1))
        cross_entropy(self.losses, self.logits, self.targets, rows=self.shape.rows, classes=self.model.configuration.vocabulary)

    def finish_loss(self, targets: NDArray[np.int32]) -> float:
        """Wait for `losses` and take the mean in float64 over the positions that count."""
        return float(self.losses.numpy().astype(np.float64).sum() / counted(targets))


class TrainingPass(Pass):
    """The buffers of forward and backward passes, with the gradients."""

    def __init__(self, model: Transformer, sequences: int, length: int) -> None:
        super().__init__(model, sequences, length)
        # Zeros, because positions beyond `length` are never written and have no gradient.
        self.gradients: Weights = weights(model.configuration, model.device.zeros(len(model.weights.arena), kdsl.f32))
        """Gradient of the mean loss, in the arena's layout."""
        self.backward_scratch = BackwardScratch(self.shape, model.device)

    def backward(self, tokens: NDArray[np.int32], targets: NDArray[np.int32]) -> None:
        """Write every element of `gradients`, after `start_loss` with the same arrays. Nothing is read back to the host."""
        c, weights, gradients, shape = self.model.configuration, self.model.weights, self.gradients, self.shape
        rows, width, vocabulary = shape.rows, c.width, c.vocabulary
        scratch = self.backward_scratch
        cross_entropy_backward(self.logits, self.logits, self.targets, rows=rows, classes=vocabulary, scale=1.0 / counted(targets))
        d_logits = row_major(self.logits, vocabulary)
        matmul(
            row_major(gradients.embedding, width), transposed(d_logits), row_major(self.final_input, width), m=vocabulary, n=width, k=rows
        )
        matmul(row_major(scratch.d_branch, width), d_logits, row_major(weights.embedding, width), m=rows, n=width, k=vocabulary)
        last = self.blocks[-1].output
        scratch.d_stream.fill(0.0)
        normalise_backward(scratch.d_stream, gradients.final_norm, scratch.d_branch, last, weights.final_norm, self.final_rms, shape)
        inputs = [self.embedded, *(kept.output for kept in self.blocks[:-1])]
        for x, block_weights, block_gradients, kept in reversed(
            list(zip(inputs, weights.blocks, gradients.blocks, self.blocks, strict=True))
        ):
            block_backward(x, block_weights, block_gradients, kept, scratch, shape)
        # The table is also the output projection, whose share of the gradient is already there.
        index = token_index(np.ascontiguousarray(tokens, np.int32).reshape(-1), vocabulary, self.model.device)
        embedding_gradient(gradients.embedding, scratch.d_stream, index, vocabulary=vocabulary, width=width, accumulate=True)
        positions = gradients.positions[: shape.length * width]
        position_gradient(positions, scratch.d_stream, sequences=shape.sequences, length=shape.length, width=width, accumulate=False)


def counted(targets: NDArray[np.int32]) -> int:
    """How many positions count in the loss (at least 1, so that a batch without any has loss 0)."""
    return max(1, int(np.count_nonzero(targets >= 0)))
