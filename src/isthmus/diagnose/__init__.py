"""Diagnose: is a search unfair, why, and does calibration help? The measures take arrays, never a model.

gap        distance between kinds of documents, independent of their content
share      each modality's share of the top 10, compared with chance and relevance
hubs       documents that appear for every query
moves      ranks of the right answers before and after calibration
advice     what the numbers mean, in words
diagnosis  all of these from one set of arrays
collection collects the arrays from a collection; report, drawings: an HTML page; summary: text and JSON

with Collection.open("things.isthmus") as things:
    found = examine(things)
print(found.diagnosis.advice.verdict)
Path("report.html").write_text(page(found))
"""

from isthmus.diagnose.advice import Advice, Level, Numbers, advise
from isthmus.diagnose.collection import Examination, examine
from isthmus.diagnose.diagnosis import CollectionState, Diagnosis, Evidence, Side, diagnose
from isthmus.diagnose.gap import Gap, flat, gap
from isthmus.diagnose.hubs import Hubs, hubs, occurrences, skewness
from isthmus.diagnose.moves import Moves, moves
from isthmus.diagnose.report import page
from isthmus.diagnose.share import ModalityShares, changed_hands, shares
from isthmus.diagnose.summary import as_text, summary

__all__ = [
    "Advice",
    "CollectionState",
    "Diagnosis",
    "Evidence",
    "Examination",
    "Gap",
    "Hubs",
    "Level",
    "ModalityShares",
    "Moves",
    "Numbers",
    "Side",
    "advise",
    "as_text",
    "changed_hands",
    "diagnose",
    "examine",
    "flat",
    "gap",
    "hubs",
    "moves",
    "occurrences",
    "page",
    "shares",
    "skewness",
    "summary",
]
