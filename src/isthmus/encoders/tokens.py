"""Two towers before pooling: a vector for each token of a text, and for each cell of a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from isthmus.encoders.base import Role, Settings
from isthmus.encoders.folder import describe
from isthmus.encoders.images import Frame, Pixels
from isthmus.encoders.onnx import Model, OnnxImage, OnnxText
from isthmus.encoders.texts import Splitter, TextPassage, TokenizedWord
from isthmus.encoders.tower import cut
from isthmus.errors import BadFile, BadInput
from isthmus.types import Mask, Matrix

TEXT = "/bert/encoder/layer.5/output/LayerNorm/LayerNormalization_output_0"  # of mini, the last of its layers
IMAGE = "/image/_swish_1/Clip_output_0"  # of mini, (n, channels, 8, 8)
POOLED = "/image/ReduceMean_output_0"  # of mini, the mean of those cells, (n, channels)


class TokenStates(NamedTuple):
    """The states of passages' tokens, and the mask of real tokens."""

    states: Matrix  # (n, t, d)
    mask: Mask  # (n, t)


class Picture(NamedTuple):
    """The cells of pictures, and the picture's own vectors."""

    cells: Matrix  # (n, p, channels), row by row
    vectors: Matrix  # (n, d), unit


@dataclass(frozen=True, slots=True, eq=False)
class TokenTowers:
    """The text tower and the image tower of an encoder's folder, each cut at a tensor."""

    identity: str
    dim: int
    text: OnnxText
    image: OnnxImage
    cells: str  # the tensor of the image tower

    @classmethod
    def open(cls, folder: Path, settings: Settings, *, text: str = TEXT, image: str = IMAGE) -> TokenTowers:
        """Cut the towers of a folder at these tensors."""
        described = describe(folder)
        words, picture = described.text, described.image
        if described.fusion is not None:
            raise BadInput(f"{folder} is a model on other towers. Name those: {described.fusion.towers}.")
        if described.clip is not None:
            raise BadInput(f"{folder} has CLIP's image tower, which cannot be cut into cells. Name other towers: mini.")
        if words is None or picture is None:
            raise BadFile(f"{folder} has one tower. Fusion needs an encoder of text and images.")
        inputs = [words.tokens, words.mask, *([words.types] if words.types else [])]
        owner = described.owner
        model = Model.open(owner.folder / words.model, inputs, text, settings, cut(owner.read(words.model), text))
        path, whole = folder / picture.model, described.read(picture.model)
        output = picture.output or Model.open(path, [picture.pixels], "", settings, whole).output
        both = Model.open(path, [picture.pixels], output, settings, cut(whole, image, output))
        splitter = Splitter.from_bytes(owner.read(words.tokenizer), words.length, str(owner.folder / words.tokenizer))
        return cls(described.identity, described.dim, OnnxText(words, splitter, model), OnnxImage(picture, both), image)

    @property
    def frame(self) -> Frame:
        """The size of the pictures that the image tower reads."""
        return self.image.frame

    def split(self, texts: Sequence[str], role: Role) -> list[list[TextPassage]]:
        """Return the passages of each text."""
        return self.text.split(texts, role)

    def inside(self, passage: TextPassage, role: Role) -> slice:
        """Return the slice of a passage's own tokens, without special tokens."""
        front, after = len(self.front(role)), len(self.text.splitter.after)
        return slice(front, len(passage.tokens) - after)

    def decoded(self, passage: TextPassage, role: Role) -> str:
        """Return the words of a passage."""
        words: str = self.text.splitter.tokenizer.decode(passage.tokens[self.inside(passage, role)].tolist())
        return words

    def word_ids(self, passage: TextPassage, role: Role) -> list[int]:
        """Return the word number of each of a passage's own tokens; one number each if words are unknown."""
        own = passage.tokens[self.inside(passage, role)].tolist()
        tokenizer = self.text.splitter.tokenizer
        again = tokenizer.encode(tokenizer.decode(own, skip_special_tokens=False), add_special_tokens=False)
        if again.ids != own:
            return list(range(len(own)))
        return [-1 - at if word is None else word for at, word in enumerate(again.word_ids)]

    def front(self, role: Role) -> tuple[int, ...]:
        """Return the tokens before a passage's own: special tokens, and those of a prompt."""
        section = self.text.section
        return self.text.splitter.front(section.query if role == "query" else section.document)

    def words(self, text: str, role: Role) -> tuple[list[TextPassage], list[list[TokenizedWord]]]:
        """Return the passages of a text, and the words of each."""
        return self.text.words(text, role)

    def read(self, passages: Sequence[TextPassage]) -> TokenStates:
        """Return the states of each passage's tokens."""
        inputs, mask = self.text.feed(passages)
        return TokenStates(self.text.model.run(inputs), mask.astype(bool))

    def look(self, pixels: Sequence[Pixels]) -> Picture:
        """Return the cells of each picture, and its vector."""
        cells, vectors = self.image.model.several(self.image.feed(pixels), [self.cells, self.image.model.output])
        flat = np.ascontiguousarray(cells.reshape(*cells.shape[:2], -1).transpose(0, 2, 1))  # (n, p, channels)
        return Picture(flat, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
