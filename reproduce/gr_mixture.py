"""GR-CLIP's tables on mixtures: 1:1:1 and 7:2:1, means of a training split, after fine-tuning, other calibrations.

    python reproduce/gr_mixture.py --data DIR        (needs flickr8k/, emb/clip_pairs.npz, torch: extra ``train``)

Tables 1, 2 and 6 of Li et al. (2025): texts : photos : both in a ratio, fused with α = 0.5; nDCG@10, nDCG@100, R@1.
*CLIP*: 100 Flickr8k photos with ViT-B/32's vectors, means of 40 draws. *mini*: Flickr8k's test split, 10 draws. *CLIP,
halves*: 50 of the 100 photos, in both directions; means are of the other 50, their captions and 990 other photos, so
that no caption of a searched photo is among them. *tuned*: a linear map per part on the frozen vectors, trained by
contrast of the other 50 photos with their captions, or of Unsplash's 500 photos with their descriptions: the paper's
batch of 64, CLIP's temperature of 0.01, 200 steps, at the paper's rate of 5e-5 and at ten times that, because two maps
are less than all of CLIP. *AlignCLIP-like*: the same with one map for both parts, and a second loss of half the weight,
which separates photos from photos, the less the more alike their texts are (Eslami & de Melo, 2025, who share the
weights of both towers; here a map of frozen vectors is all that is shared). *one mean of texts*: queries are centred by
the mean of the training split's texts, as in I0T without training (An et al., 2025).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from paired import EACH, ONE, OURS, OWN, RAW, TEXT, TRAIN, Paired, clip, means, measured, mini, mixed, scores
from tables import Row, arguments, compared

from isthmus import encoders
from isthmus.calibration.rows import unit
from isthmus.types import Matrix, Rows, Vectors

RATIOS = ((1, 1, 1), (7, 2, 1))
BATCH, TEMPERATURE, STEPS = 64, 0.01, 200
APART = 0.5  # weight of the separation of pictures
RATES = (5e-5, 5e-4)
KINDS = {"tuned": False, "AlignCLIP-like": True}  # whether the map is shared
Heads = dict[str, Matrix]  # a (d, d) map by part


def table(name: str, several: Sequence[Paired], draws: int, methods: Sequence[str]) -> Iterator[Row]:
    """Yield a row per ratio and method: means over draws, and over several sets."""
    for ratio in RATIOS:
        written = ":".join(map(str, ratio))
        made = [(of, mixed(of.documents, ratio, np.random.default_rng(d))) for of in several for d in range(draws)]
        for method in methods:
            found = means([measured(scores(of, documents, method)) for of, documents in made])
            yield {"vectors": name, "text:image:both": written, "calibration": method, **found}


def halves(of: Paired, captions: Matrix) -> list[Paired]:
    """Search each half of the photos with the means of the other half and of the photos without captions."""
    out = []
    for rows in (np.arange(50), np.arange(50, 100)):
        others = np.setdiff1d(np.arange(100), rows)
        said = Vectors.of(captions[others].reshape(-1, captions.shape[2]), TEXT)
        images = np.vstack([of.documents.parts["image"][others], of.train.parts["image"][of.train.present["image"]]])
        train = Vectors.concat([said, Vectors.of(images, "image")])
        out.append(Paired("halves", of.documents.take(rows), of.queries.take(rows), said, train))
    return out


def tune(images: Matrix, texts: Matrix, owner: Rows, rate: float, *, shared: bool = False) -> Heads:
    """Train a linear map per part so that a picture is nearest to its own text, from the identity on.

    ``owner``: the picture of each text. Each step draws up to 64 pictures and one text of each. ``shared``: one map for
    both parts, and the separation of pictures by AlignCLIP.
    """
    import torch

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    heads = [torch.nn.Parameter(torch.eye(images.shape[1])) for _ in range(1 if shared else 2)]
    optimizer = torch.optim.AdamW(heads, lr=rate, weight_decay=0.0)
    texts_of = [np.flatnonzero(owner == row) for row in range(len(images))]
    for _ in range(STEPS):
        rows = rng.permutation(len(images))[:BATCH]
        chosen = np.array([rng.choice(texts_of[row]) for row in rows])
        sides = [torch.from_numpy(images[rows]) @ heads[0], torch.from_numpy(texts[chosen]) @ heads[-1]]
        shown, said = (torch.nn.functional.normalize(side) for side in sides)
        logits = shown @ said.T / TEMPERATURE  # (b, b)
        target = torch.arange(len(rows))
        loss = torch.nn.functional.cross_entropy(logits, target) + torch.nn.functional.cross_entropy(logits.T, target)
        if shared:
            apart = torch.from_numpy(1 - alike(texts[chosen]))  # (b, b), 1 on the diagonal
            loss = loss + APART * torch.nn.functional.cross_entropy(shown @ shown.T * apart / TEMPERATURE, target)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return {"image": heads[0].detach().numpy(), TEXT: heads[-1].detach().numpy()}


def alike(texts: Matrix) -> Matrix:
    """Return how alike texts are, (n, n): cosines of centred vectors where they are above 0; 0 on the diagonal."""
    rows = unit(texts - texts.mean(axis=0))
    return np.clip(rows @ rows.T, 0, 1) * (1 - np.eye(len(rows), dtype=np.float32))


def moved(of: Paired, heads: Heads) -> Paired:
    """Map all vectors of a set by the trained heads."""

    def through(vectors: Vectors) -> Vectors:
        return Vectors({part: rows @ heads[part] for part, rows in vectors.parts.items()}, vectors.present)

    return Paired(
        of.name, through(of.documents), through(of.queries), through(of.references), through(of.train), of.sources
    )


def of_clip(data: Path) -> Iterator[Row]:
    """Yield CLIP's rows, before and after fine-tuning."""
    held = {
        name: rows.astype(np.float32) for name, rows in np.load(data / "emb/clip_pairs.npz").items() if rows.ndim > 1
    }
    of = clip(data)
    captions = held["f8k_txt"].reshape(100, 5, -1)
    half = halves(of, captions)
    yield from table("CLIP", [of], 40, (RAW, OWN, TRAIN, ONE, EACH, OURS))
    for kind, shared in KINDS.items():
        for rate in RATES:
            heads = tune(held["unsplash500_img"], held["unsplash500_txt"], np.arange(500), rate, shared=shared)
            yield from table(f"CLIP, {kind} on Unsplash, rate {rate:.0e}", [moved(of, heads)], 40, (RAW, OWN, TRAIN))
    yield from table("CLIP, halves", half, 40, (RAW, OWN, TRAIN, ONE, EACH))
    owner = np.repeat(np.arange(50), 5)
    for kind, shared in KINDS.items():
        for rate in RATES:
            tuned = [
                moved(each, tune(held["f8k_img"][rows], captions[rows].reshape(250, -1), owner, rate, shared=shared))
                for each, rows in zip(half, (slice(50, 100), slice(0, 50)), strict=True)
            ]
            yield from table(f"CLIP, halves, {kind} on the other, rate {rate:.0e}", tuned, 40, (RAW, OWN, TRAIN))


if __name__ == "__main__":
    options = arguments(__doc__)
    rows = list(of_clip(options.data))
    rows += table("mini", [mini(encoders.load("mini", batch=64), options.data)], 10, (RAW, OWN, TRAIN, ONE, EACH, OURS))
    raise SystemExit(compared("gr_mixture", rows, options.write))
