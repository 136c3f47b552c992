"""Documents, which can be found, and queries, which find them: each an ordered sequence of parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np

from isthmus.errors import BadInput, BadVectors, shown
from isthmus.kinds import AUDIO, IMAGE, TEXT, VIDEO, Audio, FileLike, Image, ImageLike, Part, Text, Video, joined
from isthmus.registry import lookup
from isthmus.types import MAX_PARTS_OF_ONE, Matrix, check_part_count, part_name, stored_part_name

__all__ = ["Audio", "Document", "FileLike", "Image", "ImageLike", "Part", "Query", "Text", "Video"]

MAX_DOCUMENT_PARTS = 256
SHORT = {TEXT: Text, IMAGE: Image, AUDIO: Audio, VIDEO: Video}  # the kinds that have an argument, in their order
BETWEEN_TEXTS = "\n\n"
NOTHING: Mapping[str, Any] = MappingProxyType({})


class PartSequence:
    """What documents and queries share: parts in their order, and their own vectors by kind."""

    parts: tuple[Part, ...]
    vectors: Mapping[str, Matrix]

    @property
    def modality(self) -> str:
        """The set of its kinds, as in ``text``, ``image``, ``image+text``."""
        return joined([*(part.kind for part in self.parts), *self.vectors])

    @property
    def text(self) -> str | None:
        """Its words: those of all text parts, with an empty line between them; None where there are none."""
        return _text(self.parts)

    @property
    def image(self) -> Any:
        """Its first picture; None where there is none."""
        return next(iter(self.images), None)

    @property
    def images(self) -> tuple[Any, ...]:
        """All its pictures."""
        return contents(self.parts, IMAGE)

    @property
    def audio(self) -> Any:
        """Its first sound; None where there is none."""
        return next(iter(contents(self.parts, AUDIO)), None)

    @property
    def video(self) -> Any:
        """Its first video; None where there is none."""
        return next(iter(contents(self.parts, VIDEO)), None)


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Document(PartSequence):
    """Something that can be found: an id, parts in their order, and metadata.

    ``text=``, ``image=``, ``audio=`` and ``video=`` are the short way for one part of each kind. A text of white space
    is no part; a document needs at least one part. Nothing is read from disk here: an image stays a path until an
    encoder needs its pixels. ``vectors`` are the document's own, by kind: a kind with a vector is not encoded, and
    needs no part.

    >>> document = Document(id="c", text="a dog on the grass", image="dog.png", metadata={"lang": "en"})
    >>> document.modality
    'image+text'
    >>> document
    Document(id='c', text='a dog on the grass', image='dog.png', metadata={'lang': 'en'})
    >>> article = Document("d", parts=[Text("Two dogs."), Image("a.jpg"), Text("One sleeps."), Image("b.jpg")])
    >>> article.modality, len(article.parts), article.images
    ('image+text', 4, ('a.jpg', 'b.jpg'))
    >>> Document(id="e", vectors={"audio": [0.6, 0.8]}).modality
    'audio'
    >>> Document(id="d", text=" ")
    Traceback (most recent call last):
    isthmus.errors.BadInput: Document 'd' has neither text nor image. Give it one, or leave it out.
    """

    id: str
    parts: tuple[Part, ...]
    metadata: Mapping[str, Any]
    vectors: Mapping[str, Matrix]

    def __init__(
        self,
        id: str,  # noqa: A002 - the name of the field
        text: str | None = None,
        image: ImageLike | None = None,
        metadata: Mapping[str, Any] = NOTHING,
        vectors: Mapping[str, Matrix] = NOTHING,
        *,
        audio: FileLike | None = None,
        video: FileLike | None = None,
        parts: Iterable[Part] | None = None,
    ) -> None:
        if not isinstance(id, str) or not id:
            raise BadInput(f"A document's id is a string that is not empty, not {shown(id)}. Use str(…) on numbers.")
        if "\0" in id:
            raise BadInput(f"The document id {shown(id)} holds the character NUL. Remove it from the id.")
        whose = f"Document {id!r}"
        if type(metadata) is not dict and not isinstance(metadata, Mapping):
            raise BadInput(
                f"{whose} has metadata of type {type(metadata).__name__}; it must map names to values, for instance "
                "{'lang': 'en'}."
            )
        own = {} if vectors is NOTHING else _vectors(whose, vectors, part_name)
        given = {TEXT: text, IMAGE: image, AUDIO: audio, VIDEO: video}
        held = _short_parts(whose, given, own) if parts is None else _parts(whose, given, parts, own)
        vars(self).update(id=id, parts=held, metadata=dict(metadata), vectors=own)  # the class is frozen

    @classmethod
    def restored(
        cls, name: str, parts: Sequence[Part], metadata: Mapping[str, Any], vectors: Mapping[str, Matrix]
    ) -> Document:
        """Return a document that a collection holds, without the checks of a new one.

        Earlier versions stored ids and part names that are rejected today. Such documents can still be read, searched,
        updated and deleted.
        """
        document = object.__new__(cls)
        vars(document).update(id=name, parts=tuple(parts), metadata=metadata, vectors=vectors)
        return document

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Document):
            return NotImplemented
        same = (self.id, self.parts, self.metadata) == (other.id, other.parts, other.metadata)
        return same and _equal(self.vectors, other.vectors)

    def __hash__(self) -> int:
        return hash((self.id, self.text))

    def __repr__(self) -> str:
        """Return a short form: long texts are cut, bytes and vectors are only counted."""
        metadata = [f"metadata={shown(self.metadata)}"] if self.metadata else []
        return f"Document({', '.join([f'id={shown(self.id)}', *_short(self.parts, self.vectors), *metadata])})"


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Query(PartSequence):
    """What is searched for: words, a picture, both, or any sequence of parts.

    ``text=``, ``image=``, ``audio=`` and ``video=`` are the short way. Several parts of one kind count as one, by the
    mean of their vectors. ``weights`` says how much each kind counts (default: equally); ``vectors`` are the query's
    own, by kind, and are not encoded. They may name any kind: a search checks the names against its collection.

    >>> Query(text="a cat on a red sofa").modality
    'text'
    >>> Query(text="the same in green", image="sofa.jpg", weights={"text": 2, "image": 1}).modality
    'image+text'
    >>> Query(parts=[Text("what is wrong here"), Image("log.png"), Image("settings.png")]).images
    ('log.png', 'settings.png')
    """

    parts: tuple[Part, ...]
    weights: Mapping[str, float] | None
    vectors: Mapping[str, Matrix]

    def __init__(
        self,
        text: str | None = None,
        image: ImageLike | None = None,
        weights: Mapping[str, float] | None = None,
        vectors: Mapping[str, Matrix] = NOTHING,
        *,
        audio: FileLike | None = None,
        video: FileLike | None = None,
        parts: Iterable[Part] | None = None,
    ) -> None:
        whose = "The query"
        own = _vectors(whose, vectors, stored_part_name)
        given = {TEXT: text, IMAGE: image, AUDIO: audio, VIDEO: video}
        held = _short_parts(whose, given, own) if parts is None else _parts(whose, given, parts, own)
        vars(self).update(parts=held, vectors=own, weights=None)  # the class is frozen
        if weights is not None:
            vars(self).update(weights=_weights(weights, self.modality.split("+")))

    @classmethod
    def of(cls, query: str | Query) -> Query:
        """Take a string as a query of words.

        >>> Query.of("a cat") == Query(text="a cat")
        True
        """
        return query if isinstance(query, Query) else cls(text=query)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Query):
            return NotImplemented
        same = (self.parts, self.weights) == (other.parts, other.weights)
        return same and _equal(self.vectors, other.vectors)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        """Return a short form, as for documents."""
        weights = [f"weights={shown(self.weights)}"] if self.weights else []
        return f"Query({', '.join([*_short(self.parts, self.vectors), *weights])})"


def contents(parts: Iterable[Part], kind: str) -> tuple[Any, ...]:
    """Return the contents of the parts of one kind, in their order."""
    return tuple(part.content for part in parts if part.kind == kind)


def with_text(parts: Iterable[Part], text: str) -> tuple[Part, ...]:
    """Return parts with one text in place of all their texts, at the front.

    >>> with_text([Image("a.png"), Text("hello")], "goodbye")
    (Part('text', 'goodbye'), Part('image', 'a.png'))
    """
    return (Text(text), *(part for part in parts if part.kind != TEXT))


def _text(parts: Iterable[Part]) -> str | None:
    texts = contents(parts, TEXT)
    return texts[0] if len(texts) == 1 else BETWEEN_TEXTS.join(texts) or None


def _short_parts(whose: str, given: Mapping[str, Any], vectors: Mapping[str, Matrix]) -> tuple[Part, ...]:
    """Return the parts of ``text=``, ``image=``, ``audio=`` and ``video=``; leave out an empty one."""
    try:
        parts = [SHORT[kind](content) for kind, content in given.items() if content is not None]
    except BadInput as error:
        raise type(error)(f"{whose} {error}") from None
    return _kept(whose, parts, vectors)


def _parts(
    whose: str, short: Mapping[str, Any], given: Iterable[Part], vectors: Mapping[str, Matrix]
) -> tuple[Part, ...]:
    """Check parts that were given as such; leave out those that are empty."""
    if any(content is not None for content in short.values()):
        raise BadInput(f"{whose} has parts as well as text or image. Put the text and the image into the parts.")
    if isinstance(given, Part | str | bytes | Mapping | np.ndarray) or not isinstance(given, Iterable):
        raise BadInput(f"{whose} has parts of type {type(given).__name__}; write parts=[Text('…'), Image('a.jpg')].")
    parts = list(given)
    for part in parts:
        if not isinstance(part, Part):
            raise BadInput(
                f"{whose} has a part that is {shown(part)}; write Text('…'), Image('a.jpg') or Part(kind, …)."
            )
    if len(parts) > MAX_DOCUMENT_PARTS:
        raise BadInput(f"{whose} has {len(parts)} parts; {MAX_DOCUMENT_PARTS} is the most. Split it into several.")
    return _kept(whose, parts, vectors)


def _kept(whose: str, parts: Sequence[Part], vectors: Mapping[str, Matrix]) -> tuple[Part, ...]:
    """Return the parts that are not empty; reject a document without any, or with too many kinds."""
    kept = tuple([part for part in parts if not part.is_empty])
    if not kept and not vectors:
        raise BadInput(f"{whose} has neither text nor image. Give it one, or leave it out.")
    if vectors or len(kept) > MAX_PARTS_OF_ONE:  # otherwise there cannot be too many
        try:
            check_part_count([*(part.kind for part in kept), *vectors])
        except BadInput as error:
            raise BadInput(f"{whose} cannot be used: {error}") from None
    return kept


def _vectors(whose: str, given: object, check_name: Callable[[object], str]) -> dict[str, Matrix]:
    if not isinstance(given, Mapping):
        raise BadInput(f"{whose} has vectors of type {type(given).__name__}; write vectors={{'text': vector}}.")
    vectors: dict[str, Matrix] = {}
    for given_name, vector in given.items():
        try:
            part = check_name(given_name)
        except BadInput as error:
            raise BadInput(f"{whose} has a vector whose part cannot be used: {error}") from None
        if part in vectors:
            raise BadInput(f"{whose} has two vectors for {part!r}. Joint parts are the same in any order: give one.")
        vectors[part] = _vector(f"{whose}: the vector of {part!r}", vector)
    return vectors


def _vector(which: str, given: object) -> Matrix:
    try:
        array = np.asarray(given)
    except (ValueError, OverflowError):
        raise BadVectors(f"{which} must be a row of numbers; it has rows of different lengths.") from None
    if array.ndim != 1 or not array.size or array.dtype.kind not in "fiu":
        raise BadVectors(f"{which} must be a row of numbers, not of shape {array.shape}.")
    with np.errstate(over="ignore", under="ignore"):
        vector = array.astype(np.float32)
    if not np.isfinite(vector).all() or not vector.any():
        raise BadVectors(f"{which} holds NaN, infinity or a number beyond 32 bits, or is all zeros. Encode it again.")
    return vector


def _weights(given: Mapping[str, float], parts: list[str]) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise BadInput(f"The query has weights that are {shown(given)}; write weights={{'text': 2, 'image': 1}}.")
    weights = {lookup({part: part for part in parts}, name, "part of this query"): w for name, w in given.items()}
    for name, weight in weights.items():
        if not isinstance(weight, Real) or not 0 <= float(weight) < float("inf"):
            raise BadInput(f"The weight of {name!r} must be a finite number, not negative, and is {shown(weight)}.")
    whole = {part: float(weights.get(part, 1.0)) for part in parts}
    if not any(whole.values()):
        raise BadInput("The query gives every part it has weight 0: nothing is asked.")
    return whole


def _equal(one: Mapping[str, Matrix], other: Mapping[str, Matrix]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[part], other[part]) for part in one)


def _short(parts: Sequence[Part], vectors: Mapping[str, Matrix]) -> list[str]:
    """Return the parts for a repr: the short way where there is one, and vectors by their size."""
    names = [part.kind for part in parts]
    usual = names == [kind for kind in SHORT if kind in names]
    if usual:
        said = [f"{part.kind}={part.shown}" for part in parts]
    else:
        said = [f"parts=[{', '.join(map(repr, parts))}]"] if parts else []
    sizes = (f"{part!r}: <{len(vector)} numbers>" for part, vector in vectors.items())
    return said + ([f"vectors={{{', '.join(sizes)}}}"] if vectors else [])
