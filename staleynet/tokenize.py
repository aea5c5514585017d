"""`python -m staleynet.tokenize`: train a tokenizer on recordings, and write it with the tokens of all of them.

Training does the same by itself; this command is for judging a tokenizer alone, and for other programs that want tokens.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

import click
import numpy as np
from safetensors.numpy import save

import kdsl
from staleynet.command_line import LARGEST_SEED, Command, DeviceName, show_log
from staleynet.data.entropy import bigram_entropy, unigram_entropy
from staleynet.data.prepare import PrepareSettings, TokenData, prepare
from staleynet.files import atomic
from staleynet.tokenizer.quantizer import Kind, QuantizerSettings
from staleynet.training.progress import stage_display

_DEFAULTS = PrepareSettings()


@click.command(cls=Command)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=None,
    help="Folder of recordings (WAV, FLAC, OGG, MP3), or one file.  [default: the demo recording]",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the tokenizer, the tokens and the cache.")
@click.option(
    "--kind",
    type=click.Choice(["residual", "product"]),
    default=_DEFAULTS.quantizer.kind,
    show_default=True,
    help="Coarse to fine, or low to high bands.",
)
@click.option("--levels", type=click.IntRange(1, 64), default=_DEFAULTS.quantizer.levels, show_default=True, help="Codes of a frame.")
@click.option(
    "--codewords", type=click.IntRange(2, 65536), default=_DEFAULTS.quantizer.codewords, show_default=True, help="Codewords of a level."
)
@click.option(
    "--iterations",
    type=click.IntRange(0),
    default=_DEFAULTS.quantizer.iterations,
    show_default=True,
    help="Of k-means, at most, per level.",
)
@click.option("--frames", type=click.IntRange(1), default=_DEFAULTS.training_frames, show_default=True, help="Frames to train on, at most.")
@click.option("--seed", type=click.IntRange(0, LARGEST_SEED), default=0, show_default=True, help="Of the first codewords.")
@click.option("--device", "device_name", type=DeviceName(), default="auto", show_default=True, help="Where to compute.")
def main(
    data: Path | None, out: Path, kind: str, levels: int, codewords: int, iterations: int, frames: int, seed: int, device_name: str
) -> None:
    """Train a tokenizer on recordings; write it and their tokens.

    OUT gets tokenizer.safetensors, tokenizer.json, and tokens.safetensors with an int32 stream "training.N" or "validation.N" for each
    recording.
    """
    show_log()
    quantizer = QuantizerSettings(cast(Kind, kind), levels, codewords, iterations)
    settings = replace(_DEFAULTS, quantizer=quantizer, training_frames=frames)
    with stage_display() as progress:
        # nothing is trained on windows here, so that one frame is enough for either side
        result = prepare(data, settings, out, kdsl.device(device_name), seed, context=levels, progress=progress)
    result.tokenizer.save(out)
    _write_tokens(result, out / "tokens.safetensors")
    click.echo(_summary(result))


def _write_tokens(result: TokenData, path: Path) -> None:
    sides = (("training", result.train), ("validation", result.validation))
    streams = {f"{side}.{i}": stream for side, streams in sides for i, stream in enumerate(streams)}
    s = result.tokenizer.settings
    description = {"kind": s.kind, "levels": s.levels, "codewords": s.codewords, "mel": asdict(result.mel)}
    with atomic(path) as temporary:
        # one entry, because safetensors writes several in any order
        temporary.write_bytes(save(streams, metadata={"description": json.dumps(description, sort_keys=True)}))


def _summary(result: TokenData) -> str:
    layout = result.tokenizer.layout
    lines = [
        f"frames per second   {result.mel.frames_per_second:.2f}",
        f"tokens              {sum(map(len, result.train))} for training, {sum(map(len, result.validation))} for validation",
        f"vocabulary          {layout.vocabulary} ({layout.levels} levels of {layout.codewords})",
        f"uniform entropy     {np.log(layout.codewords):.4f} nats per token",
        f"unigram entropy     {unigram_entropy(result.train, result.validation, layout):.4f}",
        f"bigram entropy      {bigram_entropy(result.train, result.validation, layout):.4f}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
