"""Encoders that make ONE vector of a text and an image, on the two towers of another encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isthmus.documents import Document, Query
from isthmus.encoders.abilities import TakesApart
from isthmus.encoders.base import Role, Settings, Skip
from isthmus.encoders.folder import Description, FusionSection
from isthmus.encoders.heads import SIDES, DocumentHead, QueryHead
from isthmus.encoders.images import Frame
from isthmus.encoders.items import texts_of
from isthmus.encoders.matching import Matcher
from isthmus.encoders.once import Pending, VectorInput, launched
from isthmus.encoders.one_vector import PARTS, OneVectorEncoder
from isthmus.encoders.texts import TextPassage
from isthmus.encoders.tokens import TokenTowers
from isthmus.errors import BadFile
from isthmus.types import Rows, Vectors


def open_fusion(described: Description, section: FusionSection, towers: Path, settings: Settings) -> FusionEncoder:
    """Make an encoder of a folder with ``[fusion]``, on the towers in another folder."""
    below = TokenTowers.open(towers, settings, text=section.text, image=section.image)
    if below.identity != section.identity:
        raise BadFile(
            f"{described.folder} was trained on towers with the checksum {section.identity[:12]}…, and those of "
            f"{section.towers} have {below.identity[:12]}… here: its vectors would be meaningless. Use the version of "
            f"{section.towers} that it was trained on, or train it again on this one."
        )
    encoder = FusionEncoder(
        name=described.name,
        dim=described.dim,
        identity=described.identity,
        document=DocumentHead.open(described, below, settings),
        query=QueryHead.open(described, section, below, settings),
        described=described,
        settings=settings,
    )
    described.contents.clear()  # the matcher's file is read and verified again when it is needed
    return encoder


@dataclass(frozen=True, slots=True, eq=False)
class FusionTower:
    """The two heads over the towers: documents and queries are fused by heads of their own."""

    document: DocumentHead
    query: QueryHead

    @property
    def frame(self) -> Frame:
        """The size of the pictures it reads."""
        return self.document.towers.frame

    def split(self, texts: Sequence[str], role: Role) -> list[list[TextPassage]]:
        """Return the passages of each text."""
        return self.document.towers.split(texts, role)

    def launch(self, inputs: Sequence[VectorInput], role: Role) -> Pending:
        """Encode; the result has one row per input."""
        return launched((self.document if role == "document" else self.query).encode)(inputs)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class FusionEncoder:
    """An ``Encoder`` with one vector for text and image."""

    name: str
    dim: int
    identity: str
    document: DocumentHead
    query: QueryHead
    described: Description
    settings: Settings

    @property
    def modalities(self) -> tuple[str, ...]:
        """The modalities it accepts, in documents and in queries."""
        return PARTS

    @property
    def towers(self) -> TokenTowers:
        """The towers below the fusion."""
        return self.document.towers

    def __repr__(self) -> str:
        return f"<Encoder {self.name}, {self.dim} dimensions: {', '.join(self.modalities)}>"

    @property
    def joined(self) -> OneVectorEncoder:
        """The encoder without what only a fusion has."""
        tower = FusionTower(self.document, self.query)
        return OneVectorEncoder(
            name=self.name, dim=self.dim, identity=self.identity, tower=tower, settings=self.settings
        )

    def encode_documents(self, documents: Sequence[Document]) -> Vectors:
        """Return one row per document; a long text is the unit mean of its passages, each with the image."""
        return self.joined.encode_documents(documents)

    def encode_queries(self, queries: Sequence[Query | str]) -> Vectors:
        """Return one row per query; a string is a query of words. A long one is a mean, as in documents."""
        return self.joined.encode_queries(queries)

    def encode_passages(self, documents: Sequence[Document], *, skip: Skip | None = None) -> tuple[Vectors, Rows]:
        """Return one row per passage, together with the image of its document, and the document of each row."""
        return self.joined.encode_passages(documents, skip=skip)

    def split(self, text: str) -> list[tuple[int, int]]:
        """Return the start and end of each passage of a document's text."""
        return self.joined.split(text)

    def sides(self, query: str | Query) -> dict[str, str]:
        """Return the words of a query about the text and those about the image; all words for both with one side.

        The words are as the tokenizer decodes them: in lower case, without unknown words.
        """
        (passages,) = self.towers.split(texts_of([Query.of(query)]), "query")
        sides = [[self.towers.decoded(part, "query") for part in side if part] for side in self.query.sides(passages)]
        return dict(zip(SIDES, [" ".join(words) for words in sides * (1 + len(SIDES) - len(sides))], strict=True))

    def matcher(self) -> Matcher:
        """Return the matcher, which scores pairs of a query and a document."""
        return Matcher.open(self.described, self.document, self.query, self.settings)

    def takes_apart(self) -> TakesApart:
        """Return the object that leaves words and patches out of a vector."""
        from isthmus.encoders.apart_fusion import FusionApart  # it imports this class

        return FusionApart(self)
