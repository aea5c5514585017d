"""AdamW over the whole arena, with gradient-norm clipping, linear warm-up and cosine decay.

The moments have the arena's layout. One launch updates the matrices with decay, one the norm weights without.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import kdsl
from staleynet.model.configuration import Configuration
from staleynet.model.parameters import Weights, layout
from staleynet.model.transformer import Transformer
from staleynet.ops.optimizer import AdamW, adamw, sum_of_squares


def learning_rate(configuration: Configuration, step: int, steps: int) -> float:
    """The step size of step 1 to `steps`: linear from zero during the warm-up, then half a cosine down (Loshchilov and Hutter 2017).

    A warm-up longer than a tenth of the run is cut to it, so that short runs train, too.
    """
    c = configuration
    warmup = max(1, min(c.warmup_steps, steps // 10))
    if step <= warmup:
        return c.learning_rate * step / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    return c.final_learning_rate + (c.learning_rate - c.final_learning_rate) * 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))


class Optimizer:
    """AdamW (Loshchilov and Hutter 2019) for one model, in a run of `steps` steps."""

    def __init__(self, model: Transformer, steps: int) -> None:
        self.model = model
        self.steps = steps
        self.step = 0
        """Steps taken so far."""
        size = len(model.weights.arena)
        self.mean = model.device.zeros(size, kdsl.f32)
        """Running mean of the gradient."""
        self.square = model.device.zeros(size, kdsl.f32)
        """Running mean of the squared gradient."""

    def restore(self, step: int, mean: NDArray[np.float32], square: NDArray[np.float32]) -> None:
        """Continue after `step` steps with these moments, both of the arena's length."""
        self.mean.copy_from(mean)
        self.square.copy_from(square)
        self.step = step

    def update(self, gradients: Weights, norm: float) -> float:
        """Take one step with `gradients`, whose Euclidean norm is `norm`, clipped to the configuration's limit; the step size used."""
        c = self.model.configuration
        self.step += 1
        settings = AdamW(
            learning_rate=learning_rate(c, self.step, self.steps),
            beta1=c.beta1,
            beta2=c.beta2,
            epsilon=c.epsilon,
            weight_decay=c.weight_decay,
            step=self.step,
            gradient_scale=c.gradient_norm_limit / norm if norm > c.gradient_norm_limit else 1.0,
        )
        decaying = layout(c).decaying
        for part, chosen in ((slice(0, decaying), settings), (slice(decaying, len(self.mean)), replace(settings, weight_decay=0.0))):
            adamw(self.model.weights.arena[part], self.mean[part], self.square[part], gradients.arena[part], chosen)
        return settings.learning_rate


def gradient_norm(gradients: Weights) -> float:
    """The Euclidean norm of all gradients; waits for the device."""
    return math.sqrt(sum_of_squares(gradients.arena))
