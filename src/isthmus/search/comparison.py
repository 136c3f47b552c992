"""The score of a collection before and after a re-encoding, on the same questions.

In words: questions of words, each with the document that answers it, search the collection as it is served and as it
would be. They are the user's own with known answers (``calibrate(queries=…)``) if there are enough; otherwise those and
questions made from the texts of sampled documents, with the same draws for both encoders. The old collection is
measured with its calibration, the new one with the calibration that it would get.

Formula, for questions i about documents of the modalities m, with rank r of the right document in the first ten:

    score      = mean over m of  mean over i of m of  1 / log2(1 + r_i)                  nDCG@10; 0 if it is not there
    difference = after − before, ± 2.58 · sqrt( Σ_m var_m(after_i − before_i) / n_m ) / (number of m)

What it means: the new encoder is called worse if the whole interval is below 0. Questions are of words, so documents
without text are measured only as wrong answers; a question made from a text repeats words of it, and is easier than a
person's.

>>> found = compared(np.array([1.0] * 20), np.array([1.0, 0.5] * 10), np.array(["text"] * 20))
>>> (round(found.before, 2), round(found.after, 2), found.worse)
(1.0, 0.75, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isthmus.documents import Query
from isthmus.encoders import Encoder
from isthmus.errors import IsthmusError, counted
from isthmus.kinds import TEXT, atoms
from isthmus.queries import Embedded, about
from isthmus.search import query_log
from isthmus.search.query_vectors import query_vectors
from isthmus.search.ranking import ranked
from isthmus.search.snapshot import Snapshot
from isthmus.search.snapshot_manager import SnapshotManager
from isthmus.storage.protocols import Store
from isthmus.types import Matrix, Names

FEWEST = 16  # questions; with fewer, nothing is measured
MADE = 200  # questions made for each modality of documents
DEPTH = 10
SEED = 20240607
DEVIATIONS = 2.58  # of the normal distribution, for 99%: a re-encoding is not refused for bad luck


@dataclass(frozen=True, slots=True)
class Comparison:
    """nDCG@10 before and after, the 99% interval of the difference, and the questions; or why there is none."""

    before: float | None = None
    after: float | None = None
    low: float | None = None
    high: float | None = None
    questions: int = 0
    given: int = 0  # of them, the user's own
    why: str = ""  # there is no comparison

    @property
    def worse(self) -> bool:
        """Whether the score falls by more than chance explains."""
        return self.high is not None and self.high < 0

    def __str__(self) -> str:
        """Say it in words.

        >>> print(Comparison(0.617, 0.389, -0.26, -0.2, questions=200))
        nDCG@10 0.617 before, 0.389 after, on 200 questions made from the documents (worse: -0.26 to -0.20)
        >>> print(Comparison(0.986, 0.959, -0.09, 0.04, questions=20, given=20))
        nDCG@10 0.986 before, 0.959 after, on 20 questions of your own (no certain difference: -0.09 to +0.04)
        """
        if self.before is None or self.after is None or self.low is None or self.high is None:
            return f"not measured: {self.why}"
        said = f"nDCG@10 {self.before:.3f} before, {self.after:.3f} after, on {self._asked}"
        verdict = "worse" if self.worse else "better" if self.low > 0 else "no certain difference"
        return f"{said} ({verdict}: {self.low:+.2f} to {self.high:+.2f})"

    @property
    def _asked(self) -> str:
        made = self.questions - self.given
        if not made:
            return f"{counted(self.given, 'question')} of your own"
        return f"{counted(made, 'question')} made from the documents" + (
            f" and {self.given:,} of your own" if self.given else ""
        )


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """Questions of words, the row of the document that answers each, and the modality of that document."""

    words: Sequence[str]
    rows: Sequence[int]
    modality: Names
    given: int

    def __len__(self) -> int:
        return len(self.words)


def questions(store: Store) -> Questions:
    """Return what a collection can be asked: the user's own questions, and questions made from its texts."""
    known = [(query.text or "", answer) for query, answer in query_log.kept(store.queries) if answer is not None]
    places = store.rows_of(answer for _, answer in known)
    asked = [(said, places[answer]) for said, answer in known if answer in places]
    given = len(asked)
    if given < FEWEST:
        asked += _made(store)
    rows = [row for _, row in asked]
    held = store.described(rows)
    modality = np.array([held[row].modality for row in rows], dtype=str)
    return Questions([said for said, _ in asked], rows, modality, given)


def _made(store: Store) -> list[tuple[str, int]]:
    rng, parser = np.random.default_rng(SEED), Embedded()  # not whatever is installed: the same questions everywhere
    found: list[tuple[str, int]] = []
    for name in sorted(name for name in store.counts() if TEXT in atoms(name)):
        rows = sorted(rng.permutation(store.rows(name))[:MADE].tolist())
        texts = store.texts(rows)
        said = ((about(texts.get(row) or "", rng, parser), row) for row in rows)
        found += [(words, row) for words, row in said if words]
    return found


def measured(snapshot: Snapshot, store: Store, encoder: Encoder, asked: Questions) -> Matrix:
    """Return nDCG@10 of each question, ``(n,)``; a copy of the right document is right."""
    vectors = query_vectors([Query(text=said) for said in asked.words], lambda: encoder, encoder.dim)
    found = np.zeros(len(asked))
    for at, ranking in enumerate(ranked(snapshot, vectors, DEPTH)):
        right = np.flatnonzero(np.isin(ranking.documents, list(store.copies(asked.rows[at]))))
        found[at] = 1 / np.log2(2 + right[0]) if len(right) else 0.0
    return found


def compared(before: Matrix, after: Matrix, modality: Names, given: int = 0) -> Comparison:
    """Compare the scores of questions; each modality of documents has equal weight."""
    groups = [modality == name for name in np.unique(modality)]
    means = [np.mean([scores[group].mean() for group in groups]) for scores in (before, after)]
    apart = after - before
    variance = sum(float(apart[group].var(ddof=min(1, int(group.sum()) - 1))) / int(group.sum()) for group in groups)
    difference, error = float(means[1] - means[0]), DEVIATIONS * variance**0.5 / len(groups)
    return Comparison(
        float(means[0]), float(means[1]), difference - error, difference + error, questions=len(before), given=given
    )


def compare(manager: SnapshotManager, snapshot: Snapshot, store: Store, encoder: Encoder) -> Comparison:
    """Measure a collection as it is served, and as ``snapshot``, ``store`` and ``encoder`` would serve it."""
    asked = questions(store)
    if len(asked) < FEWEST:
        return Comparison(questions=len(asked), why=_too_few(len(asked)))
    if TEXT not in encoder.modalities:
        return Comparison(questions=len(asked), why=f"{encoder.name} does not read words, and the questions are words.")
    try:
        old = manager.opened.load()
        if old is None or TEXT not in old.modalities:
            name = "the collection had no encoder" if old is None else f"{old.name} does not read words"
            return Comparison(questions=len(asked), why=f"{name}, so there is no score before.")
        served = (
            manager.latest() if manager.version() else manager.fitted(manager.requested_spec, keep=False, on_disk=False)
        )
        before = measured(served, manager.store, old, asked)
    except (IsthmusError, OSError) as error:
        return Comparison(questions=len(asked), why=f"the score before cannot be measured. {error}")
    return compared(before, measured(snapshot, store, encoder, asked), asked.modality, asked.given)


def _too_few(count: int) -> str:
    return (
        f"the documents give {counted(count, 'question')} in words, and {FEWEST} are needed. Give your own with "
        "`isthmus calibrate --queries`."
    )
