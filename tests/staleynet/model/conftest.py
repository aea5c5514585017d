"""A model small enough for finite differences, on every device that is present."""

from dataclasses import replace

import numpy as np
import pytest

import kdsl
import kdsl.testing
from staleynet.model.configuration import CONFIGURATIONS, Configuration
from staleynet.model.parameters import initial_values, layout
from staleynet.model.transformer import Transformer

MICRO = replace(
    CONFIGURATIONS["tiny"], name="micro", levels=2, codewords=6, width=24, layers=2, heads=3, context=16, sequences=3, initial_deviation=0.3
)


@pytest.fixture
def micro() -> Configuration:
    """Sizes that fill tiles and warps only partly; weights large enough that every part of the model matters."""
    return MICRO


@pytest.fixture(params=kdsl.testing.devices(), ids=str)
def device(request: pytest.FixtureRequest) -> kdsl.Device:
    """Every device that is present."""
    found: kdsl.Device = request.param
    return found


@pytest.fixture
def model(device: kdsl.Device) -> Transformer:
    """A micro model with random norm weights, too."""
    rng = np.random.default_rng(0)
    values = initial_values(MICRO, rng)
    decaying = layout(MICRO).decaying
    values[decaying:] += 0.2 * rng.standard_normal(len(values) - decaying).astype(np.float32)
    return Transformer(MICRO, device, values)
