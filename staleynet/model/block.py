"""One block of the transformer: attention, then feed-forward, each on a normalised copy of the stream and added to it.

x <- x + attention(norm(x)), then x <- x + down(gelu(up(norm(x)))): pre-normalisation (GPT-2) with RMSNorm (Zhang and Sennrich 2019), no
biases. What the backward pass needs is kept in `BlockActivations`; what any block may overwrite is in `Scratch`, one for the whole model.
"""

from dataclasses import dataclass

import kdsl
from staleynet.model.attention import Heads, attention, attention_backward
from staleynet.model.configuration import Configuration
from staleynet.model.linear import linear, linear_backward
from staleynet.model.parameters import BlockWeights
from staleynet.ops.elementwise import add, gelu, gelu_backward
from staleynet.ops.normalization import rms_norm, rms_norm_backward, rms_norm_weight_gradient


@dataclass(frozen=True)
class Shape:
    """The sizes of one batch."""

    sequences: int
    """Sequences in the batch."""
    length: int
    """Positions of each sequence, at most the model's context."""
    configuration: Configuration
    """The model's sizes."""

    @property
    def rows(self) -> int:
        """Positions of the whole batch."""
        return self.sequences * self.length

    @property
    def stream(self) -> int:
        """Elements of the residual stream: (rows, width)."""
        return self.rows * self.configuration.width

    @property
    def hidden(self) -> int:
        """Elements between the two feed-forward matrices: (rows, 4 * width)."""
        return self.rows * self.configuration.feed_forward

    @property
    def scores(self) -> int:
        """Elements of the attention scores: (sequences, heads, length, length)."""
        return self.sequences * self.configuration.heads * self.length * self.length

    @property
    def heads(self) -> Heads:
        """How attention divides the batch."""
        return Heads(self.sequences, self.configuration.heads, self.length, self.configuration.head_width)


class BlockActivations:
    """What one block keeps of its forward pass."""

    def __init__(self, shape: Shape, device: kdsl.Device) -> None:
        self.attention_input = device.empty(shape.stream, kdsl.f32)
        """Normalised stream that is projected to queries, keys and values."""
        self.attention_rms = device.empty(shape.rows, kdsl.f32)
        """1 / root mean square of each row of the stream before attention."""
        self.packed = device.empty(3 * shape.stream, kdsl.f32)
        """Queries, keys and values: (rows, 3 * width)."""
        self.probabilities = device.empty(shape.scores, kdsl.f32)
        """Attention probabilities."""
        self.mixed = device.empty(shape.stream, kdsl.f32)
        """Values mixed by the probabilities."""
        self.middle = device.empty(shape.stream, kdsl.f32)
        """The stream between attention and feed-forward."""
        self.feed_forward_input = device.empty(shape.stream, kdsl.f32)
        """Normalised stream that enters the feed-forward part."""
        self.feed_forward_rms = device.empty(shape.rows, kdsl.f32)
        """1 / root mean square of each row of the stream before feed-forward."""
        self.hidden = device.empty(shape.hidden, kdsl.f32)
        """Output of the first feed-forward matrix."""
        self.activated = device.empty(shape.hidden, kdsl.f32)
        """GELU of `hidden`."""
        self.output = device.empty(shape.stream, kdsl.f32)
        """The stream after the block."""


class ForwardScratch:
    """What a forward pass may overwrite at any time."""

    def __init__(self, shape: Shape, device: kdsl.Device) -> None:
        self.branch = device.empty(shape.stream, kdsl.f32)
        """What a part adds to the stream."""


class BackwardScratch:
    """What a backward pass may overwrite at any time, and the gradient that travels down the stream."""

    def __init__(self, shape: Shape, device: kdsl.Device) -> None:
        self.d_stream = device.empty(shape.stream, kdsl.f32)
        """Gradient of the residual stream: the backward pass of each block updates it in place."""
        self.d_branch = device.empty(shape.stream, kdsl.f32)
        """Gradient of a part's normalised input or of the mixed values."""
        self.d_hidden = device.empty(shape.hidden, kdsl.f32)
        """Gradient between the two feed-forward matrices."""
        self.d_packed = device.empty(3 * shape.stream, kdsl.f32)
        """Gradient of queries, keys and values."""
        self.d_scores = device.empty(shape.scores, kdsl.f32)
        """Gradient of the attention scores."""


def normalise(y: kdsl.Array, rms: kdsl.Array, x: kdsl.Array, weight: kdsl.Array, shape: Shape) -> None:
    """y <- RMSNorm of the stream `x`, with one over each row's root mean square in `rms`."""
    rms_norm(y, rms, x, weight, rows=shape.rows, columns=shape.configuration.width, epsilon=shape.configuration.norm_epsilon)


def normalise_backward(
    d_stream: kdsl.Array, d_weight: kdsl.Array, dy: kdsl.Array, x: kdsl.Array, weight: kdsl.Array, rms: kdsl.Array, shape: Shape
) -> None:
    """Write the gradient of a normalisation's weight, and add that of its input to the gradient of the stream around it."""
    rows, columns = shape.rows, shape.configuration.width
    rms_norm_weight_gradient(d_weight, dy, x, rms, rows=rows, columns=columns, accumulate=False)
    rms_norm_backward(d_stream, dy, x, weight, rms, rows=rows, columns=columns, accumulate=True)


def block(x: kdsl.Array, weights: BlockWeights, kept: BlockActivations, scratch: ForwardScratch, shape: Shape) -> None:
    """kept.output <- the block applied to the stream `x` (rows, width)."""
    c, rows = shape.configuration, shape.rows
    normalise(kept.attention_input, kept.attention_rms, x, weights.attention_norm, shape)
    linear(kept.packed, kept.attention_input, weights.query_key_value, rows=rows, inputs=c.width, outputs=3 * c.width)
    attention(kept.mixed, kept.probabilities, kept.packed, shape.heads)
    linear(scratch.branch, kept.mixed, weights.attention_out, rows=rows, inputs=c.width, outputs=c.width)
    add(kept.middle, x, scratch.branch)
    normalise(kept.feed_forward_input, kept.feed_forward_rms, kept.middle, weights.feed_forward_norm, shape)
    linear(kept.hidden, kept.feed_forward_input, weights.up, rows=rows, inputs=c.width, outputs=c.feed_forward)
    gelu(kept.activated, kept.hidden)
    linear(scratch.branch, kept.activated, weights.down, rows=rows, inputs=c.feed_forward, outputs=c.width)
    add(kept.output, kept.middle, scratch.branch)


def block_backward(
    x: kdsl.Array, weights: BlockWeights, gradients: BlockWeights, kept: BlockActivations, scratch: BackwardScratch, shape: Shape
) -> None:
    """Turn scratch.d_stream, the gradient of the block's output, into that of its input `x`; write every gradient of its weights."""
    c, rows, width = shape.configuration, shape.rows, shape.configuration.width
    d_stream, d_branch = scratch.d_stream, scratch.d_branch
    down = {"rows": rows, "inputs": c.feed_forward, "outputs": width}
    linear_backward(scratch.d_hidden, gradients.down, d_stream, kept.activated, weights.down, **down)
    gelu_backward(scratch.d_hidden, kept.hidden, scratch.d_hidden)
    up = {"rows": rows, "inputs": width, "outputs": c.feed_forward}
    linear_backward(d_branch, gradients.up, scratch.d_hidden, kept.feed_forward_input, weights.up, **up)
    normalise_backward(
        d_stream, gradients.feed_forward_norm, d_branch, kept.middle, weights.feed_forward_norm, kept.feed_forward_rms, shape
    )
    out = {"rows": rows, "inputs": width, "outputs": width}
    linear_backward(d_branch, gradients.attention_out, d_stream, kept.mixed, weights.attention_out, **out)
    attention_backward(scratch.d_packed, scratch.d_scores, d_branch, kept.packed, kept.probabilities, shape.heads)
    packed = {"rows": rows, "inputs": width, "outputs": 3 * width}
    linear_backward(d_branch, gradients.query_key_value, scratch.d_packed, kept.attention_input, weights.query_key_value, **packed)
    normalise_backward(d_stream, gradients.attention_norm, d_branch, x, weights.attention_norm, kept.attention_rms, shape)
