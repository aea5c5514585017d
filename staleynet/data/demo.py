"""The built-in demo recording: a minute of music for several instruments, synthesised deterministically, so that nothing has to be downloaded.

A piece in A minor at 100 beats per minute, 25 bars of four beats: pad, bass, plucked arpeggio, bells, lead melody, kick, snare and hi-hat. What is
played is written down in `score` (chords, motifs, patterns, the form); this module is the instruments and the mixing desk. The result is rounded to
16 bits, so that the last bits of a platform's sine do not change it.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from staleynet.data.score import BEAT, LENGTH, Part, hits, parts

Samples = NDArray[np.float64]

_NOISE_SEED = 20091  # of the hi-hat and the snare


def demo_recording(sample_rate: int) -> NDArray[np.float32]:
    """The whole piece as mono float32, shape (samples,), 60 seconds at `sample_rate` Hz, peak 0.9; the same bytes on every call."""
    mix = np.zeros(round(LENGTH * sample_rate))
    for part in parts():
        _add(mix, _echo(_play(part, sample_rate, len(mix)), part.echo, sample_rate))
    _add(mix, _drums(sample_rate, len(mix)))
    mix = np.tanh(1.2 * mix / np.abs(mix).max())  # gentle saturation glues the parts together
    fade = min(len(mix), round(1.5 * sample_rate))
    mix[len(mix) - fade :] *= np.linspace(1, 0, fade) ** 2
    mix *= 0.9 / np.abs(mix).max()
    result: NDArray[np.float32] = (np.rint(mix * 32767) / 32767).astype(np.float32)
    return result


def _add(mix: Samples, sound: Samples, start: int = 0) -> None:
    """Add `sound` to `mix` from sample `start` on; what goes beyond the end is cut."""
    stop = min(len(mix), start + len(sound))
    mix[start:stop] += sound[: stop - start]


def _play(part: Part, sample_rate: int, length: int) -> Samples:
    track = np.zeros(length)
    instrument = _INSTRUMENTS[part.instrument]

    @cache  # repeated notes are the most of a piece
    def sound(key: int, seconds: float) -> Samples:
        return instrument(440.0 * 2.0 ** ((key - 69) / 12), seconds, sample_rate)

    for note in part.notes:
        _add(track, note.strength * part.level * sound(note.key, note.beats * BEAT), round(note.start * BEAT * sample_rate))
    return track


def _echo(track: Samples, level: float, sample_rate: int) -> Samples:
    """Three fading repeats, three quarters of a beat apart: a room without the cost of one."""
    wet = track.copy()
    delay = round(0.75 * BEAT * sample_rate)
    for repeat in (1, 2, 3):
        _add(wet, level**repeat * track, repeat * delay)
    return wet


def _time(seconds: float, sample_rate: int) -> Samples:
    return np.arange(round(seconds * sample_rate)) / sample_rate


def _harmonics(frequency: float, time: Samples, amplitudes: Samples, sample_rate: int, decay: float = 0.0) -> Samples:
    """Sum of the harmonics below the Nyquist frequency; `decay` makes the n-th fade n times as fast (per second)."""
    result = np.zeros(len(time))
    for n, amplitude in enumerate(amplitudes, start=1):
        if n * frequency >= 0.45 * sample_rate:
            break
        tone = amplitude * np.sin(2 * np.pi * n * frequency * time)
        result += tone * np.exp(-decay * n * time) if decay else tone
    return result


def _envelope(time: Samples, attack: float, release: float) -> Samples:
    """Rise over `attack` seconds and fall over the last `release` seconds, both as a raised cosine: no clicks."""
    end = time[-1] if len(time) else 0.0
    rise = np.clip(time / attack, 0, 1)
    fall = np.clip((end - time) / release, 0, 1)
    result: Samples = 0.25 * (1 - np.cos(np.pi * rise)) * (1 - np.cos(np.pi * fall))
    return result


def _pad(frequency: float, seconds: float, sample_rate: int) -> Samples:
    """Two detuned voices of soft strings that swell."""
    time = _time(seconds + 0.3, sample_rate)
    amplitudes: Samples = np.arange(1.0, 9.0) ** -1.6
    voices = sum((_harmonics(frequency * detune, time, amplitudes, sample_rate) for detune in (0.9975, 1.0025)), np.zeros(len(time)))
    return 0.5 * voices * _envelope(time, 0.25, 0.4)


def _bass(frequency: float, seconds: float, sample_rate: int) -> Samples:
    """A plucked string: bright at first, then round."""
    time = _time(seconds, sample_rate)
    return _harmonics(frequency, time, np.array([1.0, 0.7, 0.45, 0.3, 0.2, 0.12, 0.08]), sample_rate, decay=1.4) * _envelope(
        time, 0.006, 0.04
    )


def _pluck(frequency: float, seconds: float, sample_rate: int) -> Samples:
    """A harp-like tone that dies away by itself."""
    time = _time(seconds + 0.5, sample_rate)
    return _harmonics(frequency, time, np.arange(1.0, 9.0) ** -1.2, sample_rate, decay=3.0) * _envelope(time, 0.004, 0.2)


def _bell(frequency: float, seconds: float, sample_rate: int) -> Samples:
    """Frequency modulation with a ratio that is not whole, whose depth dies away (Chowning 1973)."""
    time = _time(seconds + 1.0, sample_rate)
    depth = 1.6 * np.exp(-2.5 * time)
    tone = np.sin(2 * np.pi * frequency * time + depth * np.sin(2 * np.pi * 1.4 * frequency * time))
    return tone * np.exp(-2.2 * time) * _envelope(time, 0.003, 0.3)


def _lead(frequency: float, seconds: float, sample_rate: int) -> Samples:
    """A reed with mostly odd harmonics and a vibrato that comes in late."""
    time = _time(seconds, sample_rate)
    vibrato = 0.004 * np.clip((time - 0.15) / 0.3, 0, 1) * np.sin(2 * np.pi * 5.3 * time)
    phase = np.cumsum(1 + vibrato) / sample_rate
    return _harmonics(frequency, phase, np.array([1.0, 0.25, 0.5, 0.12, 0.25, 0.06, 0.12]), sample_rate) * _envelope(time, 0.03, 0.08)


_INSTRUMENTS: dict[str, Callable[[float, float, int], Samples]] = {
    "pad": _pad,
    "bass": _bass,
    "pluck": _pluck,
    "bell": _bell,
    "lead": _lead,
}


def _drums(sample_rate: int, length: int) -> Samples:
    sounds = {"kick": _kick(sample_rate), "snare": _snare(sample_rate), "hat": _hat(sample_rate, 0.05), "open hat": _hat(sample_rate, 0.22)}
    track = np.zeros(length)
    for hit in hits():
        _add(track, hit.strength * sounds[hit.drum], round(hit.start * BEAT * sample_rate))
    return track


def _kick(sample_rate: int) -> Samples:
    """A sine that falls from 160 to 48 Hz."""
    time = _time(0.35, sample_rate)
    phase = 48 * time + (160 - 48) / 30 * (1 - np.exp(-30 * time))
    return 0.9 * np.sin(2 * np.pi * phase) * np.exp(-9 * time) * _envelope(time, 0.002, 0.05)


def _snare(sample_rate: int) -> Samples:
    time = _time(0.22, sample_rate)
    noise = np.random.Generator(np.random.PCG64(_NOISE_SEED)).uniform(-1, 1, len(time))
    skin = np.sin(2 * np.pi * 185 * time) * np.exp(-22 * time)
    return (0.4 * noise * np.exp(-18 * time) + 0.5 * skin) * _envelope(time, 0.001, 0.03)


def _hat(sample_rate: int, seconds: float) -> Samples:
    """Noise, differentiated twice: what is left lies high."""
    time = _time(seconds, sample_rate)
    noise = np.random.Generator(np.random.PCG64(_NOISE_SEED + 1)).uniform(-1, 1, len(time) + 2)
    return 0.12 * np.diff(noise, n=2) * np.exp(-4 / seconds * time) * _envelope(time, 0.001, 0.01)
