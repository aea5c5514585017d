"""`python -m staleynet.train`: train a model on recordings, or on the built-in demo recording.

Writes into OUT: `checkpoint/`, `log.jsonl`, `loss.png` and `sample.wav`. Ctrl-C (or SIGTERM) saves a checkpoint; `--resume` goes on from it
with the same bits.
"""

import shlex
from pathlib import Path

import click

import kdsl
from staleynet.command_line import LARGEST_SEED, Command, DeviceName, show_log
from staleynet.model.configuration import CONFIGURATIONS, configuration_named
from staleynet.training.interruption import Interruption
from staleynet.training.loop import DivergenceError
from staleynet.training.run import Options, Outcome, run


@click.command(cls=Command)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=None,
    help="Folder of recordings (WAV, FLAC, OGG, MP3), or one file.  [default: the demo recording]",
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/demo"), show_default=True, help="Folder for the run's files.")
@click.option(
    "--config", "config_name", default=None, metavar="NAME", help=f"One of {', '.join(CONFIGURATIONS)}, or a JSON file.  [default: tiny]"
)
@click.option("--steps", type=click.IntRange(1), default=None, help="Training steps in all.  [default: the configuration's]")
@click.option(
    "--seed",
    type=click.IntRange(0, LARGEST_SEED),
    default=None,
    help="Of everything random; the same seed gives the same bits.  [default: 0]",
)
@click.option(
    "--device",
    "device_name",
    type=DeviceName(),
    default="auto",
    show_default=True,
    help="Where to compute; auto takes a GPU if there is one.",
)
@click.option("--resume", is_flag=True, help="Go on from the checkpoint in OUT.")
def main(
    data: Path | None, out: Path, config_name: str | None, steps: int | None, seed: int | None, device_name: str, resume: bool
) -> None:
    """Train a model that continues music."""
    show_log()
    configuration = None if config_name is None else configuration_named(config_name)
    device = kdsl.device(device_name)
    try:
        outcome = run(Options(out, data, configuration, steps, seed, resume), device, Interruption())
    except DivergenceError as error:
        raise click.ClickException(f"{error}; the last checkpoint is as it was") from error
    click.echo(summary(outcome, device))


def summary(outcome: Outcome, device: kdsl.Device) -> str:
    """A few lines about what a run came to and where its files are."""
    steps, files = outcome.steps, outcome.files
    last = steps[-1].step if steps else 0
    lines = [f"{outcome.configuration.name}: {outcome.parameters:,} parameters, {last} steps on {device}, {outcome.seconds:.0f} s"]
    if steps:
        lines.append(f"loss        {steps[0].loss:.3f} at first, {steps[-1].loss:.3f} at last (nats per token)")
    if outcome.evaluations:
        e = outcome.evaluations[-1]
        lines.append(f"validation  {e.validation_loss:.3f} (unigram {e.unigram_entropy:.3f}, bigram {e.bigram_entropy:.3f})")
    lines.append(f"files       {files.checkpoint}, {files.log}, {files.curve}" + (f", {files.sample}" if outcome.finished else ""))
    if not outcome.finished:
        lines.append(f"stopped at step {last}; go on with: python -m staleynet.train --resume --out {shlex.quote(str(files.out))}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
