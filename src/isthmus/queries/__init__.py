"""Queries made from documents, as Mr. Right makes its own: about the text, about the image, about both.

    made(document, caption, rng=rng)        the queries of one document
    published(document, caption)            the same by the paper's own rule, for texts that begin with their title
    without(document, query)                the document without the text of the query
    filters.kept(query, document)           whether a query passes the filters
    unique.ambiguous(scores)                which queries may name more than one document
    corpus(documents, captions, seed=0)     queries and judgements of a corpus, ready for isthmus.evaluate
    about(text, rng)                        a query about a text that stays whole

Collections calibrate on the last.
"""

from isthmus.queries.captions import Captions
from isthmus.queries.corpora import GeneratedCorpus, corpus
from isthmus.queries.kinds import KINDS, MadeQuery
from isthmus.queries.parse import Embedded, Parser, best
from isthmus.queries.published import published
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
    "published",
    "without",
]
