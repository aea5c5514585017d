"""`python -m staleynet.tokenize`: what it writes, and one clear message where it cannot."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner, Result
from safetensors import safe_open

import kdsl
from staleynet.audio.mel import MelSettings
from staleynet.tokenize import main
from staleynet.tokenizer.quantizer import Quantizer

SMALL = ("--levels", "2", "--codewords", "8", "--iterations", "2", "--device", "cpu")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def music(tmp_path: Path) -> Path:
    folder = tmp_path / "music"
    folder.mkdir()
    for i in range(2):
        soundfile.write(folder / f"{i}.wav", 0.1 * np.random.default_rng(i).normal(size=8000), 22050)
    return folder


def test_files_and_summary(music: Path, tmp_path: Path, device: kdsl.Device) -> None:
    (music / "bad.wav").write_text("no")
    result = run("--data", music, "--out", tmp_path / "out", *SMALL)
    assert result.exit_code == 0, result.output
    assert "vocabulary          16 (2 levels of 8)" in result.stdout
    assert "bigram entropy" in result.stdout
    assert f"skipped {music / 'bad.wav'}: not audio" in result.stderr
    tokenizer = Quantizer.load(tmp_path / "out", device)
    with safe_open(tmp_path / "out" / "tokens.safetensors", "numpy") as file:
        assert sorted(file.keys()) == ["training.0", "validation.0"]
        stream = file.get_tensor("validation.0")
        assert json.loads(file.metadata()["description"])["mel"] == dict(tokenizer.features)
    assert MelSettings(**tokenizer.features) == MelSettings()  # type: ignore[arg-type]
    assert tokenizer.layout.from_stream(stream).shape == (32, 2)


def test_the_same_bytes_for_the_same_seed(music: Path, tmp_path: Path) -> None:
    for out in ("one", "two"):
        assert run("--data", music, "--out", tmp_path / out, *SMALL, "--seed", "3").exit_code == 0
    for name in ("tokenizer.json", "tokenizer.safetensors", "tokens.safetensors"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--data", "missing"), "no such file or folder"),
        (("--data", "music", "--codewords", "5000"), "cannot train 5000 codewords"),
        (("--data", "music", "--kind", "product", "--levels", "10", "--kind", "scalar"), "scalar"),
        (("--data", "music", "--levels", "0"), "--levels"),
        (("--data", "music", "--device", "cuda:99"), "cuda:99"),
        (("--data", "music", "--device", "abacus"), "abacus"),
        (("--unknown",), "--unknown"),
        (("--data", "nothing"), "no recording"),
    ],
)
def test_one_message_and_status_2(
    music: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "nothing").mkdir()
    monkeypatch.chdir(tmp_path)
    result = run("--out", "out", *SMALL, *arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert not (tmp_path / "out" / "tokenizer.json").exists()


def test_a_folder_that_cannot_be_written(music: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "cache").write_text("in the way")
    result = run("--data", music, "--out", tmp_path / "out", *SMALL)
    assert result.exit_code == 2
    assert "cache" in result.stderr
