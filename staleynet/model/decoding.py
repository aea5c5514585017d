"""Choosing tokens: sampling with temperature, top-k and top-p, so that every stream decodes.

A stream is frames of `levels` tokens; the token at place p belongs to level p mod levels, so only that level's codewords are candidates.
All randomness comes from the generator that is passed in, one number per token.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from staleynet.model.configuration import Configuration
from staleynet.model.incremental import Incremental
from staleynet.model.transformer import Transformer


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn. Raises `ValueError` for a value out of range."""

    temperature: float = 1.0
    """Divides the logits; below 1 favours likely tokens, 0 always takes the likeliest."""
    top_k: int | None = None
    """Only this many of the likeliest tokens are candidates (Fan et al. 2018)."""
    top_p: float | None = None
    """Only the likeliest tokens that together reach this probability are candidates (Holtzman et al. 2020)."""

    def __post_init__(self) -> None:
        if not (np.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature must be a finite number of at least 0, not {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top-k must be at least 1, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top-p must be above 0 and at most 1, not {self.top_p}")


def choose(logits: NDArray[np.float32], sampling: Sampling, rng: np.random.Generator) -> int:
    """Draw the index of one of `logits`, (candidates,). Ties go to the lower index; the arithmetic is float64."""
    drawn = rng.random()
    values = logits.astype(np.float64)
    if not np.isfinite(values).all():
        raise FloatingPointError("the model's logits are not finite: its weights have diverged")
    order = np.argsort(-values, kind="stable")
    if sampling.temperature == 0:
        return int(order[0])
    if sampling.top_k is not None:
        order = order[: sampling.top_k]
    with np.errstate(over="ignore"):  # a tiny temperature makes a quotient -inf, and its exponential 0 is right
        scaled = (values[order] - values[order[0]]) / sampling.temperature
    cumulative = np.cumsum(np.exp(scaled))
    if sampling.top_p is not None:
        kept = int(np.searchsorted(cumulative, sampling.top_p * cumulative[-1], side="left")) + 1
        cumulative = cumulative[:kept]
    place = int(np.searchsorted(cumulative, drawn * cumulative[-1], side="right"))
    return int(order[min(place, len(cumulative) - 1)])  # rounding may make the product equal to the last sum


def generate(
    model: Transformer,
    prompt: NDArray[np.int32],
    length: int,
    sampling: Sampling,
    rng: np.random.Generator,
    *,
    progress: Callable[[int], None] = lambda done: None,
) -> NDArray[np.int32]:
    """A stream of `length` tokens that begins with `prompt`, of at least one token; the prompt begins with level 0.

    When the context is full at the end of a frame, its newest half (in whole frames) becomes its beginning. `progress` is called with the
    number of tokens so far. Raises `ValueError` for an empty prompt, or a token in it that is not of its place's level.
    """
    c = model.configuration
    prompt = np.asarray(prompt, np.int32)
    if len(prompt) == 0:
        raise ValueError("the prompt must have at least one token")
    if np.any(prompt // c.codewords != np.arange(len(prompt)) % c.levels):
        raise ValueError(f"the prompt must hold the tokens of levels 0 to {c.levels - 1} in turn")
    tokens = np.concatenate([prompt, np.zeros(max(0, length - len(prompt)), np.int32)])[:length]
    sequence = Incremental(model)
    for place in range(len(prompt), length):
        level = place % c.levels
        if place == len(prompt) or (level == 0 and sequence.length + c.levels > c.context):
            sequence.clear()
            sequence.extend(tokens[_beginning(place, c) : place])
        else:
            sequence.extend(tokens[place - 1 : place])
        first = level * c.codewords
        tokens[place] = first + choose(sequence.logits(first, c.codewords), sampling, rng)
        progress(place + 1)
    return tokens


def _beginning(place: int, c: Configuration) -> int:
    """Where the context begins after it was full at `place`: at a frame, so that every token keeps a position of its own level."""
    kept = max(c.levels, c.context // 2 // c.levels * c.levels)
    return -(-max(0, place - kept) // c.levels) * c.levels
