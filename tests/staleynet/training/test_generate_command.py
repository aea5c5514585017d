"""`python -m staleynet.generate`: sound from a checkpoint, and what it refuses."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner, Result

from staleynet.generate import main


@pytest.fixture
def checkpoint(trained: Path) -> Path:
    return trained / "checkpoint"


@pytest.fixture
def generate(checkpoint: Path, tmp_path: Path) -> Callable[..., Result]:
    def runner(*arguments: object, out: str = "music.wav") -> Result:
        options = ["--checkpoint", checkpoint, "--seconds", 1.5, "--out", tmp_path / out, *arguments]
        return CliRunner().invoke(main, [str(option) for option in options])

    return runner


def test_sound(generate: Callable[..., Result], tmp_path: Path) -> None:
    """At least as long as asked for; the same bytes for the same seed, others for another."""
    for name, arguments in (("a", []), ("b", []), ("c", ["--seed", 1]), ("d", ["--temperature", 0.5, "--top-k", 3, "--top-p", 0.9])):
        result = generate(*arguments, out=f"{name}.wav")
        assert result.exit_code == 0, result.output
        assert f"{name}.wav: 1.5 s at 11025 Hz" in result.stdout
    a, b, c, d = ((tmp_path / f"{name}.wav").read_bytes() for name in "abcd")
    assert a == b
    assert len({a, c, d}) == 3
    sound, rate = soundfile.read(tmp_path / "a.wav")
    assert rate == 11025
    assert 1.5 * rate <= len(sound) < 1.6 * rate
    assert np.isfinite(sound).all()


def test_prompt(generate: Callable[..., Result], tmp_path: Path, recording: Path) -> None:
    """A prompt that is longer than the context; only the continuation is written."""
    result = generate("--prompt", recording)
    assert result.exit_code == 0, result.output
    sound, rate = soundfile.read(tmp_path / "music.wav")
    assert 1.5 * rate <= len(sound) < 1.6 * rate


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seconds", 0], ["--seconds"]),
        (["--seconds", "nan"], ["finite"]),
        (["--temperature", -1], ["--temperature"]),
        (["--temperature", "nan"], ["finite"]),
        (["--top-p", 0], ["--top-p"]),
        (["--top-k", 0], ["--top-k"]),
        (["--seed", -1], ["--seed"]),
        (["--device", "gpu"], ["gpu"]),
        (["--prompt", "missing.wav"], ["missing.wav"]),
        (["--checkpoint", "nowhere"], ["nowhere", "no checkpoint"]),
        (["--out", "/dev/null/music.wav"], ["/dev/null"]),
    ],
)
def test_refusals(generate: Callable[..., Result], tmp_path: Path, arguments: list[object], words: list[str]) -> None:
    result = generate(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr
    assert not (tmp_path / "music.wav").exists()


@pytest.mark.parametrize("name", ["state.json", "model.safetensors", "tokenizer.json", "tokenizer.safetensors"])
def test_damaged_checkpoint(generate: Callable[..., Result], checkpoint: Path, name: str) -> None:
    (checkpoint / name).write_bytes((checkpoint / name).read_bytes()[:-1])
    result = generate()
    assert result.exit_code == 2
    assert name in result.stderr
    (checkpoint / name).unlink()
    result = generate()
    assert result.exit_code == 2
    assert f"{name} is missing" in result.stderr
