"""A named pipe among the recordings hung training for ever: opening one waits for a writer."""

import os
from pathlib import Path

import pytest

from staleynet.audio.decode import AudioError, decode


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.wav"
    os.mkfifo(pipe)
    with pytest.raises(AudioError, match="not an ordinary file"):
        decode(pipe, 22050)
