"""Similarity standardisation, from labelled pairs and from pseudo-positives, as in Yamashita et al.

    python reproduce/standardize.py --data DIR        (needs flickr8k/, mix/ and emb/clip_pairs.npz)

R@1, 5, 20 and 100, MRR@20 and nDCG@20 by the right document's modality (their Tables 3 and 4), on the mixed corpora of
``mini_mix.py`` (documents that are texts, photos or both; fitted on the dev split) and of ``clip_f8k.py`` (each query's
right text, its right photo). Then μ and σ by query and document modality (Table 6): of the *labelled* pairs; of
*pseudo*-positives, each query's best document of the modality; and of these with the query's own source *hidden*, as
``standardize`` is fitted. Photos are queries too, for captions. Then the paper's explanation (Table 5): the *skewness*
of a query's similarities to all texts and to all photos, the mean over queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import corpora
import numpy as np
from corpora import Mixed
from tables import SINGLE, Row, arguments, compared

from isthmus import encoders
from isthmus.diagnose.hubs import skewness
from isthmus.types import Mask, Matrix, Rows, Vectors

CUTS = (1, 5, 20, 100)
DEPTH = 20
FITS = {
    "labelled": {"labelled": True, "hidden": False},
    "pseudo": {"labelled": False, "hidden": False},
    "hidden": {"labelled": False, "hidden": True},
}


def recalls(mixed: Mixed) -> Iterator[Row]:
    """Yield R@k of each calibration by the modality of the right document; a query with several counts in each."""
    fits = {spec: mixed.fit(spec) for spec in SINGLE}
    fits |= {f"standardize, {how}": mixed.fit("standardize", **FITS[how]) for how in ("pseudo", "labelled")}
    query, document = np.nonzero(mixed.relevant)
    modality = mixed.kind[document]
    for name, fitted in fits.items():
        scores = mixed.scores(fitted)
        rank = (scores[query] > scores[query, document][:, None]).sum(axis=1)
        for asked in ("all", *mixed.documents.modalities):
            mine = (modality == asked) | (asked == "all")
            found = {f"R@{k}": float((rank[mine] < k).mean()) for k in CUTS}
            yield {"corpus": mixed.name, "calibration": name, "asked for": asked, **found, **early(query, rank, mine)}


def early(query: Rows, rank: Rows, mine: Mask) -> dict[str, float]:
    """Return MRR@20 and nDCG@20 over the queries of some right documents, from the ranks (from 0) of all of them."""
    asked, row = np.unique(query[mine], return_inverse=True)
    kept = rank[mine] < DEPTH
    first = np.full(len(asked), np.inf)
    np.minimum.at(first, row[kept], rank[mine][kept])
    gain = np.bincount(row, np.where(kept, 1 / np.log2(rank[mine] + 2), 0.0), len(asked))
    ideal = np.cumsum(1 / np.log2(np.arange(2, DEPTH + 2)))[np.minimum(np.bincount(row), DEPTH) - 1]
    return {f"MRR@{DEPTH}": float((1 / (first + 1)).mean()), f"nDCG@{DEPTH}": float((gain / ideal).mean())}


def moments(mixed: Mixed) -> Iterator[Row]:
    """Yield μ and σ of each pair of modalities, fitted in three ways."""
    fits = {how: mixed.fit("standardize", **settings).scale for how, settings in FITS.items()}
    for asked in mixed.asked.modalities:
        for found in mixed.seen.modalities:
            told = {how: scale.of(asked, found) for how, scale in fits.items() if scale}
            values = {f"{name} {how}": both[n] for how, both in told.items() for n, name in enumerate("μσ")}
            yield {"corpus": mixed.name, "query": asked, "document": found, **values}


def shapes(name: str, asked: Matrix, texts: Matrix, photos: Matrix) -> Row:
    """Return the mean skewness of the similarities of each query to all texts, and to all photos."""
    found = {kind: [skewness(row) for row in asked @ rows.T] for kind, rows in (("text", texts), ("image", photos))}
    means: Row = {f"skewness {kind}": float(np.mean(values)) for kind, values in found.items()}
    return {"vectors": name, "queries": float(len(asked)), **means}


def clip_shapes(data: Path) -> Iterator[Row]:
    """Yield the shapes of CLIP's similarities in two sets."""
    held = {
        name: rows.astype(np.float32) for name, rows in np.load(data / "emb/clip_pairs.npz").items() if rows.ndim > 1
    }
    captions = held["f8k_txt"].reshape(100, 5, -1)
    yield shapes("CLIP, Flickr8k", captions[:, 0], captions[:, 1:].reshape(400, -1), held["f8k_img"])
    half = slice(0, 250), slice(250, 500)
    asked, texts = (held["unsplash500_txt"][rows] for rows in half)
    yield shapes("CLIP, Unsplash", asked, texts, held["unsplash500_img"])


def backwards(mixed: Mixed, photos: Matrix, captions: Matrix) -> Mixed:
    """Use photos as queries for captions."""
    pairs = np.column_stack([np.arange(len(photos))] * 2)
    return replace(mixed, seen=Vectors.of(captions, "text"), asked=Vectors.of(photos, "image"), pairs=pairs)


if __name__ == "__main__":
    options = arguments(__doc__)
    both = corpora.clip(options.data), corpora.mini(encoders.load("mini", batch=64), options.data)
    clip, mini = both
    everything = mini.seen.parts["image"], mini.seen.parts["text"]  # including parts that the corpus does not use
    asking = (
        clip,
        backwards(clip, clip.documents.parts["image"][:100], clip.documents.parts["text"][100:]),
        mini,
        backwards(mini, *everything),
    )
    named = mini.documents.modality  # texts and photos alone
    texts, photos = (mini.documents.parts[kind][named == kind] for kind in ("text", "image"))
    skewnesses = [*clip_shapes(options.data), shapes("mini, Flickr8k", mini.queries.parts["text"], texts, photos)]
    wrong = (
        compared("standardize", [row for mixed in both for row in recalls(mixed)], options.write),
        compared("standardize_moments", [row for mixed in asking for row in moments(mixed)], options.write),
        compared("standardize_skewness", skewnesses, options.write),
    )
    raise SystemExit(max(wrong))
