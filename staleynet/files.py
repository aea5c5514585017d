"""Files written whole or not at all, and their checksums.

Audio, tokenizer and data write through here. What a file contains is not this module's business.
"""

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CHUNK = 1 << 20


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to; it replaces `path` when the block ends and is removed if the block fails.

    The name is fresh for each call, so that two processes that write the same file do not write into each other's; the last one wins.
    Folders above `path` are made. `OSError` passes through.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())  # the content is on the disk before the name points at it
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sha256_of_file(path: Path) -> str:
    """SHA-256 of the bytes of `path`, in hexadecimal. `OSError` passes through."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
