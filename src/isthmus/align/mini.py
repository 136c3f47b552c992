"""``forge-mini``: keeps the words that matter, and drops chatter.

A small transformer reads question and captions through two layers of `mini`'s text tower and predicts for each word how
likely it matters. The words with a probability of at least ½ are the query, in their order. It was trained with a
retriever as the reward: see ``isthmus.train.forge_mini``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from isthmus.align.base import Rewritten
from isthmus.align.reading import WindowReader, padded, reader
from isthmus.errors import BadFile
from isthmus.types import Matrix

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

MODEL = Path(__file__).parent / "forge-mini.onnx"
KEEP = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class ForgeMini:
    """The rewriter."""

    reader: WindowReader
    model: InferenceSession
    name: str = "forge-mini"

    def rewrite(self, texts: Sequence[str]) -> list[Rewritten]:
        """Return the words of each text that matter; the text itself if there are none."""
        return [self._rewrite(text) for text in texts]

    def likely(self, text: str) -> list[tuple[str, float]]:
        """Return the words of a text, each with the probability that it matters."""
        out: list[tuple[str, float]] = []
        for window in self.reader.read(text):
            inputs, mask = padded([window])
            logits: Matrix = self.model.run(None, {"inputs": inputs, "mask": mask})[0][0]
            chance = np.exp(-np.logaddexp(0, -logits[window.first]))  # the logistic function, which never overflows
            out += zip(window.words, chance.tolist(), strict=True)
        return out

    def _rewrite(self, text: str) -> Rewritten:
        kept = [word for word, chance in self.likely(text) if chance >= KEEP]
        if not kept:
            return Rewritten(text, "no word was kept")
        return Rewritten(" ".join(kept))


@cache
def load(model: str | PathLike[str] = MODEL) -> ForgeMini:
    """Return the shipped rewriter, or one that ``isthmus train forge-mini`` wrote."""
    from onnxruntime import InferenceSession

    try:
        opened = InferenceSession(str(model))
    except Exception as error:  # noqa: BLE001 - onnxruntime's errors share no base
        raise BadFile(f"{model} cannot be loaded by onnxruntime: {error}") from None
    return ForgeMini(reader(), opened)
