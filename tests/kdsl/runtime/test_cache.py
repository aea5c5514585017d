"""The on-disk cache: what it keeps, and that nothing on the disk can do harm."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from kdsl.runtime import cache as module
from kdsl.runtime.cache import SUFFIX, Cache, content_key, default_cache

KEY = content_key("a kernel")


def test_keys_tell_parts_apart() -> None:
    keys = {
        content_key(*parts)
        for parts in ([], [""], ["", ""], ["ab"], ["a", "b"], ["a b"], [b"ab"], ["b", "a"], ["ab", ""], ["1:a"], ["str 1:a"], ["\udc80"])
    }
    assert len(keys) == 12
    assert content_key("a", b"b") == content_key("a", b"b")


def test_round_trip(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "when needed"
    cache = Cache(folder)
    assert cache.get(KEY) is None
    assert not folder.exists()
    for content in (b"", b"x", os.urandom(100_000)):
        cache.put(KEY, content)
        assert Cache(folder).get(KEY) == content
    assert [p.name for p in folder.iterdir()] == [KEY + SUFFIX]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: d[:20], lambda d: b"", lambda d: d + b"x", lambda d: d[:-3] + b"???", lambda d: b"X" + d[1:]]
)
def test_a_damaged_entry_is_ignored_and_replaced(tmp_path: Path, damage: object) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, b"some code")
    path = tmp_path / (KEY + SUFFIX)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    assert cache.get(KEY) is None
    assert not path.exists()
    cache.put(KEY, b"some code")
    assert cache.get(KEY) == b"some code"


def test_a_folder_in_place_of_an_entry_is_a_miss(tmp_path: Path) -> None:
    (tmp_path / (KEY + SUFFIX)).mkdir()
    assert Cache(tmp_path).get(KEY) is None


def test_a_folder_that_cannot_be_written_switches_it_off_with_one_warning(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    cache = Cache(blocked / "cache")
    with pytest.warns(RuntimeWarning, match="the cache in .* is switched off"):
        cache.put(KEY, b"x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(KEY, b"x")
        assert cache.get(KEY) is None


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    cache = Cache(tmp_path)
    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        cache.put(KEY, b"x")
    assert not list(tmp_path.iterdir())


def test_a_read_only_cache_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Cache(tmp_path).put(KEY, b"x")

    def refused(*_: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(os, "utime", refused)
    assert Cache(tmp_path).get(KEY) == b"x"


def test_the_oldest_entries_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCAN_EVERY", 1)
    cache = Cache(tmp_path, limit=50_000)
    keys = [content_key(str(number)) for number in range(10)]
    for age, key in enumerate(keys[:4]):
        cache.put(key, bytes(10_000))
        os.utime(tmp_path / (key + SUFFIX), (1000 + age, 1000 + age))
    assert cache.get(keys[0]) is not None  # used: now the youngest
    for key in keys[4:6]:
        cache.put(key, bytes(10_000))
    found = {key for key in keys if cache.get(key) is not None}
    assert keys[0] in found
    assert keys[1] not in found
    assert keys[5] in found
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) <= 50_000


def test_several_processes(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from kdsl.runtime.cache import Cache, content_key\n"
        "cache = Cache(Path(sys.argv[1]))\n"
        "for turn in range(200):\n"
        "    key = content_key(str(turn % 5)); content = bytes([turn % 5]) * 20_000\n"
        "    found = cache.get(key); assert found in (None, content)\n"
        "    cache.put(key, content)\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, str(tmp_path)], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        )
        for _ in range(3)
    ]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert len(list(tmp_path.iterdir())) == 5


def test_the_environment_chooses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KDSL_CACHE", raising=False)
    monkeypatch.setenv("KDSL_CACHE_DIR", str(tmp_path / "chosen"))
    assert default_cache().folder == tmp_path / "chosen"
    assert default_cache() is default_cache()
    monkeypatch.delenv("KDSL_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache().folder == tmp_path / "kdsl"
    monkeypatch.setenv("KDSL_CACHE", "0")
    off = default_cache()
    off.put(KEY, b"x")
    assert off.get(KEY) is None
