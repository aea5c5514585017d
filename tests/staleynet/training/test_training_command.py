"""`python -m staleynet.train`: what it prints, what it refuses, and Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from staleynet.model import checkpoint as checkpoints
from staleynet.train import main


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def refused(result: Result, *words: str) -> None:
    """Exit status 2, and one message on stderr that has `words`."""
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


def test_summary(tmp_path: Path, recording: Path, micro_file: Path) -> None:
    result = invoke("--data", recording.parent, "--out", tmp_path / "run", "--config", micro_file, "--device", "cpu", "--seed", 1)
    assert result.exit_code == 0, result.output
    printed = result.stdout.splitlines()
    assert len(printed) == 4
    assert printed[0].startswith("micro: ")
    assert "10 steps" in printed[0]
    for word in ("at first", "at last", "validation", "unigram", "bigram", "checkpoint", "log.jsonl", "loss.png", "sample.wav"):
        assert word in result.stdout
    assert "step 10/10" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--nonsense"], ["--nonsense"]),
        (["--config", "huge"], ["huge", "tiny"]),
        (["--config", "missing.json"], ["missing.json"]),
        (["--steps", "0"], ["--steps"]),
        (["--steps", "many"], ["--steps", "many"]),
        (["--seed", "-1"], ["--seed"]),
        (["--device", "tpu"], ["tpu", "cuda:0"]),
        (["--device", "cuda:99"], ["99"]),
        (["--data", "nowhere"], ["nowhere"]),
        (["--resume"], ["no checkpoint"]),
    ],
)
def test_wrong_options(tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    refused(invoke("--out", tmp_path / "run", *arguments), *words)


def test_nothing_usable(tmp_path: Path, micro_file: Path) -> None:
    """Every file is named with its reason, then one error."""
    music = tmp_path / "music"
    music.mkdir()
    (music / "empty.wav").write_bytes(b"")
    (music / "text.mp3").write_text("not audio " * 50)
    result = invoke("--data", music, "--out", tmp_path / "run", "--config", micro_file)
    refused(result, "empty.wav", "text.mp3", "no recording can be used")


def test_out_that_cannot_be_written(tmp_path: Path, recording: Path, micro_file: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(invoke("--data", recording, "--out", tmp_path / "file", "--config", micro_file), "file")


@pytest.mark.parametrize("name", ["state.json", "model.safetensors", "optimizer.safetensors", "tokenizer.json", "tokenizer.safetensors"])
def test_damaged_checkpoint(trained: Path, name: str) -> None:
    path = trained / "checkpoint" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    refused(invoke("--out", trained, "--resume"), name, "damaged")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption(tmp_path: Path, recording: Path, micro_file: Path, number: signal.Signals) -> None:
    """The process saves, says how to go on, and exits with status 0; the run then goes on."""
    out = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "staleynet.train",
        "--data",
        str(recording),
        "--out",
        str(out),
        "--config",
        str(micro_file),
        "--device",
        "cpu",
    ]
    process = subprocess.Popen([*command, "--steps", "100000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while not (out / "checkpoint").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, stderr
    assert "Traceback" not in stderr
    assert f"--resume --out {out}" in stdout
    last = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()][-1]["step"]
    assert checkpoints.load(out / "checkpoint").run["step"] == last
    assert f"stopped at step {last}" in stdout
    resumed = invoke("--resume", "--out", out, "--steps", last + 2, "--device", "cpu")
    assert resumed.exit_code == 0, resumed.output
    assert f"{last + 2} steps" in resumed.stdout


def test_exit_status_of_the_process(tmp_path: Path) -> None:
    """The same as in process: nothing of Python shows."""
    command = [sys.executable, "-m", "staleynet.train", "--out", str(tmp_path / "run"), "--data", os.devnull]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith(("Error", "warning"))
