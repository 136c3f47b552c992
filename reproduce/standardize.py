"""Similarity standardisation, from labelled pairs and from pseudo-positives, as in Yamashita et al.

    python reproduce/standardize.py --data DIR        (needs flickr8k/, mix/ and emb/clip_pairs.npz)

R@1, 5, 20 and 100 by the right document's modality, on the mixed corpora of ``mini_mix.py`` (documents that are texts,
photos or both; fitted on the dev split) and of ``clip_f8k.py`` (each query's right text, its right photo). Then μ and σ
by query and document modality: of the *labelled* pairs; of *pseudo*-positives, each query's best document of the
modality; and of these with the query's own source *hidden*, as ``standardize`` is fitted. Photos are queries too, for
captions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import corpora
import numpy as np
from corpora import Mixed
from tables import SINGLE, Row, arguments, compared

from isthmus import encoders
from isthmus.types import Matrix, Vectors

CUTS = (1, 5, 20, 100)
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
            found = {f"R@{k}": float((rank[(modality == asked) | (asked == "all")] < k).mean()) for k in CUTS}
            yield {"corpus": mixed.name, "calibration": name, "asked for": asked, **found}


def moments(mixed: Mixed) -> Iterator[Row]:
    """Yield μ and σ of each pair of modalities, fitted in three ways."""
    fits = {how: mixed.fit("standardize", **settings).scale for how, settings in FITS.items()}
    for asked in mixed.asked.modalities:
        for found in mixed.seen.modalities:
            told = {how: scale.of(asked, found) for how, scale in fits.items() if scale}
            values = {f"{name} {how}": both[n] for how, both in told.items() for n, name in enumerate("μσ")}
            yield {"corpus": mixed.name, "query": asked, "document": found, **values}


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
    wrong = (
        compared("standardize", [row for mixed in both for row in recalls(mixed)], options.write),
        compared("standardize_moments", [row for mixed in asking for row in moments(mixed)], options.write),
    )
    raise SystemExit(max(wrong))
