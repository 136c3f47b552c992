"""No network: folders are loaded and searched with sockets forbidden, and ``--offline`` asks nobody."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import recordings
import tiny_hf
import tiny_towers
import tiny_vlm
from isthmus import Collection, Document, Query
from isthmus.cli import app
from isthmus.errors import BadFile
from test_clap_encoder import tiny_clap
from test_hf_encoder import picture
from test_rerankers import write_cross_encoder
from test_vlm_encoder import FAMILIES
from tiny import write_sentence_transformer

FOLDERS: dict[str, Callable[[Path], Path]] = {
    **{f"hf:{make.__name__}": make for make in tiny_towers.MADE},
    "st:text": write_sentence_transformer,
    "st:clip": tiny_towers.sentence_clip,
    "st:llava": tiny_hf.sentence_llava,
    "clap": tiny_clap,
    **{f"vlm:{family}": make for family, make in FAMILIES.items()},
}
PICTURES = {name for name in FOLDERS if name not in ("st:text", "clap")}
pytestmark = pytest.mark.usefixtures("no_network")


def made(name: str, folder: Path) -> str:
    """Write a model, and return the name of its encoder."""
    kind, _, rest = name.partition(":")
    path = FOLDERS[name](folder)
    return f"{kind}:{rest}:{path}" if kind == "vlm" else f"{kind}:{path}"


@pytest.mark.parametrize("variable", ["ISTHMUS_OFFLINE", "HF_HUB_OFFLINE", None])
@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_loaded_and_searched_without_a_network(
    name: str, variable: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_vlm.few_pixels(monkeypatch)
    encoder = made(name, tmp_path / "model")
    if variable is not None:  # a folder needs no network in any case
        monkeypatch.setenv(variable, "1")
    with Collection.open(tmp_path / "c", encoder=encoder, calibration="none") as things:
        things.add([Document(id="a", text="a cat"), Document(id="b", text="the red house")])
        assert len(things.search("a cat", k=2)) == 2
        if name in PICTURES:
            things.add([Document(id="c", image=picture((20, 20)))])
            assert things.search(Query(image=picture((20, 20))), k=1)[0].id == "c"
        if name == "clap":
            bark = recordings.write(tmp_path / "bark.wav", recordings.siren(1))
            things.add([Document(id="c", audio=bark)])
            assert things.search(Query(audio=bark), k=1)[0].id == "c"


def test_a_folder_of_a_reranker_is_used_without_a_network(tiny: str, tmp_path: Path) -> None:
    rerank = f"st:{write_cross_encoder(tmp_path / 'cross')}"
    with Collection.open(tmp_path / "c", tiny, calibration="none") as things:
        things.add([Document(id="a", text="a cat"), Document(id="b", text="the red house")])
        assert all(hit.matched is not None for hit in things.search("a cat", rerank=rerank))


@pytest.mark.parametrize("name", FOLDERS)
def test_the_command_line_indexes_and_searches_with_offline(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_vlm.few_pixels(monkeypatch)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("a cat")
    run, into = CliRunner(), str(tmp_path / "c")
    command = ["index", str(tmp_path / "notes"), "--into", into, "--encoder", made(name, tmp_path / "model")]
    done = run.invoke(app, ["--offline", *command])
    assert done.exit_code == 0, done.output
    found = run.invoke(app, ["--offline", "search", "a cat", "--in", into])
    assert "a.txt" in found.output, found.output
    assert "ISTHMUS_OFFLINE" not in os.environ


@pytest.mark.parametrize(
    "name",
    [
        "hf:openai/clip-vit-base-patch32",
        "st:clip-ViT-B-32",
        "clap:laion/clap-htsat-unfused",
        "vlm:gme:Alibaba-NLP/gme-Qwen2-VL-2B-Instruct",
    ],
)
def test_offline_a_name_that_was_not_downloaded_is_refused_without_a_network(name: str, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    command = ["index", str(tmp_path / "notes"), "--into", str(tmp_path / "c"), "--encoder", name]
    done = CliRunner().invoke(app, ["--offline", *command])
    assert isinstance(done.exception, BadFile)
    assert "Offline is set: check the path, or download the model first" in str(done.exception)
    assert "ISTHMUS_OFFLINE" not in os.environ


def test_offline_a_reranker_that_was_not_downloaded_is_refused_without_a_network(tiny: str, tmp_path: Path) -> None:
    with Collection.open(tmp_path / "c", tiny, calibration="none") as things:
        things.add([Document(id="a", text="a cat")])
    command = ["search", "a cat", "--in", str(tmp_path / "c"), "--rerank", "st:cross-encoder/ms-marco-MiniLM-L6-v2"]
    done = CliRunner().invoke(app, ["--offline", *command])
    assert isinstance(done.exception, BadFile)
    assert "Offline is set: check the path, or download the model first" in str(done.exception)
