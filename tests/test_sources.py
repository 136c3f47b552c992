"""Folders and files become documents: which, under what names, and when they are read again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from damage import pdf
from isthmus.documents import Document
from isthmus.errors import BadInput, UnknownName
from isthmus.sources import KINDS, SkippedInput, open_source
from isthmus.sources.base import SourceUnit
from isthmus.sources.names import readable, true_path

PNG = b"\x89PNG not looked at"


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def read(path: Path, kind: str | None = None) -> tuple[dict[str, Document], dict[str, str]]:
    """All documents by id, and all that was skipped with the reason."""
    documents: dict[str, Document] = {}
    skipped: dict[str, str] = {}
    for unit in open_source(path, kind=kind).units():
        for found in [unit] if isinstance(unit, SkippedInput) else unit.read():
            if isinstance(found, Document):
                assert found.id not in documents
                documents[found.id] = found
            else:
                skipped[found.where] = found.why
    return documents, skipped


def stamps(path: Path) -> dict[str, str]:
    return {unit.key: unit.stamp for unit in open_source(path).units() if isinstance(unit, SourceUnit)}


def test_a_folder_of_mixed_files_is_one_source(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"note.txt": "hello", "deep/er/page.HTML": "<p>web", "cat.JPG": PNG}
    files |= {"rows.jsonl": '{"text": "row"}\n{"id": 7, "text": "row"}', "m.pdf": pdf(["one", ""])}
    documents, skipped = read(write(tmp_path, files))
    modality = {name: document.modality for name, document in documents.items()}
    assert modality == {
        "cat.JPG": "image",
        "deep/er/page.HTML": "text",
        "m.pdf#page=1": "image+text",
        "m.pdf#page=2": "image",
        "note.txt": "text",
        "rows.jsonl#row=1": "text",
        "rows.jsonl#7": "text",
    }
    assert skipped == {}


def test_documents_know_their_file(tmp_path: Path) -> None:
    write(tmp_path, {"deep/er/Note.TXT": "hello"})
    os.utime(tmp_path / "deep/er/Note.TXT", (0, 0))
    documents, _ = read(tmp_path)
    assert documents["deep/er/Note.TXT"].metadata == {
        "path": str(tmp_path / "deep/er/Note.TXT"),
        "name": "Note.TXT",
        "folder": "deep/er",
        "type": "txt",
        "bytes": 5,
        "modified": "1970-01-01T00:00:00+00:00",
    }


def test_a_picture_is_given_by_its_true_path_and_is_not_opened(tmp_path: Path) -> None:
    documents, _ = read(write(tmp_path, {"cat.heic": b""}))
    assert documents["cat.heic"].image == str(tmp_path / "cat.heic")


def test_hidden_files_collections_and_leftovers_are_passed_over(tmp_path: Path) -> None:
    names = [".hidden.txt", ".git/a.txt", "things.isthmus/a.txt", "__MACOSX/a.txt", "seen.txt"]
    assert read(write(tmp_path, dict.fromkeys(names, "x"))) == (read(tmp_path)[0], {})
    assert list(read(tmp_path)[0]) == ["seen.txt"]
    assert list(read(write(tmp_path / ".notes", {"a.txt": "x"}))[0]) == ["a.txt"]


def test_units_come_in_the_same_order_every_time(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(["b.txt", "a/z.txt", "c/a.txt", "a.txt", "B.txt"], "x"))
    assert list(stamps(tmp_path)) == ["B.txt", "a.txt", "b.txt", "a/z.txt", "c/a.txt"]


def test_links_are_followed_and_loops_end(tmp_path: Path) -> None:
    root = write(tmp_path / "root", {"a/one.txt": "1", "b/two.txt": "2"})
    write(tmp_path / "far", {"three.txt": "3"})
    (root / "a/up").symlink_to(root)
    (root / "a/b").symlink_to(root / "b")
    (root / "b/a").symlink_to(root / "a")
    (root / "far").symlink_to(tmp_path / "far")
    (root / "alias.txt").symlink_to(root / "a/one.txt")
    (root / "lost.txt").symlink_to(root / "nothing")
    (root / "self.txt").symlink_to(root / "self.txt")
    documents, skipped = read(root)
    assert {"a/one.txt", "b/two.txt", "far/three.txt", "alias.txt"} <= set(documents)
    assert len(documents) < 12
    assert set(skipped) == {"lost.txt", "self.txt"}


def test_folders_that_all_link_to_one_another_do_not_explode(tmp_path: Path) -> None:
    write(tmp_path, {f"{i:02d}/a.txt": "x" for i in range(12)})
    for i in range(12):
        for j in range(12):
            (tmp_path / f"{i:02d}/to{j:02d}").symlink_to(tmp_path / f"{j:02d}")
    assert len(read(tmp_path)[0]) < 200  # 12! names lead to them


def test_folders_may_be_deeper_than_the_recursion_limit(tmp_path: Path) -> None:
    deep = sys.getrecursionlimit() + 50
    start = Path.cwd()
    os.chdir(tmp_path)
    try:
        for _ in range(deep):
            Path("d").mkdir()
            os.chdir("d")
        Path("end.txt").write_text("x")
        assert read(tmp_path)[0].keys() == {"d/" * deep + "end.txt"}
        Path("end.txt").unlink()
        for _ in range(deep):  # what clears up after tests would not manage
            os.chdir("..")
            Path("d").rmdir()
    finally:
        os.chdir(start)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody and come back")
def test_what_may_not_be_opened_is_listed() -> None:
    with TemporaryDirectory() as name:
        root = write(Path(name), {"open.txt": "x", "locked.txt": "x", "locked/a.txt": "x", "locked.pdf": pdf(["x"])})
        root.chmod(0o755)
        for locked in ("locked.txt", "locked.pdf", "locked"):
            (root / locked).chmod(0)
        os.seteuid(65534)
        try:
            documents, skipped = read(root)
        finally:
            os.seteuid(0)
    assert list(documents) == ["open.txt"]
    assert set(skipped) == {"locked", "locked.txt", "locked.pdf"}
    assert all("Permission denied" in why for why in skipped.values())


def test_importing_sources_brings_in_no_reader() -> None:
    code = "import sys, isthmus.sources; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "isthmus" in loaded
    assert not {"pyarrow", "pypdfium2", "selectolax", "PIL", "pillow_heif"} & set(loaded)


def test_a_pipe_is_skipped_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    assert read(tmp_path) == ({}, {"pipe.txt": "is not a regular file"})


@pytest.mark.parametrize("name", ["two\nlines.txt", "猫 ünï.txt", "a#b%20.txt", "-rf.txt", "back\\x41slash.txt"])
def test_odd_names_are_names(name: str, tmp_path: Path) -> None:
    documents, _ = read(write(tmp_path, {name: "x", f"{name}.png": PNG}))
    assert sorted(documents) == sorted([readable(name), readable(f"{name}.png")])
    assert documents[readable(f"{name}.png")].image == str(tmp_path / f"{name}.png")


def test_names_that_are_no_text_can_be_read_and_written(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    Path(os.fsdecode(folder)).mkdir()
    for name, content in {b"\xff.txt": b"x", b"\xff.png": PNG, b"\xfe.pdf": pdf(["x"]), b"\xfd.jsonl": b"{"}.items():
        Path(os.fsdecode(folder + b"/" + name)).write_bytes(content)
    documents, skipped = read(tmp_path)
    assert set(documents) == {"caf\\xe9/\\xff.png", "caf\\xe9/\\xfe.pdf#page=1"}  # the text is the picture's
    assert documents["caf\\xe9/\\xff.png"].text == "x"
    assert Path(str(documents["caf\\xe9/\\xff.png"].image)).read_bytes() == PNG
    assert set(skipped) == {"caf\\xe9/\\xfd.jsonl, line 1"}
    for document in documents.values():
        (document.id + str(document.metadata)).encode()
    assert read(Path(os.fsdecode(folder)))[0].keys() == {"\\xff.png", "\\xfe.pdf#page=1"}
    open_source(os.fsdecode(folder)).root.encode()


@given(st.text(st.one_of(st.characters(), st.sampled_from("\\xu0123456789abcdef"), st.characters(categories=["Cs"]))))
def test_every_name_can_be_told_back(name: str) -> None:
    written = readable(name)
    assert written.encode().decode() == written
    assert true_path(written) == name


@given(st.binary())
def test_every_name_on_disk_can_be_told_back(name: bytes) -> None:
    assert os.fsencode(true_path(readable(os.fsdecode(name)))) == name


def test_a_file_nobody_reads_is_listed(tmp_path: Path) -> None:
    _, skipped = read(write(tmp_path, {"film.swf": "x", "Makefile": "x"}))
    assert skipped["film.swf"] == "isthmus does not read .swf files"
    assert "no extension" in skipped["Makefile"]


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("a.pdf", "pypdfium2", "pdf"),
        ("a.html", "selectolax", "html"),
        ("a.parquet", "pyarrow", "parquet"),
    ],
)
def test_a_missing_extra_skips_its_files_until_it_is_there(
    name: str, module: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {name: "<p>x", "b.txt": "x"})
    before = stamps(tmp_path)
    for loaded in [module, *(other for other in sys.modules if other.startswith(f"{module}."))]:
        monkeypatch.setitem(sys.modules, loaded, None)
    documents, skipped = read(tmp_path)
    assert list(documents) == ["b.txt"]
    assert f"pip install 'isthmus[{extra}]'" in skipped[name]
    assert stamps(tmp_path)[name] != before[name]
    assert stamps(tmp_path)["b.txt"] == before["b.txt"]


def test_a_stamp_changes_with_the_content_or_a_sidecar_and_not_otherwise(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "one", "cat.jpg": PNG, "cat.txt": "a cat", "dog.jpg": PNG})
    first = stamps(tmp_path)
    assert set(first) == {"a.txt", "cat.jpg", "dog.jpg"}
    read(tmp_path)
    assert stamps(tmp_path) == first

    def changed() -> set[str]:
        return {name for name, stamp in stamps(tmp_path).items() if stamp != first.get(name)}

    write(tmp_path, {"a.txt": "three"})
    assert changed() == {"a.txt"}
    write(tmp_path, {"cat.txt": "another cat"})
    assert changed() == {"a.txt", "cat.jpg"}
    write(tmp_path, {"dog.jpg.json": "{}"})
    assert changed() == {"a.txt", "cat.jpg", "dog.jpg"}
    (tmp_path / "dog.jpg.json").unlink()
    (tmp_path / "cat.txt").unlink()
    assert changed() == {"a.txt", "cat.jpg"}


def test_content_of_the_same_length_and_time_changes_the_stamp(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "one"})
    os.utime(tmp_path / "a.txt", ns=(1, 1))
    first = stamps(tmp_path)
    write(tmp_path, {"a.txt": "two"})
    os.utime(tmp_path / "a.txt", ns=(1, 1))
    assert stamps(tmp_path) != first


def test_a_single_file_has_its_own_name(tmp_path: Path) -> None:
    write(tmp_path, {"deep/cat.jpg": PNG, "deep/cat.txt": "a cat", "deep/m.pdf": pdf(["one"]), "x.swf": "x"})
    documents, _ = read(tmp_path / "deep/cat.jpg")
    assert documents["cat.jpg"].text == "a cat"
    assert list(read(tmp_path / "deep/m.pdf")[0]) == ["m.pdf#page=1"]
    assert open_source(tmp_path / "deep/m.pdf").root == str(tmp_path / "deep/m.pdf")
    assert read(tmp_path / "x.swf") == ({}, {"x.swf": "isthmus does not read .swf files"})


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none", "", tmp_path / "a\0b", "~nobody-of-that-name/x"):
        with pytest.raises(BadInput):
            open_source(path)


def test_a_kind_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"a.jsonl": "{}"})
    for kind in ("folder", "beir", "clip-retrieval"):
        with pytest.raises(BadInput, match=f"'{kind}' is a folder"):
            open_source(tmp_path / "a.jsonl", kind=kind)
    for kind in ("jsonl", "csv", "parquet", "file", "pdf"):
        with pytest.raises(BadInput, match="is a folder, not a file"):
            open_source(tmp_path, kind=kind)
    with pytest.raises(BadInput, match=r"no corpus\.jsonl"):
        open_source(tmp_path, kind="beir")
    with pytest.raises(UnknownName, match="Did you mean 'webdataset'"):
        open_source(tmp_path, kind="webdatasets")


def test_what_lies_in_a_folder_tells_its_kind(tmp_path: Path) -> None:
    write(tmp_path, {"beir/corpus.jsonl": "{}", "clip/img_emb/img_emb_0.npy": "", "text/text_emb/x.npy": ""})
    write(tmp_path, {"shards/0.tar": "", "shards/1.tar.gz": "", "shards/0_stats.json": "", "mixed/0.tar": ""})
    write(tmp_path, {"mixed/a.txt": "", "one.tar": "", "one.csv": "", "empty/.hidden": ""})
    kinds = {path.name: type(open_source(path)).__name__ for path in tmp_path.iterdir()}
    assert kinds == {
        "beir": "FileSource",
        "clip": "ClipRetrievalSource",
        "text": "ClipRetrievalSource",
        "shards": "ShardsSource",
        "mixed": "FolderSource",
        "one.tar": "ShardsSource",
        "one.csv": "FileSource",
        "empty": "FolderSource",
    }


def test_the_kind_can_be_said(tmp_path: Path) -> None:
    write(tmp_path, {"rows.dat": '{"id": "a", "text": "x"}'})
    assert list(read(tmp_path / "rows.dat", "jsonl")[0]) == ["a"]
    assert list(read(tmp_path / "rows.dat", "text")[0]) == ["rows.dat"]


def test_every_kind_and_extension_stands_in_the_docs() -> None:
    from isthmus.sources.readers import READERS
    from isthmus.sources.sidecars import PICTURES

    page = (Path(__file__).parent.parent / "docs/sources.md").read_text()
    assert [kind for kind in KINDS if f"`{kind}`" not in page] == []
    assert [ending for ending in {*READERS, *PICTURES} if f"`.{ending}`" not in page] == []
