"""Arrays kept on disk under a name that is made from all that they depend on, so that work is done once and never reused by mistake.

An entry is a NumPy file with its SHA-256 after it (NumPy reads it as it is). It is written whole or not at all, and checked when it is read; a damaged one
is named in a warning and made again. Old entries are not removed: the folder may be deleted at any time.
"""

import hashlib
import io
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staleynet.files import atomic

_DIGEST = hashlib.sha256().digest_size
_FORMAT = 1

_log = logging.getLogger("staleynet")


class Cache:
    """The entries in one folder, which is made when the first one is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, kind: str, depends_on: dict[str, Any], make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """The array of this `kind` (a word) for these dependencies (what JSON can hold); from the disk, or from `make` and then kept."""
        path = self._path(kind, depends_on)
        array = self._load(path)
        if array is None:
            array = make()
            self._store(path, array)
        return array

    def _path(self, kind: str, depends_on: dict[str, Any]) -> Path:
        text = json.dumps({"format": _FORMAT, "kind": kind, "depends on": depends_on}, sort_keys=True)
        return self.folder / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()}.npy"

    def _load(self, path: Path) -> NDArray[Any] | None:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.warning("cache entry %s cannot be read (%s); it is made again", path, error.strerror or error)
            return None
        if len(content) <= _DIGEST or _checksum(path, content[:-_DIGEST]) != content[-_DIGEST:]:
            _log.warning("cache entry %s is damaged (its checksum does not fit); it is made again", path)
            return None
        array: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
        return array

    def _store(self, path: Path, array: NDArray[Any]) -> None:
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        content = buffer.getvalue()
        with atomic(path) as temporary:
            temporary.write_bytes(content + _checksum(path, content))


def _checksum(path: Path, content: bytes) -> bytes:
    # with the name, so that an entry that was renamed is not taken for another one
    return hashlib.sha256(path.name.encode() + content).digest()
