"""Pairs as training input: features of documents, of queries by kind, and the ids that each query describes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from isthmus.encoders.base import Role
from isthmus.encoders.tokens import TokenTowers
from isthmus.queries.kinds import IMAGE, KINDS, MIXED, TEXT
from isthmus.train.fusion.data import TrainingPair
from isthmus.train.fusion.features import Pictures, Report, Texts, seen
from isthmus.train.fusion.model import TowerFeatures
from isthmus.train.fusion.objectives import ANY

UNKNOWN = -1
RELATED = -2  # text and image describe the same thing: no word is about one of them


class FusionBatch(NamedTuple):
    """Queries of one kind, and whose text and whose image make the document of each."""

    kind: str
    rows: Tensor  # of the queries
    texts: Tensor
    images: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class FusionLesson:
    """Pairs as features; row i of ``texts`` and of every ``queries[kind]`` is pair i."""

    texts: Texts
    pictures: Pictures
    image_rows: Tensor  # (n,): the picture of each pair
    ids: Tensor  # (n, 2): of text and of image
    queries: Mapping[str, Texts]
    first: Tensor  # (n,): what a mixed query begins with, 0 the text's words or 1 the image's; or UNKNOWN, or RELATED
    frame: tuple[int, int]  # tokens before and after each query

    def documents(self, texts: Tensor, images: Tensor) -> TowerFeatures:
        """Return documents of the texts of some rows and the pictures of some."""
        return seen(self.texts, self.pictures, texts, self.image_rows[images])

    def ids_of(self, batch: FusionBatch) -> tuple[Tensor, Tensor]:
        """Return the ids of a batch's queries and of its documents."""
        documents = torch.stack([self.ids[batch.texts, 0], self.ids[batch.images, 1]], dim=1)
        return cared(documents, batch.kind), documents

    def query_sides(self, rows: Tensor, kind: str, sides: int) -> list[Tensor]:
        """Return words and mask of each side of the queries; a side without words is empty.

        One side is the whole query. With two, a mixed query is given as the two it was made from: in training the words
        are split correctly.
        """
        if sides == 1:
            return list(self.queries[kind].take(rows))
        parts: list[Tensor] = []
        for one in (TEXT, IMAGE):
            words, mask = self.queries[one].take(rows)
            here = kind in (one, MIXED)
            parts += [words, mask] if here else [words[:, :1] * 0, mask[:, :1] & False]
        return parts

    def chosen(self, rows: Tensor, kind: str) -> tuple[Tensor, Tensor]:
        """Return the side of each token of whole queries, ``(n, t, 2)``, and where it is known, ``(n, t)``."""
        whole = self.queries[kind]
        length = whole.start[rows + 1] - whole.start[rows]
        at = torch.arange(max(1, int(length.max())), device=rows.device)
        before, after = self.frame
        inside = (at >= before) & (at < (length - after)[:, None]) & (self.first[rows] != RELATED)[:, None]
        if kind != MIXED:
            side = torch.full_like(inside, int(kind == IMAGE), dtype=torch.long)
            return torch.nn.functional.one_hot(side, 2).float(), inside
        text, image = (self.queries[one].start[rows + 1] - self.queries[one].start[rows] for one in (TEXT, IMAGE))
        begun = torch.where(self.first[rows] == 0, text, image) - after  # where the second half begins
        side = torch.where(at < begun[:, None], self.first[rows][:, None], 1 - self.first[rows][:, None])
        whole_made = (self.first[rows] >= 0) & (text + image - before - after == length)
        return torch.nn.functional.one_hot(side.clamp(0, 1), 2).float(), inside & whole_made[:, None]


def digest(stages: Mapping[str, FusionLesson]) -> str:
    """Return a fingerprint of data and towers: ids, numbers of tokens, some of the vectors."""
    digested = hashlib.sha256()
    for stage, known in stages.items():
        starts = [known.texts.start, *(texts.start for texts in known.queries.values())]
        for tensor in (known.ids, *starts, known.pictures.vectors[:16].float().round(decimals=2)):
            digested.update(stage.encode() + tensor.cpu().numpy().tobytes())
    return digested.hexdigest()


def cared(ids: Tensor, kind: str) -> Tensor:
    """Return (text, image) ids with ANY for the part that a kind of query does not describe."""
    cares = torch.tensor([kind in (TEXT, MIXED), kind in (IMAGE, MIXED)], device=ids.device)
    return torch.where(cares, ids, ANY)


def lesson(towers: TokenTowers, pairs: Sequence[TrainingPair], device: str, report: Report = str) -> FusionLesson:
    """Compute the outputs of the towers for pairs, every picture once."""
    pictures = list(dict.fromkeys(pair.image for pair in pairs))

    def read(texts: Sequence[str], role: Role, of: str) -> Texts:
        return Texts.of(towers, texts, role, device, lambda line: report(f"{of}: {line}"))

    texts = read([pair.text for pair in pairs], "document", "documents")
    looked = Pictures.of(towers, pictures, device, report)
    queries = {kind: read([pair.queries[kind] for pair in pairs], "query", f"{kind} queries") for kind in KINDS}
    place = {path: row for row, path in enumerate(pictures)}
    return FusionLesson(
        texts,
        looked,
        torch.tensor([place[pair.image] for pair in pairs], device=device),
        torch.tensor(numbered(pairs), device=device),
        queries,
        torch.tensor([begins(pair) for pair in pairs], device=device),
        (len(towers.front("query")), len(towers.text.splitter.after)),
    )


def numbered(pairs: Sequence[TrainingPair]) -> list[list[int]]:
    """Return the (text, image) ids of pairs as numbers.

    >>> from pathlib import Path
    >>> one = TrainingPair("t", "i", "", Path(), {})
    >>> numbered([one, TrainingPair("t", "j", "", Path(), {}), one])
    [[0, 1], [0, 2], [0, 1]]
    """
    numbers: dict[tuple[str, str], int] = {}
    return [
        [numbers.setdefault(name, len(numbers)) for name in (("text", pair.text_id), ("image", pair.image_id))]
        for pair in pairs
    ]


def begins(pair: TrainingPair) -> int:
    """Return which side a mixed query begins with, if it is the concatenation of the two others and they differ.

    >>> from pathlib import Path
    >>> begins(TrainingPair("t", "i", "", Path(), {TEXT: "a gene", IMAGE: "a dog", MIXED: "a dog a gene"}))
    1
    """
    if pair.related:
        return RELATED
    both = [pair.queries[TEXT], pair.queries[IMAGE]]
    made = (" ".join(both), " ".join(reversed(both)))
    return made.index(pair.queries[MIXED]) if pair.queries[MIXED] in made else UNKNOWN
