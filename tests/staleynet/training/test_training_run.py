"""A whole run: its files, the same bits from the same seed, and going on after an interruption."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

import kdsl
import kdsl.testing
from staleynet.data.errors import DataError
from staleynet.model import checkpoint as checkpoints
from staleynet.model.checkpoint import CheckpointError
from staleynet.model.configuration import CONFIGURATIONS, Configuration, ConfigurationError
from staleynet.training.interruption import Stop
from staleynet.training.loop import DivergenceError
from staleynet.training.run import Options, Outcome, run

Runner = Callable[..., Outcome]


class StopAt(Stop):
    """Asks after one step."""

    def __init__(self, step: int) -> None:
        self._step = step

    def asked(self, step: int) -> bool:
        return step == self._step


@pytest.fixture
def train(recording: Path, cache: Path, micro: Configuration, device: kdsl.Device) -> Runner:
    """Run with the micro configuration on the short recording; keywords change the options."""

    def runner(out: Path, *, stop: Stop | None = None, **options: object) -> Outcome:
        defaults = {"data": recording, "configuration": micro, "cache": cache, "sample_seconds": 0.5}
        return run(Options(out, **{**defaults, **options}), device, stop)  # type: ignore[arg-type]

    return runner


def lines(out: Path) -> list[dict[str, float]]:
    """The log without the one field that is about time."""
    values = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    for value in values:
        value.pop("tokens_per_second", None)
    return values


def losses(out: Path) -> bytes:
    """The bytes of all losses, as the log has them."""
    records = [json.loads(line, parse_float=str) for line in (out / "log.jsonl").read_text().splitlines()]
    return " ".join(str(record.get("loss", record.get("validation_loss"))) for record in records).encode()


def test_files_of_a_run(train: Runner, tmp_path: Path, micro: Configuration) -> None:
    outcome = train(tmp_path / "run")
    assert outcome.finished
    records = lines(tmp_path / "run")
    steps = [record for record in records if "loss" in record]
    assert [record["step"] for record in steps] == list(range(1, 11))
    assert set(steps[0]) == {"step", "loss", "learning_rate", "gradient_norm"}
    evaluations = [record for record in records if "validation_loss" in record]
    assert [record["step"] for record in evaluations] == [4, 8, 10]
    assert set(evaluations[0]) == {"step", "validation_loss", "unigram_entropy", "bigram_entropy"}
    assert 0 < evaluations[-1]["validation_loss"] < 1.5 * np.log(micro.vocabulary)
    assert (tmp_path / "run" / "loss.png").read_bytes().startswith(b"\x89PNG")
    sound, rate = soundfile.read(tmp_path / "run" / "sample.wav")
    assert rate == 11025
    assert len(sound) >= 0.5 * rate
    assert np.abs(sound).max() > 0
    saved = checkpoints.load(tmp_path / "run" / "checkpoint")
    assert saved.configuration == micro
    assert saved.run["step"] == 10


def test_loss_falls(train: Runner, tmp_path: Path, micro: Configuration) -> None:
    outcome = train(tmp_path / "run", configuration=replace(micro, steps=60, evaluation_interval=60))
    assert outcome.steps[-1].loss < outcome.steps[0].loss - 0.5


def test_one_seed_gives_the_same_bytes(train: Runner, tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        train(tmp_path / name, seed=seed)
    assert losses(tmp_path / "a") == losses(tmp_path / "b") != losses(tmp_path / "c")
    assert lines(tmp_path / "a") == lines(tmp_path / "b")
    for name in ("checkpoint/model.safetensors", "checkpoint/optimizer.safetensors", "sample.wav"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() != (tmp_path / "c" / name).read_bytes()


def test_every_device_gives_the_same_bytes(tmp_path: Path, recording: Path, micro: Configuration) -> None:
    """Tokenizer, model and sample; on a machine without a GPU there is only the CPU to compare with itself."""
    for name, device in (("reference", kdsl.device("cpu")), *((str(device), device) for device in kdsl.testing.devices())):
        run(Options(tmp_path / name, recording, micro, sample_seconds=0.5), device)
        assert losses(tmp_path / name) == losses(tmp_path / "reference")
        for file in ("checkpoint/model.safetensors", "checkpoint/tokenizer.safetensors", "sample.wav"):
            assert (tmp_path / name / file).read_bytes() == (tmp_path / "reference" / file).read_bytes()


@pytest.mark.parametrize("step", [3, 4, 5])
def test_resumed_run_equals_an_uninterrupted_one(train: Runner, tmp_path: Path, step: int) -> None:
    """Stopped just before, at and after an evaluation, and resumed as the message says: without repeating any option."""
    train(tmp_path / "straight", seed=5)
    stopped = train(tmp_path / "stopped", seed=5, stop=StopAt(step))
    assert not stopped.finished
    assert not (tmp_path / "stopped" / "sample.wav").exists()
    assert lines(tmp_path / "stopped")[-1]["step"] == step
    resumed = train(tmp_path / "stopped", data=None, configuration=None, resume=True)
    assert resumed.finished
    assert losses(tmp_path / "stopped") == losses(tmp_path / "straight")
    assert lines(tmp_path / "stopped") == lines(tmp_path / "straight")
    for name in ("checkpoint/model.safetensors", "checkpoint/optimizer.safetensors", "checkpoint/state.json", "sample.wav"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


def test_what_was_logged_after_the_checkpoint_is_dropped(train: Runner, tmp_path: Path) -> None:
    """A process that is killed leaves lines of steps that no checkpoint has, the last one cut off."""
    out = tmp_path / "run"
    train(out, stop=StopAt(6))
    straight = tmp_path / "straight"
    train(straight)
    with (out / "log.jsonl").open("a") as log:
        log.write('{"step": 7, "loss": 99.0, "learning_rate": 1, "gradient_norm": 1, "tokens_per_second": 1}\n{"step": 8, "lo')
    train(out, resume=True)
    assert lines(out) == lines(straight)


def test_finished_run_can_go_on(train: Runner, tmp_path: Path) -> None:
    train(tmp_path / "run")
    outcome = train(tmp_path / "run", resume=True, steps=12)
    assert [record.step for record in outcome.steps] == list(range(1, 13))
    assert outcome.evaluations[-1].step == 12


def test_earlier_run_is_set_aside(train: Runner, tmp_path: Path) -> None:
    train(tmp_path / "run", seed=1)
    before = losses(tmp_path / "run")
    train(tmp_path / "run", seed=2)
    assert losses(tmp_path / "run" / "earlier-1") == before != losses(tmp_path / "run")
    assert checkpoints.load(tmp_path / "run" / "earlier-1" / "checkpoint").run["seed"] == 1


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"configuration": CONFIGURATIONS["tiny"]}, ConfigurationError, "'micro'"),
        ({"seed": 9}, ConfigurationError, "seed 0"),
        ({"steps": 2}, ConfigurationError, "at step 3"),
    ],
)
def test_resuming_something_else_is_refused(
    train: Runner, tmp_path: Path, options: dict[str, object], error: type[Exception], words: str
) -> None:
    train(tmp_path / "run", stop=StopAt(3))
    before = lines(tmp_path / "run")
    with pytest.raises(error, match=words):
        train(tmp_path / "run", resume=True, **options)
    assert lines(tmp_path / "run") == before


def test_other_music_is_refused(train: Runner, tmp_path: Path) -> None:
    train(tmp_path / "run", stop=StopAt(3))
    noise = tmp_path / "noise.wav"
    soundfile.write(noise, np.random.default_rng(0).uniform(-0.5, 0.5, 44100), 11025)
    with pytest.raises(DataError, match="not those of the checkpoint"):
        train(tmp_path / "run", resume=True, data=noise)


def test_nothing_to_resume(train: Runner, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint"):
        train(tmp_path / "run", resume=True)


def test_divergence_keeps_the_last_checkpoint(train: Runner, tmp_path: Path, micro: Configuration) -> None:
    wild = replace(micro, learning_rate=1e30, final_learning_rate=1e30, evaluation_interval=1)
    with pytest.raises(DivergenceError, match="diverged"):
        train(tmp_path / "run", configuration=wild)
    saved = checkpoints.load(tmp_path / "run" / "checkpoint")
    assert saved.run["step"] == lines(tmp_path / "run")[-1]["step"]
