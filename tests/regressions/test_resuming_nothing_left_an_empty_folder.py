"""`--resume` where there is no run said so, and left an empty output folder behind."""

from pathlib import Path

from click.testing import CliRunner

from staleynet.train import main


def test_nothing_is_made(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(main, ["--device", "cpu", "--resume", "--out", str(out)])
    assert result.exit_code == 2
    assert "no checkpoint" in result.output
    assert not out.exists()
