"""Files and folders are replaced whole or not at all, everywhere in the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import isthmus
from isthmus.atomic import replacing, replacing_folder

ROOT = Path(isthmus.__file__).parent


def test_a_folder_takes_the_place_of_another_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    for content in ("one", "two"):
        with replacing_folder(tmp_path / "model") as draft:
            (draft / "a.txt").write_text(content)
    assert (tmp_path / "model" / "a.txt").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_after_an_error_what_was_there_stays(tmp_path: Path, kind: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("before")
    (tmp_path / "file").write_text("before")
    with pytest.raises(KeyboardInterrupt), (replacing if kind == "file" else replacing_folder)(tmp_path / kind):
        raise KeyboardInterrupt
    assert (tmp_path / "folder" / "a.txt").read_text() == (tmp_path / "file").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_folder_that_cannot_be_moved_into_place_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "a.txt").write_text("before")
    move = Path.replace

    def refuses(path: Path, to: Path) -> Path:
        if path.name.endswith(".tmp"):
            raise PermissionError(path)
        return move(path, to)

    monkeypatch.setattr(Path, "replace", refuses)
    with pytest.raises(PermissionError), replacing_folder(target) as draft:
        (draft / "a.txt").write_text("after")
    assert (target / "a.txt").read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


def test_nothing_writes_a_draft_of_its_own() -> None:
    # the folder of an index has drafts that several processes share; the draft of a backup has a lock of its own
    own = {"atomic.py", "search/index_folder.py", "storage/sqlite/backup.py"}
    draft = re.compile(r"""["'{][^"'\n]*\.(tmp|part)["']|os\.(replace|rename)\(""")
    found = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if draft.search(path.read_text("utf-8"))}
    assert found <= own
