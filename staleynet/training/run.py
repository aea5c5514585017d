"""A whole run: prepare the music, train or go on training, draw the loss curve, play a sample.

This is `python -m staleynet.train` without the command line; what it writes is listed in `Files`.
"""

import hashlib
import logging
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kdsl
from staleynet.audio.wav import write_wav
from staleynet.data.errors import DataError
from staleynet.data.prepare import PrepareSettings, TokenData, prepare, settings_for
from staleynet.data.sampler import Sampler, WindowShape
from staleynet.model import checkpoint as checkpoints
from staleynet.model.checkpoint import Checkpoint
from staleynet.model.configuration import CONFIGURATIONS, Configuration, ConfigurationError
from staleynet.model.decoding import Sampling
from staleynet.model.optimizer import Optimizer
from staleynet.model.parameters import initial_values, layout
from staleynet.model.transformer import Transformer
from staleynet.tokenizer.quantizer import Quantizer
from staleynet.training.evaluation import Evaluation
from staleynet.training.interruption import Stop
from staleynet.training.log import EvaluationRecord, RunLog, StepRecord, read
from staleynet.training.loop import Loop
from staleynet.training.musician import Musician
from staleynet.training.plot import plot_losses
from staleynet.training.progress import stage_display, step_display
from staleynet.training.state import RunState

_WEIGHTS = 2  # separates the random numbers of the initial weights from others that are derived from the same seed
_log = logging.getLogger("staleynet")


@dataclass(frozen=True)
class Options:
    """What a run is asked to do. None: the default, or when resuming what the checkpoint says."""

    out: Path
    """Folder of the run's files."""
    data: Path | None = None
    """Recordings (a folder or a file); None is the demo recording."""
    configuration: Configuration | None = None
    """The model; by default `tiny`."""
    steps: int | None = None
    """Length of the training; by default the configuration's."""
    seed: int | None = None
    """Of everything random; by default 0."""
    resume: bool = False
    """Go on from the checkpoint in `out`."""
    cache: Path | None = None
    """Folder for what is derived from the recordings; by default in `out`."""
    sample_seconds: float = 6.0
    """Length of the music that the trained model plays at the end."""


@dataclass(frozen=True)
class Files:
    """Where a run's files are."""

    out: Path
    """Their folder."""

    @property
    def checkpoint(self) -> Path:
        """Folder of the last checkpoint."""
        return self.out / "checkpoint"

    @property
    def log(self) -> Path:
        """A JSON line for each step and each evaluation."""
        return self.out / "log.jsonl"

    @property
    def curve(self) -> Path:
        """The losses over the steps."""
        return self.out / "loss.png"

    @property
    def sample(self) -> Path:
        """Music by the trained model."""
        return self.out / "sample.wav"

    def set_aside(self) -> None:
        """Move the files of an earlier run to a folder of their own, so that a new run loses nothing and mixes with nothing."""
        if not self.checkpoint.exists():
            return
        number = 1
        while (earlier := self.out / f"earlier-{number}").exists():
            number += 1
        earlier.mkdir()
        for path in (self.checkpoint, self.log, self.curve, self.sample):
            if path.exists():
                path.rename(earlier / path.name)
        _log.warning("%s holds an earlier run; moved it to %s (--resume goes on with a run)", self.out, earlier)


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    configuration: Configuration
    """The model."""
    parameters: int
    """How many it has."""
    finished: bool
    """False when it was asked to stop before its last step."""
    steps: list[StepRecord]
    """Every step, those before a resumption included."""
    evaluations: list[EvaluationRecord]
    """Every evaluation."""
    seconds: float
    """Time that this part of the run took, all included."""
    files: Files
    """Where everything is."""


def run(options: Options, device: kdsl.Device, stop: Stop | None = None) -> Outcome:
    """Do what `options` say on `device`. When `stop` asks for it after a step, the run saves and ends; it can be resumed.

    Raises `ConfigurationError` for options that contradict the checkpoint, and passes on `CheckpointError`, `DataError`, `TokenizerError`,
    `DivergenceError` and `OSError`.
    """
    begin = time.perf_counter()
    files = Files(options.out)
    if not options.resume:
        files.out.mkdir(parents=True, exist_ok=True)  # so that a folder that cannot be written to shows before anything is computed
    checkpoints.recover(files.checkpoint)
    saved = checkpoints.load(files.checkpoint) if options.resume else None
    state = None if saved is None else RunState.from_json(saved.run, source=str(files.checkpoint / checkpoints.STATE))
    c = _configuration(options, saved)
    steps, seed, music = _settled(options, state, c)
    data = _prepare(music, c, options, device, seed, Quantizer.load(files.checkpoint, device) if saved is not None else None)
    digest = _digest(data)
    if state is not None and state.tokens != digest:
        raise DataError(f"the recordings are not those of the checkpoint in {files.checkpoint}: a run goes on only with the same music")

    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(_WEIGHTS,))))
    model = Transformer(c, device, initial_values(c, rng) if saved is None else saved.values)
    optimizer = Optimizer(model, steps)
    if saved is not None and state is not None:
        optimizer.restore(state.step, saved.mean, saved.square)
    else:
        files.set_aside()
    openings = _openings(data, c)

    def save() -> None:
        now = RunState(optimizer.step, steps, seed, None if music is None else str(music.absolute()), digest, openings.tolist())
        arrays = (model.weights.arena.numpy(), optimizer.mean.numpy(), optimizer.square.numpy())
        checkpoints.save(files.checkpoint, Checkpoint(c, *arrays, now.to_json()), data.tokenizer.save)

    shape = WindowShape(c.levels, c.context)
    sampler = Sampler(data.train, shape, batch=c.sequences, seed=seed)
    evaluation = Evaluation(data, shape)
    with stop or Stop() as stop, RunLog(files.log, keep_until=optimizer.step) as log, step_display(optimizer.step, steps) as display:
        finished = Loop(optimizer, sampler, evaluation, log, display, save, stop.asked).run()
    records, evaluations = read(files.log)
    plot_losses(files.curve, records, evaluations)
    if finished:
        with stage_display() as progress:
            samples = Musician(model, data.tokenizer, data.mel, openings).play(options.sample_seconds, Sampling(), seed, progress=progress)
        write_wav(files.sample, samples, data.mel.sample_rate)
    return Outcome(c, layout(c).size, finished, records, evaluations, time.perf_counter() - begin, files)


def _configuration(options: Options, saved: Checkpoint | None) -> Configuration:
    if saved is None:
        return options.configuration or CONFIGURATIONS["tiny"]
    if options.configuration not in (None, saved.configuration):
        raise ConfigurationError(f"the checkpoint is of configuration {saved.configuration.name!r}, which --resume cannot change")
    return saved.configuration


def _settled(options: Options, state: RunState | None, c: Configuration) -> tuple[int, int, Path | None]:
    """Steps, seed and recordings: what was asked for, else what the checkpoint has, else the default."""
    if state is None:
        return c.steps if options.steps is None else options.steps, options.seed or 0, options.data
    if options.seed not in (None, state.seed):
        raise ConfigurationError(f"the checkpoint's run has seed {state.seed}, which --resume cannot change")
    steps = state.steps if options.steps is None else options.steps
    if steps < state.step:
        raise ConfigurationError(f"the checkpoint is at step {state.step}: --steps {steps} is behind it")
    stored = None if state.data is None else Path(state.data)
    return steps, state.seed, stored if options.data is None else options.data


def _prepare(
    music: Path | None, c: Configuration, options: Options, device: kdsl.Device, seed: int, tokenizer: Quantizer | None
) -> TokenData:
    with stage_display() as progress:
        return prepare(
            music,
            preparation(c),
            options.out,
            device,
            seed,
            context=c.context,
            tokenizer=tokenizer,
            cache=options.cache,
            progress=progress,
        )


def preparation(c: Configuration) -> PrepareSettings:
    """How the recordings of a model become tokens."""
    return settings_for("tiny" if c.sound == "half" else "full", kind=c.quantization, levels=c.levels, codewords=c.codewords)


def _openings(data: TokenData, c: Configuration) -> NDArray[np.int64]:
    return np.bincount(np.concatenate([stream[:: c.levels] for stream in data.train]), minlength=c.codewords)


def _digest(data: TokenData) -> str:
    digest = hashlib.sha256()
    for side in (data.train, data.validation):
        for stream in side:
            digest.update(len(stream).to_bytes(8, "little") + np.ascontiguousarray(stream, "<i4").tobytes())
        digest.update(b"|")
    return digest.hexdigest()
