"""MM-BRIGHT: 2,803 questions of Stack Exchange in 29 domains, whose answers need reasoning to find.

    DIR/documents/DOMAIN.parquet            id, content
    DIR/examples/DOMAIN.parquet             id, query, gold_ids
    DIR/examples_multimodal/DOMAIN.parquet  id, query, gold_ids, image_paths, positive_images
    DIR/examples_images/DOMAIN.parquet      path, bytes: the pictures of the questions
    DIR/document_images/DOMAIN.parquet      path, bytes: those of the documents

``task1`` searches for texts with words, ``task2`` (default) for texts with words and pictures, ``task3`` for pictures,
``task4`` for texts with a picture: a right text counts 1 alone, 2 with a right picture of its own page. Name domains to
read them into one corpus: ``mm-bright:task2,biology``. Without a name all existing ones are read into one; ``isthmus
evaluate`` searches each domain separately, as the authors do, and adds the mean over domains (``mm-bright:together``:
one corpus there, too). Documents have their domain in their metadata.

The documents of a question's ``negative_ids`` and ``negative_images`` are removed from its ranking, and a question has
all its pictures, as in the authors' code. Pictures are bytes inside the tables and are kept in memory. The layout is
that of the authors' code; whether the tables of a large domain are split (``DOMAIN-00000-of-00002.parquet``, which is
read too) is unknown. Reference: MM-BRIGHT, 2026 (arXiv 2601.09562).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isthmus.documents import Document, Image, Query, Text
from isthmus.errors import BadInput
from isthmus.evaluate.benchmarks.base import Benchmark, Question
from isthmus.evaluate.benchmarks.files import BenchmarkFolder, Row, rows, words
from isthmus.registry import lookup

TOGETHER = "together"
PAIR = "|||"
HOME = "https://huggingface.co/datasets/mm-bright/MM-BRIGHT"
PASSAGE = re.compile(r"/([0-9a-f]+)_")  # biology/fec40b40_1635_4.txt
PICTURE = re.compile(r"_([0-9a-f]+)_\d+/")  # biology/biology_fec40b40_0002/image_1.webp
Right = Callable[["Domain", Row], dict[str, int]]


def load(data: Path, chosen: Sequence[str]) -> Benchmark:
    """Read all existing domains, or those named."""
    folder = BenchmarkFolder(data, "mm-bright", HOME)
    task = next((word for word in chosen if word.startswith("task")), "task2")
    documents_of, right_of = lookup(TASKS, task, "task of mm-bright")
    there = _domains(folder)
    named = [word for word in chosen if not word.startswith("task") and word != TOGETHER]
    for word in named:
        lookup(dict.fromkeys(there), word, "domain of mm-bright")
    documents: list[Document] = []
    questions: list[Question] = []
    qrels: dict[str, dict[str, int]] = {}
    domains: dict[str, str] = {}
    excluded: dict[str, frozenset[str]] = {}
    for name in named or there:
        domain = Domain(folder, name)
        documents += (held := documents_of(domain))
        parts = _by_part(held)
        for row in domain.examples(multimodal=task != "task1"):
            if right := right_of(domain, row):
                key = f"{name}/{row['id']}"
                questions.append(Question(key, domain.query(row, pictures=task != "task1"), task))
                qrels[key], domains[key] = right, name
                wrong = [name for part in _wrong(row, task) for name in parts.get(part, ())]
                excluded[key] = frozenset(wrong) - right.keys()
    name = f"mm-bright:{','.join(chosen)}" if chosen else "mm-bright"
    return Benchmark(name, documents, questions, qrels, domains=domains, excluded=excluded)


def names(data: Path, chosen: Sequence[str]) -> list[str]:
    """Return the words that select each domain, for a search of each; of the words given, if they name one."""
    task = [word for word in chosen if word.startswith("task")]
    if len(task) < len(chosen):
        return [",".join(chosen)]
    return [",".join([*task, domain]) for domain in _domains(BenchmarkFolder(data, "mm-bright", HOME))]


def _domains(folder: BenchmarkFolder) -> list[str]:
    return sorted({re.sub(r"-\d+-of-\d+$", "", path.stem) for path in folder.file("documents").glob("*.parquet")})


@dataclass
class Domain:
    """One domain's tables; the pictures of its queries are read once, on first use."""

    folder: BenchmarkFolder
    name: str
    query_pictures: Mapping[str, bytes] | None = None

    def texts(self) -> list[Document]:
        """Return its documents."""
        return [
            Document(str(row["id"]), text, metadata={"domain": self.name})
            for row in self._rows("documents", "id", "content")
            if (text := words(row["content"]))
        ]

    def images(self) -> list[Document]:
        """Return the pictures of its documents."""
        return [
            Document(path, image=image, metadata={"domain": self.name})
            for path, image in self.pictures("document_images").items()
        ]

    def pairs(self) -> list[Document]:
        """Return its documents, each alone and with each of the pictures of its page."""
        pictures: dict[str, list[tuple[str, bytes]]] = {}
        for path, image in self.pictures("document_images").items():
            pictures.setdefault(_page(PICTURE, path), []).append((path, image))
        pairs = []
        for text in self.texts():
            pairs.append(text)
            for path, image in pictures.get(_page(PASSAGE, text.id), ()):
                pairs.append(Document(_pair(text.id, path), text.text, image, text.metadata))
        return pairs

    def pictures(self, table: str) -> dict[str, bytes]:
        """Return pictures by path."""
        return {_slashes(row["path"]): row["bytes"] for row in self._rows(table, "path", "bytes") if row["bytes"]}

    def examples(self, *, multimodal: bool) -> Iterator[Row]:
        """Give its questions."""
        return self._rows("examples_multimodal" if multimodal else "examples", "id", "query", "gold_ids")

    def query(self, row: Row, *, pictures: bool) -> Query:
        """Return a row as a query, with all its existing pictures."""
        if not pictures:
            return Query(row["query"])
        if self.query_pictures is None:
            self.query_pictures = self.pictures("examples_images")
        paths = map(_slashes, _list(row.get("image_paths")))
        held = [Image(self.query_pictures[path]) for path in paths if path in self.query_pictures]
        return Query(parts=[Text(row["query"]), *held])

    def _rows(self, table: str, *needs: str) -> Iterator[Row]:
        tables = self.folder.inside(table)
        split = sorted(tables.path.glob(f"{self.name}-*-of-*.parquet"))
        for path in split or [tables.file(f"{self.name}.parquet")]:
            yield from rows(path, *needs)


def _right_texts(_: Domain, row: Row) -> dict[str, int]:
    return {str(key): 1 for key in _list(row["gold_ids"])}


def _right_images(_: Domain, row: Row) -> dict[str, int]:
    return dict.fromkeys(_positive(row), 1)


def _right_pairs(domain: Domain, row: Row) -> dict[str, int]:
    right = _right_texts(domain, row)
    with_picture = {
        _pair(text, path): 2
        for text in right
        for path in _positive(row)
        if _page(PASSAGE, text) == _page(PICTURE, path)
    }
    return right | with_picture


TASKS: dict[str, tuple[Callable[[Domain], list[Document]], Right]] = {
    "task1": (Domain.texts, _right_texts),
    "task2": (Domain.texts, _right_texts),
    "task3": (Domain.images, _right_images),
    "task4": (Domain.pairs, _right_pairs),
}


def _positive(row: Row) -> list[str]:
    if "positive_images" not in row:
        raise BadInput("A question of mm-bright has no 'positive_images', which tasks 3 and 4 need.")
    return [_path(each) for each in _list(row["positive_images"])]


def _wrong(row: Row, task: str) -> list[str]:
    """Return the texts and pictures that a question excludes."""
    texts = [] if task == "task3" else [str(key) for key in _list(row.get("negative_ids"))]
    pictures = [_path(each) for each in _list(row.get("negative_images"))] if task in ("task3", "task4") else []
    return [*texts, *pictures]


def _by_part(documents: Sequence[Document]) -> dict[str, list[str]]:
    """Return the documents that have a text or picture: itself, and pairs with it."""
    found: dict[str, list[str]] = {}
    for document in documents:
        for part in document.id.split(PAIR):
            found.setdefault(part, []).append(document.id)
    return found


def _path(picture: Any) -> str:
    return _slashes(picture["image_path"] if isinstance(picture, Mapping) else picture)


def _list(value: Any) -> list[Any]:
    return [] if value is None else list(value)


def _slashes(path: Any) -> str:
    return str(path).replace("\\", "/")


def _page(pattern: re.Pattern[str], name: str) -> str:
    found = pattern.search(name)
    return found[1] if found else name


def _pair(text: str, picture: str) -> str:
    return f"{text}{PAIR}{picture}"
