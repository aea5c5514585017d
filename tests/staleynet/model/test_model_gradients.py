"""The backward pass of the whole model against finite differences and against PyTorch's autograd on the same weights."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from staleynet.model.configuration import Configuration
from staleynet.model.parameters import layout
from staleynet.model.transformer import TrainingPass, Transformer


def batch(c: Configuration, length: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Random tokens and targets, some positions of which do not count."""
    rng = np.random.default_rng(1)
    tokens, targets = rng.integers(0, c.vocabulary, (2, 3, length)).astype(np.int32)
    targets[0, :3] = -1
    return tokens, targets


def gradients(model: Transformer, length: int) -> tuple[float, NDArray[np.float32]]:
    tokens, targets = batch(model.configuration, length)
    step = TrainingPass(model, 3, length)
    loss = step.loss(tokens, targets)
    step.backward(tokens, targets)
    return loss, step.gradients.arena.numpy()


@pytest.mark.parametrize("length", [16, 11])
def test_directional_derivatives(model: Transformer, length: int) -> None:
    """For each parameter: along the gradient, where an error of scale shows, and along random directions, where a missing part does."""
    c = model.configuration
    tokens, targets = batch(c, length)
    _, computed = gradients(model, length)
    step = TrainingPass(model, 3, length)
    weights = model.weights.arena.numpy()

    def loss_at(direction: NDArray[np.float64], distance: float) -> float:
        model.weights.arena.copy_from((weights + distance * direction).astype(np.float32))
        return step.loss(tokens, targets)

    rng = np.random.default_rng(2)
    for parameter in layout(c).parameters:
        part = slice(parameter.offset, parameter.offset + parameter.size)
        gradient = computed[part].astype(np.float64)
        size = np.linalg.norm(gradient)
        assert size > 1e-4, f"{parameter.name} has no influence, so this test would show nothing"
        for along in (gradient, rng.standard_normal(parameter.size), rng.standard_normal(parameter.size)):
            direction = np.zeros(len(weights))
            direction[part] = along / np.linalg.norm(along)
            # Richardson's extrapolation cancels the cubic term, so that the distance can be large against the rounding of a float32 loss.
            near, far = ((loss_at(direction, h) - loss_at(direction, -h)) / (2 * h) for h in (0.02, 0.04))
            numeric = (4 * near - far) / 3
            assert numeric == pytest.approx(gradient @ direction[part], abs=float(2e-3 * size)), parameter.name


@pytest.mark.parametrize("length", [16, 11])
def test_autograd(model: Transformer, length: int) -> None:
    """Every gradient within 1e-4 of PyTorch's in float64, relative to the largest of its parameter."""
    torch = pytest.importorskip("torch")
    c = model.configuration
    tokens, targets = batch(c, length)
    loss, computed = gradients(model, length)
    values = model.weights.arena.numpy()
    w = {
        p.name: torch.tensor(values[p.offset : p.offset + p.size].reshape(p.shape).astype(np.float64), requires_grad=True)
        for p in layout(c).parameters
    }

    def norm(x: Any, weight: Any) -> Any:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + c.norm_epsilon) * weight

    def split(x: Any) -> Any:
        return x.reshape(3, length, c.heads, c.head_width).transpose(1, 2)

    x = w["embedding"][torch.tensor(tokens, dtype=torch.long)] + w["positions"][:length]
    for i in range(c.layers):
        layer = {name.removeprefix(f"layers.{i}."): tensor for name, tensor in w.items()}
        query, key, value = map(split, (norm(x, layer["attention_norm"]) @ layer["query_key_value"]).split(c.width, -1))
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + mixed.transpose(1, 2).reshape(x.shape) @ layer["attention_out"]
        hidden = torch.nn.functional.gelu(norm(x, layer["feed_forward_norm"]) @ layer["up"], approximate="tanh")
        x = x + hidden @ layer["down"]
    logits = norm(x, w["final_norm"]) @ w["embedding"].T
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(targets.ravel(), dtype=torch.long), ignore_index=-1)
    expected.backward()

    assert loss == pytest.approx(expected.item(), rel=1e-6)
    for p in layout(c).parameters:
        reference = w[p.name].grad.numpy().ravel()
        difference = np.abs(computed[p.offset : p.offset + p.size] - reference).max()
        assert difference <= 1e-4 * np.abs(reference).max(), p.name


def test_same_bits_again(model: Transformer) -> None:
    """No atomics anywhere: a second pass over the same buffers, and one over fresh ones, gives the same bits."""
    tokens, targets = batch(model.configuration, 16)
    step = TrainingPass(model, 3, 16)
    results = [gradients(model, 16)]
    for _ in range(2):
        loss = step.loss(tokens, targets)
        step.backward(tokens, targets)
        results.append((loss, step.gradients.arena.numpy()))
    for loss, gradient in results[1:]:
        assert loss == results[0][0]
        np.testing.assert_array_equal(gradient, results[0][1])
