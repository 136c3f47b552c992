"""GR-CLIP's curves: over the share of pictures with the push-down simulation, and over α; three measures.

    python reproduce/gr_clip.py --data DIR        (needs flickr8k/ and emb/clip_pairs.npz; --write also draws)

Figures 2, 3, 6 and 7 of Li et al. (2025) on CLIP's vectors of 100 Flickr8k photos (means of 40 draws) and with ``mini``
on Flickr8k's test split (5 draws). Caption 0 is the query, caption 1 the text of a document. *share p*: each text is
replaced by its photo with probability p. *α*: each document is both, fused. *push-down*: the similarities of all photos
are one constant, and their order is random; *pushed below*: they are 2 less, so photos come after all texts, in order.
``standardize`` has no value where a draw leaves a single text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from paired import BELOW, DOWN, MEASURES, OURS, OWN, RAW, TRAIN, Paired, clip, means, measured, mini, replaced, scores
from tables import Row, arguments, compared

from isthmus import encoders
from isthmus.errors import CannotFit
from isthmus.evaluate.builders import fusion_weights

SHARES = (*(round(0.1 * step, 1) for step in range(10)), 0.99, 1.0)
ALPHAS = tuple(round(0.1 * step, 1) for step in range(11))
DRAWS = {"CLIP": 40, "mini": 5}
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "gr_clip.png"
DRAWN = {
    DOWN: ("0.75", ":"),
    BELOW: ("0.55", "--"),
    RAW: ("C0", "-"),
    OWN: ("C1", "-"),
    TRAIN: ("C3", "--"),
    OURS: ("C2", "-"),
}


def by_share(of: Paired, draws: int) -> Iterator[Row]:
    """Replace an increasing share of texts by the other part."""
    for share in SHARES:
        several = 1 if share in (0, 1) else draws
        made = [replaced(of.documents, share, np.random.default_rng(draw)) for draw in range(several)]
        for method in (RAW, DOWN, BELOW, OWN, TRAIN, OURS):
            try:
                found = means([measured(scores(of, documents, method)) for documents in made])
            except CannotFit:  # a single text has no spread
                continue
            yield {"vectors": of.name, "curve": f"share {share}", "calibration": method, **found}


def by_fusion(of: Paired) -> Iterator[Row]:
    """Give the text of documents of both parts an increasing weight."""
    for alpha, documents in fusion_weights(of.documents, ALPHAS):
        for method in (RAW, OWN, TRAIN, OURS):
            found = measured(scores(of, documents, method))
            yield {"vectors": of.name, "curve": f"α {alpha}", "calibration": method, **found}


def draw(rows: list[Row]) -> None:
    """Draw a line of panels per set: nDCG@10, nDCG@100 and R@1 by share, then by α."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(str(row["vectors"]) for row in rows))
    size = (2.7 * 2 * len(MEASURES), 3.1 * len(names) + 0.5)
    figure, axes = plt.subplots(len(names), 2 * len(MEASURES), figsize=size, layout="constrained")
    for line, name in zip(np.atleast_2d(axes), names, strict=True):
        for place, (curve, measure) in zip(line, [(c, m) for c in ("share", "α") for m in MEASURES], strict=True):
            for method, (colour, style) in DRAWN.items():
                mine = [r for r in rows if (r["vectors"], r["calibration"]) == (name, method)]
                mine = [row for row in mine if str(row["curve"]).startswith(f"{curve} ")]
                at = [float(str(row["curve"]).split()[1]) for row in mine]
                place.plot(at, [float(row[measure]) for row in mine], style, color=colour, label=method)
            place.set_title(f"{name}, {measure}", loc="left", fontsize=10)
            below, bottom = ("share of photos", 0.0) if curve == "share" else ("α: weight of the text", 0.4)
            place.set(xlabel=below, ylim=(bottom, 1))
            place.grid(alpha=0.3)
    handles, labels = np.atleast_2d(axes)[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=len(DRAWN))
    figure.savefig(PICTURE, dpi=90)


if __name__ == "__main__":
    options = arguments(__doc__)
    sets = [clip(options.data), mini(encoders.load("mini", batch=64), options.data)]
    table = [row for of in sets for row in (*by_share(of, DRAWS[of.name]), *by_fusion(of))]
    if options.write:
        draw(table)
    raise SystemExit(compared("gr_clip", table, options.write))
