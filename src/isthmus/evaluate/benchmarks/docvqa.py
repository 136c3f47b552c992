"""DocVQA's pages as a corpus: 3,598 questions of the validation split (of the pages at hand), each about one page.

    DIR/val_v1.0.json              {"data": [{"questionId", "question", "image": "documents/page.png"}, …]}
    DIR/page_text.json             {"page": "its parsed text", …}; not needed for ``images``
    DIR/documents/page.png         or img640/page.webp (small copies)

DocVQA asks for the answer on a page that is given; here the page is what is asked for. A page is an image+text
document with its parsed text; ``images`` takes the pages without it, ``apart`` makes the image and the text two
documents, both right, and ``mixed`` makes each page a text, an image or both, 1:1:1, always in the same way. Pages
that nothing was parsed from are images. Reference: Mathew, Karatzas & Jawahar, DocVQA, WACV 2021.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isthmus.documents import Document, Query
from isthmus.errors import BadFile
from isthmus.evaluate.benchmarks.base import Benchmark, Question
from isthmus.evaluate.benchmarks.files import Folder, content, listed
from isthmus.evaluate.builders import mixed
from isthmus.registry import lookup

HOME = "https://rrc.cvc.uab.es/?ch=17"
SEED = 0


def load(data: Path, words: Sequence[str]) -> Benchmark:
    """Read pages and questions, as ``both`` (when nothing is said), ``images``, ``apart`` or ``mixed``."""
    variant = words[0] if words else "both"
    made = lookup(VARIANTS, variant, "variant of docvqa")
    folder = Folder(data, "docvqa", HOME)
    if (inner := folder.inside("docvqa")).path.is_dir():
        folder = inner
    path = folder.file("val_v1.0.json", "val_v1.0_withQT.json")
    asked = listed(path, "data")
    pictures = folder.file("documents", "img640")
    texts = content(folder.file("page_text.json")) if variant != "images" else {}
    try:
        pages = list(dict.fromkeys(Path(each["image"]).stem for each in asked))
        questions = [Question(str(each["questionId"]), Query(each["question"]), _kind(each)) for each in asked]
        whole = [Document(page, texts.get(page), _picture(pictures, page)) for page in pages]
        documents, right = made(whole)
        qrels = {str(each["questionId"]): dict.fromkeys(right[Path(each["image"]).stem], 1) for each in asked}
    except (KeyError, TypeError, AttributeError) as error:
        raise BadFile(f"{path} is not as DocVQA's questions are: {error}.") from None
    return Benchmark("docvqa" if variant == "both" else f"docvqa:{variant}", documents, questions, qrels)


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


def _kind(row: Mapping[str, Any]) -> str:
    return "+".join(row.get("question_types", ()))
