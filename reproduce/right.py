"""Documents of an abstract and a photo, with queries about the text, the photo, and both: the table of Mr. Right.

    python reproduce/right.py --data DIR [--model FOLDER] [--paper FOLDER] [--set OUT] [--cache FOLDER]
                                                    (needs scifact/, flickr8k/; an hour, without --paper forty minutes)

MRR@10, R@1 with its 95% interval, R@5 and R@10 of the test queries over all test documents (``right_set.py``, built if
it does not exist). One vector of text, one of the image, both fused raw and centred, and the ensemble of the two towers
with a weight for each kind of query, tuned on dev. Then the trained model, ``mini-fusion`` or what ``isthmus train
fusion`` wrote to a folder: its vectors, the same under nnn, and the matcher on its first 20, alone and under nnn. The
vectors and the matcher of what ``isthmus train fusion --paper`` wrote are a second table, if its folder is given.
Only the ensemble knows the kind of a query.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from right_set import NAMES, build
from tables import Row, arguments, compared

from isthmus import calibration, encoders
from isthmus.documents import Document, Query
from isthmus.encoders.base import Encoder
from isthmus.encoders.fusion import FusionEncoder
from isthmus.encoders.heads import Fused
from isthmus.encoders.matching import Matcher
from isthmus.evaluate import interval, values
from isthmus.queries.kinds import KINDS
from isthmus.types import Mask, Matrix, Rows, Vectors

MEASURES = ("RR@10", "R@1", "R@5", "R@10")
WEIGHTS = np.linspace(0, 1, 21)
DEPTH = 20  # documents that the matcher reads
NEAREST, NEIGHBOURS, ALPHA = 24, 16, 0.75  # nnn of the matcher: dev queries read for each document, kept of them
OPTIONS = {
    "model": "the output of `isthmus train fusion`; default: mini-fusion",
    "paper": "the output of `isthmus train fusion --paper`; default: no table for it",
    "set": "the output of right_set.py; default: out/right",
    "cache": "a folder for vectors",
}


@dataclass(frozen=True)
class Split:
    """Documents, queries by kind (query i for document i), and the vectors of an encoder."""

    documents: Sequence[Document]
    asked: Mapping[str, Sequence[str]]

    @classmethod
    def read(cls, folder: Path, name: str) -> Split:
        """Read dev or test."""
        files = {"dev": ("val_pairs", "val_pairs"), "test": ("documents", "test_queries")}[name]
        held, asked = (json.loads((folder / f"multimodal_{file}.json").read_text("utf-8")) for file in files)
        documents = [Document(row["id"], row["doc_text"], folder / "images" / row["doc_image"]) for row in held]
        return cls(documents, {kind: [row[NAMES[kind]] for row in asked] for kind in KINDS})


@dataclass(frozen=True)
class Encoded:
    """Passages of documents, the document of each, and queries by kind."""

    passages: Vectors
    owner: Rows
    queries: Mapping[str, Vectors]

    @classmethod
    def of(cls, encoder: Encoder, split: Split) -> Encoded:
        """Encode a split."""
        passages, owner = encoder.encode_passages(split.documents)
        return cls(passages, owner, {kind: encoder.encode_queries(list(split.asked[kind])) for kind in KINDS})

    def best(self, scores: Matrix) -> Matrix:
        """Return each document's best passage, ``(n_queries, n_documents)``."""
        first = np.searchsorted(self.owner, np.arange(self.owner[-1] + 1))
        found: Matrix = np.maximum.reduceat(scores, first, axis=1)
        return found

    def part(self, name: str, kind: str) -> Matrix:
        """Return the similarities of queries with one part of the documents."""
        return self.best(self.queries[kind].parts["text"] @ self.passages.parts[name].T)


def fused(spec: str, known: Encoded, asked: Encoded, kind: str) -> Matrix:
    """Return the scores of α-fusion under a calibration; its means are of the documents and of dev's queries."""
    references = Vectors.concat([known.queries[each] for each in KINDS])
    fitted = calibration.fit(spec, asked.passages, references)
    return asked.best(fitted.scores(asked.queries[kind], asked.passages))


def ensemble(known: Encoded, asked: Encoded, kind: str) -> Matrix:
    """Return a weighted sum of the towers' similarities, the weight with the best R@1 on dev."""

    def mixed(of: Encoded, weight: float) -> Matrix:
        return weight * of.part("text", kind) + (1 - weight) * of.part("image", kind)

    hits = [np.mean(np.argmax(scores := mixed(known, w), axis=1) == np.arange(len(scores))) for w in WEIGHTS]
    return mixed(asked, float(WEIGHTS[int(np.argmax(hits))]))


def rankings(known: Encoded, asked: Encoded) -> Iterator[tuple[str, str, Matrix]]:
    """Yield the scores of every method without training, by kind."""
    for kind in KINDS:
        yield "text only", kind, asked.part("text", kind)
        yield "image only", kind, asked.part("image", kind)
        yield "α-fusion", kind, fused("none", known, asked, kind)
        yield "α-fusion, centred", kind, fused("center", known, asked, kind)
        yield "ensemble, weights of dev", kind, ensemble(known, asked, kind)


@dataclass(frozen=True)
class Trained:
    """A trained model, its vectors of dev and test, and its name in the table."""

    name: str
    encoder: FusionEncoder
    splits: tuple[Split, Split]
    known: Encoded
    asked: Encoded

    @classmethod
    def of(cls, name: str, model: str, splits: tuple[Split, Split], cache: str | None) -> Trained:
        """Load a model and encode both splits."""
        encoder = encoders.load(model, cache=cache)
        if not isinstance(encoder, FusionEncoder):
            raise SystemExit(f"{model} is not a model of `isthmus train fusion`.")
        return cls(name, encoder, splits, *(Encoded.of(encoder, split) for split in splits))

    def rankings(self, *, nnn: bool) -> Iterator[tuple[str, str, Matrix]]:
        """Yield the scores by kind, of vectors and of the matcher; ``nnn`` of both as well."""
        reader = Reader.of(self.encoder, self.splits[1])
        references = Vectors.concat([self.known.queries[each] for each in KINDS])
        fitted = calibration.fit(f"nnn(k={NEIGHBOURS})", self.asked.passages, references)
        bias = reader.bias(self.splits[0], self.similarity(references)) if nnn else None
        for kind in KINDS:
            print(f"{self.name}: matching {kind}", file=sys.stderr)
            queries, similarity = self.asked.queries[kind], self.similarity(self.asked.queries[kind])
            logits = reader.reread(self.splits[1].asked[kind], similarity)
            yield f"{self.name}, contrast", kind, similarity
            yield f"{self.name}, matching", kind, logits
            if bias is not None:
                yield f"{self.name}, contrast, nnn", kind, self.asked.best(fitted.scores(queries, self.asked.passages))
                yield f"{self.name}, matching, nnn", kind, logits - ALPHA * bias

    def similarity(self, queries: Vectors) -> Matrix:
        """Return the similarities of queries with the test documents."""
        return self.asked.best(queries.parts["text"] @ _joint(self.asked.passages).T)


@dataclass(frozen=True)
class Reader:
    """The matcher, with the inputs of every document computed once."""

    matcher: Matcher
    passages: Sequence[tuple[Matrix, Mask, Matrix]]  # tokens, masks and vector of each
    owner: Rows

    @classmethod
    def of(cls, encoder: FusionEncoder, split: Split) -> Reader:
        """Fuse the passages of a split's documents with their photos."""
        matcher, found, owners = encoder.matcher(), [], []
        for owner, unit in matcher.inputs(split.documents):
            vectors, tokens, masks = matcher.documents.fuse([unit])
            found.append((tokens[0].astype(np.float16), masks[0], vectors[0]))
            owners.append(owner)
            if owner % 100 == 0 and owners.count(owner) == 1:
                print(f"fused {owner} of {len(split.documents)}", file=sys.stderr)
        return cls(matcher, found, np.array(owners))

    def read(self, text: str, documents: Sequence[int]) -> Matrix:
        """Return the logits of some documents for a query, each by its best passage."""
        rows = [int(row) for document in documents for row in np.flatnonzero(self.owner == document)]
        longest = max(len(self.passages[row][0]) for row in rows)
        tokens = np.zeros((len(rows), longest, self.passages[0][0].shape[1]), np.float32)
        masks = np.zeros((len(rows), 2, longest), bool)
        for at, row in enumerate(rows):
            states, mask, _ = self.passages[row]
            tokens[at, : len(states)], masks[at, :, : len(states)] = states, mask
        vectors = np.stack([self.passages[row][2] for row in rows])
        logits = self.matcher.logits(self.matcher.query_inputs(Query(text)), Fused(vectors, tokens, masks))
        return np.array([logits[self.owner[rows] == document].max() for document in documents])

    def reread(self, texts: Sequence[str], similarity: Matrix) -> Matrix:
        """Return scores with the first documents of each query in the matcher's order, before all others."""
        scores = similarity - 1000.0
        for row, text in enumerate(texts):
            first = np.argsort(-similarity[row], kind="stable")[:DEPTH]
            scores[row, first] = self.read(text, first.tolist())
        return scores

    def bias(self, known: Split, similarity: Matrix) -> Matrix:
        """Return each document's hubness: the mean of its highest logits among the dev queries that are near it."""
        texts = [text for kind in KINDS for text in known.asked[kind]]
        near = np.argsort(-similarity, axis=0, kind="stable")[:NEAREST]  # (nearest, n_documents)
        logits = np.full(near.shape, -np.inf)
        for query in np.unique(near):
            place, documents = np.nonzero(near == query)
            logits[place, documents] = self.read(texts[query], documents.tolist())
        found: Matrix = np.sort(logits, axis=0)[-NEIGHBOURS:].mean(axis=0)
        return found


def _joint(vectors: Vectors) -> Matrix:
    """Return the vectors of documents, of any part."""
    found: Matrix = sum(vectors.parts[p] * vectors.present[p][:, None] for p in vectors.parts)  # type: ignore[assignment]
    return found


def table(scores: Iterator[tuple[str, str, Matrix]], split: Split) -> list[Row]:
    """Measure scores, a row for each method and kind."""
    names = [document.id for document in split.documents]
    qrels = {name: {name: 1} for name in names}
    rows: list[Row] = []
    for way, kind, matrix in scores:
        order = np.argsort(-matrix, axis=1, kind="stable")[:, :10]
        run = {
            name: {names[at]: float(10 - place) for place, at in enumerate(best)}
            for name, best in zip(names, order, strict=True)
        }
        found = {measure: values(measure, run, qrels) for measure in MEASURES}
        _, low, high = interval(found["R@1"])
        means = {measure: float(np.mean(list(numbers.values()))) for measure, numbers in found.items()}
        rows.append(
            {"ranking": way, "queries": kind, "MRR@10": means["RR@10"], "R@1": means["R@1"], "low": low, "high": high}
        )
        rows[-1] |= {"R@5": means["R@5"], "R@10": means["R@10"]}
    return rows


def by_kind(rows: list[Row]) -> list[Row]:
    """Return the rows of each kind of query together."""
    return sorted(rows, key=lambda row: KINDS.index(str(row["queries"])))


def main(data: Path, folder: Path, model: str, paper: str | None, cache: str | None) -> Iterator[tuple[str, list[Row]]]:
    """Yield the table, and that of the paper's model."""
    if not (folder / "multimodal_documents.json").exists():
        build(data, folder)
    splits = Split.read(folder, "dev"), Split.read(folder, "test")
    plain = encoders.load("mini", cache=cache)
    rows = table(rankings(*(Encoded.of(plain, split) for split in splits)), splits[1])
    rows += table(Trained.of("ours", model, splits, cache).rankings(nnn=True), splits[1])
    yield "right", by_kind(rows)
    if paper:
        found = Trained.of("the paper's", f"onnx:{paper}", splits, cache).rankings(nnn=False)
        yield "right_paper", by_kind(table(found, splits[1]))


if __name__ == "__main__":
    options = arguments(__doc__, OPTIONS)
    model = f"onnx:{options.model}" if options.model else "mini-fusion"
    tables = main(options.data, Path(options.set or "out/right"), model, options.paper, options.cache)
    raise SystemExit(max([compared(name, rows, options.write) for name, rows in tables]))
