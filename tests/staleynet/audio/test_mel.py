"""The log-mel spectrogram against an independent computation, and against librosa where it is installed."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kdsl
from staleynet.audio.fourier import dft_matrix, hann, inverse_dft_matrix
from staleynet.audio.mel import LogMel, MelSettings, hz_to_mel, mel_filters, mel_to_hz

SMALL = MelSettings(sample_rate=8000, fft_size=256, hop=64, mels=20, low=50.0, high=3900.0)


def slaney_mel(hz: float) -> float:
    return 3 * hz / 200 if hz < 1000 else 15 + 27 * math.log(hz / 1000, 6.4)


def slaney_hz(mel: float) -> float:
    return 200 * mel / 3 if mel < 15 else 1000 * 6.4 ** ((mel - 15) / 27)


def reference_filters(s: MelSettings) -> np.ndarray:
    """The triangles point by point, from the definition."""
    low, high = slaney_mel(s.low), slaney_mel(s.high)
    points = [slaney_hz(low + (high - low) * i / (s.mels + 1)) for i in range(s.mels + 2)]
    bank = np.zeros((s.mels, s.bins))
    for i, (left, middle, right) in enumerate(zip(points, points[1:], points[2:], strict=False)):
        for k in range(s.bins):
            hz = k * s.sample_rate / s.fft_size
            if left <= hz <= middle:
                bank[i, k] = (hz - left) / (middle - left)
            elif middle < hz <= right:
                bank[i, k] = (right - hz) / (right - middle)
        bank[i] *= 2 / (right - left)
    return bank


def reference_mel(samples: np.ndarray, s: MelSettings) -> np.ndarray:
    """Mel power in double precision, with the fast Fourier transform."""
    padded = np.pad(samples.astype(np.float64), s.fft_size // 2)
    window = np.sin(np.pi * np.arange(s.fft_size) / s.fft_size) ** 2
    frames = [padded[i * s.hop : i * s.hop + s.fft_size] * window for i in range(1 + len(samples) // s.hop)]
    return np.abs(np.fft.rfft(frames)) ** 2 @ reference_filters(s).T


@pytest.mark.parametrize("s", [MelSettings(), SMALL, MelSettings(sample_rate=16000, fft_size=512, hop=160, mels=40, high=8000.0)])
def test_filters_match_the_definition(s: MelSettings) -> None:
    np.testing.assert_allclose(mel_filters(s), reference_filters(s), rtol=1e-5, atol=1e-9)


def test_filters_match_numbers_of_librosa() -> None:
    """From `librosa.filters.mel(sr=22050, n_fft=1024, n_mels=80, fmin=0, fmax=8000)` of librosa 0.11.0."""
    filters = mel_filters(MelSettings())
    expected = {
        (0, 1): 0.015527721,
        (0, 2): 0.02265139,
        (10, 19): 0.026492536,
        (10, 20): 0.011686575,
        (25, 44): 0.011854616,
        (40, 78): 0.005315493,
        (60, 178): 0.0011401258,
        (79, 349): 0.001242132,
        (79, 360): 0.002782832,
    }
    for (row, column), value in expected.items():
        assert filters[row, column] == pytest.approx(value, rel=1e-5), (row, column)
    assert filters.sum() == pytest.approx(3.7136881975, rel=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 20000))
def test_mel_scale_and_back(hz: float) -> None:
    mel = hz_to_mel(np.array([hz]))
    assert mel[0] == pytest.approx(slaney_mel(hz), rel=1e-9, abs=1e-9)
    assert mel_to_hz(mel)[0] == pytest.approx(hz, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("size", [2, 16, 250])
def test_dft_matrices(size: int) -> None:
    x = np.random.default_rng(1).normal(size=(3, size))
    spectrum = x @ dft_matrix(size).astype(np.float64)
    expected = np.fft.rfft(x)
    np.testing.assert_allclose(spectrum, np.concatenate([expected.real, expected.imag], axis=1), atol=1e-5)
    np.testing.assert_allclose(spectrum @ inverse_dft_matrix(size).astype(np.float64), x, atol=1e-5)


def test_an_odd_size_is_refused() -> None:
    with pytest.raises(ValueError, match="even"):
        dft_matrix(9)


def test_the_window_is_periodic() -> None:
    window = hann(64)
    np.testing.assert_allclose(window[:32] + window[32:], 1, atol=1e-6)


@pytest.mark.parametrize("samples", [1, 63, 64, 1000, 5000])
def test_against_double_precision(device: kdsl.Device, samples: int) -> None:
    x = np.random.default_rng(samples).uniform(-0.5, 0.5, samples).astype(np.float32)
    got = LogMel(SMALL, device, chunk=16)(x)
    expected = reference_mel(x, SMALL)
    assert got.shape == expected.shape == (SMALL.frames(samples), SMALL.mels)
    np.testing.assert_allclose(got, np.log(np.maximum(expected, SMALL.floor)), atol=2e-4)


def test_default_settings_on_a_chord(device: kdsl.Device) -> None:
    s = MelSettings()
    time = np.arange(8000) / s.sample_rate
    x = sum(0.2 * np.sin(2 * np.pi * f * time) for f in (220.0, 277.2, 329.6, 4000.0)).astype(np.float32)
    got = np.exp(LogMel(s, device)(x))
    expected = np.maximum(reference_mel(x, s), s.floor)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4 * expected.max() * 1e-3)


def test_against_librosa(device: kdsl.Device) -> None:
    librosa = pytest.importorskip("librosa")
    for s in (MelSettings(), SMALL):
        bank = librosa.filters.mel(sr=s.sample_rate, n_fft=s.fft_size, n_mels=s.mels, fmin=s.low, fmax=s.high)
        np.testing.assert_allclose(mel_filters(s), bank, rtol=1e-5, atol=1e-9)
        x = np.random.default_rng(2).uniform(-0.5, 0.5, 6000).astype(np.float32)
        power = librosa.feature.melspectrogram(
            y=x, sr=s.sample_rate, n_fft=s.fft_size, hop_length=s.hop, n_mels=s.mels, fmin=s.low, fmax=s.high
        )
        np.testing.assert_allclose(LogMel(s, device)(x), np.log(np.maximum(power, s.floor)).T, atol=2e-4)


def test_chunks_change_no_bit(device: kdsl.Device) -> None:
    x = np.random.default_rng(3).uniform(-1, 1, 4000).astype(np.float32)
    whole = LogMel(SMALL, device, chunk=1000)(x)
    for chunk in (1, 7, 62, 63):
        np.testing.assert_array_equal(LogMel(SMALL, device, chunk=chunk)(x), whole)


def test_length_costs_no_device_memory(device: kdsl.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """All arrays are made beforehand, for one chunk; an hour needs no more of them than a second."""
    log_mel = LogMel(SMALL, device, chunk=8)
    for name in ("array", "empty", "zeros", "full"):
        monkeypatch.setattr(type(device), name, lambda *_: pytest.fail("an array was made"))
    assert log_mel(np.zeros(10000, np.float32)).shape == (157, SMALL.mels)


def test_silence_is_the_floor(device: kdsl.Device) -> None:
    got = LogMel(SMALL, device)(np.zeros(500, np.float32))
    np.testing.assert_allclose(got, math.log(SMALL.floor), rtol=1e-6)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"sample_rate": 500}, "sample_rate"),
        ({"fft_size": 1023}, "fft_size"),
        ({"fft_size": 0}, "fft_size"),
        ({"hop": 0}, "hop"),
        ({"hop": 2000}, "hop"),
        ({"mels": 0}, "mels"),
        ({"low": 9000.0}, "low"),
        ({"low": -1.0}, "low"),
        ({"high": 12000.0}, "high"),
        ({"floor": 0.0}, "floor"),
    ],
)
def test_settings_that_describe_nothing(values: dict[str, float], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        MelSettings(**values)  # type: ignore[arg-type]
