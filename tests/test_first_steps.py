"""Stumbles of newcomers: an encoder's folder that moved, another working directory, precision, files of queries."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from typer import BadParameter
from typer.testing import CliRunner

from isthmus import Collection, Document, encoders
from isthmus.cli import app
from isthmus.cli.options import references
from isthmus.errors import BadFile
from tiny import write_encoder


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A collection whose encoder was named by a relative path."""
    write_encoder(tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    with Collection.open("things", encoder="onnx:models", calibration="none") as things:
        things.add([Document(id="a", text="a cat"), Document(id="b", text="the dog")])
    return tmp_path / "things"


def name_of(path: Path) -> str:
    with Collection.open(path) as things:
        return str(things.stats().encoder["encoder"])


def verb(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.output + (str(done.exception) if done.exception else "")


def test_a_folder_is_stored_with_its_whole_path(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert name_of(made) == f"onnx:{tmp_path / 'models'}"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with Collection.open(made) as things:
        assert things.search("cat", k=1)[0].id == "a"
    with Collection.open(made, encoder="onnx:../models") as things:  # another spelling of the same place
        assert len(things) == 2


def test_a_moved_folder_is_named_and_can_be_told(made: Path, tmp_path: Path) -> None:
    shutil.move(tmp_path / "models", tmp_path / "moved")
    with Collection.open(made) as things, pytest.raises(BadFile, match=r"has moved, write where it is now: isthmus re"):
        things.search("cat")
    code, said = verb("doctor", "--in", str(made))
    assert code == 1
    assert "– its encoder" in said
    code, said = verb("reencode", "--in", str(made), "--encoder", "onnx:moved")
    assert code == 0, said
    assert "No changes" in said
    assert name_of(made) == f"onnx:{tmp_path / 'moved'}"
    assert verb("search", "cat", "--in", str(made))[0] == 0
    assert "✓ its encoder" in verb("doctor", "--in", str(made))[1]


def test_a_moved_folder_can_be_named_when_the_collection_is_opened(made: Path, tmp_path: Path) -> None:
    shutil.move(tmp_path / "models", tmp_path / "moved")
    with Collection.open(made, encoder=f"onnx:{tmp_path / 'moved'}") as things:
        assert things.search("cat", k=1)[0].id == "a"
    write_encoder(tmp_path / "other", dim=12)
    with pytest.raises(BadFile, match="vectors of different encoders do not mix"):
        Collection.open(made, encoder=f"onnx:{tmp_path / 'other'}")


def test_only_names_of_folders_are_located(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    assert encoders.located("hf:models") == f"hf:{tmp_path / 'models'}"
    assert encoders.located("matryoshka:8:st:models") == f"matryoshka:8:st:{tmp_path / 'models'}"
    for name in ("mini", "hf:openai/clip", "http:openai:models", "letters:models", "st:~nobody-here/x"):
        assert encoders.located(name) == name


def test_a_precision_can_be_chosen_on_the_command_line(made: Path, tmp_path: Path) -> None:
    assert verb("search", "cat", "--in", str(made), "--precision", "auto")[0] == 0
    code, said = verb("search", "cat", "--in", str(made), "--precision", "half")
    assert code == 1
    assert "cannot run in the precision 'half'. Leave precision out (--precision); these can: base, hf, st" in said
    code, said = verb("search", "cat", "--in", str(made), "--precision", "int3")
    assert code != 0
    assert "precision (--precision) is 'int3'; it must be one of auto, full, half" in said


@pytest.mark.parametrize(
    ("field", "says"),
    [("quary", "query 2 has the field 'quary'. Did you mean 'query'?"), ("lang", "Known: id, image, query, text.")],
)
def test_a_field_that_a_file_of_queries_does_not_have_is_refused(field: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "queries.jsonl"
    file.write_text('{"query": "a cat", "id": "a"}\n{"text": "a dog", "' + field + '": "en"}\n')
    with pytest.raises(BadParameter, match=re.escape(says)):
        references(file)
