"""A tokenizer's two files: `tokenizer.safetensors` with its arrays and `tokenizer.json` with its description and the checksums of both.

Each is written whole or not at all. A damaged file is found by checksum and named in the error, and nothing of it is used. What the arrays and
the description mean is known to `quantizer`.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from staleynet.files import atomic
from staleynet.tokenizer.errors import TokenizerError

ARRAYS = "tokenizer.safetensors"
DESCRIPTION = "tokenizer.json"
_FORMAT = 1


def write(folder: Path, arrays: Mapping[str, NDArray[np.float32]], description: Mapping[str, Any]) -> None:
    """Write both files into `folder`, which is made if it does not exist. `OSError` passes through."""
    content = save(dict(arrays))
    body = {"format": _FORMAT, **description, "arrays_sha256": hashlib.sha256(content).hexdigest()}
    with atomic(folder / ARRAYS) as path:
        path.write_bytes(content)
    with atomic(folder / DESCRIPTION) as path:
        path.write_text(json.dumps({**body, "sha256": _digest(body)}, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read(folder: Path) -> tuple[dict[str, NDArray[np.float32]], dict[str, Any]]:
    """The arrays and the description that `write` wrote. Raises `TokenizerError`, which names the file, if one is missing, unreadable, damaged or of another
    format.
    """
    description = _read_description(folder / DESCRIPTION)
    path = folder / ARRAYS
    content = _read_bytes(path)
    if hashlib.sha256(content).hexdigest() != description["arrays_sha256"]:
        raise TokenizerError(f"{path}: damaged (its SHA-256 is not the one in {DESCRIPTION})")
    try:
        return load(content), description
    except SafetensorError as error:
        raise TokenizerError(f"{path}: not a safetensors file ({error})") from error


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise TokenizerError(f"{path}: no such file") from error
    except OSError as error:
        raise TokenizerError(f"{path}: unreadable ({error.strerror or error})") from error


def _read_description(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(_read_bytes(path).decode("utf-8"))
    except ValueError as error:
        raise TokenizerError(f"{path}: damaged (not JSON: {error})") from error
    if not isinstance(values, dict) or "format" not in values:
        raise TokenizerError(f"{path}: not the description of a tokenizer")
    if values["format"] != _FORMAT:
        raise TokenizerError(f"{path}: format {values['format']!r}, and this version reads format {_FORMAT}")
    if values.pop("sha256", None) != _digest(values):
        raise TokenizerError(f"{path}: damaged (its content does not have the SHA-256 that it names)")
    return values
