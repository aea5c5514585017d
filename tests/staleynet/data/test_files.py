"""Files appear whole or not at all."""

import hashlib
from pathlib import Path

import pytest

from staleynet.files import atomic, sha256_of_file


def test_written_and_replaced(tmp_path: Path) -> None:
    target = tmp_path / "new" / "a.txt"
    for text in ("one", "two"):
        with atomic(target) as path:
            assert path.parent == target.parent
            path.write_text(text)
            assert not target.exists() or target.read_text() == "one"
        assert target.read_text() == text
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("error", [OSError("disk"), KeyboardInterrupt()])
def test_a_failure_changes_nothing(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def write_half() -> None:
        with atomic(target) as path:
            path.write_text("half")
            raise error

    with pytest.raises(type(error)):
        write_half()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    with atomic(tmp_path / "a") as one, atomic(tmp_path / "a") as two:
        assert one != two
        one.write_text("1")
        two.write_text("2")
    assert (tmp_path / "a").read_text() == "1"  # the outer one ends last


def test_checksum(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000  # more than one chunk
    (tmp_path / "a").write_bytes(content)
    assert sha256_of_file(tmp_path / "a") == hashlib.sha256(content).hexdigest()
