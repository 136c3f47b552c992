"""Pairs as training input: tokens and pixels of fixed sizes, on the device."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from isthmus.encoders.images import Frame, in_order
from isthmus.encoders.images import read as read_picture
from isthmus.queries.kinds import KINDS
from isthmus.train.fusion.data import TrainingPair
from isthmus.train.fusion.features import Report
from isthmus.train.fusion.lessons import numbered
from isthmus.train.mr_right.recipe import MrRightRecipe
from isthmus.train.towers import tokenized, tokenizer


class PaddedTokens(NamedTuple):
    """Token ids and mask of texts, padded to one length."""

    ids: Tensor  # (n, t)
    mask: Tensor  # (n, t)

    def take(self, rows: Tensor) -> PaddedTokens:
        """Return some of the texts."""
        return PaddedTokens(self.ids[rows], self.mask[rows])


class PairBatch(NamedTuple):
    """Documents, one query for each, and the ids of the documents."""

    text: PaddedTokens
    pixels: Tensor  # (n, 3, s, s) bytes
    query: PaddedTokens
    ids: Tensor  # (n, 2): of text and of image


@dataclass(frozen=True, slots=True, eq=False)
class PairTensors:
    """Pairs; row i of ``text`` and of every kind of ``queries`` is pair i. A picture is held once."""

    text: PaddedTokens
    queries: tuple[PaddedTokens, ...]  # in the order of KINDS
    pixels: Tensor  # (pictures, 3, s, s) bytes
    image_rows: Tensor  # (n,)
    ids: Tensor  # (n, 2)

    @classmethod
    def of(
        cls, pairs: Sequence[TrainingPair], folder: Path, recipe: MrRightRecipe, device: str, report: Report = str
    ) -> PairTensors:
        """Tokenise the texts and read the pictures of pairs; ``folder`` has the tokenizer."""
        document, query = (tokenizer(folder, length) for length in (recipe.document_tokens, recipe.query_tokens))
        pictures = list(dict.fromkeys(pair.image for pair in pairs))
        place = {path: row for row, path in enumerate(pictures)}
        asked = [PaddedTokens(*tokenized(query, [pair.queries[kind] for pair in pairs], device)) for kind in KINDS]
        return cls(
            PaddedTokens(*tokenized(document, [pair.text for pair in pairs], device)),
            tuple(asked),
            _pixels(pictures, recipe.size, report).to(device),
            torch.tensor([place[pair.image] for pair in pairs], device=device),
            torch.tensor(numbered(pairs), device=device),
        )

    def batch(self, rows: Tensor, kinds: Tensor) -> PairBatch:
        """Return some pairs, each with the query of its kind."""
        every = zip(*(asked.take(rows) for asked in self.queries), strict=True)  # ids and masks, of each kind
        at = torch.arange(len(rows), device=rows.device)
        query = PaddedTokens(*(torch.stack(several)[kinds, at] for several in every))
        return PairBatch(self.text.take(rows), self.pixels[self.image_rows[rows]], query, self.ids[rows])

    def digest(self) -> str:
        """Return a fingerprint of the pairs."""
        digested = hashlib.sha256()
        for tensor in (self.text.ids, *(asked.ids for asked in self.queries), self.ids, self.pixels[:16]):
            digested.update(tensor.cpu().numpy().tobytes())
        return digested.hexdigest()


def _pixels(pictures: Sequence[Path], size: int, report: Report) -> Tensor:
    """Read pictures as squares ``(n, 3, size, size)``; threads read ahead."""
    out = torch.empty((len(pictures), 3, size, size), dtype=torch.uint8)
    with closing(in_order(lambda path: read_picture(path, Frame(size)), pictures, workers=4, ahead=64)) as opened:
        for row, pixels in enumerate(opened):
            out[row] = torch.from_numpy(pixels).permute(2, 0, 1)
            if row % 1000 == 0:
                report(f"read {row} of {len(pictures)} pictures")
    return out
