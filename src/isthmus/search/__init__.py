"""Search: collections of documents, calibrated, on the disk.

with Collection.open("things.isthmus") as things:
    things.add([Document(id="a", text="…"), Document(id="b", image="cat.jpg")])
    things.search("a cat on a red sofa", k=10)                      a list of Hit
"""

from isthmus.search.collection import Collection
from isthmus.search.copy import Copied
from isthmus.search.hits import Explanation, Hit, Hits, Passage
from isthmus.search.interface import SearchInterface
from isthmus.search.maps import Map, Shares, WordShare
from isthmus.search.reencode import Reencoded
from isthmus.search.request import SearchRequest
from isthmus.search.reranking import Reranker
from isthmus.search.snapshot import Calibrated
from isthmus.search.source_events import Indexed
from isthmus.search.stats import Stats
from isthmus.search.writer import Added, Skipped
from isthmus.storage.values import FieldValues, ValueCount

__all__ = [
    "Added",
    "Calibrated",
    "Collection",
    "Copied",
    "Explanation",
    "FieldValues",
    "Hit",
    "Hits",
    "Indexed",
    "Map",
    "Passage",
    "Reencoded",
    "Reranker",
    "SearchInterface",
    "SearchRequest",
    "Shares",
    "Skipped",
    "Stats",
    "ValueCount",
    "WordShare",
]
