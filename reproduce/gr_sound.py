"""GR-CLIP's U-curve with sounds: ESC-10 and ``mini``, as texts are replaced by sounds.

    python reproduce/gr_sound.py --data DIR        (needs esc10/; extra ``sound``; --write also draws)

Each of the 400 clips has a made text: a phrase of its class, a place and a time, 40 different ones for each class.
nDCG@100 as each document becomes its sound with probability p, means of 10 draws; the queries are the other phrase and
the name of each class, and all 40 documents of the class are right: with nDCG@10 ten texts would do. References are the
names of the 521 classes of YAMNet, as "hear NAME", without those that hold a word of a query. There are no other
sounds: the gallery bank of dbnorm is the built-in bank, as in ``isthmus evaluate``. The paper has CLAP with Clotho,
where every sound has five captions of its own: here a text tells no more than the class. 20 queries are few.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from curves import SHARES, SPECS, drawn
from esc10 import PHRASES, classes, clips
from paired import replaced
from tables import Row, arguments, compared

from isthmus import Document, calibration, encoders
from isthmus.encoders.references import SHIPPED_QUERIES, bank_vectors
from isthmus.encoders.sounds import FOLDER
from isthmus.queries.phrases import content_words
from isthmus.types import Mask, Matrix

PLACES = ("in a garden", "near the house", "in the hall", "far away", "next door", "at the farm", "outside", "in town")
TIMES = ("in the morning", "at noon", "in the evening", "at night", "on a Sunday")
DRAWS = 10
DEPTH = 100
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "gr_sound.png"


def ndcg(scores: Matrix, relevant: Mask) -> Matrix:
    """Return nDCG@100 of each query, (n,)."""
    discount = 1 / np.log2(np.arange(2, DEPTH + 2))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
    gain = np.take_along_axis(relevant, order, axis=1) @ discount
    best = np.array([discount[: min(DEPTH, count)].sum() for count in relevant.sum(axis=1)])
    return np.asarray(gain / best)


def curve(data: Path) -> list[Row]:
    """Return a row per share of sounds."""
    encoder = encoders.load("mini", batch=64)
    several = clips(data)
    names, labels = classes(several)
    said = [f"{PHRASES[label][1]} {place} {time}" for label in names for place in PLACES for time in TIMES]
    turn = {label: iter(said[40 * number :][:40]) for number, label in enumerate(names)}
    both = encoder.encode_documents(
        [Document(clip.path.stem, next(turn[clip.label]), audio=clip.path) for clip in several]
    )
    queries = [words for label in names for words in (PHRASES[label][0], label.replace("_", " "))]
    asked = encoder.encode_queries(queries)
    taken = {word.lower() for query in queries for word in content_words(query)}
    known = (FOLDER / "classes.txt").read_text("utf-8").lower().splitlines()
    others = [f"hear {name}" for name in known if not taken & {word.lower() for word in content_words(name)}]
    references = encoder.encode_queries(others)
    bank = bank_vectors(encoder, limit=SHIPPED_QUERIES)
    relevant = np.repeat(np.arange(len(names)), 2)[:, None] == labels[None, :]
    rows: list[Row] = []
    for share in SHARES:
        found: dict[str, list[float]] = {spec: [] for spec in SPECS}
        for draw in range(DRAWS):
            documents = replaced(both, share, np.random.default_rng(draw))
            for spec in SPECS:
                fitted = calibration.fit(spec, documents, references, reference_documents=bank)
                scores = fitted.scores(asked, documents)
                found[spec].append(float(ndcg(scores, relevant).mean()))
        rows.append({"curve": f"sounds {share}", **{spec: float(np.mean(values)) for spec, values in found.items()}})
    return rows


if __name__ == "__main__":
    options = arguments(__doc__)
    heard = curve(options.data)
    if options.write:
        drawn({("Sounds, mini", "share of sounds among the documents"): heard}, PICTURE, "nDCG@100")
    raise SystemExit(compared("gr_sound", heard, options.write))
