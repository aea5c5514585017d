"""Residual and product quantisation: reconstruction, files, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import kdsl
from staleynet.tokenizer.errors import TokenizerError
from staleynet.tokenizer.quantizer import Kind, Quantizer, QuantizerSettings, columns_of_levels

FEATURES = {"sample_rate": 8000, "high": 4000.5}


@pytest.fixture(scope="module")
def frames() -> np.ndarray:
    """Frames on a curved sheet in 10 dimensions, of very different means and spreads."""
    random = np.random.default_rng(0)
    hidden = random.uniform(-1, 1, size=(600, 3))
    bands = np.tanh(hidden @ random.normal(size=(3, 10))) + 0.05 * random.normal(size=(600, 10))
    return (bands * np.linspace(0.5, 4, 10) + np.linspace(-9, 3, 10)).astype(np.float32)


def trained(frames: np.ndarray, device: kdsl.Device, kind: Kind = "residual", seed: int = 0, levels: int = 3) -> Quantizer:
    settings = QuantizerSettings(kind, levels, codewords=16, iterations=5)
    return Quantizer.train(frames, settings, seed=seed, device=device, features=FEATURES)


def relative_error(quantizer: Quantizer, frames: np.ndarray) -> float:
    difference = (quantizer.decode(quantizer.encode(frames)) - frames) / quantizer.deviation
    return float(np.mean(difference**2))


@pytest.mark.parametrize("kind", ["residual", "product"])
def test_encode_is_a_greedy_search_for_the_nearest(frames: np.ndarray, device: kdsl.Device, kind: Kind) -> None:
    quantizer = trained(frames, device, kind)
    codes = quantizer.encode(frames)
    assert codes.dtype == np.int32
    assert codes.shape == (600, 3)
    residual = (frames.astype(np.float64) - quantizer.mean) / quantizer.deviation
    for level, (first, last) in enumerate(columns_of_levels(quantizer.settings, 10)):
        words = quantizer.codebooks[level].astype(np.float64)
        distances = ((residual[:, None, first:last] - words) ** 2).sum(axis=2)
        np.testing.assert_allclose(distances[np.arange(600), codes[:, level]], distances.min(axis=1), atol=1e-4)
        residual[:, first:last] -= words[codes[:, level]]
    back = quantizer.decode(codes)
    assert back.dtype == np.float32
    np.testing.assert_allclose(back, frames - residual * quantizer.deviation, atol=1e-4)


def test_each_level_adds_precision(frames: np.ndarray, device: kdsl.Device) -> None:
    errors = [relative_error(trained(frames, device, levels=levels), frames) for levels in (1, 2, 3)]
    assert errors[0] < 0.5
    assert errors[1] < 0.7 * errors[0]
    assert errors[2] < 0.8 * errors[1]


def test_both_kinds_say_something(frames: np.ndarray, device: kdsl.Device) -> None:
    assert relative_error(trained(frames, device, "residual"), frames) < 0.1
    assert relative_error(trained(frames, device, "product"), frames) < 0.3


def test_columns_of_levels() -> None:
    assert columns_of_levels(QuantizerSettings("residual", 3, 4), 10) == ((0, 10), (0, 10), (0, 10))
    assert columns_of_levels(QuantizerSettings("product", 3, 4), 10) == ((0, 3), (3, 7), (7, 10))
    with pytest.raises(TokenizerError, match="2 bands cannot be divided among 3 levels"):
        columns_of_levels(QuantizerSettings("product", 3, 4), 2)


def test_the_seed_decides(frames: np.ndarray, device: kdsl.Device) -> None:
    first, again, other = (trained(frames, device, seed=seed) for seed in (1, 1, 2))
    assert first.checksum() == again.checksum() != other.checksum()
    np.testing.assert_array_equal(first.encode(frames), again.encode(frames))


def test_the_checksum_covers_everything(frames: np.ndarray, device: kdsl.Device) -> None:
    quantizer = trained(frames, device)
    books = list(quantizer.codebooks)
    books[1] = books[1].copy()
    books[1][3, 3] = np.nextafter(books[1][3, 3], np.float32(9))
    others = (
        replace(quantizer, mean=quantizer.mean + np.float32(1e-3)),
        replace(quantizer, codebooks=tuple(books)),
        replace(quantizer, features={**FEATURES, "high": 4000.0}),
        replace(quantizer, settings=replace(quantizer.settings, kind="product")),
    )
    assert len({quantizer.checksum(), *(other.checksum() for other in others)}) == 5


def test_bands_without_variation(device: kdsl.Device) -> None:
    constant = np.tile(np.array([1.0, -11.5, 0.0], np.float32), (40, 1))
    quantizer = Quantizer.train(constant, QuantizerSettings("residual", 2, 4, 3), seed=0, device=device)
    np.testing.assert_allclose(quantizer.decode(quantizer.encode(constant)), constant, atol=1e-5)


def test_no_frames(frames: np.ndarray, device: kdsl.Device) -> None:
    quantizer = trained(frames, device)
    assert quantizer.encode(np.empty((0, 10), np.float32)).shape == (0, 3)
    assert quantizer.decode(np.empty((0, 3), np.int32)).shape == (0, 10)


def test_too_few_frames(frames: np.ndarray, device: kdsl.Device) -> None:
    with pytest.raises(TokenizerError, match=r"15 frames cannot train 16 codewords: use more or longer recordings"):
        trained(frames[:15], device)


@pytest.mark.parametrize("bad", [np.zeros(5, np.float32), np.full((40, 3), np.nan, np.float32)], ids=["one dimension", "NaN"])
def test_frames_that_cannot_be_trained_on(device: kdsl.Device, bad: np.ndarray) -> None:
    with pytest.raises(ValueError, match="finite frames"):
        trained(bad, device)


def test_frames_and_codes_of_the_wrong_shape(frames: np.ndarray, device: kdsl.Device) -> None:
    quantizer = trained(frames, device)
    with pytest.raises(ValueError, match=r"\(frames, 10\)"):
        quantizer.encode(frames[:, :9])
    with pytest.raises(ValueError, match=r"\(frames, 3\)"):
        quantizer.decode(np.zeros((4, 2), np.int32))
    with pytest.raises(ValueError, match="between 0 and 15"):
        quantizer.decode(np.full((4, 3), 16, np.int32))


@pytest.mark.parametrize(
    ("values", "field"),
    [({"kind": "scalar"}, "kind"), ({"levels": 0}, "levels"), ({"codewords": 0}, "codewords"), ({"iterations": -1}, "iterations")],
)
def test_settings_that_make_no_tokenizer(values: dict[str, object], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        QuantizerSettings(**values)  # type: ignore[arg-type]


# ---- files ----


@pytest.mark.parametrize("kind", ["residual", "product"])
def test_saved_and_loaded(frames: np.ndarray, device: kdsl.Device, tmp_path: Path, kind: Kind) -> None:
    quantizer = trained(frames, device, kind)
    quantizer.save(tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["tokenizer.json", "tokenizer.safetensors"]
    loaded = Quantizer.load(tmp_path / "new", device)
    assert loaded.checksum() == quantizer.checksum()
    assert loaded.settings == quantizer.settings
    assert loaded.features == FEATURES
    np.testing.assert_array_equal(loaded.encode(frames), quantizer.encode(frames))
    before = [path.read_bytes() for path in sorted((tmp_path / "new").iterdir())]
    loaded.save(tmp_path / "new")
    assert [path.read_bytes() for path in sorted((tmp_path / "new").iterdir())] == before


@pytest.mark.parametrize("kind", ["residual", "product"])
def test_flat_and_back(frames: np.ndarray, device: kdsl.Device, kind: Kind) -> None:
    quantizer = trained(frames, device, kind)
    again = Quantizer.from_flat(quantizer.flat(), quantizer.settings, 10, device, FEATURES)
    assert again.checksum() == quantizer.checksum()
    with pytest.raises(ValueError, match="numbers was expected"):
        Quantizer.from_flat(quantizer.flat()[1:], quantizer.settings, 10, device, FEATURES)


@pytest.fixture
def folder(frames: np.ndarray, device: kdsl.Device, tmp_path: Path) -> Path:
    trained(frames, device).save(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.safetensors"])
def test_a_missing_file_is_named(folder: Path, device: kdsl.Device, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(TokenizerError, match=f"{name}: no such file"):
        Quantizer.load(folder, device)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.safetensors"])
def test_an_unreadable_file_is_named(folder: Path, device: kdsl.Device, name: str) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()
    with pytest.raises(TokenizerError, match=f"{name}: unreadable"):
        Quantizer.load(folder, device)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.safetensors"])
def test_a_damaged_file_is_named(folder: Path, device: kdsl.Device, name: str, damage: str) -> None:
    content = bytearray((folder / name).read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content if damage == "flip" else content[: len(content) // 2] if damage == "cut" else b"")
    with pytest.raises(TokenizerError, match=f"{name}: damaged"):
        Quantizer.load(folder, device)


@pytest.mark.parametrize(
    ("text", "message"),
    [("[1]", "not the description"), ("{}", "not the description"), ('{"format": 99}', "format 99"), ("\udcff", "not JSON")],
)
def test_another_json_file(folder: Path, device: kdsl.Device, text: str, message: str) -> None:
    (folder / "tokenizer.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(TokenizerError, match=message):
        Quantizer.load(folder, device)


def test_a_changed_setting_is_damage(folder: Path, device: kdsl.Device) -> None:
    values = json.loads((folder / "tokenizer.json").read_text())
    values["features"]["sample_rate"] = 16000
    (folder / "tokenizer.json").write_text(json.dumps(values))
    with pytest.raises(TokenizerError, match=r"tokenizer\.json: damaged"):
        Quantizer.load(folder, device)


def test_files_of_two_tokenizers(folder: Path, frames: np.ndarray, device: kdsl.Device) -> None:
    trained(frames, device, seed=9).save(folder / "other")
    (folder / "other" / "tokenizer.safetensors").replace(folder / "tokenizer.safetensors")
    with pytest.raises(TokenizerError, match=r"tokenizer\.safetensors: damaged"):
        Quantizer.load(folder, device)


def test_arrays_that_do_not_fit_the_settings(folder: Path, device: kdsl.Device, frames: np.ndarray) -> None:
    from staleynet.tokenizer import storage

    arrays, description = storage.read(folder)
    about = {"settings": description["settings"], "features": description["features"]}
    for broken in (
        {name: array for name, array in arrays.items() if name != "codebook.1"},
        {**arrays, "mean": arrays["mean"][:9]},
        {**arrays, "mean": arrays["mean"].astype(np.float64)},
    ):
        storage.write(folder, broken, about)
        with pytest.raises(TokenizerError, match="do not fit together"):
            Quantizer.load(folder, device)
    storage.write(folder, arrays, {"settings": {**about["settings"], "levels": 0}, "features": {}})
    with pytest.raises(TokenizerError, match="levels must be positive"):
        Quantizer.load(folder, device)


def test_the_arrays_are_an_ordinary_safetensors_file(folder: Path) -> None:
    arrays = load_file(folder / "tokenizer.safetensors")
    assert {name: array.shape for name, array in arrays.items()} == {
        "mean": (10,),
        "deviation": (10,),
        "codebook.0": (16, 10),
        "codebook.1": (16, 10),
        "codebook.2": (16, 10),
    }
    save_file(arrays, folder / "copy.safetensors")
