"""`isthmus train forge-mini`: the data it reads, the files it writes."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from isthmus.align import mini
from isthmus.align.reading import reader
from isthmus.cli import app
from isthmus.cli.verbs import train_forge_mini
from isthmus.errors import BadFile, BadInput
from isthmus.train import forge_data
from isthmus.train.forge_mini import ForgeMiniRecipe

CLAIMS = {
    "1": "Aspirin lowers the risk of stroke in old patients.",
    "2": "Vitamin D deficiency raises the risk of asthma.",
    "3": "Statins lower cholesterol in men and women.",
    "4": "Tea prevents colds.",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four claims and their abstracts, three photos of which only the captions are read."""
    scifact, flickr = tmp_path / "scifact", tmp_path / "flickr8k"
    (scifact / "qrels").mkdir(parents=True)
    (flickr / "images").mkdir(parents=True)
    for name, rows in (
        ("corpus", [{"_id": f"d{key}", "title": "A trial.", "text": claim} for key, claim in CLAIMS.items()]),
        ("queries", [{"_id": key, "text": claim} for key, claim in CLAIMS.items()]),
    ):
        (scifact / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for split, keys in (("train", "123"), ("test", "4")):
        judged = "".join(f"{key}\td{key}\t1\n" for key in keys)
        (scifact / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    photos = {
        "a.jpg": ["A dog runs .", "A brown dog on grass ."],
        "b.jpg": ["Two girls ."],
        "c.jpg": ["A car .", "Red"],
    }
    lines = [f"{photo}#{at}\t{said}\n" for photo, several in photos.items() for at, said in enumerate(several)]
    (flickr / "Flickr8k.token.txt").write_text("".join(lines))
    (flickr / "Flickr_8k.trainImages.txt").write_text("".join(f"{photo}\n" for photo in photos))
    return tmp_path


def command(folder: Path, *more: str, steps: int = 2) -> list[str]:
    given = ["--data", str(folder), "--out", str(folder / "made" / "small.onnx"), "--batch", "4", "--held-out", "1"]
    return ["train", "forge-mini", *given, "--supervised-steps", str(steps), "--steps", str(steps), *more]


@pytest.mark.parametrize(
    ("more", "stages"),
    [((), ["sft", "sft", "rl", "rl"]), (("--supervised-only",), ["sft"] * 2), (("--no-supervised",), ["rl"] * 2)],
)
def test_the_command_writes_a_rewriter_and_its_curve(
    more: tuple[str, ...], stages: list[str], folder: Path, few: None
) -> None:
    done = CliRunner().invoke(app, command(folder, *more), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert all(f"{stage} 0 of 2" in done.stderr for stage in stages)
    made = folder / "made" / "small.onnx"
    assert repr(str(made)) in done.stdout
    (new,) = mini.load(made).rewrite(["Hi all, does aspirin help?"])
    assert new.text
    rows = [json.loads(line) for line in made.with_name("small.onnx.jsonl").read_text().splitlines()]
    assert [row["stage"] for row in rows] == stages
    assert all(("loss" in row) if row["stage"] == "sft" else (0 <= row["reward"] <= 1) for row in rows)
    assert {path.name for path in made.parent.iterdir()} == {"small.onnx", "small.onnx.jsonl"}


def test_the_same_command_makes_the_same_file(folder: Path, few: None) -> None:
    made = folder / "made" / "small.onnx"
    written = []
    for _ in range(2):
        CliRunner().invoke(app, command(folder), catch_exceptions=False)
        written.append((made.read_bytes(), made.with_name("small.onnx.jsonl").read_bytes()))
    assert written[0] == written[1]


def test_the_commands_defaults_are_those_of_the_recipe() -> None:
    said = {name: each.default for name, each in inspect.signature(train_forge_mini).parameters.items()}
    names = {"supervised_steps": "sft_steps", "steps": "rl_steps", "rate": "rl_rate"}
    for name in (*names, "length_cost", "batch", "seed", "keep"):
        assert said[name] == getattr(ForgeMiniRecipe(), names.get(name, name)), name
    assert said["held_out"] == forge_data.HELD_OUT


def test_what_is_missing_is_said_with_where_it_comes_from(folder: Path) -> None:
    def refused(error: type[Exception], match: str, *more: str) -> None:
        with pytest.raises(error, match=match):
            CliRunner().invoke(app, command(folder, *more), catch_exceptions=False)

    refused(BadInput, "Give one of them", "--supervised-only", "--no-supervised")
    refused(BadInput, "3 training claims, and 109 are held out", "--held-out", "109")
    (folder / "scifact" / "queries.jsonl").write_text("no JSON\n")
    refused(BadFile, "line 1 is not JSON")
    (folder / "scifact" / "queries.jsonl").unlink()
    refused(BadInput, "queries.jsonl, which does not exist. Download it from http")
    with pytest.raises(BadFile, match="cannot be loaded"):
        mini.load(folder / "nowhere.onnx")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less of what is made without files."""
    for name, count in (("GENERAL", 4), ("ASKED", 6), ("TURNS", 2)):
        monkeypatch.setattr(forge_data, name, count)


def test_examples_are_chats_and_clean_queries_and_what_is_clean_is_kept_whole(folder: Path, few: None) -> None:
    corpus, claims, right = forge_data.scifact(folder)
    photos, everyday = forge_data.photos(folder)
    assert (corpus.ids, claims["test"], right["1"]) == (["d1", "d2", "d3", "d4"], {"4": CLAIMS["4"]}, frozenset(["d1"]))
    assert photos.texts == ["A dog runs .", "Two girls .", "A car ."]
    assert set(everyday.queries.values()) == {"A brown dog on grass .", "Red"}  # a photo with one caption has no other
    corpora, asked = forge_data.training(folder, 1)
    assert [each.ids for each in corpora] == [corpus.ids, photos.ids]
    assert [each.claim for each in asked if each.clean].count(CLAIMS["1"]) == 1
    assert CLAIMS["3"] not in {each.claim for each in asked}  # held out
    assert sum(each.clean for each in asked) == 2 + 4 + 6 + 2 + 4  # claims, titles, questions, captions, general
    assert sum(not each.clean for each in asked) == 2 * 2 + 4 + 6 + 2 + 4
    made = forge_data.examples(asked, reader(), 2)
    assert len(made) == len(asked)
    for each, learned in zip(asked, made, strict=True):
        kept = [word for word, keep in zip(learned.window.words, learned.teacher, strict=True) if keep]
        assert kept == learned.window.words if each.clean else len(kept) < len(learned.window.words)
    long = forge_data.ForgeQuery("talk " * 300, "talk", frozenset("a"))
    assert forge_data.examples([long], reader(), 1) == []  # more than one window


def test_an_exchanged_query_has_other_words_of_the_same_form_and_searches_nothing(folder: Path, few: None) -> None:
    rng = np.random.default_rng(0)
    assert forge_data.exchanged("It is not that.", rng) == "It is not that."
    other = forge_data.exchanged("A Brown dog, runs on 12 grass!", rng).split()
    assert [word in other for word in ("A", "on", "12", "dog,", "runs")] == [True, True, True, False, False]
    assert other[1][0].isupper()
    assert other[2].endswith(",")
    _, asked = forge_data.training(folder, 1)
    known = {*CLAIMS.values(), "A brown dog on grass .", "Red", "A trial"}
    assert all(
        each.claim in known or each.claim.rstrip(".") + "." in known or not each.right for each in asked if each.right
    )
