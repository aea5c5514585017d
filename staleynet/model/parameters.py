"""The arena: all parameters of a model in one array, with a named view for each.

Gradients and the optimizer's moments have the same layout, so clipping and the update are one launch over a whole array each. What decays
(matrices) comes first, what does not (norm weights) last. Shapes are for people and for files; on the device every view is one-dimensional.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import kdsl
from staleynet.model.configuration import Configuration


@dataclass(frozen=True)
class Parameter:
    """One named part of the arena."""

    name: str
    """Unique, also the name in `model.safetensors`."""
    shape: tuple[int, ...]
    """Rows and columns of a matrix, row by row in memory; the length of a norm weight."""
    offset: int
    """First element in the arena."""

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))


@dataclass(frozen=True)
class Layout:
    """Where each parameter of a model lies in the arena."""

    parameters: tuple[Parameter, ...]
    """In the order of the arena."""
    decaying: int
    """Elements, from the beginning on, to which weight decay applies."""
    size: int
    """Elements in all: the parameter count of the model."""


def layout(configuration: Configuration) -> Layout:
    """The layout of a model's arena. A projection's matrix has a row per input and a column per output: y = x W."""
    c = configuration
    matrices: list[tuple[str, tuple[int, ...]]] = [("embedding", (c.vocabulary, c.width)), ("positions", (c.context, c.width))]
    norms: list[tuple[str, tuple[int, ...]]] = []
    for layer in range(c.layers):
        matrices += [
            (f"layers.{layer}.query_key_value", (c.width, 3 * c.width)),
            (f"layers.{layer}.attention_out", (c.width, c.width)),
            (f"layers.{layer}.up", (c.width, c.feed_forward)),
            (f"layers.{layer}.down", (c.feed_forward, c.width)),
        ]
        norms += [(f"layers.{layer}.attention_norm", (c.width,)), (f"layers.{layer}.feed_forward_norm", (c.width,))]
    norms.append(("final_norm", (c.width,)))
    parameters = []
    offset = 0
    for name, shape in matrices + norms:
        parameters.append(Parameter(name, shape, offset))
        offset += parameters[-1].size
    return Layout(tuple(parameters), decaying=parameters[len(matrices)].offset, size=offset)


def initial_values(configuration: Configuration, rng: np.random.Generator) -> NDArray[np.float32]:
    """The arena of an untrained model, after GPT-2 (Radford et al. 2019, section 2.3).

    Matrices are normal with `initial_deviation`; those that add to the residual stream divide it by sqrt(2 * layers), so that the stream's
    variance does not grow with depth. Norm weights are 1.
    """
    arena = layout(configuration)
    values = np.ones(arena.size, np.float32)
    for parameter in arena.parameters:
        if parameter.offset < arena.decaying:
            residual = parameter.name.endswith((".attention_out", ".down"))
            deviation = configuration.initial_deviation / (np.sqrt(2 * configuration.layers) if residual else 1.0)
            values[parameter.offset : parameter.offset + parameter.size] = deviation * rng.standard_normal(parameter.size)
    return values


@dataclass(frozen=True)
class BlockWeights:
    """Views of one block's parameters (or of their gradients)."""

    attention_norm: kdsl.Array
    """RMSNorm weight before attention (width)."""
    query_key_value: kdsl.Array
    """Packed projection to queries, keys and values (width, 3 * width)."""
    attention_out: kdsl.Array
    """Projection of the attended values into the residual stream (width, width)."""
    feed_forward_norm: kdsl.Array
    """RMSNorm weight before the feed-forward part (width)."""
    up: kdsl.Array
    """First matrix of the feed-forward part (width, 4 * width)."""
    down: kdsl.Array
    """Second matrix of the feed-forward part (4 * width, width)."""


@dataclass(frozen=True)
class Weights:
    """Named views of an arena: a model's parameters, or their gradients."""

    arena: kdsl.Array
    """All of them."""
    embedding: kdsl.Array
    """Token table (vocabulary, width); its transpose is the output projection (Press and Wolf 2017)."""
    positions: kdsl.Array
    """Learned position table (context, width)."""
    blocks: tuple[BlockWeights, ...]
    """One for each layer."""
    final_norm: kdsl.Array
    """RMSNorm weight before the output projection (width)."""


def weights(configuration: Configuration, arena: kdsl.Array) -> Weights:
    """Named views of `arena`. Raises `ValueError` when its length is not the model's parameter count."""
    places = layout(configuration)
    if len(arena) != places.size:
        raise ValueError(f"the arena of configuration {configuration.name!r} has {places.size} elements, not {len(arena)}")
    views = {parameter.name: arena[parameter.offset : parameter.offset + parameter.size] for parameter in places.parameters}
    blocks = tuple(
        BlockWeights(
            attention_norm=views[f"layers.{layer}.attention_norm"],
            query_key_value=views[f"layers.{layer}.query_key_value"],
            attention_out=views[f"layers.{layer}.attention_out"],
            feed_forward_norm=views[f"layers.{layer}.feed_forward_norm"],
            up=views[f"layers.{layer}.up"],
            down=views[f"layers.{layer}.down"],
        )
        for layer in range(configuration.layers)
    )
    return Weights(arena, views["embedding"], views["positions"], blocks, views["final_norm"])
