"""Words: BM25 over texts, and how it joins the vectors' score.

A document without text has no lexical signal: it is *missing*, and the document keeps the score that its vectors give.
A document with text that shares no word with the query has the signal, and it is 0.

    l(q, d)      = BM25(q, d) / Σ over the query's words of idf · (k₁ + 1)      in 0 … 1: the share of what could be had
    hybrid(q, d) = score(q, d) + w · σ · (l(q, d) − μ_M) / σ_M                   where d, of modality M, has text
    hybrid(q, d) = score(q, d)                                                   where it has none

μ_M and σ_M are the mean and deviation of l over the documents of modality M that come nearest to reference queries
without being their source: a text as wordy as such neighbours usually are gains nothing over a picture, a text that
shares more words rises, one that shares fewer sinks. σ is the deviation of reference queries' best scores.
"""

from isthmus.words.bm25 import TextIndex
from isthmus.words.hybrid import HybridScale, moments
from isthmus.words.query import TOKENS, WORD, attainable, query_words

__all__ = ["TOKENS", "WORD", "HybridScale", "TextIndex", "attainable", "moments", "query_words"]
