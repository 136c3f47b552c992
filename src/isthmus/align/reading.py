"""The input of forge-mini: words, and for each token a vector of `mini`'s lower layers and some features."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from isthmus import encoders
from isthmus.align.base import DESCRIPTION
from isthmus.encoders.tower import cut
from isthmus.queries.phrases import STOP
from isthmus.types import Matrix, Rows

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

FEATURES = "/bert/encoder/layer.1/output/LayerNorm/LayerNormalization_output_0"  # two of six layers
ROOM = 254  # tokens of one window, without those around it
WORD = re.compile(r"\S+")
AROUND = ".,;:!?()[]\"'*`#>-"  # punctuation around a word
MARK = re.compile(rf"^{DESCRIPTION.strip()}", re.MULTILINE)
SIGNS = 17  # features of each word
WIDTH = 384 + SIGNS  # inputs of each token
STOPS = 384 + 7  # the column that says whether a word is a stop word


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A part of a text that is read at once: as many whole words as fit."""

    words: list[str]
    first: Rows  # (w,): the token that each word begins with
    inputs: Matrix  # (t, d + SIGNS): the model's input for each token
    sentence: Rows  # (w,): the sentence of each word


@dataclass(frozen=True, slots=True, eq=False)
class WindowReader:
    """Reads through the lower layers of `mini`'s text tower."""

    tokenizer: Tokenizer
    tower: InferenceSession

    @classmethod
    def open(cls, threads: int = 0) -> WindowReader:
        """Load the tokenizer and the lower layers."""
        from onnxruntime import InferenceSession, SessionOptions
        from tokenizers import Tokenizer

        folder = encoders.MINI
        options = SessionOptions()
        options.log_severity_level = 3  # it warns of every weight of the upper layers
        options.intra_op_num_threads = threads
        tower = InferenceSession(cut((folder / "text.onnx").read_bytes(), FEATURES), options)
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return cls(tokenizer, tower)

    def read(self, text: str) -> list[Window]:
        """Return the windows of a text, without the caption prefix and words without tokens."""
        mark = MARK.search(text)
        caption = mark.start() if mark else len(text)
        blank = MARK.sub(lambda mark: " " * len(mark.group()), text)
        spans = [match.span() for match in WORD.finditer(blank)]
        words = [blank[start:end].encode("utf-8", "replace").decode() for start, end in spans]  # no lone surrogates
        encoded = self.tokenizer.encode_batch(words, add_special_tokens=False)
        tokens = [encoding.ids[:ROOM] for encoding in encoded]
        windows: list[Window] = []
        begin = 0
        while begin < len(spans):
            end, length = begin, 0
            while end < len(spans) and length + len(tokens[end]) <= ROOM:
                length += len(tokens[end])
                end += 1
            windows += [self._window(blank, spans[begin:end], tokens[begin:end], caption)] if length else []
            begin = end
        return windows

    def _window(
        self, text: str, spans: Sequence[tuple[int, int]], tokens: Sequence[Sequence[int]], caption: int
    ) -> Window:
        pairs = [(span, several) for span, several in zip(spans, tokens, strict=True) if several]
        first, last = self.tokenizer.encode("").ids
        ids = np.array([[first, *(token for _, several in pairs for token in several), last]], dtype=np.int64)
        (features,) = self.tower.run(None, {"tokens": ids, "mask": np.ones_like(ids)})
        lengths = np.array([len(several) for _, several in pairs])
        words = [text[start:end] for (start, end), _ in pairs]
        sentence = _sentences(text, [span for span, _ in pairs])
        captioned = np.array([caption <= start for (start, _), _ in pairs])
        signs = np.concatenate(
            [
                np.array([_signs(text, *span, caption) for span, _ in pairs], dtype=np.float32),
                context(words, captioned, sentence, lengths),
            ],
            axis=1,
        )
        return Window(
            words,
            np.concatenate([[0], np.cumsum(lengths)[:-1]]),
            np.concatenate([features[0, 1:-1], np.repeat(signs, lengths, axis=0)], axis=1),
            sentence,
        )


@cache
def reader() -> WindowReader:
    """Return the reader, loaded once."""
    return WindowReader.open()


def padded(windows: Sequence[Window]) -> tuple[Matrix, Any]:
    """Return the inputs of windows as one padded array, and the mask: ``(n, t, d)`` and ``(n, t)``."""
    longest = max(len(window.inputs) for window in windows)
    inputs = np.zeros((len(windows), longest, windows[0].inputs.shape[1]), dtype=np.float32)
    mask = np.zeros((len(windows), longest), dtype=bool)
    for row, window in enumerate(windows):
        inputs[row, : len(window.inputs)] = window.inputs
        mask[row, : len(window.inputs)] = True
    return inputs, mask


def context(words: Sequence[str], captioned: Any, sentence: Rows, lengths: Rows) -> Matrix:
    """Features that depend on no style or field: how often a word occurs, where, and in what kind of sentence.

    They are: a stop word, one that occurs again, one that the other side has too (message and captions), its number of
    tokens, its place, the length of the text, the share of captions; of its sentence the length, the share of stop
    words, and the place.

    >>> said = context(["the", "cat", "a", "cat"], np.array([0, 0, 1, 1], bool), np.array([0, 0, 1, 1]), np.ones(4))
    >>> said[:, :3].tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]
    """
    count = len(words)
    plain = [word.strip(AROUND).lower() for word in words]
    stop = np.array([not word or word in STOP for word in plain], dtype=np.float32)
    sides = [{word for word, there in zip(plain, captioned, strict=True) if there == side} for side in (True, False)]
    often = Counter(plain)
    size = np.bincount(sentence)
    start = np.unique(sentence, return_index=True)[1]
    stops = np.bincount(sentence, stop) / size
    return np.column_stack(
        [
            stop,
            [often[word] > 1 for word in plain],
            [word in sides[int(there)] for word, there in zip(plain, captioned, strict=True)],
            lengths / 5,
            np.arange(count) / count,
            np.full(count, np.log(count) / 5),
            np.full(count, captioned.mean()),
            size[sentence] / 20,
            stops[sentence],
            start[sentence] / count,
        ]
    ).astype(np.float32)


def _sentences(text: str, spans: Sequence[tuple[int, int]]) -> Rows:
    """Return the number of each word's sentence; a new line begins one too."""
    opens = [
        at > 0 and ("\n" in text[spans[at - 1][1] : start] or text[spans[at - 1][1] - 1] in ".!?")
        for at, (start, _) in enumerate(spans)
    ]
    return np.cumsum(opens)


def _signs(text: str, start: int, end: int, caption: int) -> tuple[float, ...]:
    """Features of letters, such as case, that the tower ignores."""
    word = text[start:end]
    before = start - 1
    while before >= 0 and text[before] == " ":
        before -= 1
    opens = before < 0 or text[before] in ".!?\n"
    return (
        float(caption <= start),
        float(any(letter.isdigit() for letter in word)),
        float(word[0].isupper() and not opens),
        float(sum(letter.isupper() for letter in word) > 1),
        float(opens),
        float(word[-1] in ".,;:!?"),
        min(len(word), 20) / 20,
    )
