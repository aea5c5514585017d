"""A model and a recording so small that a whole run takes a second."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

import kdsl
import kdsl.testing
from staleynet.model.configuration import CONFIGURATIONS, Configuration
from staleynet.training.run import Options, run

MICRO = replace(
    CONFIGURATIONS["tiny"],
    name="micro",
    codewords=8,
    width=16,
    layers=1,
    heads=2,
    context=16,
    sequences=4,
    steps=10,
    warmup_steps=2,
    evaluation_interval=4,
)


@pytest.fixture
def micro() -> Configuration:
    """The configuration itself."""
    return MICRO


@pytest.fixture
def micro_file(tmp_path: Path) -> Path:
    """The configuration as a file, for the command line."""
    path = tmp_path / "micro.json"
    path.write_text(json.dumps(MICRO.to_json()))
    return path


@pytest.fixture(params=kdsl.testing.devices(), ids=str)
def device(request: pytest.FixtureRequest) -> kdsl.Device:
    """Every device that is present."""
    found: kdsl.Device = request.param
    return found


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four seconds of a falling scale in decaying tones, as a FLAC file in a folder of its own."""
    rate = 11025
    time = np.arange(rate // 4) / rate
    notes = [np.sin(2 * np.pi * 880 * 2 ** (-i / 12) * time) * np.exp(-6 * time) for i in range(16)]
    path = tmp_path_factory.mktemp("music") / "scale.flac"
    soundfile.write(path, 0.5 * np.concatenate(notes), rate)
    return path


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory: pytest.TempPathFactory, recording: Path) -> Path:
    """A folder with a run of two steps, and the cache in which it has prepared the recording."""
    folder = tmp_path_factory.mktemp("trained")
    run(Options(folder / "run", recording, MICRO, steps=2, cache=folder / "cache", sample_seconds=0.5), kdsl.device("cpu"))
    return folder


@pytest.fixture
def cache(trained_once: Path, tmp_path: Path) -> Path:
    """A copy of the cache: what a test reads from its device must not depend on which tests have run before."""
    return Path(shutil.copytree(trained_once / "cache", tmp_path / "cache"))


@pytest.fixture
def trained(trained_once: Path, tmp_path: Path) -> Path:
    """A copy of the run, which a test may damage."""
    return Path(shutil.copytree(trained_once / "run", tmp_path / "trained"))
