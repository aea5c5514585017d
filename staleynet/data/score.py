"""What the demo recording plays: form, chords, motifs and drum patterns, as notes in beats. How it sounds is in `demo`.

Twenty-five bars of four beats: an introduction of two, an eight-bar theme, its variation, a five-bar bridge, and a coda of two, so that there is
repetition for a model to learn and variation for it to be tested on.
"""

from dataclasses import dataclass

BEAT = 0.6
"""Seconds of a beat: 100 beats per minute."""
BARS = 25
LENGTH = BARS * 4 * BEAT
"""Seconds of the whole piece."""


@dataclass(frozen=True)
class Note:
    """One tone of a part."""

    start: float
    """Beat at which it begins."""
    beats: float
    """How many beats it is held."""
    key: int
    """MIDI number; 69 is the A of 440 Hz."""
    strength: float = 1.0
    """Amplitude, relative to the part's level."""


@dataclass(frozen=True)
class Hit:
    """One stroke on a drum."""

    start: float
    """Beat at which it falls."""
    drum: str
    """`kick`, `snare`, `hat` or `open hat`."""
    strength: float
    """Amplitude."""


@dataclass(frozen=True)
class Part:
    """All that one instrument plays."""

    instrument: str
    """`pad`, `bass`, `pluck`, `bell` or `lead`."""
    level: float
    """Amplitude in the mix."""
    echo: float
    """Amplitude of the first echo, relative to the sound."""
    notes: tuple[Note, ...]
    """In any order."""


# chords as MIDI numbers, closest voicing; the lowest note of `_ROOTS` is the bass's
_CHORDS = {
    "Am": (57, 60, 64),
    "F": (57, 60, 65),
    "C": (55, 60, 64),
    "G": (55, 59, 62),
    "Dm": (57, 62, 65),
    "E": (56, 59, 64),
    "Em": (55, 59, 64),
}
_ROOTS = {"Am": 45, "F": 41, "C": 48, "G": 43, "Dm": 50, "E": 40, "Em": 40}

_THEME = ("Am", "F", "C", "G", "Am", "F", "Dm", "E")
_VARIATION = ("Am", "Em", "F", "C", "Dm", "Am", "F", "E")
_BRIDGE = ("F", "G", "Em", "Am", "E")
_PROGRESSION = ("Am", "F", *_THEME, *_VARIATION, *_BRIDGE, "F", "Am")
_THEME_BARS = range(2, 10)
_VARIATION_BARS = range(10, 18)
_BRIDGE_BARS = range(18, 23)

# (beat in the bar, beats held, MIDI number), a bar each
_MELODY = (
    ((0, 1.5, 76), (1.5, 0.5, 74), (2, 1, 72), (3, 1, 71)),
    ((0, 2, 69), (2, 1, 72), (3, 1, 74)),
    ((0, 1.5, 76), (1.5, 0.5, 77), (2, 1, 76), (3, 1, 72)),
    ((0, 3, 74), (3, 0.5, 71), (3.5, 0.5, 72)),
    ((0, 1.5, 76), (1.5, 0.5, 74), (2, 1, 72), (3, 1, 76)),
    ((0, 1, 81), (1, 1, 79), (2, 2, 77)),
    ((0, 1, 77), (1, 1, 76), (2, 1, 74), (3, 1, 72)),
    ((0, 3, 71), (3, 1, 68)),
)
_VARIED = (
    ((0, 0.5, 76), (0.5, 0.5, 77), (1, 0.5, 76), (1.5, 0.5, 74), (2, 1, 72), (3, 1, 69)),
    ((0, 1.5, 71), (1.5, 0.5, 72), (2, 2, 74)),
    ((0, 0.5, 77), (0.5, 0.5, 76), (1, 1, 72), (2, 0.5, 74), (2.5, 0.5, 76), (3, 1, 77)),
    ((0, 3, 76), (3, 1, 79)),
    ((0, 1, 77), (1, 0.5, 76), (1.5, 0.5, 74), (2, 1, 77), (3, 1, 81)),
    ((0, 1.5, 76), (1.5, 0.5, 74), (2, 1, 72), (3, 1, 71)),
    ((0, 1, 72), (1, 1, 74), (2, 1, 77), (3, 1, 74)),
    ((0, 2, 76), (2, 1, 74), (3, 1, 71)),
)
_ARPEGGIOS = ((0, 1, 2, 3, 2, 1, 2, 1), (0, 2, 1, 3, 0, 2, 1, 3))


def parts() -> tuple[Part, ...]:
    """The pitched instruments, in the order in which they are mixed."""
    return (
        Part("pad", 0.16, 0.2, tuple(_pad())),
        Part("bass", 0.42, 0.0, tuple(_bass())),
        Part("pluck", 0.17, 0.35, tuple(_pluck())),
        Part("bell", 0.15, 0.4, tuple(_bells())),
        Part("lead", 0.26, 0.25, tuple(_lead())),
    )


def _pad() -> list[Note]:
    return [Note(4.0 * bar, 4.0, key) for bar, chord in enumerate(_PROGRESSION) for key in _CHORDS[chord]]


def _bass() -> list[Note]:
    notes = []
    for bar, chord in enumerate(_PROGRESSION):
        if bar < 2:
            continue
        start, root = 4.0 * bar, _ROOTS[chord]
        if bar in _BRIDGE_BARS or bar == BARS - 1:
            notes.append(Note(start, 4.0, root))
            continue
        notes += [Note(start, 1.4, root), Note(start + 1.5, 0.5, root, 0.8), Note(start + 2, 1.0, root + 7, 0.9)]
        # every other bar walks to the next root by a step, the others jump an octave
        following = _ROOTS[_PROGRESSION[bar + 1]]
        last = following + (1 if following < root else -1) if bar % 2 else root + 12
        notes += [Note(start + 3, 0.5, root, 0.8), Note(start + 3.5, 0.5, last, 0.75)]
    return notes


def _pluck() -> list[Note]:
    notes = []
    for bar, chord in enumerate(_PROGRESSION[:-1]):
        keys = (*_CHORDS[chord], _CHORDS[chord][0] + 12)
        pattern = _ARPEGGIOS[1 if bar in _VARIATION_BARS else 0]
        if bar in _BRIDGE_BARS:
            pattern = pattern[::-1]
        for i, which in enumerate(pattern):
            notes.append(Note(4.0 * bar + 0.5 * i, 0.5, keys[which] + 12, 1.0 if i % 4 == 0 else 0.7))
    return notes


def _bells() -> list[Note]:
    notes = [Note(4.0 * bar + 2 * half, 2.0, _CHORDS[_PROGRESSION[bar]][2 - half] + 24) for bar in _BRIDGE_BARS for half in (0, 1)]
    # answers to the theme at the ends of its two phrases, and the last word
    notes += [Note(4.0 * bar + beat, 1.0, key, 0.8) for bar in (5, 13) for beat, key in ((1, 83), (2, 86), (3, 88))]
    notes += [Note(4.0 * (BARS - 1), 4.0, key) for key in (81, 88)]
    return notes


def _lead() -> list[Note]:
    notes = []
    for bars, motifs in ((_THEME_BARS, _MELODY), (_VARIATION_BARS, _VARIED)):
        for bar, motif in zip(bars, motifs, strict=True):
            notes += [Note(4.0 * bar + beat, held, key) for beat, held, key in motif]
    notes += [Note(4.0 * (BARS - 2), 2.0, 72), Note(4.0 * (BARS - 2) + 2, 2.0, 77), Note(4.0 * (BARS - 1), 3.0, 76)]
    return notes


def hits() -> list[Hit]:
    """The drums: no kick and snare in the introduction and the bridge, a fill at the end of each eight bars, hats throughout."""
    strokes = []
    for bar in range(BARS - 1):
        start = 4.0 * bar
        for i in range(8):
            strokes.append(Hit(start + 0.5 * i, "hat", 1.0 if i % 2 else 0.6))
        if bar in _THEME_BARS or bar in _VARIATION_BARS:
            kicks = (0.0, 1.5, 2.5) if bar % 2 else (0.0, 2.0)
            strokes += [Hit(start + beat, "kick", 0.55) for beat in kicks]
            strokes += [Hit(start + beat, "snare", 0.5) for beat in (1.0, 3.0)]
            if bar in _VARIATION_BARS:
                strokes.append(Hit(start + 3.5, "open hat", 0.9))
        if bar in (_THEME_BARS[-1], _VARIATION_BARS[-1], _BRIDGE_BARS[-1]):
            strokes += [Hit(start + 3 + 0.25 * i, "snare", 0.2 + 0.1 * i) for i in range(4)]
    return strokes
