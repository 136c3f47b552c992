"""What goes in and what is asked: documents and queries, each with a text, an image or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from isthmus.errors import BadInput

if TYPE_CHECKING:
    from PIL.Image import Image

# A path, the bytes of a file, a Pillow image, or an array (height, width[, 3 or 4]).
ImageLike: TypeAlias = "str | PathLike[str] | bytes | Image | np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """Something that can be found: an id, a text, an image or both, and what else is known of it.

    A text of spaces alone is no part; a document needs at least one part. Nothing is read from disk here:
    an image stays a path until an encoder wants its pixels.

    >>> Document(id="c", text="a dog on the grass", image="dog.png", metadata={"lang": "en"}).modality
    'image+text'
    >>> Document(id="d", text=" ")
    Traceback (most recent call last):
    isthmus.errors.BadInput: Document 'd' has neither text nor image. Give it one, or leave it out.
    """

    id: str
    text: str | None = None
    image: ImageLike | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise BadInput(f"A document's id is a string that is not empty, not {self.id!r}. Use str(…) on numbers.")
        if not isinstance(self.metadata, Mapping):
            raise BadInput(
                f"Document {self.id!r} has metadata of type {type(self.metadata).__name__}; it must map names to "
                "values, for instance {'lang': 'en'}."
            )
        object.__setattr__(self, "metadata", dict(self.metadata))
        _check(f"Document {self.id!r}", self.text, self.image)

    @property
    def modality(self) -> str:
        """The set of its parts: ``text``, ``image`` or ``image+text``."""
        return "+".join(_parts(self.text, self.image))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Document):
            return NotImplemented
        same = (self.id, self.text, self.metadata) == (other.id, other.text, other.metadata)
        return same and _same(self.image, other.image)

    def __hash__(self) -> int:
        return hash((self.id, self.text))


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """What is asked: words, a picture, or both.

    >>> Query(text="a cat on a red sofa").modality
    'text'
    """

    text: str | None = None
    image: ImageLike | None = None

    def __post_init__(self) -> None:
        _check("The query", self.text, self.image)

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
        return "+".join(_parts(self.text, self.image))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Query):
            return NotImplemented
        return self.text == other.text and _same(self.image, other.image)

    def __hash__(self) -> int:
        return hash(self.text)


def _parts(text: str | None, image: ImageLike | None) -> list[str]:
    return [*(["image"] if image is not None else []), *(["text"] if text and not text.isspace() else [])]


def _check(whose: str, text: object, image: object) -> None:
    if text is not None and not isinstance(text, str):
        raise BadInput(f"{whose} has a text of type {type(text).__name__}; it must be a string. Decode bytes first.")
    if image is not None and not isinstance(image, str | PathLike | bytes | np.ndarray) and not _is_pillow(image):
        raise BadInput(
            f"{whose} has an image of type {type(image).__name__}. Give a path, the bytes of a file, a Pillow image "
            "or an array (height, width[, 3 or 4])."
        )
    if isinstance(image, str | bytes) and not image:
        raise BadInput(f"{whose} has an image of length zero. Give a path or the bytes of a file, or leave it out.")
    if image is None and (text is None or not text.strip()):
        raise BadInput(f"{whose} has neither text nor image. Give it one, or leave it out.")


def _is_pillow(image: object) -> bool:
    """Tell a Pillow image without importing Pillow: whoever made one has imported it."""
    return any(base.__module__ == "PIL.Image" and base.__name__ == "Image" for base in type(image).__mro__)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, str | PathLike) and isinstance(other, str | PathLike):
        return Path(one) == Path(other)
    return type(one) is type(other) and bool(one == other)
