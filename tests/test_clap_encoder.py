"""``clap:``: both towers agree with the library's own forward; a sound has one vector, whatever its length."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
import transformers as hub
from typer.testing import CliRunner

import recordings
import tiny_towers
from isthmus import Collection, Document, Query, encoders
from isthmus.cli import app
from isthmus.errors import BadInput
from tiny_towers import save, text, words

pytestmark = pytest.mark.usefixtures("no_network")
TEXTS = ["a cat", "a dog on the sofa", "the red house"]
RATE, SECONDS = 48_000, 1  # the real model reads 10 s


def tiny_clap(folder: Path, *, fusion: bool = False) -> Path:
    torch.manual_seed(0)
    heard: dict[str, Any] = {"spec_size": 64, "patch_size": 4, "patch_stride": [4, 4], "hidden_size": 32}
    heard |= {"depths": [1, 1], "num_attention_heads": [2, 2], "window_size": 4, "num_mel_bins": 16}
    heard |= {"patch_embeds_hidden_size": 16, "enable_fusion": fusion, "num_hidden_layers": 2}
    heard |= {"fusion_type": "aff_2d" if fusion else None, "enable_patch_fusion": fusion}
    config = hub.ClapConfig(
        text_config=text(pad_token_id=1, max_position_embeddings=64), audio_config=heard, projection_dim=12
    )
    listen = hub.ClapFeatureExtractor(
        feature_size=16, sampling_rate=RATE, max_length_s=SECONDS, truncation="fusion" if fusion else "rand_trunc"
    )
    return save(hub.ClapModel(config), words(), listen, folder=folder)


def sound(samples: int, seed: int = 0) -> Any:
    return (np.random.default_rng(seed).standard_normal(samples) * 0.1).astype(np.float32)


@pytest.fixture(scope="module", params=[False, True], ids=["unfused", "fused"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_clap(tmp_path_factory.mktemp("clap") / "model", fusion=request.param)


def test_both_towers_agree_with_the_librarys_own_forward(folder: Path) -> None:
    encoder: Any = encoders.load(f"clap:{folder}")
    model = hub.ClapModel.from_pretrained(folder).eval()
    listen = hub.ClapFeatureExtractor.from_pretrained(folder)
    sounds = [sound(RATE * SECONDS), sound(RATE // 3, 1), sound(RATE // 2, 2)]
    said = hub.AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
    heard = listen(sounds, sampling_rate=RATE, return_tensors="pt")
    heard["is_longer"] = torch.zeros_like(heard["is_longer"])
    with torch.no_grad():
        right_text = model.get_text_features(said["input_ids"], said["attention_mask"]).pooler_output
        right_sound = model.get_audio_features(**heard).pooler_output
    np.testing.assert_allclose(
        encoder.encode_queries(TEXTS).parts["text"], torch.nn.functional.normalize(right_text).numpy(), atol=1e-4
    )
    found = encoder.sound.encode_arrays(sounds)
    np.testing.assert_allclose(found, torch.nn.functional.normalize(right_sound).numpy(), atol=1e-4)
    np.testing.assert_allclose(encoder.sound.encode_arrays(sounds[1:2])[0], found[1], atol=1e-4)  # whatever its batch


def test_a_long_sound_is_the_mean_of_its_windows_and_always_the_same(folder: Path) -> None:
    audio = encoders.load(f"clap:{folder}").sound  # type: ignore[attr-defined]
    long = sound(int(2.5 * RATE * SECONDS))
    whole = audio.encode_arrays([long])
    np.testing.assert_array_equal(whole, audio.encode_arrays([long]))
    parts = audio.encode_arrays([long[:RATE], long[RATE : 2 * RATE], long[-RATE:]]).sum(axis=0)
    np.testing.assert_allclose(whole[0], parts / np.linalg.norm(parts), atol=1e-5)
    for bad in (np.zeros((2, 100), np.float32), np.zeros(0, np.float32), np.full(9, np.nan, np.float32)):
        with pytest.raises(BadInput, match="give one channel of finite samples at 48000 Hz"):
            audio.encode_arrays([bad])


def test_a_collection_of_texts_is_searched_and_pictures_are_refused(folder: Path, tmp_path: Path) -> None:
    with Collection.open(tmp_path / "c", encoder=f"clap:{folder}", calibration="none") as things:
        things.add([Document(id="a", text="a cat"), Document(id="b", text="the red house")])
        assert things.search("the red house", k=1)[0].id == "b"
        with pytest.raises(BadInput, match="reads audio and audio\\+text and text only"):
            things.search(Query(image=np.zeros((4, 4), np.uint8)))


def test_blank_text_is_no_part_and_300_words_become_passages_that_fit(folder: Path, tmp_path: Path) -> None:
    encoder: Any = encoders.load(f"clap:{folder}")
    bark = recordings.write(tmp_path / "bark.wav", recordings.siren(1))
    assert encoder.encode_documents([Document(id="a", text=" \n", audio=bark)]).modality.tolist() == ["audio"]
    with pytest.raises(BadInput, match="neither text nor image"):
        encoder.encode_queries([""])
    long = " ".join(["cat", "dog", "sofa"] * 100)
    passages = encoder.text.split([long], "document")[0]
    assert "".join(long[one.start : one.end] for one in passages) == long
    assert all(len(one.tokens) <= encoder.text.splitter.length for one in passages)
    assert len(encoder.encode_passages([Document(id="a", text=long)])[1]) == len(passages) > 10


@pytest.fixture(scope="module")
def recordings_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sounds at three rates, a damaged one, and a note."""
    root = tmp_path_factory.mktemp("recordings")
    recordings.write(root / "siren.wav", recordings.siren(1))  # 16 kHz
    recordings.write(root / "noise.flac", sound(int(2.2 * RATE)), RATE)
    later = np.concatenate([recordings.noise(2), recordings.siren(1), recordings.noise(1.7)])
    recordings.write(root / "later.ogg", later, 44_100 // 3)
    (root / "note.txt").write_text("a cat on the sofa")
    (root / "broken.wav").write_bytes(b"RIFF" + bytes(99))
    return root


def test_recordings_are_segments_at_the_rate_of_the_model(folder: Path, recordings_folder: Path) -> None:
    encoder: Any = encoders.load(f"clap:{folder}")
    samples, _ = soundfile.read(recordings_folder / "noise.flac", dtype="float32")
    made = encoder.sound.encode(recordings_folder / "noise.flac")
    assert (
        made.spans == encoder.sound.spans(recordings_folder / "noise.flac") == [(0, 1), (1, 2.2)]
    )  # .2 s is no segment
    right = encoder.sound.encode_arrays([samples[:RATE], samples[RATE:]])
    np.testing.assert_allclose(made.vectors, right, atol=1e-4)
    cut: Any = encoders.load(f"matryoshka:4:clap:{folder}")
    assert cut.encode_queries([Query(audio=recordings_folder / "siren.wav")]).parts["audio"].shape == (1, 4)


def test_a_folder_of_sounds_is_indexed_and_asked_by_words_and_by_a_sound(
    folder: Path, recordings_folder: Path, tmp_path: Path
) -> None:
    with Collection.open(tmp_path / "c", encoder=f"clap:{folder}", calibration="center") as things:
        done = things.index(recordings_folder)
        assert {one.id for one in done.skipped} == {"broken.wav"}
        things.calibrate("center")
        assert {hit.id for hit in things.search("a dog", k=9)} == {"siren.wav", "noise.flac", "later.ogg", "note.txt"}
        same = things.search(Query(audio=recordings_folder / "siren.wav"), k=1)[0]
        assert (same.id, round(same.similarity, 3), same.modality) == ("siren.wav", 1.0, "audio")
        both = Query(text="a cat on the sofa", audio=recordings_folder / "noise.flac")
        assert len(things.search(both, k=9)) == 4


def test_the_command_line_indexes_sounds_and_names_the_moment(
    folder: Path, recordings_folder: Path, tmp_path: Path
) -> None:
    run, things = CliRunner(), str(tmp_path / "c")
    index = ["index", str(recordings_folder), "--into", things, "--encoder", f"clap:{folder}"]
    done = run.invoke(app, [*index, "--calibration", "none", "--quiet", "--transcribe", "never"])
    assert done.exit_code == 3, done.output  # the broken one
    found = run.invoke(app, ["search", "--audio", str(recordings_folder / "siren.wav"), "--in", things])
    assert "later.ogg" in found.output and "(audio)" in found.output, found.output
    said = run.invoke(app, ["search", "a cat on the sofa", "--in", things, "--json"])
    hits = {hit["id"]: hit for hit in json.loads(said.output)}
    assert hits["note.txt"]["similarity"] == pytest.approx(1, abs=1e-3) and hits["later.ogg"]["moment"]


def test_half_precision_and_other_models(folder: Path, tmp_path: Path) -> None:
    whole, half = (encoders.load(f"clap:{folder}", precision=each) for each in ("full", "half"))
    one, other = (each.encode_queries(TEXTS).parts["text"] for each in (whole, half))
    assert ((one * other).sum(axis=1) > 0.98).all()
    with pytest.raises(BadInput, match="is a model of type 'clip', not of clap"):
        encoders.load(f"clap:{tiny_towers.clip(tmp_path / 'clip')}")
