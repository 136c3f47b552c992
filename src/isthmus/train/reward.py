"""The reward of a rewrite: a measure of the documents that a retriever finds for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from isthmus.align.base import Found, Retriever
from isthmus.errors import BadInput
from isthmus.evaluate.measures import Measure, values
from isthmus.evaluate.runs import Qrels

DEEP = 1000  # documents that are searched if only some count
KEPT = 200_000  # cached rewards: a converged model repeats its rewrites


@dataclass(frozen=True, slots=True)
class Retrieval:
    """A reward by retrieval: all new rewrites of a batch are searched together, without duplicates.

    >>> class Letters:
    ...     name = "letters"
    ...     def search(self, texts, k=10):
    ...         return [[(letter, 1.0 / place) for place, letter in enumerate(text, 1)] for text in texts]
    >>> worth = Retrieval(Letters(), {"q": {"b": 1}}, "RR")
    >>> worth(["q", "q", "q"], ["bc", "ab", "c"])
    [1.0, 0.5, 0.0]

    ``among`` names the hard negatives of a query: then only they and the right documents are ranked.

    >>> Retrieval(Letters(), {"q": {"b": 1}}, "RR", {"q": frozenset("c")})(["q", "q"], ["aadb", "cb"])
    [1.0, 0.5]
    """

    retriever: Retriever
    qrels: Qrels
    measure: str = "nDCG@10"
    among: Mapping[str, frozenset[str]] = field(default_factory=dict, repr=False)
    known: dict[tuple[str, str], float] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, ids: Sequence[str], texts: Sequence[str]) -> list[float]:
        """Return the measure of each text as a query of that id; a text that finds nothing has reward 0."""
        asked = list(zip(ids, texts, strict=True))
        new = [pair for pair in dict.fromkeys(asked) if pair not in self.known]
        if unjudged := [name for name, _ in new if max(self.qrels.get(name, {}).values(), default=0) < 1]:
            raise BadInput(f"No document is judged right for {unjudged[0]!r}: its rewrites cannot be rewarded.")
        if new:
            if len(self.known) + len(new) > KEPT:
                self.known.clear()
                new = list(dict.fromkeys(asked))
            words = list(dict.fromkeys(text for _, text in new))
            deep = DEEP if self.among else _deep(self.measure)
            found = dict(zip(words, self.retriever.search(words, deep), strict=True))
            self.known.update(self._measured(new, found))
        return [self.known[pair] for pair in asked]

    def _measured(self, pairs: Sequence[tuple[str, str]], found: dict[str, Found]) -> dict[tuple[str, str], float]:
        run = {str(row): dict(self._ranked(name, found[text])) for row, (name, text) in enumerate(pairs)}
        qrels = {str(row): self.qrels[name] for row, (name, _) in enumerate(pairs)}
        measured = values(self.measure, run, qrels, by="ours")
        return {pair: measured[str(row)] for row, pair in enumerate(pairs)}

    def _ranked(self, query: str, found: Found) -> Found:
        if query not in self.among:
            return found
        return [pair for pair in found if pair[0] in self.among[query] or self.qrels[query].get(pair[0], 0) > 0]


def _deep(measure: str) -> int:
    return Measure.parse(measure).k or 1000
