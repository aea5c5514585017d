"""The cache gives back what was put in, for the same dependencies only, and notices damage."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from staleynet.data.cache import Cache


class Maker:
    """Makes an array and counts how often."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.calls = 0

    def __call__(self) -> np.ndarray:
        self.calls += 1
        return self.array


def refuse() -> np.ndarray:
    raise AssertionError("made again")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(array=arrays(st.sampled_from([np.float32, np.int32]), array_shapes(min_dims=0, max_dims=3, min_side=0)), key=st.integers())
def test_round_trip(tmp_path: Path, array: np.ndarray, key: int) -> None:
    cache = Cache(tmp_path)
    depends_on = {"key": key, "shape": list(array.shape), "bytes": array.tobytes().hex(), "type": array.dtype.name}
    cache.get("thing", depends_on, lambda: array)
    back = cache.get("thing", depends_on, refuse)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize(
    ("kind", "depends_on"), [("other", {"a": 1, "b": [2, "x"]}), ("thing", {"a": 1, "b": [2, "y"]}), ("thing", {"a": 1})]
)
def test_other_dependencies_are_another_entry(tmp_path: Path, kind: str, depends_on: dict[str, Any]) -> None:
    cache = Cache(tmp_path)
    cache.get("thing", {"a": 1, "b": [2, "x"]}, Maker(np.zeros(3)))
    make = Maker(np.ones(3))
    assert cache.get(kind, depends_on, make) is make.array
    cache.get("thing", {"b": [2, "x"], "a": 1}, refuse)  # the order of names is none


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "tail", "swap"])
def test_damage_is_warned_about_and_repaired(tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str) -> None:
    cache = Cache(tmp_path)
    make = Maker(np.arange(100, dtype=np.float32))
    cache.get("thing", {"n": 1}, make)
    (entry,) = tmp_path.iterdir()
    content = bytearray(entry.read_bytes())
    if damage == "flip":
        content[200] ^= 8
    elif damage == "cut":
        content = content[:-5]
    elif damage == "empty":
        content = bytearray()
    elif damage == "tail":
        content += b"more"
    else:  # a good entry under a wrong name
        cache.get("thing", {"n": 2}, Maker(np.zeros(5)))
        content = bytearray(next(path for path in tmp_path.iterdir() if path != entry).read_bytes())
    entry.write_bytes(content)
    with caplog.at_level(logging.WARNING, logger="staleynet"):
        np.testing.assert_array_equal(cache.get("thing", {"n": 1}, make), make.array)
    assert make.calls == 2
    assert [str(entry) in record.getMessage() and "damaged" in record.getMessage() for record in caplog.records] == [True]
    cache.get("thing", {"n": 1}, refuse)


def test_an_entry_that_cannot_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)
    make = Maker(np.zeros(3))
    cache.get("thing", {}, make)

    def fails(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", fails)
    cache.get("thing", {}, make)
    assert make.calls == 2
    assert "Permission denied" in caplog.text


def test_nothing_is_left_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path, _: bytes) -> None:
        with path.open("wb") as file:
            file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fails)
    with pytest.raises(OSError, match="No space"):
        Cache(tmp_path).get("thing", {}, Maker(np.zeros(3)))
    assert list(tmp_path.iterdir()) == []


def test_entries_are_numpy_files(tmp_path: Path) -> None:
    Cache(tmp_path / "deep" / "cache").get("thing", {}, Maker(np.arange(4)))
    (entry,) = (tmp_path / "deep" / "cache").iterdir()
    assert entry.name.startswith("thing-")
    np.testing.assert_array_equal(np.load(entry), np.arange(4))
