"""Pieces of a sentence by its tags alone: noun phrases, and clauses from a subject to an object.

A sentence becomes a string of one letter per word, and a piece is a regular expression over it:

    noun phrase    determiner? (adverb? adjective)* noun+ ('s adjective* noun+)?
    long phrase    noun phrase (preposition noun phrase){0,2}
    clause         long phrase, verbs, (long phrase | preposition long phrase | adjective)

This replaces a dependency tree if there is none: it finds a subject next to its verb, not one that is a relative
clause away.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

WORDS = 120  # maximum words of a sentence that are used
PLAIN = {"to": "t", "not": "n", "n't": "n", "'s": "T", "’s": "T"}  # the letters for the tagger's T
NOUN = r"(?:D(?:B?[JUGE])*|(?:B?[JU])*)[NMPU]+(?:TJ*[NMPU]+)?"
LONG = rf"{NOUN}(?:I{NOUN}){{0,2}}"
VERBS = r"[Bn]*(?:A[Bn]*)*[VWGEA](?:[Bn]*[VGE])?(?:t[B]?V)?"
CLAUSE = re.compile(rf"{LONG}{VERBS}B?(?:I?{LONG}|B?J)(?![NMPUT])")
PHRASE = re.compile(rf"{LONG}(?![NMPUT])")


def clauses(small: Sequence[str], codes: Sequence[str]) -> list[tuple[int, int]]:
    """Return first and last (not included) word of each clause.

    >>> words = "the old bridge crosses the river because it rains".split()
    >>> [words[first:last] for first, last in clauses(words, list("DJNVDNSRV"))]
    [['the', 'old', 'bridge', 'crosses', 'the', 'river']]
    """
    return [match.span() for match in CLAUSE.finditer(_letters(small, codes))]


def phrases(small: Sequence[str], codes: Sequence[str]) -> list[tuple[int, int]]:
    """Return first and last (not included) word of each long noun phrase.

    >>> words = "it is a map of the old town".split()
    >>> [words[first:last] for first, last in phrases(words, list("RADNIDJN"))]
    [['a', 'map', 'of', 'the', 'old', 'town']]
    """
    return [match.span() for match in PHRASE.finditer(_letters(small, codes))]


def _letters(small: Sequence[str], codes: Sequence[str]) -> str:
    found = zip(small[:WORDS], codes[:WORDS], strict=True)
    return "".join(PLAIN.get(word, "t") if code == "T" else code for word, code in found)
