"""Residual and product vector quantisation of mel frames.

Residual: each level quantises, over all bands, what the levels before it left over. Product: each level has its own bands and sees nothing of the
others. Both are one list of codebooks, each with its columns, and one loop: find the nearest codeword, subtract it. The files' format lies in `storage`.
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

import kdsl
from staleynet.ops import Operand, subtract_codeword
from staleynet.tokenizer import storage
from staleynet.tokenizer.errors import TokenizerError
from staleynet.tokenizer.kmeans import Assignment, Codebook, train_codebook
from staleynet.tokenizer.stream import Layout

Kind = Literal["residual", "product"]

_CHUNK = 8192  # frames that are encoded at a time
_LEAST_DEVIATION = 0.1  # nepers of power, half a decibel: a band that varies less is not worth codewords, and its deviation may be 0


@dataclass(frozen=True)
class QuantizerSettings:
    """What kind of tokenizer, and how it is trained."""

    kind: Kind = "residual"
    """`residual`: all bands on every level, coarse to fine; `product`: the bands divided among the levels, low to high."""
    levels: int = 4
    """Tokens of one frame."""
    codewords: int = 256
    """Codewords of each level."""
    iterations: int = 20
    """Iterations of k-means for each level, at most."""

    def __post_init__(self) -> None:
        """Refuse what cannot be trained, with the field's name."""
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind must be 'residual' or 'product', not {self.kind!r}")
        for name in ("levels", "codewords"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
        if self.iterations < 0:
            raise ValueError(f"iterations must not be negative, not {self.iterations}")


@dataclass(frozen=True)
class Quantizer:
    """A trained tokenizer. `train` and `load` make one."""

    settings: QuantizerSettings
    """Kind and sizes."""
    mean: NDArray[np.float32]
    """Mean of each band over the frames of the training, shape (bands,)."""
    deviation: NDArray[np.float32]
    """Standard deviation of each band, at least 0.1, shape (bands,)."""
    codebooks: tuple[NDArray[np.float32], ...]
    """One codebook for each level, shape (codewords, columns of the level), in units of the deviation."""
    device: kdsl.Device
    """Where `encode` computes."""
    features: Mapping[str, float] = field(default_factory=dict)
    """What the frames are, as the audio side describes it (rate, hop, bands ...); the tokenizer only keeps it."""

    @staticmethod
    def train(
        frames: NDArray[np.float32],
        settings: QuantizerSettings,
        *,
        seed: int,
        device: kdsl.Device,
        features: Mapping[str, float] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> "Quantizer":
        """Train on `frames`, shape (frames, bands). `progress(done, all)` is called after each level.

        The same frames, settings and seed give the same codebooks. Raises `TokenizerError` if there are fewer frames than codewords or fewer bands than a
        product quantiser has levels.
        """
        if frames.ndim != 2 or not np.isfinite(frames).all():
            raise ValueError(f"the tokenizer is trained on finite frames of shape (frames, bands), not on {frames.shape}")
        if len(frames) < settings.codewords:  # said here as well, because a mean of no frames has no meaning
            raise TokenizerError(
                f"{len(frames)} frames cannot train {settings.codewords} codewords: use more or longer recordings, or fewer codewords"
            )
        wide = frames.astype(np.float64)
        mean = wide.mean(axis=0).astype(np.float32)
        deviation = np.maximum(wide.std(axis=0), _LEAST_DEVIATION).astype(np.float32)
        residual = (frames - mean) / deviation
        codebooks = []
        for level, (first, last) in enumerate(columns_of_levels(settings, frames.shape[1])):
            generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, level])))
            codebook, chosen = train_codebook(
                residual[:, first:last], settings.codewords, iterations=settings.iterations, generator=generator, device=device
            )
            words = codebook.numpy()
            codebooks.append(words)
            residual[:, first:last] -= words[chosen]
            if progress is not None:
                progress(level + 1, settings.levels)
        return Quantizer(settings, mean, deviation, tuple(codebooks), device, dict(features or {}))

    @property
    def layout(self) -> Layout:
        """How its codes lie in the model's stream."""
        return Layout(self.settings.levels, self.settings.codewords)

    @property
    def bands(self) -> int:
        """Elements of a frame."""
        return len(self.mean)

    def encode(self, mel: NDArray[np.float32]) -> NDArray[np.int32]:
        """The codes, shape (frames, levels), of log-mel frames, shape (frames, bands)."""
        if mel.ndim != 2 or mel.shape[1] != self.bands:
            raise ValueError(f"the tokenizer encodes frames of shape (frames, {self.bands}), not {mel.shape}")
        codes = np.empty((len(mel), self.settings.levels), dtype=np.int32)
        if not len(mel):
            return codes
        books = [Codebook.on(self.device, words) for words in self.codebooks]
        # a level's residual is over all bands, and its codebook may be over some: outside them it subtracts nothing
        wide = [self.device.array(self._over_all_bands(level).ravel()) for level in range(self.settings.levels)]
        chunk = min(_CHUNK, len(mel))
        assign = Assignment(self.device, self.settings.codewords, chunk=chunk)
        on_device = self.device.empty(chunk * self.bands, kdsl.f32)
        index = self.device.empty(chunk, kdsl.i32)
        for start in range(0, len(mel), chunk):
            part = mel[start : start + chunk]
            rows = len(part)
            residual, some = on_device[: rows * self.bands], index[:rows]
            residual.copy_from(((part - self.mean) / self.deviation).astype(np.float32).ravel())
            for level, (first, _) in enumerate(columns_of_levels(self.settings, self.bands)):
                assign(some, Operand(residual[first:], self.bands, 1), books[level], rows)
                codes[start : start + rows, level] = some.numpy()
                if level + 1 < self.settings.levels:
                    subtract_codeword(residual, wide[level], some, rows=rows, columns=self.bands)
        return codes

    def decode(self, codes: NDArray[np.int32]) -> NDArray[np.float32]:
        """Log-mel frames, shape (frames, bands), of codes, shape (frames, levels). A table look-up, done on the host."""
        if codes.ndim != 2 or codes.shape[1] != self.settings.levels:
            raise ValueError(f"the tokenizer decodes codes of shape (frames, {self.settings.levels}), not {codes.shape}")
        if codes.size and not (codes.min() >= 0 and codes.max() < self.settings.codewords):
            raise ValueError(f"codes must be between 0 and {self.settings.codewords - 1}, not between {codes.min()} and {codes.max()}")
        result = np.zeros((len(codes), self.bands), dtype=np.float32)
        for level, (first, last) in enumerate(columns_of_levels(self.settings, self.bands)):
            result[:, first:last] += self.codebooks[level][codes[:, level]]
        return result * self.deviation + self.mean

    def _over_all_bands(self, level: int) -> NDArray[np.float32]:
        first, last = columns_of_levels(self.settings, self.bands)[level]
        wide = np.zeros((self.settings.codewords, self.bands), dtype=np.float32)
        wide[:, first:last] = self.codebooks[level]
        return wide

    def checksum(self) -> str:
        """SHA-256 over settings, features and arrays: tokenizers that give different tokens have different ones."""
        digest = hashlib.sha256(json.dumps([asdict(self.settings), dict(self.features)], sort_keys=True).encode())
        for name, array in sorted(self._arrays().items()):
            digest.update(f"{name} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array, dtype="<f4").tobytes())
        return digest.hexdigest()

    def save(self, folder: Path) -> None:
        """Write `tokenizer.safetensors` and `tokenizer.json` into `folder`, each whole or not at all. `OSError` passes through."""
        storage.write(folder, self._arrays(), {"settings": asdict(self.settings), "features": dict(self.features)})

    @staticmethod
    def load(folder: Path, device: kdsl.Device) -> "Quantizer":
        """Read what `save` wrote. Raises `TokenizerError`, which names the file, if one is missing, unreadable, damaged or of another format."""
        arrays, description = storage.read(folder)
        try:
            settings = QuantizerSettings(**description["settings"])
            _check_arrays(arrays, settings)
            features = dict(description["features"])
        except (KeyError, TypeError, ValueError, TokenizerError) as error:
            raise TokenizerError(f"{folder}: {storage.ARRAYS} and {storage.DESCRIPTION} do not fit together ({error})") from error
        books = tuple(arrays[f"codebook.{level}"] for level in range(settings.levels))
        return Quantizer(settings, arrays["mean"], arrays["deviation"], books, device, features)

    def flat(self) -> NDArray[np.float32]:
        """All its numbers in one array, for a cache; `from_flat` reads it."""
        return np.concatenate([self.mean, self.deviation, *(words.ravel() for words in self.codebooks)])

    @staticmethod
    def from_flat(
        flat: NDArray[np.float32], settings: QuantizerSettings, bands: int, device: kdsl.Device, features: Mapping[str, float]
    ) -> "Quantizer":
        """The tokenizer for frames of `bands` bands whose `flat` this is. Raises `ValueError` if it has another length."""
        widths = [last - first for first, last in columns_of_levels(settings, bands)]
        ends = np.cumsum([bands, bands, *(settings.codewords * width for width in widths)])
        if flat.shape != (ends[-1],):
            raise ValueError(f"a tokenizer of {ends[-1]} numbers was expected, not an array of shape {flat.shape}")
        mean, deviation, *words = np.split(flat, ends[:-1])
        books = tuple(book.reshape(settings.codewords, width) for book, width in zip(words, widths, strict=True))
        return Quantizer(settings, mean, deviation, books, device, dict(features))

    def _arrays(self) -> dict[str, NDArray[np.float32]]:
        books = {f"codebook.{level}": words for level, words in enumerate(self.codebooks)}
        return {"mean": self.mean, "deviation": self.deviation, **books}


def _check_arrays(arrays: Mapping[str, NDArray[np.float32]], settings: QuantizerSettings) -> None:
    """Raise `TokenizerError` unless there are exactly the arrays of such a tokenizer, with their shapes."""
    names = {"mean", "deviation", *(f"codebook.{level}" for level in range(settings.levels))}
    if set(arrays) != names:
        raise TokenizerError(f"arrays {', '.join(sorted(arrays))} where {', '.join(sorted(names))} are expected")
    bands = len(arrays["mean"])
    shapes: dict[str, tuple[int, ...]] = {"mean": (bands,), "deviation": (bands,)}
    for level, (first, last) in enumerate(columns_of_levels(settings, bands)):
        shapes[f"codebook.{level}"] = (settings.codewords, last - first)
    for name, shape in shapes.items():
        if arrays[name].shape != shape or arrays[name].dtype != np.float32:
            raise TokenizerError(f"array {name} is {arrays[name].dtype} of shape {arrays[name].shape}, not float32 of shape {shape}")


def columns_of_levels(settings: QuantizerSettings, bands: int) -> tuple[tuple[int, int], ...]:
    """The bands [first, last) of each level: all for a residual quantiser; for a product quantiser parts whose sizes differ by one at most.

    Raises `TokenizerError` if a product quantiser has more levels than bands.
    """
    if settings.kind == "residual":
        return ((0, bands),) * settings.levels
    if settings.levels > bands:
        raise TokenizerError(f"{bands} bands cannot be divided among {settings.levels} levels of a product quantiser")
    edges = np.linspace(0, bands, settings.levels + 1)
    whole = cast(list[int], np.floor(edges + 0.5).astype(int).tolist())
    return tuple(itertools.pairwise(whole))
