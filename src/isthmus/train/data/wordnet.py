"""WordNet's nouns: other words for a name, what it is a kind of, and its definition.

Reads ``data.noun`` and ``index.noun`` of WordNet 3.0 (Debian: ``wordnet-base``; Princeton's licence).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from isthmus.errors import BadFile

HYPERNYMS = ("@", "@i")
GENERAL = frozenset(  # kinds that say too little about a picture
    ("entity", "physical entity", "object", "whole", "artifact", "matter", "thing", "unit", "living thing", "organism")
)


PERSON = 18
PICTURED = (5, 6, 13, 20, 17, 8, 19, PERSON)  # WordNet's files of animals, artefacts, food, plants, … and people


@dataclass(frozen=True, slots=True)
class Synset:
    """One meaning: WordNet's file, its lemmas, the synsets it is a kind of, and its definition."""

    file: int
    lemmas: tuple[str, ...]
    parents: tuple[str, ...]
    gloss: str


@dataclass(frozen=True, slots=True)
class Nouns:
    """The synsets by their number, and the numbers of each lemma, the most frequent meaning first."""

    synsets: dict[str, Synset]
    meanings: dict[str, list[str]]

    @classmethod
    def read(cls, folder: Path) -> Nouns:
        """Read the two files."""
        try:
            data = (folder / "data.noun").read_text("utf-8").splitlines()
            index = (folder / "index.noun").read_text("utf-8").splitlines()
        except OSError as error:
            raise BadFile(
                f"WordNet's nouns cannot be read: {error}. Install it (Debian: wordnet-base, in /usr/share/wordnet)."
            ) from None
        synsets = dict(_synset(line) for line in data if not line.startswith("  "))
        meanings = dict(_meanings(line) for line in index if not line.startswith("  "))
        return cls(synsets, meanings)

    def first(self, word: str) -> Synset | None:
        """Return the most frequent meaning of a noun, plural or singular, that a picture can show.

        A meaning that is not a person comes first: a whale is more often an animal.
        """
        plain = word.lower().strip()
        forms = [plain, plain.removesuffix("s"), plain.removesuffix("es")]
        numbers = next((self.meanings[form] for form in forms if form in self.meanings), [])
        shown = [self.synsets[number] for number in numbers if self.synsets[number].file in PICTURED]
        return min(shown, key=lambda meaning: meaning.file == PERSON, default=None)

    def kinds(self, meaning: Synset, levels: int = 2) -> list[str]:
        """Return what a meaning is a kind of, the nearest first, without kinds that say little."""
        found: list[str] = []
        for _ in range(levels):
            if not meaning.parents:
                break
            meaning = self.synsets[meaning.parents[0]]
            if meaning.lemmas[0] in GENERAL:
                break
            found.append(meaning.lemmas[0])
        return found

    def widened(self, name: str) -> list[str]:
        """Return a name, its synonyms, its kinds and its definition: texts for a picture of that name."""
        meaning = self.first(name)
        if meaning is None:
            return [name]
        synonyms = [lemma for lemma in meaning.lemmas[:3] if lemma.lower() != name.lower()]
        return list(dict.fromkeys([name, *synonyms, *self.kinds(meaning), f"{name}: {meaning.gloss}"]))

    def glosses(self) -> list[str]:
        """Return "lemma: definition" of every meaning."""
        return [f"{each.lemmas[0]}: {each.gloss}" for each in self.synsets.values()]


def _synset(line: str) -> tuple[str, Synset]:
    head, _, gloss = line.partition(" | ")
    fields = head.split()
    count = int(fields[3], 16)
    lemmas = tuple(fields[4 + 2 * at].replace("_", " ") for at in range(count))
    after = 4 + 2 * count
    pointers = [fields[after + 1 + 4 * at : after + 5 + 4 * at] for at in range(int(fields[after]))]
    parents = tuple(pointer[1] for pointer in pointers if pointer[0] in HYPERNYMS)
    return fields[0], Synset(int(fields[1]), lemmas, parents, gloss.split('; "')[0].strip())


def _meanings(line: str) -> tuple[str, list[str]]:
    fields = line.split()
    return fields[0].replace("_", " "), fields[-int(fields[2]) :]
