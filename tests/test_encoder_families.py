"""A collection of the sample folder, made and searched with each family of encoders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copy

import pytest

import embedding_service
import tiny_towers
import tiny_vlm
from endpoint import Service, serving
from isthmus import Collection, Query, encoders, samples
from test_clap_encoder import tiny_clap
from tiny import write_encoder

FAMILIES = ("hf clip", "st clip", "vlm vlm2vec", "http voyage")
FEW = ("mini", "mini-fusion", "onnx", "matryoshka", "clap")  # with a few of its files
ELSEWHERE = {"base", "mteb", "open_clip"}  # which need weights or packages that are not here: other tests make them


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with serving(reply=embedding_service.reply) as running:
        yield running


def test_every_family_is_here_or_elsewhere() -> None:
    assert {family.split()[0] for family in FAMILIES} | {*FEW} | ELSEWHERE == set(encoders.KINDS)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sample_folder_is_indexed_calibrated_and_searched(family: str, tmp_path: Path, service: Service) -> None:
    made = {
        "hf clip": lambda: f"hf:{tiny_towers.clip(tmp_path / 'model')}",
        "st clip": lambda: f"st:{tiny_towers.sentence_clip(tmp_path / 'model')}",
        "vlm vlm2vec": lambda: f"vlm:vlm2vec:{tiny_vlm.qwen2_vl(tmp_path / 'model')}",
        "http voyage": lambda: f"http:voyage:voyage-multimodal-3@{service.url}",
    }
    with Collection.open(tmp_path / "c", encoder=made[family](), calibration="center", follow=False) as things:
        done = things.index(samples.folder())
        assert not done.skipped
        assert len(things) > 50
        things.calibrate("center")
    with Collection.open(tmp_path / "c", follow=False) as things:
        photo = samples.folder() / "photos" / "tabby.jpg"
        assert things.search(Query(image=photo), k=1)[0].id == "photos/tabby.jpg"
        hits = things.search("a tabby cat", k=10)
        assert len(hits) == 10


@pytest.mark.parametrize("family", FEW)
def test_a_few_files_of_the_sample_folder_are_indexed_and_searched(family: str, tmp_path: Path) -> None:
    made = {
        "onnx": lambda: f"onnx:{write_encoder(tmp_path / 'model')}",
        "matryoshka": lambda: f"matryoshka:4:onnx:{write_encoder(tmp_path / 'model')}",
        "clap": lambda: f"clap:{tiny_clap(tmp_path / 'model')}",
    }
    (tmp_path / "few").mkdir()
    few = ("photos/tabby.jpg", "drawings/house.png", "notes/glaciers.md", "notes/sharks.md")
    for name in few:
        copy(samples.folder() / name, tmp_path / "few")
    encoder = made[family]() if family in made else family
    with Collection.open(tmp_path / "c", encoder=encoder, calibration="none", follow=False) as things:
        things.index(tmp_path / "few", ocr="never")
        assert len(things) == (2 if family == "clap" else 4)  # CLAP reads no pictures
    with Collection.open(tmp_path / "c", follow=False) as things:
        assert len(things.search("glaciers move slowly", k=10)) == len(things)
