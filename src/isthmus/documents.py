"""What goes in and what is asked: documents and queries, each with a text, an image or both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from isthmus.errors import BadInput, BadVectors, shown
from isthmus.registry import lookup
from isthmus.types import Matrix, check_part_count, part_name, stored_part_name

if TYPE_CHECKING:
    from PIL.Image import Image

# A path, the bytes of a file, a Pillow image, or an array (height, width[, 3 or 4]).
ImageLike: TypeAlias = "str | PathLike[str] | bytes | Image | np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Document:
    """Something that can be found: an id, a text, an image or both, and what else is known of it.

    A text of spaces alone is no part; a document needs at least one part. Nothing is read from disk here:
    an image stays a path until an encoder wants its pixels. ``vectors`` are the document's own, by part, for
    people who have them: a part with a vector is not encoded, and needs no text or image beside it.

    >>> document = Document(id="c", text="a dog on the grass", image="dog.png", metadata={"lang": "en"})
    >>> document.modality
    'image+text'
    >>> document
    Document(id='c', text='a dog on the grass', image='dog.png', metadata={'lang': 'en'})
    >>> Document(id="e", vectors={"audio": [0.6, 0.8]}).modality
    'audio'
    >>> Document(id="d", text=" ")
    Traceback (most recent call last):
    isthmus.errors.BadInput: Document 'd' has neither text nor image. Give it one, or leave it out.
    """

    id: str
    text: str | None = None
    image: ImageLike | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    vectors: Mapping[str, Matrix] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise BadInput(
                f"A document's id is a string that is not empty, not {shown(self.id)}. Use str(…) on numbers."
            )
        if "\0" in self.id:
            raise BadInput(f"The document id {shown(self.id)} holds the character NUL. Remove it from the id.")
        if not isinstance(self.metadata, Mapping):
            raise BadInput(
                f"Document {self.id!r} has metadata of type {type(self.metadata).__name__}; it must map names to "
                "values, for instance {'lang': 'en'}."
            )
        object.__setattr__(self, "metadata", dict(self.metadata))
        object.__setattr__(self, "vectors", _vectors(f"Document {self.id!r}", self.vectors, part_name))
        _check(f"Document {self.id!r}", self.text, self.image, self.vectors)

    @classmethod
    def restored(
        cls,
        name: str,
        text: str | None,
        image: ImageLike | None,
        metadata: Mapping[str, Any],
        vectors: Mapping[str, Matrix],
    ) -> Document:
        """Return a document that a collection holds, without the checks of a new one.

        Earlier versions stored ids and part names that are rejected today. Such documents can still be read, searched,
        updated and deleted.
        """
        document = object.__new__(cls)
        for field_name, value in zip(
            ("id", "text", "image", "metadata", "vectors"), (name, text, image, metadata, vectors), strict=True
        ):
            object.__setattr__(document, field_name, value)
        return document

    @property
    def modality(self) -> str:
        """The set of its parts: ``text``, ``image`` or ``image+text``."""
        return "+".join(_parts(self.text, self.image, self.vectors))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Document):
            return NotImplemented
        same = (self.id, self.text, self.metadata) == (other.id, other.text, other.metadata)
        return same and _same(self.image, other.image) and _equal(self.vectors, other.vectors)

    def __hash__(self) -> int:
        return hash((self.id, self.text))

    def __repr__(self) -> str:
        """Return a short form: long texts are cut, bytes and vectors are only counted."""
        parts = _short(self.text, [] if self.image is None else [self.image], self.vectors)
        metadata = [f"metadata={shown(self.metadata)}"] if self.metadata else []
        return f"Document({', '.join([f'id={shown(self.id)}', *parts, *metadata])})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Query:
    """What is asked: words, a picture, or both.

    ``weights`` says how much each part counts (equally when not said); ``vectors`` are the query's own, by part, and
    are not encoded. They may name any part: a search checks the names against its collection. ``more_images`` are
    further pictures beside the first: alignment reads them all (``isthmus.align``); a search without it refuses a query
    that has any, as no encoder takes two pictures for one.

    >>> Query(text="a cat on a red sofa").modality
    'text'
    >>> Query(text="the same in green", image="sofa.jpg", weights={"text": 2, "image": 1}).modality
    'image+text'
    >>> Query(text="what is wrong here", image="log.png", more_images=["settings.png"]).images
    ('log.png', 'settings.png')
    """

    text: str | None = None
    image: ImageLike | None = None
    weights: Mapping[str, float] | None = None
    vectors: Mapping[str, Matrix] = field(default_factory=dict)
    more_images: Sequence[ImageLike] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "vectors", _vectors("The query", self.vectors, stored_part_name))
        _check("The query", self.text, self.image, self.vectors)
        object.__setattr__(self, "more_images", _more_images(self.image, self.more_images))
        if self.weights is not None:
            object.__setattr__(self, "weights", _weights(self.weights, self.modality.split("+")))

    @classmethod
    def of(cls, asked: str | Query) -> Query:
        """Take a string as a query of words.

        >>> Query.of("a cat") == Query(text="a cat")
        True
        """
        return asked if isinstance(asked, Query) else cls(text=asked)

    @property
    def modality(self) -> str:
        """The set of its parts: ``text``, ``image`` or ``image+text``."""
        return "+".join(_parts(self.text, self.image, self.vectors))

    @property
    def images(self) -> tuple[ImageLike, ...]:
        """All its pictures."""
        return () if self.image is None else (self.image, *self.more_images)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Query):
            return NotImplemented
        same = (self.text, self.weights, len(self.images)) == (other.text, other.weights, len(other.images))
        same = same and all(_same(one, another) for one, another in zip(self.images, other.images, strict=True))
        return same and _equal(self.vectors, other.vectors)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        """Return a short form, as for documents."""
        weights = [f"weights={shown(self.weights)}"] if self.weights else []
        return f"Query({', '.join([*_short(self.text, self.images, self.vectors), *weights])})"


def _parts(text: str | None, image: ImageLike | None, vectors: Mapping[str, Matrix]) -> list[str]:
    given = {*(["image"] if image is not None else []), *(["text"] if text and not text.isspace() else [])}
    return sorted(given.union(*(part.split("+") for part in vectors)))


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
    try:
        check_part_count(vectors)
    except BadInput as error:
        raise BadInput(f"{whose} cannot be used: {error}") from None
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


def _check(whose: str, text: object, image: object, vectors: Mapping[str, Matrix]) -> None:
    if text is not None and not isinstance(text, str):
        raise BadInput(f"{whose} has a text of type {type(text).__name__}; it must be a string. Decode bytes first.")
    if image is not None and not isinstance(image, str | PathLike | bytes | np.ndarray) and not _is_pillow(image):
        raise BadInput(
            f"{whose} has an image of type {type(image).__name__}. Give a path, the bytes of a file, a Pillow image "
            "or an array (height, width[, 3 or 4])."
        )
    if isinstance(image, str | bytes) and not image:
        raise BadInput(f"{whose} has an image of length zero. Give a path or the bytes of a file, or leave it out.")
    if image is None and not vectors and (text is None or not text.strip()):
        raise BadInput(f"{whose} has neither text nor image. Give it one, or leave it out.")


def _more_images(first: object, more: object) -> tuple[ImageLike, ...]:
    if isinstance(more, str | PathLike | bytes | np.ndarray) or not isinstance(more, Iterable):
        raise BadInput(f"The query has more_images of type {type(more).__name__}; give a list of pictures.")
    several = tuple(more)
    if several and first is None:
        raise BadInput("The query has more_images but no image. Give the first of its pictures as image.")
    for image in several:
        if image is None:
            raise BadInput("One of the query's more_images is None. Leave it out.")
        _check("The query", None, image, {})
    return several


def _short(text: str | None, images: Sequence[ImageLike], vectors: Mapping[str, Matrix]) -> list[str]:
    """Return the parts for a repr: at most a line, whatever they hold."""
    parts = [] if text is None else [f"text={shown(text)}"]
    if images:
        parts.append(f"image={_short_image(images[0])}")
    if images[1:]:
        parts.append(f"more_images=[{', '.join(map(_short_image, images[1:]))}]")
    sizes = (f"{part!r}: <{len(vector)} numbers>" for part, vector in vectors.items())
    return parts + ([f"vectors={{{', '.join(sizes)}}}"] if vectors else [])


def _short_image(image: ImageLike) -> str:
    if isinstance(image, bytes):
        return f"<{len(image):,} bytes>"
    if isinstance(image, np.ndarray):
        return f"<array {image.shape}>"
    return shown(str(image)) if isinstance(image, str | PathLike) else "<Pillow image>"


def _is_pillow(image: object) -> bool:
    """Tell a Pillow image without importing Pillow: whoever made one has imported it."""
    return any(base.__module__ == "PIL.Image" and base.__name__ == "Image" for base in type(image).__mro__)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, str | PathLike) and isinstance(other, str | PathLike):
        return Path(one) == Path(other)
    return type(one) is type(other) and bool(one == other)
