"""Is a model of ``isthmus train fusion`` worth having? Three held-out collections, against ``mini``.

    python reproduce/fusion_mix.py --data DIR --packs PACKS --model OUT [--cache FOLDER]
                                    (needs scifact/, flickr8k/, docvqa/ and COCO's photos, packed; twenty minutes)

    captioned    caption 1 and its photo (COCO's test list); asked by captions 2 (image), 3 (text), and 4 and 5 (mixed)
    unrelated    an abstract of SciFact and a photo of Flickr8k, both of the test splits; as in ``right_set.py``
    pages        the text of a page and its scan, of the half of DocVQA that is kept for tests; asked by questions

R@1 and MRR@10, with the 95% interval of the difference in MRR@10 to ``mini``, whose document vector is the mean of its
two; OUT as the encoder; ``mini`` with ``--rerank onnx:OUT``, which reorders its first ten. ``DOCUMENTS``
of each collection, texts cut to ``LETTERS`` characters. Raw cosine: there is one modality.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mix_set import coco, pages
from right_set import ASKED, rng_of, split_of
from right_set import rows as unrelated_rows
from tables import Row, arguments, compared

from isthmus import encoders
from isthmus.documents import Document, Query
from isthmus.encoders.base import Encoder
from isthmus.encoders.fusion import FusionEncoder
from isthmus.encoders.heads import Fused
from isthmus.encoders.matching import Matcher
from isthmus.encoders.once import VectorInput
from isthmus.evaluate import paired
from isthmus.evaluate.benchmarks import flickr8k, load
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.queries.kinds import IMAGE, MIXED, TEXT
from isthmus.train.fusion.echo import padded
from isthmus.types import Matrix, Rows

DOCUMENTS = 200
LETTERS = 400  # of a text, so that it is one passage
BATCH = 16
READ = 10  # documents that are reordered
OPTIONS = {
    "model": "the output of `isthmus train fusion`",
    "packs": "COCO's photos, packed",
    "cache": "a folder for vectors",
}


@dataclass(frozen=True)
class Asked:
    """Documents, and queries by kind: words and the number of the right document."""

    documents: Sequence[Document]
    queries: Mapping[str, Sequence[tuple[str, int]]]


def captioned(packs: Path) -> Asked:
    """Return photos of COCO's test list, each with its first caption."""
    photos = coco(packs, "test")
    rows = list(zip(photos.names, photos.captions, photos.files(), strict=True))[:DOCUMENTS]
    said = {IMAGE: [one[1] for _, one, _ in rows], TEXT: [one[2] for _, one, _ in rows]}
    said[MIXED] = [f"{one[3]} {one[4]}" for _, one, _ in rows]
    documents = [Document(name, captions[0], content) for name, captions, content in rows]
    return Asked(documents, {kind: [(words, at) for at, words in enumerate(said[kind])] for kind in said})


def unrelated(data: Path) -> Asked:
    """Return test photos of Flickr8k, each with a test abstract of SciFact."""
    photos = flickr8k.split(BenchmarkFolder(data / "flickr8k", "flickr8k", flickr8k.HOME), "test")[:DOCUMENTS]
    texts = [Document(one.id, (one.text or "")[:LETTERS]) for one in load("beir:scifact", data).documents]
    texts = [one for one in texts if split_of(one.id) == "test"]
    rows = list(unrelated_rows(photos, texts, ASKED, rng_of("test")))
    images = data / "flickr8k" / "img224"
    documents = [Document(row["id"], row["doc_text"], images / row["doc_image"]) for row in rows]
    names = {TEXT: "query_text", IMAGE: "query_img", MIXED: "query_multi"}
    return Asked(documents, {kind: [(row[name], at) for at, row in enumerate(rows)] for kind, name in names.items()})


def scanned(data: Path) -> Asked:
    """Return the pages that are kept for tests, each with its first question."""
    held = pages(data / "docvqa", test=True)[:DOCUMENTS]
    documents = [Document(page.name, page.text[:LETTERS], page.image) for page in held]
    return Asked(documents, {TEXT: [(page.questions[0], at) for at, page in enumerate(held)]})


@dataclass(frozen=True)
class Ranked:
    """The scores of every query and document, by kind of query: of both encoders, and after reranking."""

    towers: Mapping[str, Matrix]
    vectors: Mapping[str, Matrix]
    reranked: Mapping[str, Matrix]

    @classmethod
    def of(cls, plain: Encoder, fusion: FusionEncoder, asked: Asked) -> Ranked:
        """Encode documents and queries; the tokens of documents are kept for the matcher."""
        queries = {kind: [words for words, _ in several] for kind, several in asked.queries.items()}
        parts = plain.encode_documents(asked.documents).parts
        both = parts["text"] + parts["image"]
        both = both / np.linalg.norm(both, axis=1, keepdims=True)
        towers = {kind: plain.encode_queries(words).parts["text"] @ both.T for kind, words in queries.items()}
        documents = fused(fusion, asked.documents)
        held = np.concatenate([one.vectors for one in documents])
        vectors = {kind: fusion.encode_queries(words).parts["text"] @ held.T for kind, words in queries.items()}
        found = {kind: reranked(fusion.matcher(), words, towers[kind], documents) for kind, words in queries.items()}
        return cls(towers, vectors, found)


def fused(fusion: FusionEncoder, documents: Sequence[Document]) -> list[Fused]:
    """Return the first passage of each document with its picture, one each."""
    first: dict[int, VectorInput] = {}
    for owner, item in fusion.matcher().inputs(documents):
        first.setdefault(owner, item)
    found: list[Fused] = []
    for start in range(0, len(first), BATCH):
        some = fusion.document.fuse([first[at] for at in range(start, min(start + BATCH, len(first)))])
        rows = (slice(at, at + 1) for at in range(len(some.vectors)))
        found += [Fused(some.vectors[at], some.tokens[at], some.masks[at]) for at in rows]
    return found


def reranked(matcher: Matcher, queries: Sequence[str], scores: Matrix, documents: Sequence[Fused]) -> Matrix:
    """Return scores with the first documents of each query in the matcher's order."""
    found = scores - 1000.0
    for row, words in enumerate(queries):
        first = np.argsort(-scores[row], kind="stable")[:READ]
        found[row, first] = matcher.logits(matcher.query_inputs(Query(words)), padded([documents[at] for at in first]))
    return found


def measured(scores: Matrix, truth: Rows) -> tuple[dict[str, float], float]:
    """Return the reciprocal rank of each query, 0 below the tenth, and R@1."""
    own = scores[np.arange(len(scores)), truth]
    rank = 1 + (scores > own[:, None]).sum(axis=1)
    return {str(at): float(one) for at, one in enumerate(np.where(rank <= READ, 1 / rank, 0))}, float(
        (rank == 1).mean()
    )


def table(name: str, asked: Asked, plain: Encoder, fusion: FusionEncoder) -> Iterator[Row]:
    """Yield a row for each kind of query and ranking."""
    ranked = Ranked.of(plain, fusion, asked)
    found = {"mini": ranked.towers, "fusion": ranked.vectors, "mini, reranked": ranked.reranked}
    for kind, several in asked.queries.items():
        truth = np.array([at for _, at in several])
        before, _ = measured(ranked.towers[kind], truth)
        for ranking, scores in found.items():
            reciprocal, first = measured(scores[kind], truth)
            change = paired(reciprocal, before)
            row: Row = {"collection": name, "queries": kind, "ranking": ranking, "R@1": first}
            row |= {"MRR@10": float(np.mean(list(reciprocal.values())))}
            yield row | {"low": f"{change.low:+.3f}", "high": f"{change.high:+.3f}"}


def main(data: Path, packs: Path, model: str, cache: str | None) -> list[Row]:
    """Return the table of the three collections."""
    plain, fusion = encoders.load("mini", cache=cache), encoders.load(model, cache=cache)
    if not isinstance(fusion, FusionEncoder):
        raise SystemExit(f"{model} is not a model of `isthmus train fusion`.")
    several = {"captioned": captioned(packs), "unrelated": unrelated(data), "pages": scanned(data)}
    return [row for name, asked in several.items() for row in table(name, asked, plain, fusion)]


if __name__ == "__main__":
    options = arguments(__doc__, OPTIONS)
    rows = main(options.data, Path(options.packs), f"onnx:{options.model}", options.cache)
    raise SystemExit(compared("fusion_mix", rows, options.write))
