"""A sound file of any rate and channel count becomes mono float32 at the model's rate.

Reads what libsndfile reads (WAV, FLAC, OGG and MP3 among others), in blocks, so that only the result has to fit into memory; soxr resamples.
Finding files and deciding what to do with a bad one is the catalogue's business (`staleynet.data.catalogue`).
"""

from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

_BLOCK = 1 << 16  # frames per read: about 1.5 s at 44.1 kHz
_LOUDEST = 1e6  # full scale is 1, or 32768 in a float file that holds integers; beyond this the power of a frame nears the limit of float32
_LEAST_RATE = 1000  # Hz; a header that says less is damaged, and resampling it would make gigabytes from little
_NO_SUCH_FILE = 7  # SFE_BAD_FILE of libsndfile (src/common.h)


class AudioError(Exception):
    """A sound file that cannot be used: `path` says which one, `reason` why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def decode(path: Path, sample_rate: int, *, least: int = 1) -> NDArray[np.float32]:
    """Read `path` as mono float32 of shape (samples,) at `sample_rate` Hz; channels are averaged.

    `least` is the number of samples that the result must have: one frame of the spectrogram. Raises `AudioError` for a file that is missing, unreadable,
    empty, not audio, damaged, shorter than `least`, or that holds NaN, infinity or values far outside full scale.
    """
    check_readable(path)
    try:
        with soundfile.SoundFile(str(path)) as file:
            samples = _read(path, file, sample_rate)
    except soundfile.LibsndfileError as error:
        # libsndfile's MPEG decoder says of a file of anything else that it does not exist
        reason = "format not recognised" if error.code == _NO_SUCH_FILE else error.error_string.rstrip(".")
        raise AudioError(path, f"not audio that can be read ({reason})") from error
    except TypeError as error:  # soundfile takes headerless formats (".raw") by name and then misses their parameters
        raise AudioError(path, "a file without a header: its rate and sample format are unknown") from error
    if len(samples) < least:
        raise AudioError(
            path, f"too short: {len(samples) / sample_rate:.3f} s, and one frame of the spectrogram takes {least / sample_rate:.3f} s"
        )
    return samples


def check_readable(path: Path) -> None:
    """Raise `AudioError` if `path` cannot be read or has no bytes, with the operating system's reason (libsndfile calls all of them "System error")."""
    try:
        if path.is_dir():
            raise AudioError(path, "a folder, not a file")
        if path.exists() and not path.is_file():  # opening a pipe would wait for somebody to write to it
            raise AudioError(path, "not an ordinary file")
        with path.open("rb") as file:
            first = file.read(1)
    except FileNotFoundError as error:
        raise AudioError(path, "no such file") from error
    except PermissionError as error:
        raise AudioError(path, "no permission to read it") from error
    except OSError as error:
        raise AudioError(path, f"unreadable ({error.strerror or error})") from error
    if not first:
        raise AudioError(path, "empty (0 bytes)")


def _read(path: Path, file: soundfile.SoundFile, sample_rate: int) -> NDArray[np.float32]:
    if file.samplerate < _LEAST_RATE:
        raise AudioError(path, f"its header says {file.samplerate} samples per second; at least {_LEAST_RATE} make sense")
    resampler = None
    if file.samplerate != sample_rate:
        try:
            resampler = soxr.ResampleStream(file.samplerate, sample_rate, 1, dtype="float32", quality="HQ")
        except (ValueError, RuntimeError) as error:
            raise AudioError(path, f"cannot be resampled from {file.samplerate} Hz to {sample_rate} Hz ({error})") from error
    parts: list[NDArray[np.float32]] = []
    position = 0
    while True:
        block: NDArray[np.float32] = file.read(_BLOCK, dtype="float32", always_2d=True)
        last = len(block) < _BLOCK
        _check_values(path, block, position, file.samplerate)
        position += len(block)
        mono = block.mean(axis=1, dtype=np.float32)
        parts.append(mono if resampler is None else resampler.resample_chunk(mono, last=last))
        if last:
            break
    if position == 0:
        raise AudioError(path, "empty: a header and no samples")
    return np.concatenate(parts)


def _check_values(path: Path, block: NDArray[np.float32], position: int, rate: int) -> None:
    # NaN fails the comparison, too
    fine = np.abs(block) <= _LOUDEST
    if fine.all():
        return
    frame, channel = np.argwhere(~fine)[0]
    value = block[frame, channel]
    what = (
        f"a sample of {value:g}, far outside full scale"
        if np.isfinite(value)
        else f"{'NaN' if np.isnan(value) else 'infinity'} among the samples"
    )
    raise AudioError(path, f"contains {what} (at {(position + frame) / rate:.3f} s, channel {channel + 1})")
