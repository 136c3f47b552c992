"""A path that somebody else named is opened only if it is a regular file, and read only as far as it may be."""

from __future__ import annotations

import ast
import errno
import os
import socket
from pathlib import Path

import pytest
import typer

import isthmus
from isthmus import Document
from isthmus.cli.options import references
from isthmus.encoders import images
from isthmus.encoders.folder import describe
from isthmus.errors import BadFile, BadImage
from isthmus.files import digest_regular, open_regular, read_regular
from isthmus.search.ingest import prepared
from isthmus.sources import SkippedInput, open_source, text
from isthmus.sources.files import File

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such files")


def odd(root: Path) -> list[Path]:
    """A pipe, a socket, a folder, a device without end, and links to them."""
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(root)  # a socket's path is short
        try:
            made.bind("socket")
        finally:
            os.chdir(here)
    (root / "link").symlink_to("pipe")
    (root / "zero").symlink_to("/dev/zero")
    return [root / "pipe", root / "folder", root / "socket", root / "link", root / "zero", Path("/dev/zero")]


def test_only_regular_files_are_opened_and_nothing_is_waited_for(tmp_path: Path) -> None:
    for path in odd(tmp_path):
        with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
            open_regular(path)
    (tmp_path / "a").write_bytes(b"content")
    with open_regular(tmp_path / "a") as file:
        assert not os.get_inheritable(file.fileno())
        assert file.read() == b"content"


def test_no_descriptor_is_left_open_by_a_refusal(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    for path in odd(tmp_path) * 5:
        with pytest.raises(OSError):
            read_regular(path, 10)
    assert (len(list(Path("/proc/self/fd").iterdir())) if before else 0) == before


def test_a_file_past_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(2**40)
    for read in (read_regular, digest_regular):
        with pytest.raises(OSError, match="larger than 10 bytes") as caught:
            read(tmp_path / "hole", 10)
        assert caught.value.errno == errno.EFBIG
    (tmp_path / "a").write_bytes(b"0123456789")
    assert read_regular(tmp_path / "a", 10) == b"0123456789"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux alone has files without a size")
def test_a_file_that_hides_its_size_is_read_up_to_the_limit() -> None:
    assert Path("/proc/self/status").stat().st_size == 0
    with pytest.raises(OSError, match="larger than 10 bytes"):
        read_regular("/proc/self/status", 10)


def test_a_document_whose_picture_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    for path in odd(tmp_path):
        with pytest.raises(BadImage, match="cannot be read"):
            images.read(str(path), images.Frame(8))
        with pytest.raises(BadImage, match="not a regular file"):
            prepared(Document(id="a", text="x", image=str(path)))


def test_a_picture_of_twelve_gigabytes_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "a.jpg").open("wb") as file:
        file.truncate(12 * 2**30)
    with pytest.raises(BadImage, match="larger than 256 MiB"):
        images.read(tmp_path / "a.jpg", images.Frame(8))
    assert prepared(Document(id="a", image=str(tmp_path / "a.jpg"))).hashes == (None,)


def test_queries_are_read_from_regular_files_alone(tmp_path: Path) -> None:
    for path in odd(tmp_path):
        with pytest.raises(typer.BadParameter, match="cannot be read"):
            references(path)


def test_a_file_that_became_a_pipe_after_it_was_listed_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    file = File.at(str(tmp_path / "a.txt"), "a.txt")
    (tmp_path / "a.txt").unlink()
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(OSError, match="a pipe, not a regular file"):
        list(text.read(file))


@pytest.mark.parametrize("name", ["encoder.toml", "text.onnx", "tokenizer.json"])
def test_an_encoder_whose_file_is_a_pipe_is_refused(name: str, tmp_path: Path) -> None:
    from tiny import write_encoder

    folder = write_encoder(tmp_path / "encoder")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(BadFile, match="a pipe, not a regular file"):
        describe(folder)


def test_a_pipe_with_the_name_of_a_store_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "collection.sqlite")
    (tmp_path / "a.txt").write_text("a cat")
    found = {unit.where if isinstance(unit, SkippedInput) else unit.key for unit in open_source(tmp_path).units()}
    assert found == {"a.txt", "collection.sqlite"}


# Files of the collection itself, and what is written; every other path in these packages is somebody else's.
OWN = {
    "search/collection.py": ["Collection.open"],  # another collection
    "search/export.py": ["draft.open"],
    "search/index_folder.py": ["(draft / name).open", "(place / ABOUT).read_text", "path.open"],
    "search/prior.py": ["path.read_text"],  # of the package
    "sources/shards.py": ["tarfile.open"],  # of a file that is open
}
OPENERS = {"open", "read_text", "read_bytes"}


def test_sources_and_search_open_the_files_that_others_name_through_one_door() -> None:
    root = Path(isthmus.__file__).parent
    found: dict[str, list[str]] = {}
    for path in sorted([*(root / "sources").rglob("*.py"), *(root / "search").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                method = isinstance(node.func, ast.Attribute) and node.func.attr in OPENERS
                if method or (isinstance(node.func, ast.Name) and node.func.id == "open"):
                    found.setdefault(path.relative_to(root).as_posix(), []).append(ast.unparse(node.func))
    assert {name: sorted(calls) for name, calls in found.items()} == OWN
