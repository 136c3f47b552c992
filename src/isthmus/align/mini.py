"""``forge-mini``: keeps the words that matter, and drops chatter.

A small transformer reads question and captions through two layers of `mini`'s text tower and predicts for each word how
likely it matters. What is asked for stands together, so a word counts less in a sentence without likely words
(``together``). The words with a probability of at least ½ are the query, in their order. How it is trained:
``isthmus.train.forge_mini``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isthmus.align.base import Rewritten
from isthmus.align.reading import STOPS, WIDTH, WindowReader, padded, reader
from isthmus.errors import BadFile
from isthmus.types import Matrix, Rows

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

MODEL = Path(__file__).parent / "forge-mini.onnx"
KEEP = 0.5
NEAR, ROOM = 0.25, 0.375  # how much the rest of a sentence counts; what all words get for it


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
            logits: Matrix = self.model.run(None, {"inputs": inputs, "mask": mask})[0][0][window.first]
            logits = together(logits, window.inputs[window.first, STOPS] > 0, window.sentence)
            chance = np.exp(-np.logaddexp(0, -logits))  # the logistic function, which never overflows
            out += zip(window.words, chance.tolist(), strict=True)
        return out

    def _rewrite(self, text: str) -> Rewritten:
        kept = [word for word, chance in self.likely(text) if chance >= KEEP]
        if not kept:
            return Rewritten(text, "no word was kept")
        return Rewritten(" ".join(kept))


def together(logits: Matrix, stop: Any, sentence: Rows) -> Matrix:
    """Return the logits of words, lower in sentences whose likeliest words are less likely than those of the best.

        l + ¼ (m_s − max m) + ⅜        m_s: the mean of the two largest logits of a sentence, stop words left out

    Both numbers were chosen on held-out styles.

    >>> together(np.array([2.0, 2.0, -2.0]), np.array([False, False, False]), np.array([0, 0, 1])).tolist()
    [2.375, 2.375, -2.625]
    """
    likely = {
        each: float(np.sort(logits[of])[-2:].mean())
        for each in np.unique(sentence)
        if (of := (sentence == each) & ~stop).any()
    }
    best = max(likely.values(), default=0.0)
    return np.asarray(logits + NEAR * (np.array([likely.get(each, best) for each in sentence]) - best) + ROOM)


@cache
def load(model: str | PathLike[str] = MODEL) -> ForgeMini:
    """Return the shipped rewriter, or one that ``isthmus train forge-mini`` wrote."""
    from onnxruntime import InferenceSession

    try:
        opened = InferenceSession(str(model))
    except Exception as error:  # noqa: BLE001 - onnxruntime's errors share no base
        raise BadFile(f"{model} cannot be loaded by onnxruntime: {error}") from None
    width = opened.get_inputs()[0].shape[-1]
    if width != WIDTH:
        raise BadFile(
            f"{model} reads {width} numbers per token, and this version of isthmus gives {WIDTH}. Train it again: "
            "isthmus train forge-mini."
        )
    return ForgeMini(reader(), opened)
