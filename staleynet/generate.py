"""`python -m staleynet.generate`: new music from a trained model, as a WAV file.

A prompt is a recording that the music continues; only the continuation is written. How a model plays is in `staleynet.training.musician`.
"""

import math
from pathlib import Path

import click

import kdsl
from staleynet.audio.wav import write_wav
from staleynet.command_line import LARGEST_SEED, Command, DeviceName, show_log
from staleynet.data.prepare import read_mel
from staleynet.model.decoding import Sampling
from staleynet.training.musician import Musician
from staleynet.training.progress import stage_display


@click.command(cls=Command)
@click.option("--checkpoint", type=click.Path(path_type=Path), required=True, help="Folder of a trained model: OUT/checkpoint.")
@click.option("--seconds", type=click.FloatRange(0, 3600, min_open=True), default=10.0, show_default=True, help="Length of the music.")
@click.option("--seed", type=click.IntRange(0, LARGEST_SEED), default=0, show_default=True, help="Another seed gives other music.")
@click.option(
    "--temperature",
    type=click.FloatRange(0, 100),
    default=1.0,
    show_default=True,
    help="Below 1: more predictable; above 1: less; 0: never random.",
)
@click.option("--top-k", type=click.IntRange(1), default=None, help="Draw from this many of the likeliest tokens only.")
@click.option(
    "--top-p", type=click.FloatRange(0, 1, min_open=True), default=None, help="Draw from the likeliest tokens that reach this probability."
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="WAV file to write.")
@click.option(
    "--prompt", type=click.Path(path_type=Path), default=None, help="Recording that the music continues; only the continuation is written."
)
@click.option("--device", "device_name", type=DeviceName(), default="auto", show_default=True, help="Where to compute.")
def main(
    checkpoint: Path,
    seconds: float,
    seed: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    out: Path,
    prompt: Path | None,
    device_name: str,
) -> None:
    """Generate music with a trained model and write it as a WAV file."""
    show_log()
    if not (math.isfinite(seconds) and math.isfinite(temperature)):
        raise click.UsageError("--seconds and --temperature must be finite numbers")
    device = kdsl.device(device_name)
    musician = Musician.load(checkpoint, device)
    frames = None if prompt is None else read_mel(prompt, musician.mel, device)
    with stage_display() as progress:
        samples = musician.play(seconds, Sampling(temperature, top_k, top_p), seed, prompt=frames, progress=progress)
    write_wav(out, samples, musician.mel.sample_rate)
    click.echo(f"{out}: {len(samples) / musician.mel.sample_rate:.1f} s at {musician.mel.sample_rate} Hz")


if __name__ == "__main__":
    main()
