"""Corpora and settings for experiments, made from existing documents: pure functions, with seeded randomness."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from isthmus.documents import Document, ImageLike, Query
from isthmus.errors import BadInput
from isthmus.evaluate.fusion import several_parts, weighed
from isthmus.queries import KINDS, Captions, Parser, corpus
from isthmus.types import Mask, Matrix, Rows, Vectors

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont, ImageFont

    from isthmus.evaluate.benchmarks.base import Benchmark

MODALITIES = ("text", "image", "image+text")  # the order of a ratio
WIDTH = 448  # of a screenshot, in pixels
MARGIN = 16
SIZE = 16  # of its letters
SPACING = 4  # between its lines
LINES = 200  # maximum: a longer one would be a strip that no encoder can read


def mixed(
    pairs: Sequence[Document],
    ratio: Sequence[float] = (1, 1, 1),
    *,
    rng: np.random.Generator,
) -> list[Document]:
    """Make each pair a text, an image, or both, so that the corpus has the ratio.

    ``ratio`` is texts : images : both, 1:1:1 in MixBench. Which pairs change is random; the counts are fixed, as near
    the ratio as whole numbers allow. Ids and qrels do not change. A document with only one part keeps it, and is not
    counted.

    Reference: Li et al., Closing the Modality Gap for Mixed Modality Search (2025, arXiv 2507.19054), Section 5.1.

    >>> pairs = [Document(str(n), "words", "photo.jpg") for n in range(10)]
    >>> made = mixed(pairs, (7, 2, 1), rng=np.random.default_rng(0))
    >>> [sum(document.modality == modality for document in made) for modality in MODALITIES]
    [7, 2, 1]
    """
    share = np.asarray(ratio, dtype=float)
    if share.shape != (len(MODALITIES),) or not (np.isfinite(share) & (share >= 0)).all() or not share.any():
        raise BadInput(
            f"A ratio is three numbers, texts : images : both, not negative, such as (7, 2, 1); not {ratio}."
        )
    whole = [row for row, document in enumerate(pairs) if document.modality == "image+text"]
    order = rng.permutation(len(whole))
    ends = np.rint(np.concatenate([[0.0], share.cumsum() / share.sum()]) * len(whole)).astype(int)
    kind = {
        whole[row]: modality
        for modality, (start, end) in zip(MODALITIES, pairwise(ends), strict=True)
        for row in order[start:end]
    }
    return [_only(document, kind.get(row, "image+text")) for row, document in enumerate(pairs)]


def replaced(
    documents: Sequence[Document],
    images: Mapping[str, ImageLike] | None,
    p: float,
    *,
    rng: np.random.Generator,
) -> list[Document]:
    """Replace each text, with probability ``p``, by its image, or by a screenshot of it if no images are given.

    ``images`` maps document ids. At p = 0 the corpus is texts, at p = 1 images, and in between it is mixed: with a
    modality gap, quality over p is a U. There is one random draw per document, so with the same seed a larger p
    replaces everything that a smaller one does. Documents with other parts than a text are not changed.

    Reference: Li et al. (2025), Section 3.1.

    >>> texts = [Document(str(n), "words") for n in range(100)]
    >>> made = replaced(texts, {str(n): f"{n}.jpg" for n in range(100)}, 0.3, rng=np.random.default_rng(0))
    >>> sum(document.modality == "image" for document in made)
    25
    """
    if not 0 <= p <= 1:
        raise BadInput(f"p must be a probability, from 0 to 1, not {p}.")
    draws = rng.random(len(documents))
    return [
        _pictured(document, images) if document.modality == "text" and draw < p else document
        for document, draw in zip(documents, draws, strict=True)
    ]


def from_documents(
    documents: Sequence[Document],
    captions: Captions | None = None,
    *,
    seed: int = 0,
    kinds: Sequence[str] = KINDS,
    remove: bool = True,
    parser: Parser | None = None,
) -> Benchmark:
    """Make a benchmark from any documents: queries about their texts, their images and both, as in Mr. Right.

    The settings are those of `isthmus.queries.corpus`; the text of a query is removed from its document. The right
    answer of a query is the document it was made from, and its kind is the type by which `evaluate` slices.

    Reference: Hsieh et al., Mr. Right (2022), on generated queries; docs/papers.md lists the differences.

    >>> photo = Document("photo", "The old bridge crosses the river. It was built in 1225.", "bridge.jpg")
    >>> from_documents([photo, Document("note", image="note.jpg")], {"photo": "people walk over a stone bridge"})
    <Benchmark made: 1 image, 1 image+text; 3 questions>
    """
    from isthmus.evaluate.benchmarks.base import Benchmark, Question  # late: benchmarks are made with this module

    made = corpus(documents, captions, seed=seed, kinds=kinds, remove=remove, parser=parser)
    questions = [Question(key, Query(query.text), query.kind) for key, query in made.queries.items()]
    return Benchmark("made", made.documents, questions, made.qrels)


def screenshot(text: str) -> bytes:
    """Draw a text, black on white, wrapped, in Pillow's own font; return a deterministic PNG.

    >>> screenshot("a cat") == screenshot("a cat"), screenshot("a cat")[1:4]
    (True, b'PNG')
    """
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(SIZE)
    shown = "\n".join(_wrapped(text, font)[:LINES])
    ruler = ImageDraw.Draw(Image.new("L", (1, 1)))
    bottom = ruler.multiline_textbbox((MARGIN, MARGIN), shown, font=font, spacing=SPACING)[3]
    page = Image.new("L", (WIDTH, int(bottom) + MARGIN), 255)
    ImageDraw.Draw(page).multiline_text((MARGIN, MARGIN), shown, fill=0, font=font, spacing=SPACING)
    written = io.BytesIO()
    page.save(written, "PNG")
    return written.getvalue()


def fusion_weights(vectors: Vectors, alphas: Sequence[float]) -> Iterator[tuple[float, Vectors]]:
    """Yield the vectors for each α, with documents of several parts fused as ``α·text + (1 − α)·other``.

    α = 0 is the image (or sound, or video) alone and α = 1 the text alone; documents of one part do not change.
    Without a gap, a value in between beats both ends.

    Reference: Li et al. (2025), Section 4.2.

    >>> both = Vectors({"text": np.eye(2), "image": np.ones((2, 2))}, {"image": [True, False]})
    >>> [(alpha, made.weights["text"].tolist()) for alpha, made in fusion_weights(both, [0.0, 0.7])]
    [(0.0, [0.0, 1.0]), (0.7, [0.7, 1.0])]
    """
    if not several_parts(vectors).any():
        raise BadInput("Fusion needs documents of a text and another part; these vectors have none.")
    for alpha in alphas:
        yield alpha, weighed(vectors, alpha)


def pushed_down(right: Matrix, own: Matrix, others: Matrix, added: Sequence[int], *, rng: np.random.Generator) -> Rows:
    """Return the rank of each query's right document as documents of another modality are added.

    ``right`` are the scores of the right documents, ``(q,)``; ``own`` those of all documents of their modality,
    ``(q, n)``, the right ones among them; ``others`` those of another modality, ``(q, m)``, none of them right. With
    c of these added

        rank_c = 1 + #{own > right} + #{c of the others > right}

    The c documents are the first c of one random order, the same for every query, so ranks only grow. If scores did not
    depend on modality, the mean of ``rank_c − 1`` would grow by the factor ``1 + c / n``. Any further growth is due to
    the gap. Returns ``(len(added), q)``.

    Reference: the ranking bias of Li et al. (2025), Section 3.2, whose own simulation is `penalized`; this one is ours.

    >>> own, others = np.array([[0.3, 0.2, 0.1]]), np.full((1, 4), 0.8)  # texts that are nearer than any image
    >>> pushed_down(np.array([0.2]), own, others, [0, 2, 4], rng=np.random.default_rng(0)).tolist()
    [[2], [4], [6]]
    """
    right, own, others = np.asarray(right), np.asarray(own), np.asarray(others)
    if right.ndim != 1 or own.ndim != 2 or others.ndim != 2 or not len(right) == len(own) == len(others):
        raise BadInput("Scores must be (q,) for the right documents, (q, n) for their modality, (q, m) for the other.")
    counts = np.asarray(added, dtype=int)
    if counts.size and not 0 <= counts.min() <= counts.max() <= others.shape[1]:
        raise BadInput(f"The numbers of added documents must be from 0 to {others.shape[1]}, not {list(added)}.")
    order = rng.permutation(others.shape[1])
    above = np.zeros((len(right), others.shape[1] + 1), dtype=np.intp)
    above[:, 1:] = (others[:, order] > right[:, None]).cumsum(axis=1)  # (q, m): of the first c, how many are above
    alone = 1 + (own > right[:, None]).sum(axis=1)  # (q,)
    ranks: Rows = alone + above[:, counts].T
    return ranks


def penalized(scores: Matrix, down: Mask, score: float = 0.0) -> Matrix:
    """Return the scores with those of some documents set to a constant, so that they rank last for every query.

    ``scores`` are ``(q, n)``, ``down`` marks the documents, ``(n,)``: those of one modality. This simulates a gap so
    wide that the modality is never found. If quality over p (see `replaced`) follows the resulting curve, the U is
    caused by the gap. 0 is below every similarity of CLIP; use −1 if similarities may be negative.

    Reference: Li et al. (2025), Section 3.2, "push-down simulation".

    >>> penalized(np.array([[0.9, 0.4, 0.8]]), np.array([True, False, True])).tolist()
    [[0.0, 0.4, 0.0]]
    """
    scores, down = np.asarray(scores), np.asarray(down, dtype=bool)
    if scores.ndim != 2 or down.shape != scores.shape[1:]:
        raise BadInput(f"Scores must be (q, n) and `down` (n,), not {scores.shape} and {down.shape}.")
    return np.where(down, score, scores)


def _only(document: Document, modality: str) -> Document:
    if modality == "text":
        return Document(document.id, document.text, None, document.metadata)
    if modality == "image":
        return Document(document.id, None, document.image, document.metadata)
    return document


def _pictured(document: Document, images: Mapping[str, ImageLike] | None) -> Document:
    if images is None:
        return Document(document.id, image=screenshot(document.text or ""), metadata=document.metadata)
    if document.id not in images:
        raise BadInput(f"There is no image for {document.id!r}. Pass one for every text, or None for screenshots.")
    return Document(document.id, image=images[document.id], metadata=document.metadata)


def _wrapped(text: str, font: FreeTypeFont | ImageFont) -> list[str]:
    """Break lines between words, and inside a word that is wider than the page."""
    broken: list[str] = []
    for paragraph in text.splitlines():
        if len(broken) >= LINES:  # the rest is not shown
            break
        line = ""
        for word in paragraph.split():
            if font.getlength(f"{line} {word}".strip()) <= WIDTH - 2 * MARGIN:
                line = f"{line} {word}".strip()
                continue
            broken += [line] if line else []
            line = ""
            for letter in word:
                if line and font.getlength(line + letter) > WIDTH - 2 * MARGIN:
                    broken.append(line)
                    line = ""
                line += letter
        broken.append(line)
    return broken
