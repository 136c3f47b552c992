"""The text tower of ``mini`` and ``base`` beside MiniLM, from which it was trained: texts found by texts.

    python reproduce/text_tower.py --data DIR    (needs scifact/, docvqa/, flickr8k/; extras st, train; half an hour)

claims        SciFact's test claims over abstracts, nDCG@10; long abstracts are the mean of their passages
questions     DocVQA's questions over the texts of pages that training never saw, nDCG@10
paraphrases   captions of Flickr8k's test photos: the nearest other caption is of the same photo, R@1
agreement     Spearman's correlation of the similarity of caption pairs with MiniLM's, over 20,000 pairs
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from mini import scifact
from mix_set import pages
from scipy.stats import spearmanr
from tables import Row, arguments, compared

from isthmus import encoders
from isthmus.calibration import ndcg_at_10
from isthmus.documents import Document, Query
from isthmus.encoders.base import Encoder
from isthmus.evaluate.benchmarks import flickr8k
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.train.towers import minilm
from isthmus.types import Matrix, Rows

PAIRS = 20_000


def questions(encoder: Encoder, folder: Path) -> float:
    """Return nDCG@10 of questions over the texts of held-out pages."""
    held = pages(folder, test=True)
    documents = encoder.encode_documents([Document(id=page.name, text=page.text) for page in held]).parts["text"]
    asked = [(question, row) for row, page in enumerate(held) for question in page.questions]
    relevant = np.zeros((len(asked), len(held)), dtype=bool)
    relevant[np.arange(len(asked)), [row for _, row in asked]] = True
    return float(ndcg_at_10(_vectors(encoder, [text for text, _ in asked]) @ documents.T, relevant).mean())


def captions(folder: Path) -> tuple[list[str], Rows]:
    """Return the captions of Flickr8k's test photos, and the photo of each."""
    photos = flickr8k.split(BenchmarkFolder(folder, "flickr8k", flickr8k.HOME), "test")
    texts = [(caption, row) for row, photo in enumerate(photos) for caption in photo.captions]
    return [text for text, _ in texts], np.array([row for _, row in texts])


def paraphrases(vectors: Matrix, photo: Rows) -> float:
    """Return how often the nearest other caption is of the same photo."""
    similarity = vectors @ vectors.T
    np.fill_diagonal(similarity, -1)
    return float((photo[similarity.argmax(axis=1)] == photo).mean())


def _vectors(encoder: Encoder, texts: list[str]) -> Matrix:
    return encoder.encode_queries([Query(text=text) for text in texts]).parts["text"]


def main(data: Path) -> list[Row]:
    towers = {"MiniLM": encoders.load(f"st:{minilm()}"), "ours": encoders.load("mini", batch=64)}
    texts, photo = captions(data / "flickr8k")
    vectors = {name: _vectors(tower, texts) for name, tower in towers.items()}
    left, right = np.random.default_rng(0).integers(0, len(texts), (2, PAIRS))
    alike = {name: (found[left] * found[right]).sum(axis=1) for name, found in vectors.items()}
    agreement = {name: float(spearmanr(alike["MiniLM"], found).statistic) for name, found in alike.items()}
    measured = {
        "claims": {name: scifact(tower, data / "scifact") for name, tower in towers.items()},
        "questions": {name: questions(tower, data / "docvqa") for name, tower in towers.items()},
        "paraphrases": {name: paraphrases(found, photo) for name, found in vectors.items()},
        "agreement": agreement,
    }
    return [{"measure": measure, **by_tower} for measure, by_tower in measured.items()]


if __name__ == "__main__":
    options = arguments(__doc__)
    raise SystemExit(compared("text_tower", main(options.data), options.write))
