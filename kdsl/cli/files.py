"""Writing the result of a command: whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that `path` holds either what it held before or all of `text`. Raises OSError, which names the path."""
    folder = path.parent
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)  # mkstemp makes files that only their owner reads
        os.replace(name, path)
    except OSError as error:
        os.unlink(name)
        raise OSError(error.errno, error.strerror, str(path)) from None
    except BaseException:
        os.unlink(name)
        raise
