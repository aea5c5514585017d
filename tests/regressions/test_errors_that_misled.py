"""Two messages that were true of something else: noise named like an MP3 "does not exist", and an output folder that is a file "exists"."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from staleynet.audio.decode import AudioError, decode
from staleynet.train import main


def test_noise_named_like_an_mp3_is_of_no_known_format(tmp_path: Path) -> None:
    path = tmp_path / "noise.mp3"
    path.write_bytes(np.random.default_rng(1).bytes(5000))
    with pytest.raises(AudioError, match="format not recognised"):
        decode(path, 22050)


def test_a_file_in_the_place_of_the_output_folder(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    result = CliRunner().invoke(main, ["--device", "cpu", "--steps", "1", "--out", str(path)])
    assert result.exit_code == 2
    assert "where a folder is wanted" in result.output
    assert path.read_text() == "mine"
