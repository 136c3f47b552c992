"""Photos found by captions and captions by photos, real CLIP vectors: the NNN paper's Tables 1, 2, A8 to A11, smaller.

    python reproduce/recalls.py --data DIR        (needs emb/clip_pairs.npz; --write also draws)

*Flickr8k, text → image*: 590 photos, asked by caption 0 of 100 of them; references are captions 1 to 4, kept apart from
their own photo; the gallery bank of dbnorm is 500 other photos. *Flickr8k, image → text*: all 500 captions, asked by
their 100 photos, five right captions each; references are 990 other photos, the gallery bank is the texts of Unsplash.
*Unsplash*: one half of its pairs is searched, the other half provides references and the gallery bank; then the other
way round. *tuned*: the best of the paper's grid by R@1 (Appendix B) on the references: with Flickr8k by two folds of
captions, with Unsplash on the half that is not searched; the photos that are references for Flickr8k's captions have
none. *other set*: references of the other set, as in the paper's cross columns, and k and α of the grid that are best
with these references for queries whose answer is known, as the paper chooses them. dn(lam=1.0) is DN as Appendix A3
describes it. R@k is the share of queries with a right document among the first k; 95% intervals of R@1 by bootstrap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tables import Row, arguments, compared

from isthmus import calibration
from isthmus.calibration import DBNORM_PAPER_GRID, NNN_PAPER_GRID, recall_at_1
from isthmus.evaluate import interval
from isthmus.types import Mask, Rows, Vectors

SPECS = (
    "none",
    "center",
    "dn",
    "dn(lam=1.0)",
    "qbnorm",
    "dbnorm(beta_gallery=20,beta_query=20)",
    "dbnorm",
    "dbnorm(dynamic=true)",
    "nnn(k=16)",
    "nnn(k=128)",
)
GRIDS = {"nnn": NNN_PAPER_GRID, "dbnorm": DBNORM_PAPER_GRID}
CUTS = (1, 5, 10)
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "recalls.png"


@dataclass(frozen=True)
class Search:
    """Documents, queries and their right documents; references with their sources, a gallery, another set's queries."""

    documents: Vectors
    queries: Vectors
    relevant: Mask
    references: Vectors
    gallery: Vectors
    elsewhere: Vectors
    sources: Rows | None = None

    def ranks(self, spec: str, references: Vectors | None = None) -> Rows:
        """Return the rank, from 0, of each query's best right document."""
        sources = self.sources if references is None else None
        asked = self.references if references is None else references
        fitted = calibration.fit(spec, self.documents, asked, sources=sources, reference_documents=self.gallery)
        scores = fitted.scores(self.queries, self.documents, sources=sources)
        best = np.where(self.relevant, scores, -np.inf).max(axis=1, keepdims=True)
        return np.asarray((scores > best).sum(axis=1))

    @property
    def answered(self) -> bool:
        """Whether the right documents of the references are known: their sources, or the gallery row by row."""
        return self.sources is not None or len(self.references) == len(self.gallery)

    @property
    def known(self) -> tuple[Vectors, Vectors, Rows]:
        """Documents that the references ask for, other documents, and the right one of each reference."""
        if self.sources is not None:
            return self.documents, self.gallery, self.sources
        return self.gallery, self.documents, np.arange(len(self.references))

    def tuned(self, method: str) -> str:
        """Return the best spec of the paper's grid on the references, without the queries."""
        documents, gallery, right = self.known
        found = calibration.tune(
            GRIDS[method],
            documents,
            self.references,
            positives=right,
            measure=recall_at_1,
            reference_documents=gallery,
        )
        return str(found.best)

    def tuned_elsewhere(self) -> str:
        """Return the best nnn of the paper's grid with references of the other set, asked by this set's references."""
        documents, _, right = self.known
        relevant = right[:, None] == np.arange(len(documents))

        def value(spec: str) -> float:
            fitted = calibration.fit(spec, documents, self.elsewhere)
            return float(recall_at_1(fitted.scores(self.references, documents), relevant).mean())

        possible = [spec for spec in NNN_PAPER_GRID if f"k={2**9}," not in spec]  # the other sets have 500
        return max(possible, key=value)


def searches(data: Path) -> dict[tuple[str, str], list[Search]]:
    """Return the searches of each set and direction."""
    held = {
        name: rows.astype(np.float32) for name, rows in np.load(data / "emb/clip_pairs.npz").items() if rows.ndim > 1
    }
    photos, captions = held["f8k_img"], held["f8k_txt"].reshape(100, 5, -1)
    of = {"image": held["unsplash500_img"], "text": held["unsplash500_txt"]}
    own = np.repeat(np.arange(100), 5)
    to_image = Search(
        Vectors.of(photos[:590], "image"),
        Vectors.of(captions[:, 0], "text"),
        np.eye(100, 590, dtype=bool),
        Vectors.of(captions[:, 1:].reshape(400, -1), "text"),
        Vectors.of(photos[590:], "image"),
        Vectors.of(of["text"], "text"),
        np.repeat(np.arange(100), 4),
    )
    to_text = Search(
        Vectors.of(captions.reshape(500, -1), "text"),
        Vectors.of(photos[:100], "image"),
        np.arange(100)[:, None] == own,
        Vectors.of(photos[100:], "image"),
        Vectors.of(of["text"], "text"),
        Vectors.of(of["image"], "image"),
    )
    halves = (slice(0, 250), slice(250, 500)), (slice(250, 500), slice(0, 250))
    other = {"text": Vectors.of(captions.reshape(500, -1), "text"), "image": Vectors.of(photos, "image")}
    found = {("Flickr8k", "text → image"): [to_image], ("Flickr8k", "image → text"): [to_text]}
    for asked, wanted in (("text", "image"), ("image", "text")):
        found["Unsplash", f"{asked} → {wanted}"] = [
            Search(
                Vectors.of(of[wanted][here], wanted),
                Vectors.of(of[asked][here], asked),
                np.eye(250, dtype=bool),
                Vectors.of(of[asked][there], asked),
                Vectors.of(of[wanted][there], wanted),
                other[asked],
            )
            for here, there in halves
        ]
    return found


def table(name: str, direction: str, found: list[Search]) -> list[Row]:
    """Return a row per calibration."""
    ranks = {spec: [each.ranks(spec) for each in found] for spec in SPECS}
    known = all(each.answered for each in found)
    for method in GRIDS if known else ():
        ranks[f"{method}, tuned"] = [each.ranks(each.tuned(method)) for each in found]
    ranks["nnn(k=16), other set"] = [each.ranks("nnn(k=16)", each.elsewhere) for each in found]
    if known:
        ranks["nnn, other set, tuned"] = [each.ranks(each.tuned_elsewhere(), each.elsewhere) for each in found]
    rows: list[Row] = []
    for spec, several in ranks.items():
        rank = np.concatenate(several)
        hits = {k: (rank < k).astype(np.float64) for k in CUTS}
        low, high = interval(hits[1])[1:]
        later = {f"R@{k}": float(hits[k].mean()) for k in CUTS[1:]}
        start: Row = {"set": name, "direction": direction, "calibration": spec, "R@1": float(hits[1].mean())}
        rows.append({**start, "from": low, "to": high, **later})
    return rows


def draw(tables: Mapping[tuple[str, str], list[Row]]) -> None:
    """Draw R@1 with its interval, a panel per set and direction."""
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(str(row["calibration"]) for rows in tables.values() for row in rows))
    figure, panels = plt.subplots(1, len(tables), figsize=(11, 3.8), sharey=True, layout="constrained")
    for axis, ((name, direction), rows) in zip(panels, tables.items(), strict=True):
        for row in rows:
            place = names.index(str(row["calibration"]))
            axis.plot([row["from"], row["to"]], [place, place], color="#2a6f97", linewidth=1.2)
            axis.plot(row["R@1"], place, "o", color="#2a6f97", markersize=4)
        axis.axvline(float(rows[0]["R@1"]), color="#cccccc", linewidth=1)
        axis.set_title(f"{name}, {direction}", loc="left", fontsize=9)
        axis.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(range(len(names)), names, fontsize=8)
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    figure.supxlabel("R@1", fontsize=9)
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    options = arguments(__doc__)
    results = {key: table(*key, found) for key, found in searches(options.data).items()}
    if options.write:
        draw(results)
    raise SystemExit(compared("recalls", [row for rows in results.values() for row in rows], options.write))
