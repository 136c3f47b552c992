"""Gender bias of neutral queries: VisoGender's retrieval bias, as in NNN's paper, on Flickr8k.

    python reproduce/groups.py --data DIR        (needs flickr8k/)

VisoGender is not available, so the gallery comes from Flickr8k's test split: photos whose five captions all mention a
man or a boy and never a woman or a girl, and a random sample of the same number the other way round. The queries are
the captions of these photos made neutral ("a person riding a bike"); a query's own photo is left out. References are
the first captions of the dev split, made neutral; its photos are the gallery bank of dbnorm. bias@10 above 0: more men;
*absolute*: in either direction; *by lot*: random lists of ten from the gallery; R@10: how often the neutral caption
finds its own photo, if that is included.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from tables import SINGLE, Row, arguments, compared

from isthmus import calibration, encoders
from isthmus.documents import Document, Query
from isthmus.evaluate import max_skew, ndkl, retrieval_bias
from isthmus.evaluate.benchmarks.captions import Captioned
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.evaluate.benchmarks.flickr8k import HOME, split
from isthmus.types import Matrix, Names

TOP = 10
EXPECTED = {"man": 0.5, "woman": 0.5}
SPECS = (*SINGLE, *(f"nnn(k=16,alpha={alpha})" for alpha in (0.25, 0.5, 1.0)), "center+nnn(k=16)")
SAYS = {
    "man": {"man", "men", "boy", "boys", "guy", "guys", "male", "gentleman", "he", "him", "his"},
    "woman": {"woman", "women", "girl", "girls", "lady", "ladies", "female", "she", "her", "hers"},
}
NEUTRAL = {
    "person": "man guy gentleman male woman lady female",
    "people": "men guys women ladies",
    "child": "boy girl",
    "children": "boys girls",
    "they": "he she",
    "their": "his her hers him",
}
INSTEAD = {word: neutral for neutral, words in NEUTRAL.items() for word in words.split()}


def neutral(caption: str) -> str:
    """Replace words for men and women by neutral ones."""
    return re.sub(r"[a-z]+", lambda word: INSTEAD.get(word[0], word[0]), caption.lower())


def group(photo: Captioned) -> str:
    """Return ``man`` or ``woman`` if all captions mention one and none mentions the other; empty otherwise."""
    words = [set(re.findall("[a-z]+", caption.lower())) for caption in photo.captions]
    said = {name: [bool(SAYS[name] & each) for each in words] for name in SAYS}
    men, women = said["man"], said["woman"]
    return "man" if all(men) and not any(women) else "woman" if all(women) and not any(men) else ""


def gallery(photos: list[Captioned]) -> tuple[list[Captioned], Names]:
    """Return the same number of photos of men and of women, and the label of each."""
    kind = np.array([group(photo) for photo in photos])
    rng = np.random.default_rng(0)
    size = min(int((kind == name).sum()) for name in SAYS)
    chosen = np.sort(np.concatenate([rng.permutation(np.flatnonzero(kind == name))[:size] for name in SAYS]))
    return [photos[row] for row in chosen], kind[chosen]


def described(name: str, scores: Matrix, kind: Names, own: Matrix) -> Row:
    """Return the row of one ranking; ``own`` marks each query's own photo, ``(q, n)``."""
    order = np.argsort(-np.where(own, -np.inf, scores), axis=1, kind="stable")[:, :TOP]
    leaning = retrieval_bias(kind[order], "man", "woman")
    rank = (scores > np.where(own, scores, -np.inf).max(axis=1, keepdims=True)).sum(axis=1)
    return {
        "calibration": name,
        "bias@10": float(leaning.mean()),
        "absolute": float(np.abs(leaning).mean()),
        "max skew@10": float(max_skew(kind[order], EXPECTED).mean()),
        "NDKL": float(ndkl(kind[order], EXPECTED).mean()),
        "R@10": float((rank < TOP).mean()),
    }


def main(data: Path) -> list[Row]:
    encoder = encoders.load("mini", batch=64)
    folder = BenchmarkFolder(data / "flickr8k", "flickr8k", HOME)
    photos, kind = gallery(split(folder, "test"))
    print(f"{len(photos)} photos, {len(photos) // 2} of men and as many of women\n")
    documents = encoder.encode_documents([Document(photo.id, image=photo.image) for photo in photos])
    queries = encoder.encode_queries([Query(neutral(caption)) for photo in photos for caption in photo.captions])
    dev = split(folder, "dev")
    references = encoder.encode_queries([Query(neutral(photo.captions[0])) for photo in dev])
    bank = encoder.encode_documents([Document(photo.id, image=photo.image) for photo in dev])
    own = np.repeat(np.eye(len(photos), dtype=bool), 5, axis=0)
    rows = [
        described(
            spec,
            calibration.fit(spec, documents, references, reference_documents=bank).scores(queries, documents),
            kind,
            own,
        )
        for spec in SPECS
    ]
    return [*rows, described("by lot", np.random.default_rng(1).random(own.shape), kind, own)]


if __name__ == "__main__":
    options = arguments(__doc__)
    raise SystemExit(compared("groups", main(options.data), options.write))
