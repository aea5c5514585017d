"""The device that these tests compute on: the CPU, which every machine has. The kernels themselves are compared on all targets elsewhere."""

import pytest

import kdsl


@pytest.fixture(scope="session")
def device() -> kdsl.Device:
    return kdsl.device("cpu")
