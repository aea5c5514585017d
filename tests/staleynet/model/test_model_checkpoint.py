"""Checkpoints: what comes back, and that any damage is found and named before anything is used."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from staleynet.model import checkpoint as module
from staleynet.model.checkpoint import Checkpoint, CheckpointError, load, save
from staleynet.model.configuration import Configuration
from staleynet.model.parameters import layout

FILES = ("state.json", "model.safetensors", "optimizer.safetensors", "tokenizer.json", "tokenizer.safetensors")


def save_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}\n")
    (folder / "tokenizer.safetensors").write_bytes(bytes(range(200)))


@pytest.fixture
def sample(micro: Configuration) -> Checkpoint:
    values, mean, square = np.random.default_rng(0).standard_normal((3, layout(micro).size)).astype(np.float32)
    return Checkpoint(micro, values, mean, square, {"step": 7, "seed": 2**60, "tokens": "abc"})


@pytest.fixture
def folder(tmp_path: Path, sample: Checkpoint) -> Path:
    save(tmp_path / "run" / "checkpoint", sample, save_tokenizer)
    return tmp_path / "run" / "checkpoint"


def assert_equal(a: Checkpoint, b: Checkpoint) -> None:
    assert (a.configuration, a.run) == (b.configuration, b.run)
    for field in ("values", "mean", "square"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field))


def test_round_trip(folder: Path, sample: Checkpoint) -> None:
    assert_equal(load(folder), sample)
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert [path.name for path in folder.parent.iterdir()] == ["checkpoint"]


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "damage",
    [flip, lambda content: content[:-1], lambda content: b"", lambda content: content + b"\n", None],
    ids=["flip", "truncate", "empty", "append", "remove"],
)
def test_damage_is_named(folder: Path, name: str, damage: Callable[[bytes], bytes] | None) -> None:
    path = folder / name
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CheckpointError, match=name) as caught:
        load(folder)
    assert ("missing" if damage is None else "damaged") in str(caught.value)


def test_any_flipped_byte_of_the_state_shows(folder: Path) -> None:
    path = folder / "state.json"
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(CheckpointError, match=r"state\.json"):
            load(folder)


def test_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such folder"):
        load(tmp_path / "nothing")
    with pytest.raises(CheckpointError, match=r"state\.json is missing"):
        load(tmp_path)


def test_other_format_is_named(folder: Path) -> None:
    path = folder / "state.json"
    state = json.loads(path.read_text())
    del state["sha256"]
    path.write_text(module._sealed(state | {"format": 99}))
    with pytest.raises(CheckpointError, match="format 99"):
        load(folder)


def test_wrong_shapes_are_named(folder: Path, sample: Checkpoint) -> None:
    """A state that was sealed with another configuration than its tensors'."""
    path = folder / "state.json"
    state = json.loads(path.read_text())
    del state["sha256"]
    state["configuration"]["layers"] = 3
    path.write_text(module._sealed(state))
    with pytest.raises(CheckpointError, match=r"optimizer\.safetensors: does not fit"):
        load(folder)


def test_failed_save_leaves_the_old_one(folder: Path, sample: Checkpoint) -> None:
    def fail(new: Path) -> None:
        save_tokenizer(new)
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        save(folder, Checkpoint(sample.configuration, sample.mean, sample.mean, sample.mean, {}), fail)
    assert_equal(load(folder), sample)
    assert [path.name for path in folder.parent.iterdir()] == ["checkpoint"]


def test_process_that_ends_between_the_two_renames(folder: Path, sample: Checkpoint) -> None:
    folder.rename(module._previous(folder))
    (folder.parent / ".checkpoint.new-0badc0de").mkdir()
    assert_equal(load(folder), sample)
    save(folder, sample, save_tokenizer)
    assert [path.name for path in folder.parent.iterdir()] == ["checkpoint"]


def test_process_that_ends_before_the_old_one_is_removed(folder: Path, sample: Checkpoint) -> None:
    module._previous(folder).mkdir()
    (module._previous(folder) / "state.json").write_text("old")
    assert_equal(load(folder), sample)
    assert [path.name for path in folder.parent.iterdir()] == ["checkpoint"]


def test_saving_over(folder: Path, sample: Checkpoint) -> None:
    newer = Checkpoint(sample.configuration, sample.mean, sample.square, sample.values, {"step": 8})
    save(folder, newer, save_tokenizer)
    assert_equal(load(folder), newer)
