"""GR-CLIP's U-curve on other data: photos and screenshots with ``mini``, videos with VideoCLIP.

    python reproduce/shares.py --data DIR        (needs flickr8k/, scifact/, emb/clip_pairs.npz; --write also draws)

nDCG@10 as each document becomes a picture with probability p, means of 3 draws. *Photos*: Flickr8k's test split,
caption 1 or the photo; caption 0 is the query, captions 2 are references. *Screenshots*: the abstracts of SciFact that
a test claim cites, or pictures of their text; train claims about other abstracts are references. ``mini`` cannot read:
at p = 1 there is nothing to find, with or without a gap. *Videos*: 100 clips of MSR-VTT with one text each, which
cannot be both query and document: the right document of a text is its video, every *other* document is its video or,
with probability p, its text (means of 10 draws); half of the texts are queries, half are references. At p = 1 no other
video is left for the mean. The gallery bank of dbnorm is the photos and captions of Flickr8k's dev split, and the first
500 abstracts that no test claim cites, as texts and as pictures; all clips are searched, so there is none for videos.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from curves import SHARES, SPECS, drawn
from paired import replaced
from tables import Row, arguments, compared

from isthmus import calibration, encoders
from isthmus.calibration import ndcg_at_10
from isthmus.documents import Document, Query
from isthmus.encoders.base import Encoder
from isthmus.evaluate.benchmarks import load
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.evaluate.benchmarks.flickr8k import HOME, split
from isthmus.evaluate.builders import screenshot
from isthmus.types import Mask, Rows, Vectors

GALLERY = 500  # abstracts of dbnorm's bank, each as a text and as a picture
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "shares.png"
Values = Callable[[float, int], list[float | str]]  # of every spec, at a share, in a draw


def curve(name: str, values: Values, draws: int, shares: tuple[float, ...] = SHARES) -> list[Row]:
    """Return a row per share; a text, such as that of a method without a gallery, stays as it is."""
    rows: list[Row] = []
    for share in shares:
        each = list(zip(*(values(share, draw) for draw in range(draws)), strict=True))
        means = [found[0] if isinstance(found[0], str) else float(np.mean(found)) for found in each]
        rows.append({"curve": f"{name} {share}", **dict(zip(SPECS, means, strict=True))})
    return rows


def apart(documents: Vectors) -> Vectors:
    """Return the texts and the pictures of documents as documents of their own."""
    return Vectors.concat([Vectors.of(documents.parts[part], part) for part in documents.parts])


def photos(encoder: Encoder, data: Path) -> Values:
    """Replace captions by their photos."""
    folder = BenchmarkFolder(data / "flickr8k", "flickr8k", HOME)
    test, dev = (split(folder, name) for name in ("test", "dev"))
    asked, referring = (encoder.encode_queries([Query(photo.captions[n]) for photo in test]) for n in (0, 2))
    both, others = (
        encoder.encode_documents([Document(photo.id, photo.captions[1], photo.image) for photo in photos])
        for photos in (test, dev)
    )
    own, relevant, gallery = np.arange(len(test)), np.eye(len(test), dtype=bool), apart(others)

    def values(share: float, draw: int) -> list[float | str]:
        documents = replaced(both, share, np.random.default_rng(draw))
        fitted = [calibration.fit(s, documents, referring, sources=own, reference_documents=gallery) for s in SPECS]
        return [float(ndcg_at_10(f.scores(asked, documents, sources=own), relevant).mean()) for f in fitted]

    return values


def screenshots(encoder: Encoder, data: Path) -> Values:
    """Replace abstracts by pictures of their text."""
    scifact = load("beir:scifact", data)
    cited = {document for judged in scifact.qrels.values() for document in judged}
    abstracts = [document for document in scifact.documents if document.id in cited]
    others = [document for document in scifact.documents if document.id not in cited][:GALLERY]

    def pictured(texts: Sequence[Document]) -> Vectors:
        return encoder.encode_documents([Document(d.id, d.text, screenshot(d.text or "")) for d in texts])

    both, gallery = pictured(abstracts), apart(pictured(others))
    asked = encoder.encode_queries([question.query for question in scifact.questions])
    referring = encoder.encode_queries([claim for claim, source in scifact.references if source not in cited])
    relevant: Mask = np.array(
        [[d.id in scifact.qrels[question.id] for d in abstracts] for question in scifact.questions]
    )

    def values(share: float, draw: int) -> list[float | str]:
        documents = replaced(both, share, np.random.default_rng(draw))
        fitted = [calibration.fit(spec, documents, referring, reference_documents=gallery) for spec in SPECS]
        return [float(ndcg_at_10(f.scores(asked, documents), relevant).mean()) for f in fitted]

    return values


def videos(data: Path) -> Values:
    """Replace every video except the right one by its text."""
    held = np.load(data / "emb/clip_pairs.npz")
    video, text = (held[f"videoclip100_{side}"].astype(np.float32) for side in "ab")
    n = len(video)

    def found(fitted: calibration.Fitted, others: Vectors, row: int, referring: Rows) -> float:
        """Return nDCG@10 of the video of a text among the other documents."""
        documents = Vectors.concat([others.take(np.arange(n) != row), Vectors.of(video[[row]], "video")])
        sources = referring - (referring > row)  # rows have moved up
        scores = fitted.scores(Vectors.of(text[[row]], "text"), documents, sources=sources)
        return float(ndcg_at_10(scores, np.arange(n)[None, :] == n - 1)[0])

    def values(share: float, draw: int) -> list[float | str]:
        rng = np.random.default_rng(draw)
        written, order = rng.random(n) < share, rng.permutation(n)
        asking, referring = order[: n // 2], order[n // 2 :]
        others = Vectors.of(np.where(written[:, None], text, video), np.where(written, "text", "video"))
        asked = Vectors.of(text[referring], "text")
        fitted = [None if s == "dbnorm" else calibration.fit(s, others, asked, sources=referring) for s in SPECS]
        return [np.mean([found(f, others, row, referring) for row in asking]).item() if f else "–" for f in fitted]

    return values


if __name__ == "__main__":
    options = arguments(__doc__)
    mini = encoders.load("mini", batch=64)
    pictured = curve("photos", photos(mini, options.data), 3)
    seen = curve("screenshots", screenshots(mini, options.data), 3)
    filmed = curve("videos", videos(options.data), 10, SHARES[:-1])
    if options.write:
        below = "share of pictures among the documents"
        panels = {("Photos, mini", below): pictured, ("Screenshots, mini", below): seen}
        drawn(panels | {("Videos, VideoCLIP", "share of texts among the others"): filmed}, PICTURE)
    raise SystemExit(compared("shares", [*pictured, *seen, *filmed], options.write))
