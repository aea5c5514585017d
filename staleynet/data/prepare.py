"""From a folder of recordings to the tokens of a run: everything between the file system and the sampler, in one call.

Mel frames, tokenizer and tokens are kept in a cache, so that a second run with the same recordings and settings begins at once. What is in memory is one
recording at a time, the tokenizer's training frames and the tokens.
"""

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kdsl
from staleynet.audio.decode import AudioError, check_readable, decode
from staleynet.audio.mel import LogMel, MelSettings
from staleynet.data.cache import Cache
from staleynet.data.catalogue import find_recordings, usable
from staleynet.data.demo import demo_recording
from staleynet.data.errors import DataError
from staleynet.data.split import Piece, Split, split
from staleynet.files import sha256_of_file
from staleynet.tokenizer.errors import TokenizerError
from staleynet.tokenizer.quantizer import Kind, Quantizer, QuantizerSettings

_MEL_VERSION = 1  # of how frames are computed; raise it when their values change, and cached ones are made again
_TOKENIZER_VERSION = 1  # likewise for how a tokenizer is trained

_log = logging.getLogger("staleynet")

Progress = Callable[[str, int, int], None]
"""Called with what is being done ("reading", "tokenizer", "encoding"), how much of it is done, and how much there is."""


def _quiet(_what: str, _done: int, _all: int) -> None:
    """No progress is shown."""


@dataclass(frozen=True)
class PrepareSettings:
    """How recordings become tokens."""

    mel: MelSettings = field(default_factory=MelSettings)
    """What a frame is."""
    quantizer: QuantizerSettings = field(default_factory=QuantizerSettings)
    """How a frame becomes codes."""
    training_frames: int = 32768
    """Frames that the tokenizer is trained on, at most, spread evenly over the training recordings; 128 for each of 256 codewords."""


def settings_for(name: str, *, kind: Kind, levels: int, codewords: int) -> PrepareSettings:
    """The settings for the model configuration called `name` with this kind and size of tokenizer.

    `tiny` is for a CPU: half the rate, so that spectrograms and the generated sound cost a quarter, and a short training of the tokenizer.
    """
    if name == "tiny":
        mel = MelSettings(sample_rate=11025, fft_size=512, hop=128, mels=64, high=5000.0)
        return PrepareSettings(mel, QuantizerSettings(kind, levels, codewords, iterations=8), training_frames=4096)
    return PrepareSettings(quantizer=QuantizerSettings(kind, levels, codewords))


@dataclass(frozen=True)
class TokenData:
    """What training needs to know about the music."""

    train: tuple[NDArray[np.int32], ...]
    """A stream of tokens for each training recording, whole frames, in the catalogue's order."""
    validation: tuple[NDArray[np.int32], ...]
    """A stream for each validation recording, or for the last part of a single one."""
    tokenizer: Quantizer
    """What made the tokens, and makes frames of them again."""
    mel: MelSettings
    """What the frames are."""


@dataclass(frozen=True)
class _Source:
    """A recording that was found to be good."""

    name: str
    """For people."""
    digest: str
    """SHA-256 of its content."""
    frames: int
    """How many mel frames it has."""
    mel: Callable[[], NDArray[np.float32]]
    """Its mel frames, from the cache."""


def prepare(
    data: Path | None,
    settings: PrepareSettings,
    out: Path,
    device: kdsl.Device,
    seed: int,
    *,
    context: int,
    tokenizer: Quantizer | None = None,
    cache: Path | None = None,
    progress: Progress = _quiet,
) -> TokenData:
    """The tokens of the recordings below `data` (a folder or a file), or of the demo recording if `data` is None.

    `context` is the number of tokens that the model sees at once: both sides of the split have at least one window of it. A `tokenizer` that is
    given (that of a checkpoint) is used instead of training one. The cache is in `cache`, or in `out / "cache"`. The same content, settings and seed give
    the same tokens, whatever is in the cache.

    Raises `NoRecordings`, `TooLittleMusic`, or another `DataError`; `TokenizerError` if there are too few frames for the codewords; and `OSError` if
    the cache cannot be written. Recordings that cannot be used are warned about through the logger "staleynet".
    """
    if tokenizer is not None and (mel_settings(tokenizer) != settings.mel or tokenizer.settings != settings.quantizer):
        raise DataError("the tokenizer that is given was made with other settings than those of this run")
    store = Cache(cache if cache is not None else out / "cache")
    sources = _sources(data, settings.mel, store, device, progress)
    levels = settings.quantizer.levels
    parts = split([source.digest for source in sources], [source.frames for source in sources], context // levels + 1)
    if tokenizer is None:
        tokenizer = _tokenizer(sources, parts.training, settings, store, device, seed, progress)
    codes = []
    for i, source in enumerate(sources):
        depends_on = {**_mel_key(source.digest, settings.mel), "tokenizer": tokenizer.checksum()}
        codes.append(store.get("tokens", depends_on, partial(_encode, tokenizer, source)))
        progress("encoding", i + 1, len(sources))
    layout = tokenizer.layout
    train, validation = (
        tuple(layout.to_stream(codes[piece.recording][piece.first : piece.last]) for piece in side)
        for side in (parts.training, parts.validation)
    )
    _report(sources, parts, settings.mel)
    return TokenData(train, validation, tokenizer, settings.mel)


def mel_settings(tokenizer: Quantizer) -> MelSettings:
    """What the tokenizer's frames are, from what it keeps about them. Raises `TokenizerError` if it keeps something else."""
    names = {field.name for field in fields(MelSettings)}
    if set(tokenizer.features) != names:
        raise TokenizerError(f"the tokenizer does not say what its frames are: it has {sorted(tokenizer.features)}, not {sorted(names)}")
    values: dict[str, Any] = dict(tokenizer.features)
    try:
        return MelSettings(**values)
    except (TypeError, ValueError) as error:
        raise TokenizerError(f"the tokenizer's frames make no sense: {error}") from error


def read_mel(path: Path, settings: MelSettings, device: kdsl.Device) -> NDArray[np.float32]:
    """The log-mel frames of one file, shape (frames, mels); for a prompt. Raises `AudioError`."""
    return LogMel(settings, device)(decode(path, settings.sample_rate, least=settings.fft_size))


def _encode(tokenizer: Quantizer, source: _Source) -> NDArray[np.int32]:
    return tokenizer.encode(source.mel())


def _mel_key(digest: str, mel: MelSettings) -> dict[str, Any]:
    return {"content": digest, "mel": asdict(mel), "version": _MEL_VERSION}


def _sources(data: Path | None, settings: MelSettings, store: Cache, device: kdsl.Device, progress: Progress) -> list[_Source]:
    log_mel = LogMel(settings, device)

    def source(name: str, digest: str, samples: Callable[[], NDArray[np.float32]]) -> _Source:
        mel = partial(store.get, "mel", _mel_key(digest, settings), lambda: log_mel(samples()))
        return _Source(name, digest, len(mel()), mel)

    if data is None:
        demo = demo_recording(settings.sample_rate)
        return [source("demo recording", hashlib.sha256(demo.tobytes()).hexdigest(), lambda: demo)]

    paths = find_recordings(data)
    seen: dict[str, Path] = {}

    def read(path: Path) -> _Source | None:
        check_readable(path)
        try:
            digest = sha256_of_file(path)
        except OSError as error:
            raise AudioError(path, f"unreadable ({error.strerror or error})") from error
        if digest in seen:  # on both sides of the split, it would make the validation meaningless
            _log.warning("skipped %s: the same content as %s", path, seen[digest])
            return None
        result = source(str(path), digest, lambda: decode(path, settings.sample_rate, least=settings.fft_size))
        seen[digest] = path
        progress("reading", len(seen), len(paths))
        return result

    return [found for found in usable(paths, read) if found is not None]


def _tokenizer(
    sources: Sequence[_Source],
    pieces: Sequence[Piece],
    settings: PrepareSettings,
    store: Cache,
    device: kdsl.Device,
    seed: int,
    progress: Progress,
) -> Quantizer:
    """Train the tokenizer on the training side only; the validation side must be as new to it as to the model."""
    depends_on = {
        "pieces": [[sources[piece.recording].digest, piece.first, piece.last] for piece in pieces],
        "mel": asdict(settings.mel),
        "quantizer": asdict(settings.quantizer),
        "training_frames": settings.training_frames,
        "seed": seed,
        "version": [_MEL_VERSION, _TOKENIZER_VERSION],
    }

    def train() -> NDArray[np.float32]:
        frames = _training_frames(sources, pieces, settings.training_frames)
        trained = Quantizer.train(
            frames,
            settings.quantizer,
            seed=seed,
            device=device,
            features=asdict(settings.mel),
            progress=lambda done, total: progress("tokenizer", done, total),
        )
        return trained.flat()

    flat = store.get("tokenizer", depends_on, train)
    return Quantizer.from_flat(flat, settings.quantizer, settings.mel.mels, device, asdict(settings.mel))


def _training_frames(sources: Sequence[_Source], pieces: Sequence[Piece], most: int) -> NDArray[np.float32]:
    """At most `most` frames of the pieces, evenly spaced over all of them."""
    total = sum(piece.last - piece.first for piece in pieces)
    wanted = np.arange(total) if total <= most else np.arange(most) * total // most
    chosen = []
    start = 0
    for piece in pieces:
        end = start + piece.last - piece.first
        inside = wanted[(wanted >= start) & (wanted < end)]
        if len(inside):
            chosen.append(sources[piece.recording].mel()[inside - start + piece.first])
        start = end
    return np.concatenate(chosen)


def _report(sources: Sequence[_Source], parts: Split, mel: MelSettings) -> None:
    for what, side in (("training", parts.training), ("validation", parts.validation)):
        seconds = sum(piece.last - piece.first for piece in side) / mel.frames_per_second
        names = ", ".join(sources[piece.recording].name for piece in side[:4]) + (" ..." if len(side) > 4 else "")
        _log.info("%s: %.0f s from %d recording(s): %s", what, seconds, len(side), names)
