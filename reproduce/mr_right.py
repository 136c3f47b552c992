"""Mr. Right's tables where text and picture concern the same thing, and where they do not.

    python reproduce/mr_right.py --data DIR --sbert FOLDER --start OUT --model OUT --fusion OUT [--set SET]
                                        (needs scifact/, flickr8k/, docvqa/, all-mpnet-base-v2; half an hour)

    photos       a photo and a paragraph about it          (``related_set.py``, SET, built if it does not exist)
    pages        a scanned page and its text               (the same)
    unrelated    an abstract and a photo                   (``fusion_mix.py``)

Table 4: MRR@10 with its 95% interval, R@1, R@5 and R@10 by kind of query, over all documents of a collection. *SBERT*
is all-mpnet-base-v2, the paper's baseline, zero-shot. *ensemble*: SBERT and the image tower of ``mini``, with a weight
for each kind of query, tuned on other documents; only it knows the kind of a query. *the paper's* is OUT, what
``isthmus train fusion --paper`` wrote (docs/papers/mr_right.md has the command and its scale). *matching*: the first
ten in the order of the matcher. Table 6: mixed queries, generated and written by people. Table *unique*: what remains
if queries whose two best documents are close are left out (``isthmus.queries.unique``). The last table is the log of
the training of OUT.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fusion_mix import LETTERS, Asked, fused, reranked
from fusion_mix import unrelated as unrelated_test
from related_set import build
from right_set import ASKED, NAMES, rng_of, split_of
from right_set import rows as unrelated_rows
from tables import Row, arguments, compared

from isthmus import encoders
from isthmus.align.retrievers import Bm25
from isthmus.documents import Document
from isthmus.encoders.base import Encoder
from isthmus.encoders.fusion import FusionEncoder
from isthmus.evaluate import interval
from isthmus.evaluate.benchmarks import flickr8k, load
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.queries.kinds import IMAGE, KINDS, MIXED, TEXT
from isthmus.queries.unique import ambiguous
from isthmus.types import Mask, Matrix

WEIGHTS = np.linspace(0, 1, 21)
TIE = 1e-6  # of several best weights, the one in the middle is taken
DEV = 60  # documents that the weights of the ensemble are tuned on
READ = 10
GENERATED = "mixed, generated"
OURS = "our variant"
UNTRAINED = "the paper's, untrained"
OPTIONS = {
    "sbert": "the folder of all-mpnet-base-v2",
    "start": "the output of `isthmus train fusion --paper --epochs 0 --later-epochs 0`",
    "model": "the output of `isthmus train fusion --paper`",
    "fusion": "the output of `isthmus train fusion`",
    "set": "the output of related_set.py; default: out/related",
    "cache": "a folder for vectors",
}
Scores = Mapping[str, Matrix]  # by kind of query


@dataclass(frozen=True)
class Models:
    """The encoders that are compared."""

    mini: Encoder
    sbert: Encoder
    trained: Mapping[str, FusionEncoder]  # by their names in the tables

    @classmethod
    def load(cls, sbert: str, ours: str, start: str, paper: str, cache: str | None) -> Models:
        """Load them."""
        trained = {}
        sources = {OURS: f"onnx:{ours}", UNTRAINED: f"onnx:{start}", "the paper's": f"onnx:{paper}"}
        for name, source in sources.items():
            encoder = encoders.load(source, cache=cache)
            if not isinstance(encoder, FusionEncoder):
                raise SystemExit(f"{source} is not a model of `isthmus train fusion`.")
            trained[name] = encoder
        return cls(encoders.load("mini", cache=cache), encoders.load(f"st:{sbert}", cache=cache), trained)


def related(folder: Path, group: str, *, dev: bool = False) -> Asked:
    """Return a collection of the related set, with people's queries, and with generated mixed ones."""
    if dev:  # `mini` knows the fine-tuning photos: docs/papers/mr_right.md
        held = asked = made = [*_rows(folder, "val_pairs"), *_rows(folder, "finetune_pairs")]
    else:
        held, asked, made = (_rows(folder, name) for name in ("documents", "test_queries", "auto_test_queries"))
    rows = [each for each in zip(held, asked, made, strict=True) if each[0]["group"] == group]
    documents = [Document(row["id"], row["doc_text"], folder / "images" / row["doc_image"]) for row, _, _ in rows]
    kinds = KINDS if group == "photos" else (TEXT, MIXED)  # the kind of a page names many
    said = {kind: [(human[NAMES[kind]], at) for at, (_, human, _) in enumerate(rows)] for kind in kinds}
    generated = [(auto[NAMES[MIXED]], at) for at, (_, _, auto) in enumerate(rows)]
    return Asked(documents, said if dev else {**said, GENERATED: generated})


def unrelated_dev(data: Path) -> Asked:
    """Return documents like those of the collection *unrelated*, of the dev splits."""
    photos = flickr8k.split(BenchmarkFolder(data / "flickr8k", "flickr8k", flickr8k.HOME), "dev")[:DEV]
    texts = [one for one in load("beir:scifact", data).documents if split_of(one.id) == "dev"]
    cut = [Document(one.id, (one.text or "")[:LETTERS]) for one in texts]
    rows = list(unrelated_rows(photos, cut, ASKED, rng_of("dev")))
    images = data / "flickr8k" / "img224"
    documents = [Document(row["id"], row["doc_text"], images / row["doc_image"]) for row in rows]
    return Asked(documents, {kind: [(row[NAMES[kind]], at) for at, row in enumerate(rows)] for kind in KINDS})


def of_towers(models: Models, asked: Asked) -> dict[str, Scores]:
    """Return the similarities of queries with texts and images, by ``mini`` and SBERT."""
    parts = models.mini.encode_documents(asked.documents).parts
    texts = models.sbert.encode_documents([Document(one.id, one.text) for one in asked.documents]).parts["text"]
    both = parts["text"] + parts["image"]
    found: dict[str, dict[str, Matrix]] = {name: {} for name in ("text", "image", "both", "sbert")}
    for kind, several in asked.queries.items():
        words = [text for text, _ in several]
        query, other = (one.encode_queries(words).parts["text"] for one in (models.mini, models.sbert))
        found["text"][kind], found["image"][kind] = query @ parts["text"].T, query @ parts["image"].T
        found["both"][kind] = query @ (both / np.linalg.norm(both, axis=1, keepdims=True)).T
        found["sbert"][kind] = other @ texts.T
    return {name: dict(scores) for name, scores in found.items()}


def ensemble(tuned: Mapping[str, Scores], found: Mapping[str, Scores]) -> Scores:
    """Return weighted sums of SBERT's and the image tower's similarities, by the best MRR@10 of ``tuned``."""

    def mixed(of: Mapping[str, Scores], kind: str, weight: float) -> Matrix:
        return weight * of["sbert"][kind] + (1 - weight) * of["image"][kind]

    best = {}
    for kind in tuned["sbert"]:
        values = np.array([ranks(mixed(tuned, kind, weight)).mean() for weight in WEIGHTS])
        best[kind] = np.median(WEIGHTS[values >= values.max() - TIE])
    return {kind: mixed(found, kind, float(weight)) for kind, weight in best.items()}


def of_model(name: str, encoder: FusionEncoder, asked: Asked) -> dict[str, Scores]:
    """Return the scores of a model's vectors, and with the first ten in the order of its matcher."""
    print(f"{name} on {len(asked.documents)} documents", file=sys.stderr)
    documents = fused(encoder, asked.documents)
    held = np.concatenate([one.vectors for one in documents])
    vectors, again = {}, {}
    for kind, several in asked.queries.items():
        words = [text for text, _ in several]
        vectors[kind] = encoder.encode_queries(words).parts["text"] @ held.T
        if kind in KINDS and name != UNTRAINED:
            again[kind] = reranked(encoder.matcher(), words, vectors[kind], documents)
    found: dict[str, Scores] = {f"{name}, contrast": vectors}
    if again:
        found[f"{name}, matching"] = again
    return found


def rankings(models: Models, asked: Asked, dev: Asked) -> dict[str, Scores]:
    """Return the scores of every method of Table 4; the ensemble is tuned on ``dev``."""
    towers = of_towers(models, asked)
    found = {
        "text only, mini": towers["text"],
        "text only, SBERT": towers["sbert"],
        "image only, mini": towers["image"],
    }
    found["mean of both, mini"] = towers["both"]
    found["ensemble, SBERT and image"] = ensemble(of_towers(models, dev), towers)
    for name, encoder in models.trained.items():
        found |= of_model(name, encoder, asked)
    return found


def ranks(scores: Matrix) -> Matrix:
    """Return the reciprocal rank of the right document, 0 below the tenth; query i asks for document i."""
    own = np.diagonal(scores)
    rank = 1 + (scores > own[:, None]).sum(axis=1)
    found: Matrix = np.where(rank <= READ, 1 / rank, 0.0)
    return found


def measured(scores: Matrix) -> Row:
    """Return the measures of one ranking."""
    reciprocal = ranks(scores)
    mean, low, high = interval({str(at): float(one) for at, one in enumerate(reciprocal)})
    row: Row = {"MRR@10": mean, "low": low, "high": high}
    return row | {f"R@{k}": float((reciprocal >= 1 / k).mean()) for k in (1, 5, 10)}


def table_4(found: Mapping[str, Mapping[str, Scores]]) -> Iterator[Row]:
    """Yield the rows of Table 4."""
    for name, methods in found.items():
        for kind in (kind for kind in next(iter(methods.values())) if kind in KINDS):
            for method, scores in methods.items():
                yield {"collection": name, "queries": kind, "ranking": method, **measured(scores[kind])}


def table_6(name: str, methods: Mapping[str, Scores]) -> Iterator[Row]:
    """Yield the rows of Table 6."""
    for method, scores in methods.items():
        if GENERATED in scores:
            numbers = [measured(scores[kind])["MRR@10"] for kind in (GENERATED, MIXED)]
            yield {"collection": name, "ranking": method, "auto-generated": numbers[0], "human-written": numbers[1]}


def close_calls(asked: Asked, image: Scores) -> dict[str, Mask]:
    """Return the queries about one part whose best documents are close, by BM25 and by the image tower."""
    ids = [document.id for document in asked.documents]
    place = {name: at for at, name in enumerate(ids)}
    words = [text for text, _ in asked.queries[TEXT]]
    scores = np.zeros((len(words), len(ids)))
    for row, hits in enumerate(Bm25(ids, [document.text or "" for document in asked.documents]).search(words, READ)):
        for name, score in hits:
            scores[row, place[name]] = score
    found = {TEXT: ambiguous(scores)}
    return found | ({IMAGE: ambiguous(image[IMAGE])} if IMAGE in image else {})


def table_unique(name: str, asked: Asked, methods: Mapping[str, Scores]) -> Iterator[Row]:
    """Yield R@1 of all queries, and of those that are not close calls."""
    for kind, close in close_calls(asked, methods["image only, mini"]).items():
        for method in ("text only, SBERT", "image only, mini", "mean of both, mini", f"{OURS}, contrast"):
            first = ranks(methods[method][kind]) == 1
            row: Row = {"collection": name, "queries": kind, "ranking": method, "close": float(close.mean())}
            yield row | {"R@1, all": float(first.mean()), "R@1, others": float(first[~close].mean())}


def table_log(model: Path) -> list[Row]:
    """Return the measurements during the training of the paper's model: losses of an epoch, R@1 of held-out pairs."""
    rows = [json.loads(line) for line in (model / "run" / "log.jsonl").read_text("utf-8").splitlines()]
    found: list[Row] = []
    for row in rows:
        losses = {name: float(row[name]) if name in row else "" for name in ("contrast", "matching")}
        found.append(
            {"stage": row["stage"], "epoch": str(row["epoch"]), **losses, **{kind: row[kind] for kind in KINDS}}
        )
    return found


def _rows(folder: Path, name: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads((folder / f"multimodal_{name}.json").read_text("utf-8"))
    return found


def main(data: Path, folder: Path, models: Models) -> Iterator[tuple[str, Sequence[Row]]]:
    """Yield the tables."""
    if not (folder / "multimodal_auto_test_queries.json").exists():
        build(data, folder)
    asked = {group: related(folder, group) for group in ("photos", "pages")} | {"unrelated": unrelated_test(data)}
    dev = {group: related(folder, group, dev=True) for group in ("photos", "pages")} | {
        "unrelated": unrelated_dev(data)
    }
    found = {name: rankings(models, asked[name], dev[name]) for name in asked}
    yield "mr_right", list(table_4(found))
    yield "mr_right_generated", [row for name in ("photos", "pages") for row in table_6(name, found[name])]
    unique = [row for name in ("photos", "pages") for row in table_unique(name, asked[name], found[name])]
    yield "mr_right_unique", unique


if __name__ == "__main__":
    options = arguments(__doc__, OPTIONS)
    models = Models.load(options.sbert, options.fusion, options.start, options.model, options.cache)
    tables = dict(main(options.data, Path(options.set or "out/related"), models))
    tables["mr_right_log"] = table_log(Path(options.model))
    raise SystemExit(max([compared(name, list(rows), options.write) for name, rows in tables.items()]))
