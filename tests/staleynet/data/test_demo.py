"""The demo recording is the same every time, and is music: several instruments, a beat, a form."""

import numpy as np
import pytest

from staleynet.data.demo import demo_recording
from staleynet.data.score import BARS, BEAT, LENGTH, hits, parts


@pytest.fixture(scope="module")
def demo() -> np.ndarray:
    return demo_recording(11025)


def test_length_level_and_type(demo: np.ndarray) -> None:
    assert demo.dtype == np.float32
    assert demo.shape == (round(LENGTH * 11025),)
    assert LENGTH == 60
    assert np.abs(demo).max() == pytest.approx(0.9, abs=1e-3)
    assert abs(demo.mean()) < 1e-3
    assert not np.any(demo[-3:])  # faded out
    # what a 16-bit file holds
    np.testing.assert_allclose(demo * 32767, np.rint(demo.astype(np.float64) * 32767), atol=0.01)


def test_the_same_bytes_every_time(demo: np.ndarray) -> None:
    assert demo_recording(11025).tobytes() == demo.tobytes()


@pytest.mark.parametrize("rate", [8000, 22050])
def test_the_rate_changes_the_samples_not_the_music(demo: np.ndarray, rate: int) -> None:
    other = demo_recording(rate)
    assert len(other) == 60 * rate
    loudness = [np.sqrt(np.mean(x[: len(x) // 240 * 240].reshape(240, -1) ** 2, axis=1)) for x in (demo, other)]
    assert np.corrcoef(loudness[0], loudness[1])[0, 1] > 0.95


def test_it_is_never_silent_before_the_end(demo: np.ndarray) -> None:
    seconds = np.sqrt(np.mean(demo.reshape(60, -1) ** 2, axis=1))
    assert seconds[:59].min() > 0.05


def test_there_is_a_beat(demo: np.ndarray) -> None:
    hop = 147  # 75 per second, 45 per beat
    energy = np.sqrt(np.mean(demo.reshape(-1, hop) ** 2, axis=1))
    onsets = np.maximum(np.diff(np.log(energy + 1e-4)), 0)
    onsets -= onsets.mean()
    correlation = np.correlate(onsets, onsets, "full")[len(onsets) - 1 :]
    beat = round(BEAT * 11025 / hop)
    around = correlation[beat // 2 + 8 : beat * 3 // 2 - 8]
    assert np.abs(around.argmax() + beat // 2 + 8 - beat) <= 1


def test_the_theme_returns_and_the_variation_differs() -> None:
    lead = next(part for part in parts() if part.instrument == "lead")
    by_bar = [tuple((note.start % 4, note.key) for note in lead.notes if note.start // 4 == bar) for bar in range(BARS)]
    assert by_bar[2] != by_bar[10]
    assert len(set(by_bar)) > 15
    chords = next(part for part in parts() if part.instrument == "pad")
    by_bar = [tuple(sorted(note.key for note in chords.notes if note.start // 4 == bar)) for bar in range(BARS)]
    assert by_bar[2:4] == by_bar[6:8]


def test_everything_is_inside_the_piece() -> None:
    assert {part.instrument for part in parts()} == {"pad", "bass", "pluck", "bell", "lead"}
    for part in parts():
        for note in part.notes:
            assert note.start >= 0
            assert note.start + note.beats <= BARS * 4
            assert 28 <= note.key <= 100
    assert {hit.drum for hit in hits()} == {"kick", "snare", "hat", "open hat"}
    assert max(hit.start for hit in hits()) < BARS * 4
