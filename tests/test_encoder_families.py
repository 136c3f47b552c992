"""A collection of the sample folder, made and searched with each family of encoders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import embedding_service
import tiny_towers
from endpoint import Service, serving
from isthmus import Collection, Query, encoders, samples
from isthmus.encoders.locations import EMBEDDED

FAMILIES = ("hf clip", "st clip", "http voyage")
ELSEWHERE = {*EMBEDDED, "onnx", "matryoshka", "mteb"}  # whose collections other tests make


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with serving(reply=embedding_service.reply) as running:
        yield running


def test_every_family_is_here_or_elsewhere() -> None:
    assert {family.split()[0] for family in FAMILIES} | ELSEWHERE == set(encoders.KINDS)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sample_folder_is_indexed_calibrated_and_searched(family: str, tmp_path: Path, service: Service) -> None:
    made = {
        "hf clip": lambda: f"hf:{tiny_towers.clip(tmp_path / 'model')}",
        "st clip": lambda: f"st:{tiny_towers.sentence_clip(tmp_path / 'model')}",
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
