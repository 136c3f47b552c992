"""Measures of an encoder in training: pictures by texts, texts by texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isthmus.train import towers
from isthmus.train.pictures import PictureSet
from isthmus.train.towers import TrainableTextTower

Vectors = Callable[[Tensor], Tensor]  # (n, 3, s, s) bytes → (n, d)


def recall(images: Tensor, texts: Tensor, owner: Tensor) -> dict[str, float]:
    """Return R@1 and R@10 of texts to pictures, and R@1 of pictures to any of their texts.

    ``owner`` is the picture of each text.
    """
    similarity = texts @ images.T  # (n_texts, n_pictures)
    right = similarity.gather(1, owner[:, None])
    rank = (similarity > right).sum(1)
    back = owner[similarity.argmax(0)] == torch.arange(len(images), device=images.device)
    measured = {"R@1": rank < 1, "R@10": rank < 10, "back R@1": back}
    return {name: round(hit.float().mean().item(), 4) for name, hit in measured.items()}


def by_captions(
    held: PictureSet, images: Tensor, text: TrainableTextTower, words: Any, limit: int = 5
) -> dict[str, float]:
    """Measure pictures against their first ``limit`` texts."""
    own = [held.own(row)[:limit] for row in range(len(held))]
    owner = torch.tensor([row for row, each in enumerate(own) for _ in each], device=images.device)
    vectors = towers.encoded(text, towers.tokenized(words, [t for each in own for t in each]))
    return recall(images, vectors, owner)


@dataclass(frozen=True, slots=True, eq=False)
class TextRetrieval:
    """Documents, queries and which documents answer each query."""

    documents: tuple[Tensor, Tensor]
    queries: tuple[Tensor, Tensor]
    relevant: Tensor  # (n_queries, n_documents)

    @classmethod
    def beir(cls, folder: Path, split: str, words: Any, device: str) -> TextRetrieval:
        """Read a set in BEIR's layout; ``words`` cuts a document at its length."""
        corpus = [json.loads(line) for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines()]
        texts = {
            q["_id"]: q["text"] for q in map(json.loads, (folder / "queries.jsonl").read_text("utf-8").splitlines())
        }
        row = {each["_id"]: at for at, each in enumerate(corpus)}
        judged: dict[str, list[int]] = {}
        for line in (folder / "qrels" / f"{split}.tsv").read_text("utf-8").splitlines()[1:]:
            query, document, grade = line.split("\t")
            if int(grade) > 0:
                judged.setdefault(query, []).append(row[document])
        relevant = torch.zeros((len(judged), len(corpus)), dtype=torch.bool, device=device)
        for at, rows in enumerate(judged.values()):
            relevant[at, rows] = True
        documents = towers.tokenized(words, [f"{d['title']}. {d['text']}" for d in corpus], device)
        return cls(documents, towers.tokenized(words, [texts[q] for q in judged], device), relevant)

    def ndcg(self, text: TrainableTextTower, k: int = 10) -> float:
        """Return the mean nDCG@k."""
        scores = towers.encoded(text, self.queries) @ towers.encoded(text, self.documents).T
        hit = self.relevant.gather(1, scores.topk(k, dim=1).indices).float()
        discount = 1 / torch.log2(torch.arange(2, k + 2, device=hit.device).float())
        ideal = torch.cumsum(discount, 0)[self.relevant.sum(1).clamp(max=k) - 1]
        return round(((hit * discount).sum(1) / ideal).mean().item(), 4)
