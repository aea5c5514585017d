"""What the kernels must compute, in NumPy and float64: the plainest form of each formula, on arrays with their natural shapes.

Inputs are the float32 values that the kernels read, so that all of a difference is the kernels' own. Where terms of opposite signs cancel,
a second function of the same name with `_magnitude` gives the sum of their absolute values, which an error must be small against.
"""

import numpy as np
from numpy.typing import NDArray

from staleynet.ops.optimizer import AdamW

Reals = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Ints = NDArray[np.int64]


def wide(x: NDArray[np.float32]) -> Reals:
    """The same numbers in float64."""
    return x.astype(np.float64)


def causal_softmax(scores: Reals, scale: float) -> Reals:
    """`scores` (..., queries, length); the queries are the last ones."""
    queries, length = scores.shape[-2:]
    seen = np.arange(length) <= np.arange(queries)[:, None] + length - queries
    scaled = np.where(seen, scale * scores, -np.inf)
    weights = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def causal_softmax_backward(probabilities: Reals, gradient: Reals, scale: float) -> Reals:
    """`gradient` counts only where a probability is not 0."""
    total = (probabilities * gradient).sum(axis=-1, keepdims=True)
    return np.asarray(scale * probabilities * (gradient - total))


def causal_softmax_backward_magnitude(probabilities: Reals, gradient: Reals, scale: float) -> Reals:
    total = (probabilities * np.abs(gradient)).sum(axis=-1, keepdims=True)
    return np.asarray(scale * probabilities * (np.abs(gradient) + total))


def softmax(logits: Reals) -> Reals:
    """Along the last axis."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def cross_entropy(logits: Reals, targets: Ints) -> Reals:
    """One loss per row; 0 where the target is negative."""
    chosen = softmax(logits)[np.arange(len(targets)), np.maximum(targets, 0)]
    return np.where(targets >= 0, -np.log(chosen), 0.0)


def cross_entropy_magnitude(logits: Reals, targets: Ints) -> Reals:
    """How far the target's logit lies below the largest, the logarithm of the sum, and 1: what rounds in the sum moves its logarithm by as much."""
    shifted = logits.max(axis=-1, keepdims=True) - logits
    return np.asarray(1 + np.log(np.exp(-shifted).sum(axis=-1)) + shifted[np.arange(len(targets)), np.maximum(targets, 0)])


def cross_entropy_backward(logits: Reals, targets: Ints, scale: float) -> Reals:
    """The gradient of scale * sum(losses)."""
    onehot = np.arange(logits.shape[1]) == targets[:, None]
    return np.where(targets[:, None] >= 0, scale * (softmax(logits) - onehot), 0.0)


def gelu(x: Reals) -> Reals:
    """The tanh form."""
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def gelu_slope(x: Reals) -> Reals:
    """Its derivative."""
    t = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    return np.asarray(0.5 * (1 + t) + 0.5 * x * (1 - t * t) * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x * x))


def rotary(x: Reals, angles: Reals, heads: int, head_width: int) -> Reals:
    """`x` (rows, width), `angles` (rows, head_width / 2): pairs as complex numbers, times exp(i angle)."""
    out = x.copy()
    half = head_width // 2
    for head in range(heads):
        low = slice(head * head_width, head * head_width + half)
        high = slice(head * head_width + half, (head + 1) * head_width)
        turned = (x[:, low] + 1j * x[:, high]) * np.exp(1j * angles)
        out[:, low], out[:, high] = turned.real, turned.imag
    return out


def inverse_rms(x: Reals, epsilon: float) -> Reals:
    """1 / sqrt(mean(x * x) + epsilon) of each row."""
    return np.asarray(1 / np.sqrt((x * x).mean(axis=1) + epsilon))


def rms_norm_backward(dy: Reals, x: Reals, weight: Reals, factor: Reals) -> Reals:
    """The gradient of the input; `factor` (rows) is `inverse_rms`."""
    r = factor[:, None]
    return np.asarray(r * (weight * dy - x * r * r * (weight * dy * x).mean(axis=1, keepdims=True)))


def rms_norm_backward_magnitude(dy: Reals, x: Reals, weight: Reals, factor: Reals) -> Reals:
    r = factor[:, None]
    return np.asarray(r * (np.abs(weight * dy) + np.abs(x) * r * r * np.abs(weight * dy * x).mean(axis=1, keepdims=True)))


def sum_by_token(rows: Reals, tokens: Ints, vocabulary: int) -> Reals:
    """The sum of the rows of each token, (vocabulary, columns)."""
    total = np.zeros((vocabulary, rows.shape[1]))
    np.add.at(total, tokens, rows)
    return total


def adamw(weight: Reals, mean: Reals, square: Reals, gradient: Reals, settings: AdamW) -> tuple[Reals, Reals, Reals]:
    """The new weight, mean and mean square."""
    g = settings.gradient_scale * gradient
    m = settings.beta1 * mean + (1 - settings.beta1) * g
    v = settings.beta2 * square + (1 - settings.beta2) * g**2
    direction = m / (1 - settings.beta1**settings.step) / (np.sqrt(v / (1 - settings.beta2**settings.step)) + settings.epsilon)
    return weight - settings.learning_rate * (direction + settings.weight_decay * weight), m, v


def frames(signal: Reals, window: Reals, count: int, hop: int) -> Reals:
    """Windowed frames, (count, size)."""
    return np.array([signal[i * hop : i * hop + len(window)] * window for i in range(count)]).reshape(count, len(window))


def overlap_add(frame_rows: Reals, window: Reals, hop: int, least: float) -> Reals:
    """The least-squares inverse of `frames`; 0 where the squared windows add up to less than `least`."""
    count, size = frame_rows.shape
    total = np.zeros((count - 1) * hop + size if count else 0)
    weight = np.zeros_like(total)
    for i in range(count):
        total[i * hop : i * hop + size] += window * frame_rows[i]
        weight[i * hop : i * hop + size] += window * window
    return np.where(weight >= least, total / np.maximum(weight, least), 0.0)


def phase_step(rebuilt: Complexes, previous: Complexes, magnitude: Reals, momentum: float) -> Complexes:
    """The magnitude with the phase of rebuilt + momentum * (rebuilt - previous), phase 0 where that vanishes."""
    moved = rebuilt + momentum * (rebuilt - previous)
    size = np.abs(moved)
    return np.asarray(magnitude * np.where(size > 0, moved / np.where(size > 0, size, 1), 1))


def codeword_update(codebook: Reals, vectors: Reals, assignment: Ints) -> Reals:
    """The mean of the members of each codeword; one without members stays."""
    new = codebook.copy()
    for word in np.unique(assignment):
        new[word] = vectors[assignment == word].mean(axis=0)
    return new
