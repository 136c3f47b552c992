"""Queries made from documents, as Mr. Right makes its own: about the text, about the image, about both.

    made(document, caption, rng=rng)        the queries of one document
    without(document, query)                the document without the text of the query
    filters.kept(query, document)           whether a query passes the filters
    corpus(documents, captions, seed=0)     queries and judgements of a corpus, ready for isthmus.evaluate
    about(text, rng)                        a query about a text that stays whole

Collections calibrate on the last.
"""

from isthmus.queries.captions import Captions
from isthmus.queries.corpora import GeneratedCorpus, corpus
from isthmus.queries.kinds import KINDS, MadeQuery
from isthmus.queries.parse import Embedded, Parser, best
from isthmus.queries.recipe import about, made, without

__all__ = [
    "KINDS",
    "Captions",
    "Embedded",
    "GeneratedCorpus",
    "MadeQuery",
    "Parser",
    "about",
    "best",
    "corpus",
    "made",
    "without",
]
