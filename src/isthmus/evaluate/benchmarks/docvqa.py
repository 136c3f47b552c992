"""DocVQA's pages as a corpus: 3,598 questions of the validation split (of the available pages), each about one page.

    DIR/val_v1.0.json              {"data": [{"questionId", "question", "image": "documents/page.png"}, …]}
    DIR/page_text.json             {"page": "its parsed text", …}; not needed for ``images``
    DIR/documents/page.png         or img640/page.webp (small copies)

In DocVQA the page is given and the answer is searched; here the page itself is searched. A page is an image+text
document with its parsed text. ``images`` uses the pages without it, ``apart`` makes the image and the text two
documents, both right, and ``mixed`` makes each page a text, an image or both, 1:1:1, always in the same way. Pages
without parsed text are images. Only the validation split is read, so there are no references, unless ``held-out`` is
given too: then every third source document provides references, with its questions, and only the rest is searched
(``docvqa:mixed,held-out``). Reference: Mathew, Karatzas & Jawahar, DocVQA, WACV 2021.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isthmus.documents import Document, Query
from isthmus.errors import BadFile
from isthmus.evaluate.benchmarks.base import Benchmark, Question
from isthmus.evaluate.benchmarks.files import BenchmarkFolder, content, listed
from isthmus.evaluate.builders import mixed
from isthmus.registry import lookup

HOME = "https://rrc.cvc.uab.es/?ch=17"
SEED = 0
HELD_OUT = "held-out"
THIRD = 3


def load(data: Path, words: Sequence[str]) -> Benchmark:
    """Read pages and questions, as ``both`` (default), ``images``, ``apart`` or ``mixed``."""
    variant = next((word for word in words if word != HELD_OUT), "both")
    made = lookup(VARIANTS, variant, "variant of docvqa")
    folder = BenchmarkFolder(data, "docvqa", HOME)
    if (inner := folder.inside("docvqa")).path.is_dir():
        folder = inner
    path = folder.file("val_v1.0.json", "val_v1.0_withQT.json")
    pictures = folder.file("documents", "img640")
    texts = content(folder.file("page_text.json")) if variant != "images" else {}
    try:
        asked = [(Path(row["image"]).stem, _question(row)) for row in listed(path, "data")]
        pages = [
            Document(page, texts.get(page), _picture(pictures, page)) for page in dict.fromkeys(p for p, _ in asked)
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise BadFile(f"{path} does not have the layout of DocVQA's questions: {error}.") from None
    held_out = _held_out(pages) if HELD_OUT in words else set()
    documents, right = made([page for page in pages if page.id not in held_out])
    seen, sources = made([page for page in pages if page.id in held_out])
    return Benchmark(
        ":".join(["docvqa", *([",".join(words)] if words else [])]),
        documents,
        [question for page, question in asked if page not in held_out],
        {question.id: dict.fromkeys(right[page], 1) for page, question in asked if page not in held_out},
        [(question.query, sources[page][0]) for page, question in asked if page in held_out],
        seen,
    )


Made = tuple[Sequence[Document], Mapping[str, Sequence[str]]]


def _whole(pages: Sequence[Document]) -> Made:
    return pages, {page.id: [page.id] for page in pages}


def _apart(pages: Sequence[Document]) -> Made:
    images = [Document(page.id, image=page.image) for page in pages]
    texts = [Document(f"{page.id}#text", page.text) for page in pages if page.modality == "image+text"]
    held = {text.id for text in texts}
    return [*images, *texts], {page.id: [page.id, *({f"{page.id}#text"} & held)] for page in pages}


def _mixed(pages: Sequence[Document]) -> Made:
    return _whole(mixed(pages, rng=np.random.default_rng(SEED)))


VARIANTS: dict[str, Callable[[Sequence[Document]], Made]] = {
    "both": _whole,
    "images": _whole,
    "apart": _apart,
    "mixed": _mixed,
}


def _picture(folder: Path, page: str) -> Path:
    return folder / f"{page}{'.webp' if folder.name == 'img640' else '.png'}"


def _question(row: Mapping[str, Any]) -> Question:
    return Question(str(row["questionId"]), Query(row["question"]), "+".join(row.get("question_types", ())))


def _held_out(pages: Sequence[Document]) -> set[str]:
    """Return the pages of every third document: pages of one document stay together."""
    documents = sorted({_document(page) for page in pages})
    chosen = set(documents[::THIRD])
    return {page.id for page in pages if _document(page) in chosen}


def _document(page: Document) -> str:
    return page.id.rpartition("_")[0]
