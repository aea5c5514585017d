"""Does training give the same bits on the CPU and on the GPU? `python benchmarks/same_bits.py --tokens FILE --device cpu --device cuda:0`

Trains a model on each device from the same initial weights on the same batches, and compares every loss, every gradient norm and all weights at the end, to the
last bit. It prints a line for each step (numbers as hexadecimal floats, so that nothing is hidden by rounding) and a SHA-256 of each of the three per device;
the exit status is 1 with the first step and the first parameter that differ.

Tokens come from FILE. Where it does not exist, it is made from the recordings below `--data`: decoders, and the parts of the tokenizer that run in NumPy, may
give other values on another machine, so that machines are compared by one file. Losses are computed by kernels, a row each, and added by the host; so is the
gradient's norm. Batches, initial weights and learning rates are the host's, too, and the same for all devices.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

import kdsl
from staleynet.command_line import DeviceName
from staleynet.data.prepare import prepare
from staleynet.data.sampler import Sampler, WindowShape
from staleynet.model.configuration import Configuration, configuration_named
from staleynet.model.optimizer import Optimizer, gradient_norm
from staleynet.model.parameters import Layout, initial_values, layout
from staleynet.model.transformer import TrainingPass, Transformer
from staleynet.training.run import preparation


@dataclass
class Training:
    """What a training on one device came to."""

    device: str
    """Its name."""
    losses: list[float] = field(default_factory=list)
    """Of each step."""
    norms: list[float] = field(default_factory=list)
    """Of the gradient of each step."""
    weights: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))
    """The arena at the end."""

    def digests(self) -> dict[str, str]:
        """SHA-256 of the losses and the norms (as little-endian f64) and of the weights (as little-endian f32)."""
        arrays = {"losses": np.array(self.losses, "<f8"), "norms": np.array(self.norms, "<f8"), "weights": self.weights.astype("<f4")}
        return {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in arrays.items()}


def token_streams(file: Path, data: Path | None, configuration: Configuration) -> list[NDArray[np.int32]]:
    """The training streams in `file`, which is made from `data` first if it is not there."""
    if not file.exists():
        if data is None:
            raise click.ClickException(f"{file} does not exist; name a folder of recordings with --data to make it")
        with tempfile.TemporaryDirectory() as folder:
            found = prepare(data, preparation(configuration), Path(folder), kdsl.device("cpu"), 0, context=configuration.context)
        file.parent.mkdir(parents=True, exist_ok=True)
        save_file({f"training.{i:04}": stream for i, stream in enumerate(found.train)}, file)
    streams = load_file(file)
    return [streams[name] for name in sorted(streams)]


def digest_of(streams: Sequence[NDArray[np.int32]]) -> str:
    """SHA-256 of all tokens, with the length of each stream before it. (A file's own would depend on the order of its entries, which is any.)"""
    digest = hashlib.sha256()
    for stream in streams:
        digest.update(len(stream).to_bytes(8, "little") + stream.astype("<i4").tobytes())
    return digest.hexdigest()


def train(
    device: kdsl.Device, configuration: Configuration, streams: Sequence[NDArray[np.int32]], steps: int, seed: int
) -> Iterator[Training]:
    """Train, and give what there is after each step; always the same object."""
    c = configuration
    sampler = Sampler(streams, WindowShape(c.levels, c.context), batch=c.sequences, seed=seed)
    model = Transformer(c, device, initial_values(c, np.random.Generator(np.random.PCG64(seed))))
    optimizer, buffers, found = Optimizer(model, steps), TrainingPass(model, c.sequences, c.context), Training(str(device))
    for step in range(1, steps + 1):
        windows = sampler.batch(step)
        tokens, targets = windows[:, :-1], windows[:, 1:]
        buffers.start_loss(tokens, targets)
        buffers.backward(tokens, targets)
        found.norms.append(gradient_norm(buffers.gradients))
        found.losses.append(buffers.finish_loss(targets))
        optimizer.update(buffers.gradients, found.norms[-1])
        yield found
    found.weights = model.weights.arena.numpy()


def differences(first: Training, other: Training, places: Layout) -> list[str]:
    """For people: the first step and the first parameter of which two trainings have other bits."""
    found = []
    for what in ("losses", "norms"):
        one, two = np.array(getattr(first, what)), np.array(getattr(other, what))
        steps = np.flatnonzero(one.view(np.uint64) != two.view(np.uint64))
        if len(steps):
            i = int(steps[0])
            found.append(f"{what} from step {i + 1} on: {float(one[i]).hex()} on {first.device}, {float(two[i]).hex()} on {other.device}")
    different = first.weights.view(np.uint32) != other.weights.view(np.uint32)
    for parameter in places.parameters:
        part = slice(parameter.offset, parameter.offset + parameter.size)
        if different[part].any():
            i = int(np.flatnonzero(different[part])[0])
            this, that = float(first.weights[part][i]), float(other.weights[part][i])
            where = f"{parameter.name} at {tuple(int(n) for n in np.unravel_index(i, parameter.shape))}"
            found.append(f"{int(different.sum())} of {different.size} weights, the first {where}: {this.hex()} and {that.hex()}")
            break
    return found


@click.command()
@click.option(
    "--tokens", type=click.Path(path_type=Path), required=True, help="File of the tokens; it is made from --data if it is not there."
)
@click.option("--data", type=click.Path(path_type=Path, exists=True), help="Folder of recordings.")
@click.option("--device", "names", type=DeviceName(), multiple=True, help="Devices to train on.  [default: the CPU and the first GPU]")
@click.option("--config", "config_name", default="small", show_default=True, help="The model.")
@click.option("--steps", type=click.IntRange(0), default=100, show_default=True, help="Training steps; with 0 only the tokens are made.")
@click.option("--sequences", type=click.IntRange(1), default=None, help="Sequences of a step.  [default: the configuration's]")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the weights and the batches.")
def main(tokens: Path, data: Path | None, names: tuple[str, ...], config_name: str, steps: int, sequences: int | None, seed: int) -> None:
    """Train on several devices and compare all bits."""
    configuration = configuration_named(config_name)
    streams = token_streams(tokens, data, configuration)
    print(f"{tokens}: {len(streams)} recordings, {sum(map(len, streams))} tokens, SHA-256 {digest_of(streams)}")
    if not steps:
        return
    if sequences is not None:
        configuration = replace(configuration, sequences=sequences)
    trainings = []
    for name in names or ("cpu", "cuda:0"):
        begin = time.perf_counter()
        for found in train(kdsl.device(name), configuration, streams, steps, seed):
            print(f"{name} step {len(found.losses)}: loss {found.losses[-1].hex()} norm {found.norms[-1].hex()}", flush=True)
        trainings.append(found)
        print(
            f"{name}: {steps} steps of {configuration.name} in {time.perf_counter() - begin:.1f} s, loss {found.losses[0]:.4f} to {found.losses[-1]:.4f}"
        )
    for training in trainings:
        for what, digest in training.digests().items():
            print(f"{training.device} {what} {digest}")
    wrong = [line for other in trainings[1:] for line in differences(trainings[0], other, layout(configuration))]
    for line in wrong:
        print(f"DIFFERS: {line}")
    if len(trainings) > 1 and not wrong:
        print(f"SAME BITS on {', '.join(training.device for training in trainings)}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
