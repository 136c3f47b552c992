"""The trade-off between modalities: nDCG@10 by modality as the balance of images increases.

    python reproduce/balance.py --data DIR        (with --write also draws docs/images/balance.png)

Data and protocol as in clip_f8k.py. The balance is added to the offset of images in a fitted ``learned``, in units
of its own scores (log-odds); nothing is folded again.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from clip_f8k import F8k
from tables import Row, arguments, compared

from isthmus.calibration.tune import ndcg_at_10

BALANCES = (-4.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0)
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "balance.png"


def main(data: Path) -> list[Row]:
    f8k = F8k(data)
    fitted = f8k.fit("center+learned")
    image = f8k.documents.modality == "image"
    rows: list[Row] = []
    for balance in BALANCES:
        scores = fitted.with_balance({"image": balance}).scores(f8k.queries, f8k.documents, sources=f8k.sources)
        rows.append(
            {
                "balance of images": f"{balance:+g}",
                "images in top 10": float(image[np.argsort(-scores, axis=1)[:, :10]].mean()),
                "nDCG@10 both": float(ndcg_at_10(scores, f8k.relevant).mean()),
                "nDCG@10 text": float(ndcg_at_10(scores, f8k.relevant & ~image).mean()),
                "nDCG@10 image": float(ndcg_at_10(scores, f8k.relevant & image).mean()),
            }
        )
    return rows


def draw(rows: list[Row], picture: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(5.6, 3.6), layout="constrained")
    colours = {"both": "#333333", "text": "#2a6f97", "image": "#e07a5f"}
    for name, colour in colours.items():
        values = [float(row[f"nDCG@10 {name}"]) for row in rows]
        axis.plot(BALANCES, values, marker="o", markersize=4, color=colour, label=name)
    axis.axvline(0, color="grey", linewidth=1)
    axis.set(xlabel="balance of images (added to their offset)", ylabel="nDCG@10", ylim=(0, 1))
    axis.legend(frameon=False, title="right document")
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    options = arguments(__doc__)
    result = main(options.data)
    if options.write:
        draw(result, PICTURE)
    raise SystemExit(compared("balance", result, options.write))
