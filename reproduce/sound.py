"""Sounds found by words with ``mini``: ESC-10 by the names of its classes, and a mixed corpus of sounds, photos, texts.

    python reproduce/sound.py --data DIR        (needs esc10/, flickr8k/; extra ``sound``)

*By class*: R@1, whether the nearest of the ten class names is that of a clip, on folds 3 to 5 and on all; P@10 and MAP,
whether a class name finds its 40 clips. The anchor was chosen by R@1 on folds 1 and 2: all classes or ten, plain names
or "the sound of …", centred or not. *Head*: ridge regression from YAMNet's 1,024 numbers to the vector of the class
name, trained on eight classes and asked for the clips of the other two, among all ten names; five splits.

*Mixed*: 400 sounds, the 1,000 photos of Flickr8k's test split and 1,000 captions of its dev split. Queries: two phrases
for each class of sounds, 200 captions of the photos, and 200 other captions of the dev split, whose right document is
the text. nDCG@10 by the kind of the right documents, and the share of sounds among the first ten. What a collection
does not take (merges, and ``dbnorm``, whose gallery is the built-in bank) ranks by its equations, fitted on the same
references.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from esc10 import PHRASES, Clip, classes, clips, outputs
from tables import SINGLE, Row, arguments, compared

from isthmus import Collection, Document, calibration, encoders
from isthmus.calibration.rows import unit
from isthmus.encoders.base import Encoder
from isthmus.encoders.media import MediaEncoder
from isthmus.encoders.references import SHIPPED_QUERIES, bank_vectors
from isthmus.encoders.sounds import FOLDER, TOP
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.evaluate.benchmarks.flickr8k import HOME, split
from isthmus.types import Mask, Matrix, Rows

RIDGE = 10.0  # of embeddings with mean 0
ASKED = 200  # captions of each kind
BY_EQUATIONS = ("minmax", "zscore", "rrf", "dbnorm")


def anchored(scores: Matrix, names: Matrix, top: int, *, centred: bool) -> Matrix:
    """Return the vectors of clips: the weighted sum of the names of their highest classes."""
    lowest = np.sort(scores, axis=1)[:, -top][:, None]
    anchors = names - names.mean(axis=0) if centred else names
    return unit(np.where(scores >= lowest, scores, 0) @ anchors)


def by_name(name: str, found: Matrix, labels: Rows, held_out: Mask) -> Row:
    """Measure clips (n, d)·names (d, c) → (n, c) in both directions."""
    right = found.argmax(axis=1) == labels
    precision, average = [], []
    for number in range(found.shape[1]):
        relevant = labels[np.argsort(-found[:, number], kind="stable")] == number
        precision.append(relevant[:10].mean())
        average.append((np.cumsum(relevant) / np.arange(1, len(relevant) + 1))[relevant].mean())
    return {
        "what": name,
        "R@1, folds 3–5": float(right[held_out].mean()),
        "R@1": float(right.mean()),
        "P@10": float(np.mean(precision)),
        "MAP": float(np.mean(average)),
    }


def headed(states: Matrix, labels: Rows, targets: Matrix) -> Matrix:
    """Return the vectors that ridge regression gives clips of classes that it was not trained on, (n, d)."""
    out = np.zeros((len(states), targets.shape[1]))
    for first in range(0, len(targets), 2):
        unseen = np.isin(labels, [first, first + 1])
        mean, origin = states[~unseen].mean(axis=0), targets[labels[~unseen]].mean(axis=0)
        x, y = states[~unseen] - mean, targets[labels[~unseen]] - origin
        weights = np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ y)
        out[unseen] = (states[unseen] - mean) @ weights
    return unit(out)


def of_classes(encoder: Encoder, several: Sequence[Clip]) -> list[Row]:
    """Compare anchors, and the head."""
    assert isinstance(encoder, MediaEncoder)  # noqa: S101 - for the type checker
    names, labels = classes([*several])
    held_out = np.array([clip.fold > 2 for clip in several])
    scores, states = outputs(encoder, [*several])
    known = (FOLDER / "classes.txt").read_text("utf-8").splitlines()
    plain, said = (
        encoder.encode_queries([f"{before}{name.lower()}" for name in known]).parts["text"]
        for before in ("", "the sound of ")
    )
    asked = encoder.encode_queries([name.replace("_", " ") for name in names]).parts["text"]
    ten, every = anchored(scores, said, TOP, centred=True), scores.shape[1]
    rows = [
        by_name(name, vectors @ asked.T, labels, held_out)
        for name, vectors in (
            ("names, all classes", anchored(scores, plain, every, centred=False)),
            ("names, centred, all classes", anchored(scores, plain, every, centred=True)),
            ("names, centred, ten classes", anchored(scores, plain, TOP, centred=True)),
            ("the sound of …, centred, all classes", anchored(scores, said, every, centred=True)),
            ("the sound of …, centred, ten classes", ten),
            ("head on classes it did not see", headed(states, labels, asked)),
            ("both, added", unit(ten + headed(states, labels, asked))),
        )
    ]
    shipped = encoder.encode_documents([Document(clip.path.stem, audio=clip.path) for clip in several])
    return [*rows, by_name("mini", shipped.parts["audio"] @ asked.T, labels, held_out)]


def mixed(encoder: Encoder, several: Sequence[Clip], data: Path) -> list[Row]:
    """Search sounds, photos and texts in one collection."""
    folder = BenchmarkFolder(data / "flickr8k", "flickr8k", HOME)
    test, dev = (split(folder, name) for name in ("test", "dev"))
    documents = [Document(clip.path.name, audio=clip.path) for clip in several]
    documents += [Document(f"photo {photo.id}", image=photo.image) for photo in test]
    documents += [Document(f"text {photo.id}", photo.captions[1]) for photo in dev]
    asked: list[tuple[str, str, dict[str, int]]] = []
    for label, phrases in PHRASES.items():
        right = {clip.path.name: 1 for clip in several if clip.label == label}
        asked += [("audio", phrase, right) for phrase in phrases]
    asked += [("image", photo.captions[0], {f"photo {photo.id}": 1}) for photo in test[:ASKED]]
    asked += [("text", photo.captions[0], {f"text {photo.id}": 1}) for photo in dev[:ASKED]]
    kind = np.array([one for one, _, _ in asked])
    rows: list[Row] = []
    with Collection.open(":memory:", encoder, follow=False) as things:
        things.add(documents)
        kinds = {document.id: document.modality for document in documents}
        for spec in (*SINGLE, "center+nnn(k=16)+standardize", "auto"):
            found = _first_ten(things, spec, encoder, [words for _, words, _ in asked])
            values = np.array([_gain(ids, right) for ids, (_, _, right) in zip(found, asked, strict=True)])
            heard = np.array([np.mean([kinds[name] == "audio" for name in ids]) for ids in found])
            row: Row = {"calibration": spec}
            row |= {f"nDCG@10, {one}": float(values[kind == one].mean()) for one in ("audio", "image", "text")}
            row["mean"] = float(np.mean([values[kind == one].mean() for one in ("audio", "image", "text")]))
            row |= {f"sounds, {one} queries": float(heard[kind == one].mean()) for one in ("audio", "image", "text")}
            rows.append(row)
    return rows


def _first_ten(things: Collection, spec: str, encoder: Encoder, asked: Sequence[str]) -> list[list[str]]:
    if spec not in BY_EQUATIONS:
        things.calibrate(spec)
        return [[hit.id for hit in hits] for hits in things.search_many(asked, k=10)]
    real = things.references().real
    bank = bank_vectors(encoder, limit=SHIPPED_QUERIES) if spec == "dbnorm" else None
    fitted = calibration.fit(
        spec, real.documents, real.queries, sources=real.sources, owner=real.owner, reference_documents=bank
    )
    scores = fitted.scores(encoder.encode_queries(asked), real.documents, sources=real.sources, owner=real.owner)
    return [[real.ids[row] for row in np.argsort(-each, kind="stable")[:10]] for each in scores]


def _gain(ids: Sequence[str], right: dict[str, int]) -> float:
    discount = 1 / np.log2(np.arange(2, 12))
    found = sum(right.get(name, 0) * share for name, share in zip(ids, discount, strict=False))
    return float(found / discount[: min(10, len(right))].sum())


if __name__ == "__main__":
    options = arguments(__doc__)
    mini = encoders.load("mini", batch=64)
    heard = clips(options.data)
    wrong = compared("sound", of_classes(mini, heard), options.write)
    wrong |= compared("sound_mixed", mixed(mini, heard, options.data), options.write)
    raise SystemExit(wrong)
