"""Finds recordings, and passes over those that cannot be used, saying which and why.

A recording is judged by reading it, which is the caller's part (`usable` takes a function), so that what was read before need not be read again.
"""

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from staleynet.audio.decode import AudioError
from staleynet.data.errors import NoRecordings

EXTENSIONS = (".wav", ".flac", ".ogg", ".mp3")
"""Endings of the names that are taken for recordings below a folder, in any case."""

T = TypeVar("T")

_log = logging.getLogger("staleynet")


def find_recordings(path: Path) -> list[Path]:
    """All recordings below the folder `path`, sorted by their path; a file is taken as it is, whatever its name.

    Links to folders are not followed. Raises `NoRecordings` if `path` does not exist or nothing below it has one of `EXTENSIONS`; a folder that cannot be
    read is warned about.
    """
    if not path.exists():
        raise NoRecordings(f"{path}: no such file or folder")
    if not path.is_dir():
        return [path]

    def unreadable(error: OSError) -> None:
        _log.warning("skipped folder %s: %s", error.filename, error.strerror)

    found = [
        Path(folder, name)
        for folder, _, names in os.walk(path, onerror=unreadable)
        for name in names
        if Path(name).suffix.lower() in EXTENSIONS
    ]
    if not found:
        raise NoRecordings(f"{path}: there is no recording below this folder; its name must end in {', '.join(EXTENSIONS)}")
    return sorted(found)


def usable(paths: Iterable[Path], read: Callable[[Path], T]) -> list[T]:
    """What `read` makes of each path, without those for which it raises `AudioError`: these are skipped with a warning.

    `paths` must not be empty. Raises `NoRecordings` if nothing is left.
    """
    results: list[T] = []
    skipped: list[AudioError] = []
    for path in paths:
        try:
            results.append(read(path))
        except AudioError as error:
            _log.warning("skipped %s: %s", error.path, error.reason)
            skipped.append(error)
    if not results:
        if len(skipped) == 1:
            raise NoRecordings(f"no recording can be used: {skipped[0]}")
        raise NoRecordings(f"no recording can be used: all {len(skipped)} were skipped, the first for this reason: {skipped[0]}")
    return results
