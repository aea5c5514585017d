"""How expected errors end a program: one message on stderr and an exit status, and bugs keep their traceback."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import kdsl
from staleynet.audio.decode import AudioError
from staleynet.command_line import Command, DeviceName
from staleynet.model.checkpoint import CheckpointError


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (AudioError(Path("a.wav"), "empty"), 2, "Error: a.wav: empty\n"),
        (CheckpointError("state.json is missing"), 2, "Error: state.json is missing\n"),
        (kdsl.DeviceError("no GPU"), 2, "Error: no GPU\n"),
        (PermissionError(13, "Permission denied", "out"), 2, "Error: out: Permission denied\n"),
        (OSError("disk is full"), 2, "Error: disk is full\n"),
        (KeyboardInterrupt(), 130, "Error: interrupted\n"),
    ],
)
def test_expected_errors(error: BaseException, status: int, message: str) -> None:
    @click.command(cls=Command)
    def program() -> None:
        raise error

    result = CliRunner().invoke(program, [])
    assert (result.exit_code, result.stderr, result.stdout) == (status, message, "")


def test_bugs_are_not_hidden() -> None:
    @click.command(cls=Command)
    def program() -> None:
        raise AssertionError

    assert isinstance(CliRunner().invoke(program, []).exception, AssertionError)


@pytest.mark.parametrize(
    ("name", "good"), [("auto", True), ("cpu", True), ("cuda", True), ("cuda:1", True), ("gpu", False), ("cuda:", False), ("", False)]
)
def test_device_names(name: str, good: bool) -> None:
    @click.command(cls=Command)
    @click.option("--device", type=DeviceName())
    def program(device: str) -> None:
        click.echo(device)

    result = CliRunner().invoke(program, ["--device", name])
    assert result.exit_code == (0 if good else 2)
    assert result.stdout == (f"{name}\n" if good else "")
