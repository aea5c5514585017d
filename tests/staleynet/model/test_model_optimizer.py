"""AdamW over the arena: decay, clipping and schedule, against the formulas in float64."""

import math

import numpy as np
import pytest

from staleynet.model.optimizer import Optimizer, gradient_norm, learning_rate
from staleynet.model.parameters import layout, weights
from staleynet.model.transformer import Transformer


@pytest.mark.parametrize("size", [1e-3, 10.0])
def test_two_steps(model: Transformer, size: float) -> None:
    """A gradient below the clipping limit and one above it; matrices decay, norm weights do not."""
    c, device = model.configuration, model.device
    places = layout(c)
    expected = model.weights.arena.numpy().astype(np.float64)
    mean, square = np.zeros(places.size), np.zeros(places.size)
    decay = np.where(np.arange(places.size) < places.decaying, c.weight_decay, 0.0)
    optimizer = Optimizer(model, steps=50)
    rng = np.random.default_rng(0)
    for step in (1, 2):
        gradient = rng.standard_normal(places.size)
        gradient *= size / np.linalg.norm(gradient)
        arena = weights(c, device.array(gradient.astype(np.float32)))
        norm = gradient_norm(arena)
        assert norm == pytest.approx(size, rel=1e-5)
        rate = optimizer.update(arena, norm)
        assert rate == learning_rate(c, step, 50)
        clipped = gradient * min(1.0, c.gradient_norm_limit / size)
        mean = c.beta1 * mean + (1 - c.beta1) * clipped
        square = c.beta2 * square + (1 - c.beta2) * clipped**2
        update = (mean / (1 - c.beta1**step)) / (np.sqrt(square / (1 - c.beta2**step)) + c.epsilon)
        expected -= rate * (update + decay * expected)
    np.testing.assert_allclose(model.weights.arena.numpy(), expected, rtol=1e-4, atol=1e-6)
    assert optimizer.step == 2


def test_schedule(model: Transformer) -> None:
    """Up in a line, down in half a cosine, never below the final rate."""
    c = model.configuration
    rates = [learning_rate(c, step, 1000) for step in range(1, 1001)]
    assert rates[0] == pytest.approx(c.learning_rate / c.warmup_steps)
    assert rates[c.warmup_steps - 1] == c.learning_rate == max(rates)
    assert all(a > b for a, b in zip(rates[c.warmup_steps - 1 :], rates[c.warmup_steps :], strict=False))
    assert rates[-1] == pytest.approx(c.final_learning_rate)
    middle = c.warmup_steps + (1000 - c.warmup_steps) // 2
    assert rates[middle - 1] == pytest.approx((c.learning_rate + c.final_learning_rate) / 2)


@pytest.mark.parametrize("steps", [1, 2, 9, 15])
def test_short_runs_have_a_rate(model: Transformer, steps: int) -> None:
    rates = [learning_rate(model.configuration, step, steps) for step in range(1, steps + 1)]
    assert all(0 < rate <= model.configuration.learning_rate and math.isfinite(rate) for rate in rates)


def test_restore_continues(model: Transformer) -> None:
    """Weights and moments after 1 + 1 steps equal those after 2, bit for bit."""
    c, device = model.configuration, model.device
    start = model.weights.arena.numpy()
    size = len(start)
    rng = np.random.default_rng(0)
    gradients = [weights(c, device.array(rng.standard_normal(size).astype(np.float32))) for _ in range(2)]
    straight = Optimizer(model, steps=10)
    for gradient in gradients:
        straight.update(gradient, gradient_norm(gradient))
    expected = model.weights.arena.numpy()

    model.weights.arena.copy_from(start)
    before = Optimizer(model, steps=10)
    before.update(gradients[0], gradient_norm(gradients[0]))
    after = Optimizer(model, steps=10)
    after.restore(before.step, before.mean.numpy(), before.square.numpy())
    after.update(gradients[1], gradient_norm(gradients[1]))
    np.testing.assert_array_equal(model.weights.arena.numpy(), expected)
    np.testing.assert_array_equal(after.square.numpy(), straight.square.numpy())
