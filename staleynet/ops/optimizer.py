"""AdamW, and the sum of squares that gradient clipping needs.

Left out: schedules and the clipping rule itself; they belong to the model's optimizer.
"""

import math
from dataclasses import dataclass

from kdsl import Array, f32
from staleynet.kernels import optimizer as kernels


def sum_of_squares(x: Array) -> float:
    """The sum of the squares of all elements of `x`; waits for the device.

    A fixed number of blocks adds in float32, each in its own fixed order; the host adds their partial sums exactly and rounds once. The
    same array gives the same number on every run.
    """
    partial = x.device.empty(kernels.BLOCKS, f32)
    # Valid: the kernel reads `x` inside its length only, and writes one element of `partial` per block; the contract fixes that length.
    kernels.sum_of_squares(partial, x)
    return math.fsum(partial.numpy().tolist())


@dataclass(frozen=True)
class AdamW:
    """The settings of one AdamW step (Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101)."""

    learning_rate: float
    """Step size."""
    beta1: float
    """Decay of the running mean of the gradient, in [0, 1)."""
    beta2: float
    """Decay of the running mean of the squared gradient, in [0, 1)."""
    epsilon: float
    """Keeps the division finite, greater than 0."""
    weight_decay: float
    """Share of the weight that is removed per unit of learning rate; 0 for none."""
    step: int
    """Number of this step, from 1."""
    gradient_scale: float = 1.0
    """Factor of the gradient before anything else: the clipping coefficient."""


def adamw(weight: Array, mean: Array, square: Array, gradient: Array, settings: AdamW) -> None:
    """One step of AdamW on `weight`, `mean` and `square` in place; all four arrays have the same length. Decay applies to the whole array.

    Raises `ValueError` for settings outside their ranges, `kdsl.LaunchError` if the lengths differ or arrays overlap.
    """
    for name, beta in (("beta1", settings.beta1), ("beta2", settings.beta2)):
        if not 0 <= beta < 1:
            raise ValueError(f"adamw: {name} must be in [0, 1), got {beta}")
    if settings.step < 1:
        raise ValueError(f"adamw: step counts from 1, got {settings.step}")
    if not settings.epsilon > 0:
        raise ValueError(f"adamw: epsilon must be greater than 0, got {settings.epsilon}")
    # Valid: a thread per weight, which touches only its own element of each array; the contract compares their lengths.
    kernels.adamw(
        weight,
        mean,
        square,
        gradient,
        kernels.AdamWStep(
            learning_rate=settings.learning_rate,
            keep1=settings.beta1,
            take1=1 - settings.beta1,
            keep2=settings.beta2,
            take2=1 - settings.beta2,
            epsilon=settings.epsilon,
            weight_decay=settings.weight_decay,
            correction1=1 - settings.beta1**settings.step,
            correction2=1 - settings.beta2**settings.step,
            gradient_scale=settings.gradient_scale,
        ),
    )
