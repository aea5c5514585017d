"""Sound from spectrograms: the transforms invert each other, the magnitudes fit the bands, and the phases become consistent."""

import numpy as np
import pytest

import kdsl
from staleynet.audio.fourier import Fourier
from staleynet.audio.griffin_lim import GriffinLimSettings, griffin_lim, mel_to_audio, mel_to_magnitude
from staleynet.audio.mel import LogMel, MelSettings, mel_filters

S = MelSettings(sample_rate=8000, fft_size=256, hop=64, mels=40, high=4000.0)


@pytest.fixture(scope="module")
def music() -> np.ndarray:
    """Two seconds of chords with plucked attacks over a soft drum."""
    time = np.arange(2 * S.sample_rate) / S.sample_rate
    sound = np.zeros(len(time))
    for start, chord in ((0.0, (220, 277.2, 329.6)), (0.5, (246.9, 311.1, 370)), (1.0, (196, 246.9, 293.7)), (1.5, (220, 261.6, 329.6))):
        age = np.maximum(time - start, 0)
        for f in chord:
            for n in range(1, 6):
                sound += (time >= start) * np.sin(2 * np.pi * n * f * age) * np.exp(-3 * n * age) * 0.15 / n
        sound += (time >= start) * 0.2 * np.sin(2 * np.pi * 60 * age) * np.exp(-20 * age)
    return sound.astype(np.float32)


def magnitudes(samples: np.ndarray) -> np.ndarray:
    padded = np.pad(samples.astype(np.float64), S.fft_size // 2)
    window = np.sin(np.pi * np.arange(S.fft_size) / S.fft_size) ** 2
    return np.abs(np.fft.rfft(np.lib.stride_tricks.sliding_window_view(padded, S.fft_size)[:: S.hop] * window))


def convergence(samples: np.ndarray, target: np.ndarray) -> float:
    """Spectral convergence: the distance of the magnitudes, relative to their size (Sturmel and Daudet 2011)."""
    return float(np.linalg.norm(magnitudes(samples) - target) / np.linalg.norm(target))


def test_synthesis_inverts_analysis(device: kdsl.Device) -> None:
    frames = 20
    fourier = Fourier(64, 16, frames, device)
    signal = np.random.default_rng(0).normal(size=fourier.samples(frames)).astype(np.float32)
    spectrum = device.empty(frames * 2 * fourier.bins, kdsl.f32)
    back = device.empty(len(signal), kdsl.f32)
    fourier.analyse(spectrum, device.array(signal), frames)
    fourier.synthesise(back, spectrum, frames)
    # the first and the last few samples are under the very edge of one window
    np.testing.assert_allclose(back.numpy()[16:-16], signal[16:-16], atol=1e-4)
    expected = np.fft.rfft(signal[32:96] * np.sin(np.pi * np.arange(64) / 64) ** 2)
    row = spectrum.numpy().reshape(frames, 2, fourier.bins)[2]
    np.testing.assert_allclose(row[0] + 1j * row[1], expected, atol=1e-4)


@pytest.mark.parametrize("hop", [0, 65])
def test_frames_that_leave_gaps_are_refused(device: kdsl.Device, hop: int) -> None:
    with pytest.raises(ValueError, match="samples apart"):
        Fourier(64, hop, 4, device)


def test_phases_become_consistent(device: kdsl.Device, music: np.ndarray) -> None:
    target = magnitudes(music).astype(np.float32)
    first = convergence(griffin_lim(target, S, device, how=GriffinLimSettings(iterations=1)), target)
    plain = convergence(griffin_lim(target, S, device, how=GriffinLimSettings(momentum=0.0)), target)
    fast = convergence(griffin_lim(target, S, device), target)
    # measured: 0.385, 0.176 and 0.106; without the phase step every number of iterations gives the first
    assert first > 0.3
    assert plain < 0.2
    assert fast < 0.12


def test_sound_from_mel_is_near_the_original(device: kdsl.Device, music: np.ndarray) -> None:
    log_mel = LogMel(S, device)(music)
    again = mel_to_audio(log_mel, S, device)
    assert again.dtype == np.float32
    assert len(again) == (len(log_mel) - 1) * S.hop
    # measured: 0.27; one iteration gives 0.43
    assert convergence(again, magnitudes(music)[: len(again) // S.hop + 1]) < 0.32
    # as loud as the original, so that neither window nor scale is lost
    assert np.std(again) == pytest.approx(np.std(music), rel=0.05)
    # and its bands are those asked for, within 1 dB on average where there is sound (measured: 0.7)
    heard = log_mel > log_mel.max() - 7
    assert np.abs(LogMel(S, device)(again) - log_mel)[heard].mean() < 0.23


def test_magnitudes_fit_the_bands(device: kdsl.Device, music: np.ndarray) -> None:
    log_mel = LogMel(S, device)(music)
    magnitude = mel_to_magnitude(log_mel, S, device)
    assert magnitude.shape == (len(log_mel), S.bins)
    assert magnitude.min() >= 0
    fit = np.log(np.maximum(magnitude.astype(np.float64) ** 2 @ mel_filters(S).T, S.floor))
    assert np.abs(fit - log_mel).mean() < 0.1
    outside = mel_filters(S).sum(axis=0) == 0
    assert not magnitude[:, outside].any()


def test_the_seed_decides(device: kdsl.Device, music: np.ndarray) -> None:
    target = magnitudes(music)[:20].astype(np.float32)
    three = [griffin_lim(target, S, device, how=GriffinLimSettings(iterations=3, seed=seed)) for seed in (5, 5, 6)]
    assert three[0].tobytes() == three[1].tobytes()
    assert three[0].tobytes() != three[2].tobytes()


def test_silence_stays_silent(device: kdsl.Device) -> None:
    quiet = np.full((12, S.mels), np.log(S.floor), np.float32)
    sound = mel_to_audio(quiet, S, device)
    assert np.isfinite(sound).all()
    assert np.abs(sound).max() < 1e-2
    assert not griffin_lim(np.zeros((5, S.bins), np.float32), S, device).any()


def test_a_single_frame_has_no_samples(device: kdsl.Device) -> None:
    assert mel_to_audio(np.zeros((1, S.mels), np.float32), S, device).shape == (0,)


def test_progress_is_reported(device: kdsl.Device) -> None:
    seen: list[tuple[int, int]] = []
    griffin_lim(
        np.ones((3, S.bins), np.float32), S, device, how=GriffinLimSettings(2), progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(1, 2), (2, 2)]


@pytest.mark.parametrize("shape", [(3,), (0, 40), (3, 41)])
def test_wrong_shapes_are_refused(device: kdsl.Device, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="shape"):
        mel_to_magnitude(np.zeros(shape, np.float32), S, device)
    with pytest.raises(ValueError, match="shape"):
        griffin_lim(np.zeros(shape, np.float32), S, device)


def test_nan_is_refused(device: kdsl.Device) -> None:
    with pytest.raises(ValueError, match="NaN"):
        mel_to_magnitude(np.full((3, S.mels), np.nan, np.float32), S, device)


@pytest.mark.parametrize(
    ("values", "field"), [({"iterations": 0}, "iterations"), ({"momentum": -0.1}, "momentum"), ({"momentum": 1.5}, "momentum")]
)
def test_wrong_settings_are_refused(values: dict[str, float], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        GriffinLimSettings(**values)  # type: ignore[arg-type]
