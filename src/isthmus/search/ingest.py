"""From documents to entries: what is new is encoded, what the store has seen before is taken from it."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isthmus.budget import PICTURE_BYTES
from isthmus.documents import Document, ImageLike
from isthmus.encoders import Encoder
from isthmus.encoders.images import from_array
from isthmus.errors import BadImage, BadInput, BadVectors
from isthmus.files import digest_regular
from isthmus.storage.base import Entry, Piece, own_hash
from isthmus.storage.facts import as_json, readable
from isthmus.storage.protocols import Store

ALIKE = 4  # documents of the same content that are asked for its vectors
PNG_MODES = ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA")  # of Pillow's, those that a PNG keeps as they are

PICTURE = 2  # what a picture costs of a batch, in texts


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A document as it will be stored, and the hashes that tell whether it changed."""

    document: Document
    text_hash: bytes | None
    image_hash: bytes | None
    own_hash: bytes | None

    @property
    def cost(self) -> int:
        """How much of a batch it takes up: a picture is encoded more slowly than a text."""
        return 1 if self.document.image is None else PICTURE

    @property
    def bytes(self) -> int:
        """What it holds in memory, about: a text, and a picture that is not on the disk."""
        image = self.document.image
        return len(self.document.text or "") + (len(image) if isinstance(image, bytes) else 0)


def prepared(document: Document) -> Prepared:
    """Hash the parts; a picture in memory becomes the bytes of a PNG, a path becomes absolute."""
    as_json(document.metadata, f"Document {document.id!r}")
    try:
        document.id.encode()
    except UnicodeEncodeError:
        raise BadInput(
            f"The id {document.id!r} holds half a character (a lone surrogate). Name it otherwise."
        ) from None
    text = readable(document.text) if document.text and not document.text.isspace() else None
    image = _kept(document.image)
    return Prepared(
        Document.restored(document.id, text, image, document.metadata, document.vectors),
        hashlib.sha256(text.encode()).digest() if text else None,
        _image_hash(image),
        own_hash(document.vectors) if document.vectors else None,
    )


def _kept(image: ImageLike | None) -> ImageLike | None:
    if image is None or isinstance(image, bytes):
        return image
    if isinstance(image, str | os.PathLike):
        return os.path.abspath(image)  # noqa: PTH100 - resolve() would follow links; a name stays what it is
    out = io.BytesIO()
    try:
        picture = from_array(image) if isinstance(image, np.ndarray) else image
        if picture.mode not in PNG_MODES:
            picture = picture.convert("RGB")
        picture.save(out, "PNG")
    except (OSError, ValueError, TypeError, SyntaxError) as error:
        raise BadImage(
            f"its picture cannot be kept ({error}). Give a path, the bytes of a file, or 8-bit pixels."
        ) from None
    return out.getvalue()


def _image_hash(image: ImageLike | None) -> bytes | None:
    if isinstance(image, bytes):
        return hashlib.sha256(image).digest()
    if isinstance(image, str):
        try:
            return digest_regular(image, PICTURE_BYTES)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EISDIR):
                raise BadImage(f"its picture {image} is not a regular file. Give the path of a picture.") from None
            return None  # whoever encodes it says why it cannot be read
        except ValueError:
            return None
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """Makes entries: with the encoder, or from vectors that the store has for the same content."""

    store: Store
    encoder: Callable[[], Encoder] | None  # called when something has to be encoded
    dim: int | None

    def entries(self, batch: Sequence[Prepared], skip: Callable[[int, BadInput], None]) -> list[Entry | None]:
        """Return an entry per document; None for those that went to ``skip``."""
        known = [self._known(one) for one in batch]
        todo = [self._rest(one, pieces) for one, pieces in zip(batch, known, strict=True)]
        bad: set[int] = set()

        def leave_out(row: int, problem: BadInput) -> None:
            bad.add(row)
            skip(row, problem)

        made = self._encoded(todo, leave_out)
        out: list[Entry | None] = []
        dim = self.dim
        names = Known.of(self.store) if batch else None
        for row, (one, pieces) in enumerate(zip(batch, known, strict=True)):
            whole = [*pieces, *made.get(row, [])]
            dim = len(whole[0].vector) if dim is None and whole else dim  # the first vector of a collection decides
            problem = None if row in bad else self._problem(one.document, whole, dim)
            if names is not None and problem is None and row not in bad:
                problem = names.problem(one.document.id, whole)
            if problem is not None:
                leave_out(row, problem)
            hashes = (one.text_hash, one.image_hash, one.own_hash)
            out.append(None if row in bad else Entry(one.document, whole, *hashes))
        return out

    def _known(self, one: Prepared) -> list[Piece]:
        """Return the vectors that the document brings or that the store has of the same content."""
        own = [Piece(part, vector) for part, vector in one.document.vectors.items()]
        covered = {atom for piece in own for atom in piece.part.split("+")}
        hashes = {"text": one.text_hash, "image": one.image_hash}
        wanted = {part: digest for part, digest in hashes.items() if digest is not None and part not in covered}
        if self.encoder is None:
            return own
        if len(wanted) == 2 and not self._apart():
            return own + self._alike(wanted, {"image", "text", "image+text"})
        for part, digest in wanted.items():
            own += self._alike({part: digest}, {part})
        return own

    def _alike(self, hashes: Mapping[str, bytes], parts: set[str]) -> list[Piece]:
        """Return the vectors that an earlier document of the same content got from the encoder."""
        for row, brought in self.store.same_content(hashes, ALIKE):
            mine = self.store.own(row, brought) if brought else {}
            pieces = [piece for piece in self.store.pieces([row])[row] if piece.part in parts]
            if pieces and not any(piece.part in mine for piece in pieces):
                return pieces
        return []

    def _apart(self) -> bool:
        """Whether the encoder gives text and image a vector each, as far as the documents tell that have both.

        Where it gives ONE for both, that of a text alone must not stand beside that of an image alone.
        """
        row = self.store.encoded_row("image+text")
        return row is not None and all("+" not in piece.part for piece in self.store.pieces([row])[row])

    def _rest(self, one: Prepared, known: Sequence[Piece]) -> Document | None:
        """Return the document with the parts that must be encoded alone; None when nothing is left."""
        covered = {atom for piece in known for atom in piece.part.split("+")}
        text = None if "text" in covered else one.document.text
        image = None if "image" in covered else one.document.image
        if self.encoder is None or (text is None and image is None):
            return None
        return Document(one.document.id, text, image)

    def _encoded(
        self, todo: Sequence[Document | None], leave_out: Callable[[int, BadInput], None]
    ) -> dict[int, list[Piece]]:
        places = [row for row, document in enumerate(todo) if document is not None]
        if not places or self.encoder is None:
            return {}
        encoder = self.encoder()
        documents = [document for document in todo if document is not None]
        vectors, owner = encoder.encode_passages(documents, skip=lambda at, problem: leave_out(places[at], problem))
        counts = np.bincount(owner, minlength=len(documents))
        first = np.concatenate([[0], np.cumsum(counts)])
        made: dict[int, list[Piece]] = {}
        for at, document in enumerate(documents):
            rows = range(int(first[at]), int(first[at + 1]))
            spans = encoder.split(document.text) if document.text and len(rows) > 1 else [(None, None)] * len(rows)
            pieces: list[Piece] = []
            for part, matrix in vectors.parts.items():
                mine = [row for row in rows if vectors.present[part][row]]
                if "text" in part.split("+"):
                    pieces += [Piece(part, matrix[row], n, *spans[n]) for n, row in enumerate(mine)]
                elif mine:
                    pieces.append(Piece(part, matrix[mine[0]]))
            made[places[at]] = pieces
        return made

    def _problem(self, document: Document, pieces: Sequence[Piece], dim: int | None) -> BadInput | None:
        if not pieces:
            return BadInput(
                f"document {document.id!r} has no vector, and this collection has no encoder to make one. Give it "
                "vectors={'text': …}, or make the collection with an encoder."
            )
        for piece in pieces:
            if dim is not None and len(piece.vector) != dim:
                return BadVectors(
                    f"document {document.id!r}: its {piece.part} vector has {len(piece.vector)} dimensions but the "
                    f"collection has {dim}. Encode it with the collection's encoder."
                )
        return None


# Every part needs a mean, every modality an index of its own and a place in every calibration. A calibration takes
# ``isthmus.types.MAX_PARTS`` parts at once, those of its reference queries among them.
PARTS = 12  # different names of vectors: 'text', 'audio', 'image+text' …; leaves room for those of queries
MODALITIES = 64  # different sets of parts; a search visits an index for each


@dataclass(slots=True)
class Known:
    """The names that a collection holds, and those that a batch on its way in adds to them."""

    parts: set[str]
    modalities: set[str]

    @classmethod
    def of(cls, store: Store) -> Known:
        """Read what a collection holds."""
        return cls(store.parts(), store.modalities())

    def problem(self, name: str, pieces: Sequence[Piece]) -> BadInput | None:
        """Return why a document with these vectors cannot be added; otherwise count its names in."""
        parts = {piece.part for piece in pieces}
        modality = "+".join(sorted({atom for part in parts for atom in part.split("+")}))
        if not parts <= self.parts and len(parts | self.parts) > PARTS:
            new = ", ".join(sorted(parts - self.parts))
            return BadInput(
                f"document {name!r}: it brings new parts ({new}), and a collection holds vectors of at most {PARTS} "
                f"different parts. This one has {', '.join(sorted(self.parts))}. Use one of them, or another "
                "collection."
            )
        if modality not in self.modalities and len(self.modalities) >= MODALITIES:
            return BadInput(
                f"document {name!r}: it is the first with the parts {modality}, and a collection holds at most "
                f"{MODALITIES} different combinations of parts. Use one that is there, or another collection."
            )
        self.parts |= parts
        self.modalities.add(modality)
        return None
