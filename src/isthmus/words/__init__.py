"""Words: BM25 over texts, and how it is combined with the vectors' score.

A document without text has no lexical signal: it is *missing*, and the document keeps the score of its vectors.
For a document with text that shares no word with the query, the signal is 0.

    l(q, d)      = BM25(q, d) / Σ over the query's words of idf · (k₁ + 1)      in 0 … 1: the share of the maximum
    hybrid(q, d) = score(q, d) + w · σ · (l(q, d) − μ_M) / σ_M                   if d, of modality M, has text
    hybrid(q, d) = score(q, d)                                                   otherwise

μ_M and σ_M are the mean and deviation of l over the documents of modality M that are nearest to reference queries
without being their source. A text that shares as many words as such neighbours usually do gains nothing over a picture;
with more shared words it rises, with fewer it falls. σ is the deviation of reference queries' best scores. w is .75 if
all documents have text, and falls to .25 where a tenth of them or more have none.
"""

from isthmus.words.bm25 import TextIndex
from isthmus.words.hybrid import HybridScale, moments, weight_of
from isthmus.words.query import TOKENS, WORD, attainable, query_words

__all__ = [
    "TOKENS",
    "WORD",
    "HybridScale",
    "TextIndex",
    "attainable",
    "moments",
    "query_words",
    "weight_of",
]
