"""Collections of the sample folder, made, calibrated and searched with each family of encoders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from shutil import copy

import pytest

import embedding_service
import recordings
import tiny_towers
import tiny_vlm
from endpoint import Service, serving
from isthmus import Collection, Query, encoders, samples
from isthmus.encoders.vlm_prompts import PROMPTS
from isthmus.encoders.wire_formats import FORMATS
from sample_files import check_collection, few_files
from test_clap_encoder import tiny_clap
from test_http_encoders import MODELS
from test_vlm_encoder import FAMILIES
from tiny import write_encoder, write_sentence_transformer

Maker = Callable[[Path, Service], str]  # (folder for a model, service) → the encoder's name
WORDS_ONLY = {"http:openai", "clap", "st:text"}


def _hf(make: Callable[[Path], Path], folder: Path, _: Service) -> str:
    return f"hf:{make(folder)}"


def _vlm(family: str, folder: Path, _: Service) -> str:
    return f"vlm:{family}:{FAMILIES[family](folder)}"


def _http(name: str, _: Path, service: Service) -> str:
    return f"http:{name}:{MODELS[name]}@{service.url}"


MADE: dict[str, Maker] = {
    **{f"hf:{make.__name__}": partial(_hf, make) for make in tiny_towers.MADE},
    **{f"vlm:{family}": partial(_vlm, family) for family in PROMPTS},
    **{f"http:{name}": partial(_http, name) for name in FORMATS},
    "st:clip": lambda folder, _: f"st:{tiny_towers.sentence_clip(folder)}",
    "st:text": lambda folder, _: f"st:{write_sentence_transformer(folder)}",
    "clap": lambda folder, _: f"clap:{tiny_clap(folder)}",
    "onnx": lambda folder, _: f"onnx:{write_encoder(folder)}",
    "matryoshka": lambda folder, _: f"matryoshka:4:onnx:{write_encoder(folder)}",
    "mini": lambda *_: "mini",
}
ELSEWHERE = {"base", "mteb", "open_clip"}  # in tests of their own, as are models with their own code and plug-ins


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with serving(reply=embedding_service.reply) as running:
        yield running


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of the sample folder: pictures alone, photos with words beside them, notes."""
    return few_files(tmp_path_factory.mktemp("few"))


def test_every_family_is_here_or_elsewhere() -> None:
    assert {name.partition(":")[0] for name in MADE} | ELSEWHERE == set(encoders.KINDS)


@pytest.mark.parametrize("family", MADE)
def test_files_of_the_sample_folder_are_indexed_calibrated_and_searched_and_what_is_blank_has_a_vector(
    family: str, few: Path, tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_vlm.few_pixels(monkeypatch)
    name = MADE[family](tmp_path / "model", service)
    check_collection(name, few, tmp_path / "c", words_only=family in WORDS_ONLY)


@pytest.mark.parametrize("family", ["hf:clip", "vlm:vlm2vec"])
def test_the_whole_sample_folder_is_indexed_calibrated_and_searched(
    family: str, tmp_path: Path, service: Service
) -> None:
    name = MADE[family](tmp_path / "model", service)
    with Collection.open(tmp_path / "c", encoder=name, calibration="center", follow=False) as things:
        done = things.index(samples.folder())
        assert not done.skipped
        assert len(things) > 50
        things.calibrate("center")
    with Collection.open(tmp_path / "c", follow=False) as things:
        photo = samples.folder() / "photos" / "tabby.jpg"
        assert things.search(Query(image=photo), k=1)[0].id == "photos/tabby.jpg"
        assert len(things.search("a tabby cat", k=10)) == 10


def test_sounds_beside_the_samples_are_calibrated_with_clap(few: Path, tmp_path: Path, service: Service) -> None:
    (tmp_path / "heard").mkdir()
    for note in few.glob("*.md"):
        copy(note, tmp_path / "heard")
    for seed in range(4):
        recordings.write(tmp_path / "heard" / f"noise-{seed}.wav", recordings.noise(1.5, seed))
    recordings.write(tmp_path / "heard" / "siren.wav", recordings.siren(2.5))
    name = MADE["clap"](tmp_path / "model", service)
    with Collection.open(tmp_path / "c", encoder=name, calibration="none", follow=False) as things:
        assert not things.index(tmp_path / "heard").skipped
        fitted = things.calibrate("center+standardize").fitted
        assert set(fitted.document_modalities) == {"audio", "text"} <= set(fitted.query_modalities)
    with Collection.open(tmp_path / "c", follow=False) as things:
        raw = things.search("sharks have no bones", k=20, calibration="none")
        fair = things.search("sharks have no bones", k=20)
        assert {hit.id for hit in raw} == {hit.id for hit in fair} == {document.id for document in things}
        assert {hit.id: hit.score for hit in raw} != {hit.id: hit.score for hit in fair}
        heard = things.search(Query(audio=tmp_path / "heard" / "siren.wav"), k=1, modalities=["audio"])[0]
        assert heard.id == "siren.wav"
        assert heard.moment is not None
