"""Diagnose: is a search unfair, why, and does calibration help? The measures take arrays, never a model.

gap        how far apart kinds of documents stand, whatever they are about
share      who gets into the top 10, against what chance and relevance would give
hubs       documents that turn up for everything
moves      where right answers stood before calibration, and stand after
advice     what that means, in words
diagnosis  all of these from one set of arrays
collection gathers the arrays from a collection; report, drawings: one page that a person reads; summary: a dozen lines

with Collection.open("things.isthmus") as things:
    found = examine(things)
print(found.diagnosis.advice.verdict)
Path("report.html").write_text(page(found))
"""

from isthmus.diagnose.advice import Advice, Level, Numbers, advise
from isthmus.diagnose.collection import Examination, examine
from isthmus.diagnose.diagnosis import Diagnosis, Evidence, Side, State, diagnose
from isthmus.diagnose.gap import Gap, flat, gap
from isthmus.diagnose.hubs import Hubs, hubs, occurrences, skewness
from isthmus.diagnose.moves import Moves, moves
from isthmus.diagnose.report import page
from isthmus.diagnose.share import Shares, changed_hands, shares
from isthmus.diagnose.summary import summary, told

__all__ = [
    "Advice",
    "Diagnosis",
    "Evidence",
    "Examination",
    "Gap",
    "Hubs",
    "Level",
    "Moves",
    "Numbers",
    "Shares",
    "Side",
    "State",
    "advise",
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
    "told",
]
