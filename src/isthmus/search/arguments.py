"""Checks of what is handed to a ``Collection``: the wrong kind of value gets an error that says what to write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from operator import index
from os import PathLike
from typing import Any, TypeAlias

import numpy as np

from isthmus.documents import Document, Query
from isthmus.errors import BadInput, shown
from isthmus.types import part_name

LONGEST = 32_768  # characters of a query: about 5,000 words, which take an encoder some seconds
LARGEST = 2**31 - 1  # more hits than any collection has: a larger number means the same

ReferenceLike: TypeAlias = "str | Query | tuple[str | Query, str]"


def count(name: str, value: object, *, least: int) -> int:
    """Return a whole number, numpy's included, that is large enough.

    >>> count("k", 10**30, least=1)
    2147483647
    >>> count("k", 2.0, least=1)
    Traceback (most recent call last):
    isthmus.errors.BadInput: k is 2.0; it must be a whole number of at least 1.
    """
    try:
        number = None if isinstance(value, bool) else index(value)  # type: ignore[arg-type]  # what has none raises
    except TypeError:
        number = None
    if number is None or number < least:
        raise BadInput(f"{name} is {shown(value)}; it must be a whole number of at least {least}.")
    return min(number, LARGEST)


def flag(name: str, value: object) -> bool:
    """Return a truth value, numpy's included."""
    if isinstance(value, bool | np.bool_) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise BadInput(f"{name} is {shown(value)}; it must be True or False.")


def share(name: str, value: object) -> float | None:
    """Return a number from 0 to 1, or None."""
    if value is None:
        return None
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) <= 1:
        raise BadInput(f"{name} is {shown(value)}; it must lie between 0 and 1.")
    return float(value)


def mapping(name: str, value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return what maps names to values, or None."""
    if value is not None and not isinstance(value, Mapping):
        raise BadInput(f"{name} is {shown(value)}; it must map names to values, as in {{'lang': 'en'}}.")
    return value


def calibration(value: object) -> bool:
    """Whether a search asks for raw cosine."""
    if value is None or (isinstance(value, str) and value == "none"):
        return value is not None
    raise BadInput(
        f"A search is calibrated as its collection is, or not at all (calibration='none'), not {shown(value)}. Use "
        "calibrate(…) to change the collection's."
    )


def named(what: str, value: object, method: str) -> None:
    """Check an aligner or a reranker: a name, or an object that has the method."""
    if value is not None and not isinstance(value, str) and not callable(getattr(value, method, None)):
        raise BadInput(f"{what} is {shown(value)}; give a name, or an object with a method {method}.")


def documents(several: object) -> Iterable[Document]:
    """Return the documents to add: one, or several."""
    if isinstance(several, Document):
        return [several]
    if not isinstance(several, Iterable) or isinstance(several, str | bytes | Mapping):
        raise BadInput(f"Give documents, as in [Document(id='a', text='…')], not {shown(several)}.")
    return several


def is_text(name: str) -> bool:
    """Whether a string can be written as UTF-8: one with a lone surrogate cannot, and no document is called so."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def identifier(name: object) -> str:
    """Return a document's id."""
    if not isinstance(name, str):
        raise BadInput(f"A document's id is a string, not {shown(name)}. Use str(…) on numbers.")
    if not is_text(name):
        raise BadInput(f"The id {shown(name)} holds half a character (a lone surrogate): no document is called so.")
    return name


def identifiers(ids: object) -> list[str]:
    """Return ids: one, or several."""
    if isinstance(ids, str):
        return [identifier(ids)]
    if not isinstance(ids, Iterable) or isinstance(ids, bytes):
        raise BadInput(f"Give an id, or a list of ids, not {shown(ids)}.")
    return [identifier(name) for name in ids]


def change(document: object, metadata: object) -> None:
    """Check what ``update`` is given: a document, or an id and metadata."""
    if isinstance(document, Document):
        if metadata is not None:
            raise BadInput("Give the metadata inside the Document, or an id and the metadata.")
        return
    identifier(document)
    if metadata is not None and not isinstance(metadata, Mapping):
        raise BadInput(f"metadata is {shown(metadata)}; it must map names to values, as in {{'lang': 'en'}}.")


def query(given: str | Query) -> Query:
    """Return a query that is not too long to be encoded while somebody waits."""
    asked = Query.of(given)
    if asked.text is not None and len(asked.text) > LONGEST:
        raise BadInput(
            f"The query has {len(asked.text):,} characters; {LONGEST:,} is the most. Ask with the part that matters, "
            "or search for its passages one by one with search_many."
        )
    return asked


def check_parts(asked: Iterable[Query], held: Callable[[], set[str]]) -> None:
    """Reject names of parts that no document may have, unless the collection holds vectors under them."""
    for part in {part for one in asked for part in one.vectors}:
        try:
            part_name(part)
        except BadInput as error:
            if not set(part.split("+")) <= {atom for name in held() for atom in name.split("+")}:
                raise BadInput(f"The query has a vector of a part that is not in this collection: {error}") from None


def queries(several: object) -> list[Query]:
    """Return several queries."""
    if isinstance(several, str | Query):
        raise BadInput("search_many takes a list of queries. Use search for one.")
    if not isinstance(several, Sequence) or isinstance(several, bytes):
        raise BadInput(f"search_many takes a list of queries, not {shown(several)}.")
    return [query(one) for one in several]


def references(several: object) -> Sequence[ReferenceLike]:
    """Return the reference queries of a calibration; none where none are given."""
    if several is None:
        return ()
    if isinstance(several, str | bytes | Query) or not isinstance(several, Iterable):
        raise BadInput(f"queries is a list of reference queries, not {shown(several)}.")
    return list(several)


def reference(given: Any) -> tuple[Query, str | None]:
    """Return a reference query, and the id of its right document if it is known."""
    if not isinstance(given, tuple):
        return query(given), None
    if len(given) != 2 or not isinstance(given[1], str):
        raise BadInput(f"A reference query is a query, or a query and an id: ('a cat', 'cat.jpg'), not {shown(given)}.")
    return query(given[0]), identifier(given[1])


def path(given: object) -> str | PathLike[str]:
    """Return the path of a file or a folder."""
    if not isinstance(given, str | PathLike):
        raise BadInput(f"A path is a string or a Path, not {shown(given)}.")
    return given


def encoder(given: object) -> None:
    """Check that this is an encoder's name or an encoder."""
    if not isinstance(given, str) and not callable(getattr(given, "encode_queries", None)):
        raise BadInput(f"encoder is {shown(given)}; give a name such as 'mini', an encoder, or 'none'.")
