"""The embedded part-of-speech tagger: a lexicon, endings for unknown words, and rules about neighbours.

Every word first gets the code it most often has; then each rule in turn looks at all words and changes those whose
neighbours require it: *work* is a noun, and after *to* a verb.

Reference: Brill, A simple rule-based part of speech tagger (1992). The lexicon is his, reduced to coarse codes
(`isthmus.queries.lexicon` lists them); the endings and rules are ours, written by hand. docs/queries.md has its
accuracy.

>>> from isthmus.queries.words import tokens
>>> " ".join(f"{code}" for code in codes(tokens("The small dog wants to work in Paris.")))
'D J M V T V I P .'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isthmus.queries.lexicon import guess, shipped
from isthmus.queries.words import Token

UNIVERSAL = {
    **dict.fromkeys("NM", "NOUN"),
    **dict.fromkeys("VWGE", "VERB"),
    **{"P": "PROPN", "R": "PRON", "D": "DET", "J": "ADJ", "A": "AUX", "I": "ADP", "B": "ADV", "C": "CCONJ"},
    **{"S": "SCONJ", "T": "PART", "U": "NUM", "H": "INTJ", "X": "X", ".": "PUNCT"},
}
_CLOSED = {
    "D": "a an the this these those my your his her its our their whose another any each every some no such what which "
    "all both either neither",
    "R": "i you he she it we they me him us them who whom myself yourself himself herself itself ourselves themselves "
    "oneself mine yours hers ours theirs there nobody somebody anybody everybody nothing something anything everything "
    "someone anyone everyone none",
    "A": "am is are was were be been being has have had having do does did can could may might must shall should will "
    "would cannot 'm 're 've 'll 'd ca wo",
    "I": "of in on at by for with from about into over under between through during against among across behind beyond "
    "near off onto out outside inside per since than throughout toward towards until up upon via within without along "
    "above below beneath beside besides despite except like amid around as after before down",
    "S": "that if because although though while whereas whether unless",
    "C": "and or but nor &",
    "B": "very also only even just then now here too so more most less least well often never always still again "
    "when where why how however almost already away back far ever once soon together yet perhaps quite rather",
    "T": "to not n't 's '",
    "U": "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion",
    "H": "yes oh hello hey",
}
CLOSED = {word: code for code, words in _CLOSED.items() for word in words.split()}
OPENING = frozenset('"“‘(:[;—–•')  # a capital after these does not mark a name, as at the start of a sentence


@dataclass(frozen=True, slots=True)
class Rule:
    """Change ``old`` codes to ``new`` where the words around them are of these codes, or are these words.

    ``before`` and ``after`` are codes, a space for the edge of the sentence; ``word`` and ``previous`` are words.
    """

    old: str
    new: str
    before: str = ""
    after: str = ""
    second: str = ""  # the code two places before
    word: tuple[str, ...] = ()
    previous: tuple[str, ...] = ()

    def fits(self, small: Sequence[str], codes: Sequence[str], at: int) -> bool:
        """Return whether the neighbours of a word match the rule."""
        left = codes[at - 1] if at else " "
        return (
            (not self.before or left in self.before)
            and (not self.after or (codes[at + 1] if at + 1 < len(codes) else " ") in self.after)
            and (not self.second or (codes[at - 2] if at > 1 else " ") in self.second)
            and (not self.word or small[at] in self.word)
            and (not self.previous or (small[at - 1] if at else "") in self.previous)
        )


MODALS = ("can", "could", "may", "might", "must", "shall", "should", "will", "would", "do", "does", "did", "ca", "wo")
RULES = (
    Rule("MW", "V", previous=("to",)),
    Rule("MW", "V", previous=(*MODALS, "'ll", "'d", "cannot")),
    Rule("MW", "V", previous=("not", "n't"), second="A"),
    Rule("MW", "V", before="R", after="DRIBTJSUPN"),
    Rule("M", "V", before="N", after="DR"),
    Rule("VW", "N", before="DJ", after="NMIAC. SVEB"),
    Rule("G", "N", before="D", after="IAC."),
    Rule("T", "A", word=("'s",), before="R"),
    Rule("S", "R", word=("that",), after="AV"),
    Rule("M", "V", before="S", after="DR"),
    Rule("B", "J", word=("more", "most", "less", "least"), after="NM"),
)


def codes(sentence: Sequence[Token]) -> list[str]:
    """Return a code for each word of a sentence."""
    small = [token.text.lower().replace("’", "'") for token in sentence]
    opens = [not before or before in OPENING for before in ["", *small]]
    written = [token.text for token in sentence]
    shouted = len(written) > 1 and "".join(written).isupper()  # all capitals: no names
    found = [_first(*word) for word in zip(small if shouted else written, small, opens, strict=False)]
    for rule in RULES:
        for at, code in enumerate(found):
            if code in rule.old and rule.fits(small, found, at):
                found[at] = rule.new
    return found


def universal(code: str) -> str:
    """Return the universal part of speech of a code.

    >>> universal("M"), universal("G")
    ('NOUN', 'VERB')
    """
    return UNIVERSAL[code]


def _first(word: str, small: str, opens: bool) -> str:
    """Return the code of a word without its neighbours; a capital inside a sentence marks a name."""
    if small in CLOSED:
        return CLOSED[small]
    if not any(letter.isalnum() for letter in word):
        return "."
    known = shipped().get(word)
    if known is None and word[0].isupper():
        return shipped().get(small, "P") if opens else "P"
    return known or guess(small)
