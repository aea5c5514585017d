"""A checkpoint: a folder with the model, the optimizer's moments, the tokenizer and the state of a run, whole or not at all.

The folder is written under another name and renamed, so there is always one whole checkpoint, whenever the process ends. `state.json`
carries the SHA-256 of every other file and of itself; nothing is used before all of it has been verified. The formats are safetensors and
JSON: loading one runs no code. What the tokenizer's files hold is the tokenizer's business, what the run's state means is the trainer's.
"""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from staleynet.model.configuration import Configuration, ConfigurationError
from staleynet.model.parameters import layout

FORMAT = 1
"""Version of the checkpoint's format; another one is refused by name."""

STATE, MODEL, OPTIMIZER = "state.json", "model.safetensors", "optimizer.safetensors"


class CheckpointError(Exception):
    """A checkpoint that is missing, damaged, or of another format. The message names the file."""


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds, beside the tokenizer's files."""

    configuration: Configuration
    """Sizes of the model."""
    values: NDArray[np.float32]
    """The parameters, as `parameters.layout` says."""
    mean: NDArray[np.float32]
    """AdamW's running mean, in the same layout."""
    square: NDArray[np.float32]
    """AdamW's running mean of squares, in the same layout."""
    run: dict[str, object]
    """The trainer's state: whatever JSON it wants back."""


def save(folder: Path, checkpoint: Checkpoint, save_tokenizer: Callable[[Path], None]) -> None:
    """Replace the checkpoint in `folder`; `save_tokenizer` writes its files into the folder that it is given. `OSError` passes through."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    recover(folder)
    for left in folder.parent.glob(f".{folder.name}.new-*"):
        shutil.rmtree(left)  # from a process that ended while it wrote
    new = folder.with_name(f".{folder.name}.new-{secrets.token_hex(4)}")
    new.mkdir()
    try:
        places = layout(checkpoint.configuration).parameters
        named = {p.name: checkpoint.values[p.offset : p.offset + p.size].reshape(p.shape) for p in places}
        (new / MODEL).write_bytes(safetensors.numpy.save(named))
        (new / OPTIMIZER).write_bytes(safetensors.numpy.save({"mean": checkpoint.mean, "square": checkpoint.square}))
        save_tokenizer(new)
        files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(new.iterdir())}
        state = {"format": FORMAT, "configuration": checkpoint.configuration.to_json(), "run": checkpoint.run, "files": files}
        (new / STATE).write_text(_sealed(state), encoding="utf-8")
        for path in (*new.iterdir(), new):
            _to_disk(path)
        _replace(folder, new)
    finally:
        shutil.rmtree(new, ignore_errors=True)  # it is gone unless something failed


def load(folder: Path) -> Checkpoint:
    """The checkpoint in `folder`. Raises `CheckpointError` if there is none, or any of its files is missing or not as it was written."""
    recover(folder)
    if not folder.is_dir():
        raise CheckpointError(f"no checkpoint in {folder}: there is no such folder")
    state = _unsealed(folder / STATE)
    files = state["files"]
    if not isinstance(files, dict) or not {MODEL, OPTIMIZER} <= set(files):
        raise CheckpointError(f"{folder / STATE}: does not list the checkpoint's files")
    contents = {name: _verified(folder / name, digest) for name, digest in files.items()}
    try:
        configuration = Configuration.from_json(state["configuration"], source=str(folder / STATE))
    except ConfigurationError as error:
        raise CheckpointError(str(error)) from error
    places = layout(configuration)
    moments = _tensors(folder / OPTIMIZER, contents[OPTIMIZER], {"mean": (places.size,), "square": (places.size,)})
    parameters = _tensors(folder / MODEL, contents[MODEL], {p.name: p.shape for p in places.parameters})
    values = np.concatenate([parameters[p.name].reshape(-1) for p in places.parameters])
    run = state["run"]
    if not isinstance(run, dict):
        raise CheckpointError(f"{folder / STATE}: the run's state is not an object")
    return Checkpoint(configuration, values, moments["mean"], moments["square"], run)


def recover(folder: Path) -> None:
    """Put the previous checkpoint back if a process ended in the moment between moving it away and moving the new one in."""
    previous = _previous(folder)
    if previous.is_dir():
        if folder.is_dir():
            shutil.rmtree(previous)
        else:
            previous.rename(folder)


def _replace(folder: Path, new: Path) -> None:
    """Rename `new` to `folder`. A folder that is not empty cannot be replaced in one step, so the old one stays beside it until the end."""
    previous = _previous(folder)
    if folder.exists():
        folder.rename(previous)
    new.rename(folder)
    _to_disk(folder.parent)
    if previous.exists():
        shutil.rmtree(previous)


def _previous(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.previous")


def _to_disk(path: Path) -> None:
    """Wait until a file's or folder's content is on the disk, before a name points at it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sealed(state: dict[str, object]) -> str:
    """`state` as JSON with a checksum of itself; one text for one state, so that any changed byte shows."""
    text = json.dumps(state, sort_keys=True, indent=1)
    return json.dumps({**state, "sha256": hashlib.sha256(text.encode()).hexdigest()}, sort_keys=True, indent=1) + "\n"


def _unsealed(path: Path) -> dict[str, object]:
    try:
        text = path.read_bytes().decode("utf-8")
        state = json.loads(text)
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is missing: this is not a checkpoint, or not all of it") from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # not UTF-8, or not JSON
        raise CheckpointError(f"{path} is damaged: {error}") from error
    if not isinstance(state, dict) or state.pop("sha256", None) is None or _sealed(state) != text:
        raise CheckpointError(f"{path} is damaged: its checksum does not fit its content")
    if state.get("format") != FORMAT:
        raise CheckpointError(f"{path}: format {state.get('format')!r}, and this version of staleynet reads format {FORMAT}")
    if not {"configuration", "run", "files"} <= state.keys():
        raise CheckpointError(f"{path}: is not the state of a checkpoint")
    return state


def _verified(path: Path, digest: object) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is missing: the checkpoint is not whole") from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise CheckpointError(f"{path} is damaged: its SHA-256 ({len(content)} bytes) is not the one in {STATE}")
    return content


def _tensors(path: Path, content: bytes, shapes: dict[str, tuple[int, ...]]) -> dict[str, NDArray[np.float32]]:
    try:
        tensors = safetensors.numpy.load(content)
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{path}: not a safetensors file: {error}") from error
    found = {name: tensor.shape for name, tensor in tensors.items()}
    if found != shapes or any(tensor.dtype != np.float32 for tensor in tensors.values()):
        wrong = sorted(name for name in found.keys() | shapes.keys() if found.get(name) != shapes.get(name))
        raise CheckpointError(f"{path}: does not fit the configuration: {', '.join(wrong) or 'the element type'}")
    return tensors
