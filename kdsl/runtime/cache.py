"""The on-disk cache: results of compilation by the content that they follow from.

A key is the SHA-256 of everything that the result depends on. An entry is written to a temporary file and renamed, so that readers of other processes see
all of it or nothing, and carries a checksum, so that a damaged one is noticed and made again. Leaves out what is cached.

KDSL_CACHE_DIR chooses the folder (default: `kdsl` in the user's cache directory), KDSL_CACHE=0 turns the cache off.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Final

MAGIC: Final = b"kdsl cache 1\n"
SUFFIX: Final = ".kdsl"
LIMIT: Final = 512 << 20
"""Bytes that all entries may take."""
SCAN_EVERY: Final = 64
"""Entries written between two looks at the size of the whole folder, which other processes fill, too."""


def content_key(*parts: str | bytes) -> str:
    """The key for a result that follows from `parts`: source text, target, versions. Different sequences of parts give different keys."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(f"{type(part).__name__} {len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


class Cache:
    """Entries in one folder, shared with other processes. What goes wrong on the disk only disables it, with one warning."""

    def __init__(self, folder: Path | None, limit: int = LIMIT) -> None:
        """`folder` is made when the first entry is written; None is a cache that holds nothing. `limit` is in bytes."""
        self.folder = folder
        """Where the entries are, None once the cache is off."""
        self._limit = limit
        self._lock = threading.Lock()
        self._written = 0

    def get(self, key: str) -> bytes | None:
        """The entry, or None if there is none (or only a damaged one, which is removed)."""
        folder = self.folder
        if folder is None:
            return None
        path = folder / (key + SUFFIX)
        try:
            data = path.read_bytes()
        except OSError:  # absent, or unreadable: both mean that the result is made again
            return None
        content = _content(data)
        if content is None:
            _remove(path)
            return None
        _touch(path)
        return content

    def put(self, key: str, content: bytes) -> None:
        """Write the entry, replacing an older one."""
        folder = self.folder
        if folder is None:
            return
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(folder, key, content)
            with self._lock:
                scan = self._written % SCAN_EVERY == 0
                self._written += 1
            if scan:
                self._shrink(folder)
        except OSError as error:
            self.folder = None
            warnings.warn(
                f"the cache in {folder} is switched off: {error}; kernels are compiled anew in each process", RuntimeWarning, stacklevel=3
            )

    @staticmethod
    def _write(folder: Path, key: str, content: bytes) -> None:
        handle, name = tempfile.mkstemp(prefix=key[:16] + "-", suffix=".tmp", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(MAGIC + hashlib.sha256(content).digest() + content)
            os.replace(name, folder / (key + SUFFIX))
        except BaseException:
            _remove(Path(name))
            raise

    def _shrink(self, folder: Path) -> None:
        """Remove the entries that were not used for longest, until nine tenths of the limit are left."""
        found: list[tuple[float, int, Path]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    status = entry.stat()
                except FileNotFoundError:  # another process has removed it
                    continue
                if entry.name.endswith((SUFFIX, ".tmp")):
                    found.append((status.st_mtime, status.st_size, Path(entry.path)))
        total = sum(size for _, size, _ in found)
        if total <= self._limit:
            return
        for _, size, path in sorted(found):
            _remove(path)
            total -= size
            if total <= self._limit * 9 // 10:
                return


def _content(data: bytes) -> bytes | None:
    """What an entry's bytes hold, None if they are damaged or of another version."""
    start = len(MAGIC) + 32
    if len(data) < start or not data.startswith(MAGIC):
        return None
    content = data[start:]
    return content if hashlib.sha256(content).digest() == data[len(MAGIC) : start] else None


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:  # somebody else's by now, or a read-only disk: an entry that stays does no harm
        return


def _touch(path: Path) -> None:
    """Note that an entry was used."""
    try:
        os.utime(path)
    except OSError:  # a read-only cache still serves
        return


# --------------------------------------------------------------------------------------------------------------------- the process's cache

_caches: Final[dict[str, Cache]] = {}
_lock: Final = threading.Lock()


def default_cache() -> Cache:
    """The cache that the environment chooses."""
    if os.environ.get("KDSL_CACHE") == "0":
        return Cache(None)
    home = _user_cache()
    folder = os.environ.get("KDSL_CACHE_DIR") or (os.path.join(home, "kdsl") if home else "")
    if not folder:
        return Cache(None)
    with _lock:
        if folder not in _caches:
            _caches[folder] = Cache(Path(folder))
        return _caches[folder]


def _user_cache() -> str:
    """The user's cache directory (XDG Base Directory Specification; Library/Caches on macOS); empty for a user without a home, as in some containers."""
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(chosen):
        return chosen
    home = os.path.expanduser("~")
    if not os.path.isabs(home):  # an entry of a folder that is open to all could be another user's code
        return ""
    return os.path.join(home, "Library", "Caches") if sys.platform == "darwin" else os.path.join(home, ".cache")
