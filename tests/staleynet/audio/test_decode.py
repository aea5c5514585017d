"""Sound files of all kinds become mono at one rate; what is not sound gets an error that says so."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from staleynet.audio.decode import AudioError, decode

RATE = 22050


def tone(rate: int, seconds: float = 0.5, frequency: float = 440.0) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * frequency * np.arange(round(rate * seconds)) / rate)


def loudest_frequency(samples: np.ndarray, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(spectrum.argmax() * rate / len(samples))


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000])
@pytest.mark.parametrize("extension", ["wav", "flac", "ogg", "mp3"])
def test_every_format_rate_and_channel_count(tmp_path: Path, extension: str, rate: int, channels: int) -> None:
    if extension == "mp3" and channels == 3:
        channels = 2  # MP3 has no more
    path = tmp_path / f"tone.{extension}"
    soundfile.write(path, np.stack([tone(rate)] * channels, axis=1), rate)
    samples = decode(path, RATE)
    assert samples.dtype == np.float32
    assert samples.ndim == 1
    # lossy formats pad the end
    assert RATE / 2 - 2 <= len(samples) <= RATE / 2 + 0.15 * RATE
    middle = samples[RATE // 10 : RATE * 4 // 10]
    assert loudest_frequency(middle, RATE) == pytest.approx(440, abs=4)
    assert np.abs(middle).max() == pytest.approx(0.5, abs=0.05)


def test_channels_are_averaged(tmp_path: Path) -> None:
    path = tmp_path / "stereo.wav"
    left, right = np.array([0.5, -0.25, 0.75]), np.array([0.25, 0.25, -0.75])
    soundfile.write(path, np.stack([left, right], axis=1), RATE, subtype="FLOAT")
    np.testing.assert_allclose(decode(path, RATE), (left + right) / 2, atol=1e-7)


@pytest.mark.parametrize("count", [1, 65535, 65536, 65537, 3 * 65536])
def test_blocks_change_nothing(tmp_path: Path, count: int) -> None:
    path = tmp_path / "long.wav"
    data = np.random.default_rng(0).uniform(-1, 1, count).astype(np.float32)
    soundfile.write(path, data, RATE, subtype="FLOAT")
    np.testing.assert_array_equal(decode(path, RATE), data)
    assert len(decode(path, 2 * RATE)) == 2 * count
    np.testing.assert_array_equal(decode(path, 16000), decode(path, 16000))


def test_resampling_keeps_what_both_rates_can_hold(tmp_path: Path) -> None:
    path = tmp_path / "mix.wav"
    kept, lost = tone(48000, frequency=3000), tone(48000, frequency=15000)
    soundfile.write(path, kept + 0.5 * lost, 48000, subtype="FLOAT")
    samples = decode(path, RATE)
    expected = tone(RATE, frequency=3000)
    inside = slice(1000, -1000)
    np.testing.assert_allclose(samples[inside], expected[inside], atol=1e-3)


def test_a_name_with_other_letters(tmp_path: Path) -> None:
    path = tmp_path / "Größe 音楽.wav"
    soundfile.write(path, tone(RATE), RATE)
    assert len(decode(path, RATE)) == RATE // 2


def wav_with(path: Path, values: list[float], channels: int = 1) -> Path:
    soundfile.write(path, np.array(values, dtype=np.float32).reshape(-1, channels), RATE, subtype="FLOAT")
    return path


def bad_text(folder: Path) -> Path:
    (folder / "bad.wav").write_text("these are the lyrics, not the song\n" * 50)
    return folder / "bad.wav"


def bad_empty(folder: Path) -> Path:
    (folder / "bad.mp3").write_bytes(b"")
    return folder / "bad.mp3"


def bad_header_only(folder: Path) -> Path:
    return wav_with(folder / "bad.wav", [])


def bad_short(folder: Path) -> Path:
    return wav_with(folder / "bad.wav", [0.0] * 1023)


def bad_nan(folder: Path) -> Path:
    return wav_with(folder / "bad.wav", [0.0] * 3000 + [0.0, float("nan")], channels=2)


def bad_infinity(folder: Path) -> Path:
    return wav_with(folder / "bad.wav", [float("-inf")] + [0.0] * 2000)


def bad_huge(folder: Path) -> Path:
    return wav_with(folder / "bad.wav", [0.0] * 2000 + [1e30])


def bad_folder(folder: Path) -> Path:
    (folder / "bad.wav").mkdir()
    return folder / "bad.wav"


def bad_missing(folder: Path) -> Path:
    return folder / "bad.wav"


def bad_raw(folder: Path) -> Path:
    (folder / "bad.raw").write_bytes(b"\1\2" * 4000)
    return folder / "bad.raw"


def bad_rate(folder: Path) -> Path:
    path = wav_with(folder / "bad.wav", [0.0] * 2000)
    content = bytearray(path.read_bytes())
    content[24:28] = (3).to_bytes(4, "little")
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (bad_text, "not audio that can be read"),
        (bad_empty, "empty (0 bytes)"),
        (bad_header_only, "empty: a header and no samples"),
        (bad_short, "too short: 0.046 s"),
        (bad_nan, "NaN among the samples (at 0.068 s, channel 2)"),
        (bad_infinity, "infinity among the samples (at 0.000 s, channel 1)"),
        (bad_huge, "a sample of 1e+30, far outside full scale"),
        (bad_folder, "a folder, not a file"),
        (bad_missing, "no such file"),
        (bad_raw, "without a header"),
        (bad_rate, "3 samples per second"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_bad_files_are_named_with_the_reason(tmp_path: Path, make, reason: str) -> None:
    path = make(tmp_path)
    with pytest.raises(AudioError) as caught:
        decode(path, RATE, least=1024)
    assert caught.value.path == path
    assert reason in caught.value.reason
    assert str(caught.value) == f"{path}: {caught.value.reason}"


@pytest.mark.parametrize(
    ("error", "reason"),
    [(PermissionError(13, "Permission denied"), "no permission"), (OSError(5, "Input/output error"), "Input/output error")],
)
def test_what_the_system_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, reason: str) -> None:
    path = wav_with(tmp_path / "locked.wav", [0.0] * 2000)

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(AudioError, match=reason):
        decode(path, RATE)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    extension=st.sampled_from(["wav", "flac", "ogg"]),
    keep=st.floats(0, 1),
    damage=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=8),
)
def test_a_damaged_file_is_read_or_refused_but_never_more(
    tmp_path: Path, extension: str, keep: float, damage: list[tuple[float, int]]
) -> None:
    path = tmp_path / f"damaged.{extension}"
    path.unlink(missing_ok=True)
    soundfile.write(path, tone(8000, 0.2), 8000)
    content = bytearray(path.read_bytes())
    for place, value in damage:
        content[int(place * min(len(content), 200))] = value  # the header, mostly
    path.write_bytes(content[: int(keep * len(content))])
    try:
        samples = decode(path, 8000)
    except AudioError:
        return
    assert samples.dtype == np.float32
    assert len(samples) > 0
    assert np.isfinite(samples).all()
