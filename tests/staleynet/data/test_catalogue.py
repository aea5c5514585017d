"""Which files are recordings, and what happens to those that cannot be used."""

import logging
from pathlib import Path

import pytest

from staleynet.audio.decode import AudioError
from staleynet.data.catalogue import find_recordings, usable
from staleynet.data.errors import DataError, NoRecordings


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return path


def test_found_by_ending_and_sorted(tmp_path: Path) -> None:
    wanted = [touch(tmp_path / name) for name in ("b.wav", "a/z.FLAC", "a/b/c.Ogg", "A.mp3")]
    for name in ("README.md", "cover.jpg", "a/wav", "x.wav.part"):
        touch(tmp_path / name)
    assert find_recordings(tmp_path) == sorted(wanted)


def test_a_single_file_whatever_its_name(tmp_path: Path) -> None:
    assert find_recordings(touch(tmp_path / "song.aiff")) == [tmp_path / "song.aiff"]


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(NoRecordings, match=r"no such file or folder"):
        find_recordings(tmp_path / "missing")
    touch(tmp_path / "notes.txt")
    with pytest.raises(NoRecordings, match=r"no recording below this folder; its name must end in \.wav, \.flac, \.ogg, \.mp3"):
        find_recordings(tmp_path)
    assert issubclass(NoRecordings, DataError)


def test_a_folder_link_that_closes_a_circle(tmp_path: Path) -> None:
    touch(tmp_path / "a" / "x.wav")
    (tmp_path / "a" / "again").symlink_to(tmp_path, target_is_directory=True)
    assert find_recordings(tmp_path) == [tmp_path / "a" / "x.wav"]


def read(path: Path) -> str:
    if "bad" in path.name:
        raise AudioError(path, "it hums")
    return path.stem


def test_bad_ones_are_skipped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="staleynet"):
        assert usable([Path("one.wav"), Path("bad.wav"), Path("two.wav")], read) == ["one", "two"]
    assert [record.getMessage() for record in caplog.records] == ["skipped bad.wav: it hums"]


def test_all_bad(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(NoRecordings, match=r"all 2 were skipped, the first for this reason: bad1\.wav: it hums"):
        usable([Path("bad1.wav"), Path("bad2.wav")], read)
    assert len(caplog.records) == 2
    with pytest.raises(NoRecordings, match=r"can be used: bad1\.wav: it hums"):
        usable([Path("bad1.wav")], read)
