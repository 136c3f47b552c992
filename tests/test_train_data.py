"""The training data: packed pictures, names widened by WordNet, kinds of pages, what is held out."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, UnidentifiedImageError

from isthmus.errors import BadFile
from isthmus.train import measure
from isthmus.train.data import coco, drawings, duplicates, packs, pages, texts
from isthmus.train.data.packs import PackedPicture, PackedPictures
from isthmus.train.data.wordnet import Nouns

DATA = """  1 This file is like WordNet's
00000001 03 n 01 entity 0 000 | all that exists
00000002 05 n 01 animal 0 001 @ 00000001 n 0000 | a living organism that moves
00000003 05 n 02 whale 0 sea_giant 0 001 @ 00000002 n 0000 | a very large sea mammal; "the whale dived"
00000004 18 n 01 whale 0 001 @ 00000001 n 0000 | a very large person
00000005 09 n 01 idea 0 001 @ 00000001 n 0000 | the content of cognition
"""
INDEX = """  1 This file is like WordNet's
whale n 2 1 @ 2 0 00000004 00000003
animal n 1 1 @ 1 0 00000002
idea n 1 1 @ 1 0 00000005
"""


@pytest.fixture
def nouns(tmp_path: Path) -> Nouns:
    (tmp_path / "data.noun").write_text(DATA)
    (tmp_path / "index.noun").write_text(INDEX)
    return Nouns.read(tmp_path)


def png(path: Path, color: tuple[int, ...]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGBA" if len(color) == 4 else "RGB", (8, 8), color).save(path)


def test_packed_pictures_come_back_in_order_whatever_pack_they_are_in(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    given = [rng.integers(0, 255, (6, 6, 3), dtype=np.uint8) for _ in range(5)]
    files = []
    for each in given:
        out = io.BytesIO()
        Image.fromarray(each).save(out, "PNG")
        files.append(out.getvalue())
    pictures = [PackedPicture(f"{i}", data, ["a", "b"][: i % 3]) for i, data in enumerate(files)]
    assert packs.write(tmp_path, pictures, pack_bytes=len(files[0]) * 2 + 10) == 5
    assert len(list(tmp_path.glob("pack*.bin"))) > 1
    opened = PackedPictures.open(tmp_path)
    for processes in (1, 2, 7):
        np.testing.assert_array_equal(opened.pixels(6, processes=processes), np.stack(given))
    some = opened.select(lambda name: name in "24")
    assert (some.names, some.captions, list(some.files())) == (["2", "4"], [["a", "b"], ["a"]], [files[2], files[4]])
    assert opened.select(lambda name: True, limit=2).names == ["0", "1"]


def test_a_damaged_picture_is_an_error_in_processes_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    packs.write(tmp_path, [PackedPicture(str(number), b"no picture", []) for number in range(4)])
    with pytest.raises(UnidentifiedImageError):
        PackedPictures.open(tmp_path).pixels(6, processes=2)
    assert "UnidentifiedImageError" in capfd.readouterr().err  # of the processes


def test_a_folder_without_an_index_and_a_damaged_one_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"python -m isthmus\.train\.data"):
        PackedPictures.open(tmp_path)
    (tmp_path / "index.json").write_text(json.dumps({"packs": [[3]], "names": [], "captions": []}))
    with pytest.raises(BadFile, match=r"names 0 pictures.*Pack the pictures again"):
        PackedPictures.open(tmp_path)
    (tmp_path / "index.json").write_text("{")
    with pytest.raises(BadFile, match="cannot be read"):
        PackedPictures.open(tmp_path)


def test_transparent_pixels_of_a_drawing_become_white(tmp_path: Path) -> None:
    png(tmp_path / "clear.png", (200, 0, 0, 0))
    assert packs.decoded(packs.encoded(tmp_path / "clear.png", 8, 90), 8).min() > 245


def test_a_name_is_widened_by_the_meaning_that_a_picture_can_show(nouns: Nouns) -> None:
    assert nouns.widened("whale") == ["whale", "sea giant", "animal", "whale: a very large sea mammal"]
    assert nouns.widened("whales")[:2] == ["whales", "whale"]
    assert nouns.widened("idea") == ["idea"]  # no picture shows it
    assert nouns.widened("gizmo") == ["gizmo"]


def test_wordnet_that_is_not_there_is_named_with_its_package(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="wordnet-base"):
        Nouns.read(tmp_path)


def test_clip_art_is_described_by_its_title_or_its_keywords(nouns: Nouns) -> None:
    def svg(title: str, *keywords: str) -> str:
        return f"<dc:title>{title}</dc:title>" + "".join(f"<rdf:li>{word}</rdf:li>" for word in keywords)

    assert drawings.described(svg("Blue_Whale 01", "animal"), nouns) == ("blue whale", ["animal"])
    assert drawings.described(svg("Part of a collection by somebody of many things 2004", "whale"), nouns)[0] == "whale"
    assert drawings.described(svg("xyz", "qrs"), nouns) == ("", [])


def test_drawings_are_read_with_their_names(nouns: Nouns, tmp_path: Path) -> None:
    png(tmp_path / "art" / "png" / "animals" / "whale_01.png", (0, 0, 200))
    png(tmp_path / "art" / "png" / "shapes" / "star.png", (0, 0, 200))
    svg = tmp_path / "art" / "svg" / "animals" / "whale_01.svg"
    svg.parent.mkdir(parents=True)
    svg.write_text("<dc:title>Whale</dc:title>")
    art = list(drawings.clipart(nouns, tmp_path / "art"))
    assert [each.name for each in art] == ["clipart/animals/whale_01.png"]
    assert art[0].captions[:2] == ["whale", "a drawing of a whale"]
    png(tmp_path / "stamps" / "whale.png", (0, 0, 200))
    (tmp_path / "stamps" / "whale.txt").write_text("A whale, seen from above.\nde.utf8=Ein Wal.")
    assert [each.captions[0] for each in drawings.stamps(nouns, tmp_path / "stamps")] == ["whale"]
    png(tmp_path / "emoji" / "1.png", (0, 0, 200))
    rows = [{"file": "1.png", "name": name, "tags": ["sea"]} for name in ("whale", "hand: dark skin tone")]
    (tmp_path / "emoji" / "emoji.json").write_text(json.dumps(rows))
    found = list(drawings.emoji(nouns, tmp_path / "emoji"))
    assert [each.name for each in found] == ["emoji/whale"]
    assert "sea" in found[0].captions


def test_a_name_is_held_out_in_every_style_alike() -> None:
    names = [f"thing {i}" for i in range(2000)]
    share = np.mean([drawings.held_out(name) for name in names])
    assert share == pytest.approx(drawings.HELD_OUT, abs=0.04)
    assert all(drawings.held_out(f"A {name.title()}.") == drawings.held_out(name) for name in names)


def test_a_page_is_of_the_kinds_that_its_words_and_questions_name(tmp_path: Path) -> None:
    (tmp_path / "img640").mkdir()
    Image.new("L", (20, 30), 255).save(tmp_path / "img640" / "ab_1.webp")
    (tmp_path / "page_text.json").write_text(json.dumps({"ab_1": "Dear Sir,\n\nwe thank you for the order of May."}))
    row = {"image": "documents/ab_1.png", "question": "What is the total in the table?"}
    (tmp_path / "val_v1.0.json").write_text(json.dumps({"data": [row]}))
    (page,) = pages.pages(tmp_path)
    assert {"a letter", "a table of numbers", "a scan of a letter", "a scanned page"} <= set(page.captions)
    assert "a chart" not in page.captions


def test_all_pages_of_a_document_are_on_one_side() -> None:
    documents = [f"doc{i}" for i in range(400)]
    for name in documents:
        assert len({pages.held_out(f"{name}_{page}") for page in range(4)}) == 1
    assert np.mean([pages.held_out(f"{name}_1") for name in documents]) == pytest.approx(0.5, abs=0.1)


def test_held_texts_come_from_the_training_pages_alone(nouns: Nouns, tmp_path: Path) -> None:
    names = [f"doc{i}_1" for i in range(20)]
    said = {name: f"This is a long sentence of the page {name}. " * 30 for name in names}
    (tmp_path / "page_text.json").write_text(json.dumps(said))
    rows = [{"image": f"documents/{name}.png", "question": f"What is the title of {name}?"} for name in names]
    (tmp_path / "val_v1.0.json").write_text(json.dumps({"data": rows}))
    found = " ".join([*texts.sentences(tmp_path, nouns), *texts.passages(tmp_path, nouns)])
    assert all((f"{name}." in found or f"{name}?" in found) != pages.held_out(name) for name in names)
    assert "whale: a very large sea mammal" in found


def test_the_lists_of_coco_are_apart_and_can_be_drawn_again() -> None:
    dev, test = coco.listed("dev"), coco.listed("test")
    assert (len(set(dev)), len(set(test)), set(dev) & set(test)) == (1000, 1000, set())
    names = [f"{i:04}.jpg" for i in range(50)]
    captions = [["a"] * (5 if i % 2 else 3) for i in range(50)]
    drawn = coco.drawn(names, captions, 10)
    assert drawn == coco.drawn(names[::-1], captions[::-1], 10)
    assert not set(drawn["dev"]) & set(drawn["test"])
    assert all(int(name[:4]) % 2 for name in [*drawn["dev"], *drawn["test"]])


def test_a_mirrored_and_a_darker_copy_are_near_and_another_photo_is_not() -> None:
    rng = torch.Generator().manual_seed(0)
    photo, other = (torch.randint(0, 200, (1, 3, 48, 48), dtype=torch.uint8, generator=rng) for _ in range(2))
    candidates = torch.cat([photo, photo.flip(3), (photo.float() * 0.7).to(torch.uint8), other])
    found = duplicates.near(duplicates.thumbnails(candidates), duplicates.thumbnails(photo))
    assert found.tolist() == [True, True, True, False]


def test_recall_counts_the_pictures_that_a_text_puts_first() -> None:
    images = torch.eye(3)
    words = torch.tensor([[1.0, 0, 0], [0.2, 0.9, 0.1], [0.9, 0.5, 0.1], [0, 0.4, 0.6]])  # two texts of the second
    found = measure.recall(images, words, torch.tensor([0, 1, 1, 2]))
    assert found == {"R@1": 0.75, "R@10": 1.0, "back R@1": 1.0}
