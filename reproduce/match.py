"""P(match) against raw similarity: which one better predicts that the first hit is right, or that there is no answer.

    python reproduce/match.py --data DIR        (needs flickr8k/ and mix/; --write also draws the curve)

The mixed corpus of Flickr8k is searched with 1,998 human captions, each twice: as it is, and with its right document
removed. P(match) is learned from the collection's own documents; it has seen none of these queries.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mixture import collection, questions
from tables import Row, arguments, compared

from isthmus.search import Hit
from isthmus.search.probability import auroc, ece
from isthmus.types import Mask, Matrix

FALSE = (0.5, 0.2, 0.1, 0.05)  # shares of unanswerable questions that still get an answer
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "match.png"


@dataclass(frozen=True)
class Asked:
    """First hits with and without the right document: their confidence, and whether they are right."""

    present: Matrix
    removed: Matrix
    right: Mask

    @property
    def confidence(self) -> Matrix:
        """The confidence of every first hit, with and without the right document."""
        return np.concatenate([self.present, self.removed])

    @property
    def truth(self) -> Mask:
        """Whether it is right."""
        return np.concatenate([self.right, np.zeros(len(self.removed), dtype=bool)])

    def kept(self, false: float) -> float:
        """Return the share of right first answers kept when ``false`` of the unanswerable still get one."""
        threshold = np.quantile(self.removed, 1 - false)
        return float((self.present[self.right] > threshold).mean())


def ask(data: Path, folder: Path, calibration: str | None) -> Asked:
    """Search every query both ways."""
    present, removed, right = [], [], []

    def confidence(hits: list[Hit]) -> float:
        return hits[0].similarity if calibration == "none" else float(hits[0].probability or 0.0)

    with collection(data, folder) as things:
        things.calibrate()
        asked = questions(data)
        for question, hits in zip(
            asked, things.search_many([one.text for one in asked], k=1, calibration=calibration), strict=True
        ):
            without = things.search(question.text, k=1, where={"id": {"not": question.right}}, calibration=calibration)
            present.append(confidence(hits))
            removed.append(confidence(without))
            right.append(hits[0].id == question.right)
    return Asked(np.array(present), np.array(removed), np.array(right))


def row(name: str, asked: Asked, probability: bool) -> Row:
    """Return the row of one measure of confidence."""
    kept = {f"kept at {share:.0%}": asked.kept(share) for share in FALSE}
    error: str | float = ece(asked.confidence, asked.truth) if probability else "no probability"
    return {"confidence": name, "AUROC": auroc(asked.confidence, asked.truth), "ECE": error, **kept}


def draw(several: dict[str, Asked]) -> None:
    """Draw right answers kept against false answers given."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
    shares = np.linspace(0.002, 1, 400)
    for name, asked in several.items():
        axes.plot(shares, [asked.kept(share) for share in shares], label=name)
    axes.set(
        xlabel="unanswerable questions that still get an answer", ylabel="right first answers kept", ylim=(0, 1.02)
    )
    axes.set_title("Saying 'nothing found': what it costs", loc="left")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    options = arguments(__doc__)
    with tempfile.TemporaryDirectory() as scratch:
        fair = ask(options.data, Path(scratch), None)
        raw = ask(options.data, Path(scratch), "none")
    if options.write:
        draw({"P(match)": fair, "raw similarity": raw})
    found = [row("raw similarity", raw, probability=False), row("P(match)", fair, probability=True)]
    raise SystemExit(compared("match", found, options.write))
