"""What people see: the loss curve and the plain progress lines."""

from pathlib import Path

import pytest

from staleynet.training.log import EvaluationRecord, StepRecord
from staleynet.training.plot import plot_losses
from staleynet.training.progress import stage_display, step_display


@pytest.mark.parametrize("count", [0, 1, 50])
def test_curve_is_a_png(tmp_path: Path, count: int) -> None:
    path = tmp_path / "loss.png"
    steps = [StepRecord(i, 5.0 / i, 1e-3, 1.0, 1.0) for i in range(1, count + 1)]
    evaluations = [EvaluationRecord(i, 5.0 / i, 4.0, 3.0) for i in range(10, count + 1, 10)]
    plot_losses(path, steps, evaluations)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["loss.png"]


def test_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal: the first and the last step, and few between."""
    with step_display(0, 1000) as display:
        for number in range(1, 1001):
            display.step(number, 2.5, 1234.5)
        display.say("done")
    with stage_display() as stage:
        stage("reading", 1, 2)
        stage("reading", 2, 2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "step 1/1000  loss 2.5000  1,234 tokens/s  0 s left",
        "step 1000/1000  loss 2.5000  1,234 tokens/s  0 s left",
        "done",
        "reading recordings ...",
    ]


def test_live_display(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """On a terminal: loss, speed and time left."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with stage_display() as stage:
        stage("reading", 1, 2)
    with step_display(5, 10) as display:
        display.say("validation [loss] 2")
        display.step(6, 2.5, 1000.0)
    shown = capsys.readouterr().err
    assert "6/10" in shown
    assert "loss 2.5000" in shown
    assert "1,000 tokens/s" in shown
    assert "validation [loss] 2" in shown
