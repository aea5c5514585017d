"""16-bit WAV files, written whole or not at all."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from staleynet.audio.decode import AudioError, decode
from staleynet.audio.wav import PEAK, write_wav


def test_what_is_written_is_16_bit_mono(tmp_path: Path) -> None:
    write_wav(tmp_path / "new" / "a.wav", np.array([0.0, 0.5, -0.5], np.float32), 11025)
    info = soundfile.info(tmp_path / "new" / "a.wav")
    assert (info.samplerate, info.channels, info.subtype, info.frames) == (11025, 1, "PCM_16", 3)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(samples=arrays(np.float32, st.integers(1, 50), elements=st.floats(-4, 4, width=32)))
def test_round_trip(tmp_path: Path, samples: np.ndarray) -> None:
    write_wav(tmp_path / "a.wav", samples, 8000)
    scale = min(1.0, PEAK / max(float(np.abs(samples).max()), 1e-30))
    # libsndfile reads as x / 32768, and what was written is x * 32767
    np.testing.assert_allclose(decode(tmp_path / "a.wav", 8000), samples * scale, atol=1 / 16384)


def test_loud_sound_is_scaled_not_clipped(tmp_path: Path) -> None:
    loud = (3 * np.sin(np.linspace(0, 20, 1000))).astype(np.float32)
    write_wav(tmp_path / "a.wav", loud, 8000)
    back = decode(tmp_path / "a.wav", 8000)
    assert np.abs(back).max() == pytest.approx(PEAK, abs=1e-3)
    assert np.corrcoef(back, loud)[0, 1] > 0.99999


def test_silence_and_nothing(tmp_path: Path) -> None:
    write_wav(tmp_path / "silence.wav", np.zeros(10, np.float32), 8000)
    assert not decode(tmp_path / "silence.wav", 8000).any()
    write_wav(tmp_path / "nothing.wav", np.zeros(0, np.float32), 8000)
    assert soundfile.info(tmp_path / "nothing.wav").frames == 0


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite_is_refused_and_nothing_is_written(tmp_path: Path, value: float) -> None:
    path = tmp_path / "a.wav"
    write_wav(path, np.zeros(5, np.float32), 8000)
    before = path.read_bytes()
    with pytest.raises(AudioError, match="NaN or infinity"):
        write_wav(path, np.array([0, value], np.float32), 8000)
    assert path.read_bytes() == before


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.wav"
    write_wav(path, np.zeros(5, np.float32), 8000)
    before = path.read_bytes()

    def fails(name: str, *_: object, **__: object) -> None:
        Path(name).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(soundfile, "write", fails)
    with pytest.raises(OSError, match="No space"):
        write_wav(path, np.ones(5, np.float32), 8000)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.wav"]


def test_two_dimensions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one dimension"):
        write_wav(tmp_path / "a.wav", np.zeros((5, 2), np.float32), 8000)
