"""From files to tokens: the same every time, from the cache or not, and without the files that are bad."""

import logging
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

import kdsl
from staleynet.audio.decode import AudioError
from staleynet.audio.mel import LogMel, MelSettings
from staleynet.data import prepare as module
from staleynet.data.errors import DataError, NoRecordings, TooLittleMusic
from staleynet.data.prepare import PrepareSettings, TokenData, mel_settings, prepare, read_mel, settings_for
from staleynet.tokenizer.errors import TokenizerError
from staleynet.tokenizer.quantizer import Quantizer, QuantizerSettings

MEL = MelSettings(sample_rate=8000, fft_size=128, hop=64, mels=12, high=4000.0)
SETTINGS = PrepareSettings(MEL, QuantizerSettings("residual", levels=2, codewords=8, iterations=3), training_frames=200)


def song(path: Path, seconds: float = 1.0, rate: int = 8000, seed: int = 0) -> Path:
    """Tones that change every tenth of a second."""
    path.parent.mkdir(parents=True, exist_ok=True)
    notes = np.random.default_rng(seed).choice([220, 330, 440, 660, 880, 1320], round(seconds * 10))
    time = np.arange(rate // 10) / rate
    soundfile.write(path, np.concatenate([0.4 * np.sin(2 * np.pi * note * time) * np.exp(-8 * time) for note in notes]), rate)
    return path


@pytest.fixture
def music(tmp_path: Path) -> Path:
    for i, name in enumerate(("a.wav", "b.flac", "deep/c.ogg")):
        song(tmp_path / "music" / name, seed=i, rate=8000 * (1 + i % 2))
    return tmp_path / "music"


def run(
    data: Path | None, out: Path, device: kdsl.Device, seed: int = 0, context: int = 16, settings: PrepareSettings = SETTINGS
) -> TokenData:
    return prepare(data, settings, out, device, seed, context=context)


def content(data: TokenData) -> tuple[list[bytes], list[bytes], str]:
    return [s.tobytes() for s in data.train], [s.tobytes() for s in data.validation], data.tokenizer.checksum()


def test_tokens_of_a_folder(music: Path, tmp_path: Path, device: kdsl.Device) -> None:
    data = run(music, tmp_path / "out", device)
    assert len(data.train) == 2
    assert len(data.validation) == 1
    for stream in (*data.train, *data.validation):
        assert stream.dtype == np.int32
        codes = data.tokenizer.layout.from_stream(stream)
        assert len(codes) == pytest.approx(126, abs=2)
    assert data.mel == MEL
    assert mel_settings(data.tokenizer) == MEL
    # the tokens are those of the file
    found = sorted(music.rglob("*.*"))
    streams = {data.tokenizer.layout.to_stream(data.tokenizer.encode(read_mel(path, MEL, device))).tobytes() for path in found}
    assert streams == {stream.tobytes() for stream in (*data.train, *data.validation)}


def test_the_same_with_and_without_the_cache(music: Path, tmp_path: Path, device: kdsl.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    first = content(run(music, tmp_path / "one", device))
    assert content(run(music, tmp_path / "two", device)) == first
    with monkeypatch.context() as patched:
        patched.setattr(module, "decode", lambda *_: pytest.fail("decoded again"))
        patched.setattr(LogMel, "__call__", lambda *_: pytest.fail("computed again"))
        patched.setattr(Quantizer, "train", lambda *_: pytest.fail("trained again"))
        patched.setattr(Quantizer, "encode", lambda *_: pytest.fail("encoded again"))
        assert content(run(music, tmp_path / "one", device)) == first
    # renamed and copied elsewhere, with the cache of before
    shutil.move(music, tmp_path / "moved")
    assert content(run(tmp_path / "moved", tmp_path / "one", device)) == first


def test_every_damaged_entry_is_named_and_made_again(
    music: Path, tmp_path: Path, device: kdsl.Device, caplog: pytest.LogCaptureFixture
) -> None:
    first = content(run(music, tmp_path / "out", device))
    entries = sorted((tmp_path / "out" / "cache").iterdir())
    assert [entry.name.split("-")[0] for entry in entries] == ["mel"] * 3 + ["tokenizer"] + ["tokens"] * 3
    before = [entry.read_bytes() for entry in entries]
    for entry in entries:
        damaged = bytearray(entry.read_bytes())
        damaged[-40] ^= 1
        entry.write_bytes(damaged)
    assert content(run(music, tmp_path / "out", device)) == first
    for entry in entries:
        assert f"cache entry {entry} is damaged" in caplog.text
    assert [entry.read_bytes() for entry in entries] == before


def test_what_the_result_depends_on(music: Path, tmp_path: Path, device: kdsl.Device) -> None:
    out = tmp_path / "out"
    first = content(run(music, out, device))
    assert content(run(music, out, device, seed=1))[2] != first[2]
    assert content(run(music, out, device, settings=replace(SETTINGS, training_frames=100)))[2] != first[2]
    assert content(run(music, out, device, settings=replace(SETTINGS, mel=replace(MEL, low=50.0))))[2] != first[2]
    assert content(run(music, out, device)) == first
    song(music / "a.wav", seed=9)
    assert content(run(music, out, device)) != first


def test_the_tokenizer_never_hears_the_validation(music: Path, tmp_path: Path, device: kdsl.Device) -> None:
    first = run(music, tmp_path / "out", device)
    of_file = {
        path: first.tokenizer.layout.to_stream(first.tokenizer.encode(read_mel(path, MEL, device))).tobytes() for path in music.rglob("*.*")
    }
    (held_out,) = (path for path, stream in of_file.items() if stream == first.validation[0].tobytes())
    held_out.unlink()
    # with the others alone as training (a split of one's own, because it would change with the number of recordings)
    others = sorted(music.rglob("*.*"))
    frames = np.concatenate([read_mel(path, MEL, device) for path in others])
    chosen = frames if len(frames) <= 200 else frames[np.arange(200) * len(frames) // 200]
    alone = Quantizer.train(chosen, SETTINGS.quantizer, seed=0, device=device, features=first.tokenizer.features)
    assert alone.checksum() == first.tokenizer.checksum()


def test_a_single_file(tmp_path: Path, device: kdsl.Device) -> None:
    data = run(song(tmp_path / "one.wav", seconds=3), tmp_path / "out", device)
    assert (len(data.train[0]), len(data.validation[0])) == (2 * 339, 2 * 37)


def test_the_demo_recording(tmp_path: Path, device: kdsl.Device) -> None:
    data = run(None, tmp_path / "out", device)
    assert len(data.train[0]) + len(data.validation[0]) == 2 * (1 + 60 * 8000 // 64)


def test_a_tokenizer_that_is_given(music: Path, tmp_path: Path, device: kdsl.Device) -> None:
    first = run(music, tmp_path / "out", device, seed=5)
    again = prepare(music, SETTINGS, tmp_path / "new", device, 0, context=16, tokenizer=first.tokenizer)
    assert content(again) == content(first)
    assert not list((tmp_path / "new" / "cache").glob("tokenizer-*"))
    with pytest.raises(DataError, match="other settings"):
        prepare(music, replace(SETTINGS, mel=replace(MEL, hop=32)), tmp_path / "new", device, 0, context=16, tokenizer=first.tokenizer)


def test_the_cache_may_lie_elsewhere(music: Path, tmp_path: Path, device: kdsl.Device) -> None:
    prepare(music, SETTINGS, tmp_path / "out", device, 0, context=16, cache=tmp_path / "elsewhere")
    assert len(list((tmp_path / "elsewhere").iterdir())) == 7
    assert not (tmp_path / "out").exists()


def test_progress(music: Path, tmp_path: Path, device: kdsl.Device) -> None:
    seen: list[tuple[str, int, int]] = []
    prepare(music, SETTINGS, tmp_path, device, 0, context=16, progress=lambda *what: seen.append(what))
    assert [what for what in seen if what[1] == what[2]] == [("reading", 3, 3), ("tokenizer", 2, 2), ("encoding", 3, 3)]


def test_bad_recordings_are_skipped(music: Path, tmp_path: Path, device: kdsl.Device, caplog: pytest.LogCaptureFixture) -> None:
    first = content(run(music, tmp_path / "out", device))
    (music / "text.wav").write_text("not sound")
    (music / "empty.mp3").touch()
    soundfile.write(music / "short.wav", np.zeros(127), 8000)
    soundfile.write(music / "nan.wav", np.full(9000, np.nan), 8000, subtype="FLOAT")
    (music / "gone.ogg").symlink_to(music / "nowhere")
    shutil.copy(music / "a.wav", music / "twin.wav")
    with caplog.at_level(logging.WARNING, logger="staleynet"):
        assert content(run(music, tmp_path / "out", device)) == first
    # a command that ran earlier in this process may have let lower levels through
    warnings = sorted(record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)
    assert len(warnings) == 6
    for name, reason in {
        "empty.mp3": "empty (0 bytes)",
        "gone.ogg": "no such file",
        "nan.wav": "NaN",
        "short.wav": "too short",
        "text.wav": "not audio",
        "twin.wav": f"the same content as {music / 'a.wav'}",
    }.items():
        assert any(text.startswith(f"skipped {music / name}: ") and reason in text for text in warnings), name


def test_a_file_that_fails_while_it_is_read(music: Path, tmp_path: Path, device: kdsl.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.sha256_of_file

    def fails(path: Path) -> str:
        if path.name == "b.flac":
            raise OSError(5, "Input/output error")
        return real(path)

    monkeypatch.setattr(module, "sha256_of_file", fails)
    assert len(run(music, tmp_path / "out", device).train) == 1


def test_nothing_usable(tmp_path: Path, device: kdsl.Device) -> None:
    (tmp_path / "bad.wav").write_text("no")
    with pytest.raises(NoRecordings, match=r"bad\.wav: not audio"):
        run(tmp_path, tmp_path / "out", device)
    with pytest.raises(NoRecordings, match="no such file or folder"):
        run(tmp_path / "missing", tmp_path / "out", device)


def test_too_little_for_the_context(music: Path, tmp_path: Path, device: kdsl.Device) -> None:
    with pytest.raises(TooLittleMusic, match="shorter context"):
        run(music, tmp_path / "out", device, context=800)


def test_too_little_for_the_codewords(tmp_path: Path, device: kdsl.Device) -> None:
    many = replace(SETTINGS, quantizer=replace(SETTINGS.quantizer, codewords=500))
    with pytest.raises(TokenizerError, match="cannot train 500 codewords"):
        run(song(tmp_path / "a.wav"), tmp_path / "out", device, settings=many)


def test_a_prompt_that_is_no_sound(tmp_path: Path, device: kdsl.Device) -> None:
    (tmp_path / "bad.wav").write_text("no")
    with pytest.raises(AudioError, match="not audio"):
        read_mel(tmp_path / "bad.wav", MEL, device)


def test_a_tokenizer_without_a_description_of_its_frames(music: Path, tmp_path: Path, device: kdsl.Device) -> None:
    tokenizer = run(music, tmp_path / "out", device).tokenizer
    with pytest.raises(TokenizerError, match="does not say what its frames are"):
        mel_settings(replace(tokenizer, features={"hop": 3}))
    with pytest.raises(TokenizerError, match="make no sense: hop"):
        mel_settings(replace(tokenizer, features={**tokenizer.features, "hop": 0}))


def test_settings_of_the_configurations() -> None:
    tiny = settings_for("tiny", kind="residual", levels=2, codewords=64)
    base = settings_for("base", kind="product", levels=4, codewords=256)
    assert tiny.quantizer.levels == 2
    assert (base.quantizer.kind, base.quantizer.codewords) == ("product", 256)
    assert tiny.mel.sample_rate < base.mel.sample_rate == 22050
