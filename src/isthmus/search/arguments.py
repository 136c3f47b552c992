"""Checks of the arguments of ``Collection``: an error says what to write instead."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from operator import index as whole
from os import PathLike
from typing import Any

import numpy as np

from isthmus.documents import Document, Query
from isthmus.encoders.base import PRECISIONS
from isthmus.errors import BadInput, shown
from isthmus.index import checked_kind
from isthmus.search.hits import Hit
from isthmus.storage.protocols import PublishedVectors
from isthmus.types import part_name

LONGEST = 131_072  # characters of a query: about 20,000 words, which `mini` encodes in about 8 seconds on 2 cores
LARGEST = 2**31 - 1  # more hits than any collection has: a larger number means the same


def count(name: str, value: object, *, least: int) -> int:
    """Return a whole number, numpy's included, that is large enough.

    >>> count("k", 10**30, least=1)
    2147483647
    >>> count("k", 2.0, least=1)
    Traceback (most recent call last):
    isthmus.errors.BadInput: k is 2.0; it must be a whole number of at least 1.
    """
    try:
        number = None if isinstance(value, bool) else whole(value)  # type: ignore[arg-type]  # what has none raises
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


def option(name: str, value: object) -> bool:
    """Return an option that is on or off; None is off."""
    return value is not None and flag(name, value)


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


def callback(name: str, value: object) -> None:
    """Check something to call; None calls nothing."""
    if value is not None and not callable(value):
        raise BadInput(f"{name} is {shown(value)}; give a function, or leave it out.")


def is_several(value: object) -> bool:
    """Whether a value holds several: a list, a set, a generator …, but no string, no mapping and no lone number."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        return False
    return not (isinstance(value, np.ndarray) and value.ndim == 0)


def modalities(value: Any) -> str | list[str] | None:
    """Return the names of modalities: one, several, or None."""
    if value is None or isinstance(value, str):
        return value
    names: list[Any] = list(value) if is_several(value) else [None]
    if not all(isinstance(name, str) for name in names):
        raise BadInput(f"modalities is {shown(value)}; name some, as in ['text', 'image+text'], or leave it out.")
    return names


def documents(several: Any) -> Iterable[Document]:
    """Return the documents to add: one, or several."""
    if isinstance(several, Document):
        return [several]
    if not is_several(several):
        raise BadInput(f"Give documents, as in [Document(id='a', text='…')], not {shown(several)}.")
    checked: Iterable[Document] = several
    return checked


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


def identifiers(ids: Any) -> list[str]:
    """Return ids: one, or several."""
    if isinstance(ids, str):
        return [identifier(ids)]
    if not is_several(ids) and not isinstance(ids, Mapping):
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
    """Return a query; reject one that is too long to be encoded during a search."""
    asked = Query.of(given)
    check_lengths([asked])
    return asked


def check_lengths(asked: Iterable[Query]) -> None:
    """Reject queries that take too long to encode. An aligner may shorten a query first."""
    for one in asked:
        if one.text is not None and len(one.text) > LONGEST:
            raise BadInput(
                f"The query has {len(one.text):,} characters; {LONGEST:,} is the most. Search for the part that "
                "matters, shorten it with align, or search for its passages with search_many."
            )


def check_parts(asked: Iterable[Query], held: Callable[[], set[str]]) -> None:
    """Reject names of parts that no document may have, unless the collection holds vectors under them."""
    for part in {part for one in asked for part in one.vectors}:
        try:
            part_name(part)
        except BadInput as error:
            if not set(part.split("+")) <= {atom for name in held() for atom in name.split("+")}:
                raise BadInput(f"The query has a vector of a part that is not in this collection: {error}") from None


def queries(several: Any) -> list[Any]:
    """Return several queries."""
    if isinstance(several, str | Query):
        raise BadInput("search_many takes a list of queries. Use search for one.")
    if not is_several(several):
        raise BadInput(f"search_many takes a list of queries, not {shown(several)}.")
    return list(several)


def references(several: Any) -> list[tuple[Query, str | None]]:
    """Return the reference queries of a calibration, each with the id of its right document if it is known."""
    if several is None:
        return []
    if isinstance(several, Query) or not is_several(several):
        raise BadInput(f"queries is a list of reference queries, not {shown(several)}.")
    return [_reference(one) for one in several]


def _reference(given: Any) -> tuple[Query, str | None]:
    if not isinstance(given, tuple):
        return query(given), None
    if len(given) != 2 or not isinstance(given[1], str | None):
        raise BadInput(f"A reference query is a query, or a query and an id: ('a cat', 'cat.jpg'), not {shown(given)}.")
    return query(given[0]), None if given[1] is None else identifier(given[1])


def hits(several: Any) -> list[Hit]:
    """Return hits of a search."""
    found: list[Any] = list(several) if is_several(several) else [None]
    if not all(isinstance(hit, Hit) for hit in found):
        raise BadInput(f"hits is {shown(several)}; give the hits of a search.")
    return found


def path(given: object) -> str | PathLike[str]:
    """Return the path of a file or a folder."""
    if not isinstance(given, str | PathLike) or not isinstance(name := os.fspath(given), str):
        raise BadInput(f"A path is a string or a Path, not {shown(given)}.")
    try:
        readable = b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        readable = False
    if not readable:
        raise BadInput(f"{shown(name)} cannot be a path: it holds NUL or half a character (a lone surrogate).")
    return given


def vectors(given: object) -> None:
    """Check where folded vectors live; None keeps the collection's."""
    if given is not None and not isinstance(given, str | PublishedVectors):
        raise BadInput(
            f"vectors is {shown(given)}; give the address of a server, such as 'qdrant://localhost:6333/things', or "
            "'folder'."
        )


def index(given: object) -> None:
    """Check the kind of index; None keeps the collection's."""
    if given is None:
        return
    if not isinstance(given, str):
        raise BadInput(f"index is {shown(given)}; give 'auto', or a kind of index such as 'hnsw'.")
    checked_kind(given)


def device(given: object) -> None:
    """Check the name of a device."""
    if not isinstance(given, str) or not given.strip():
        raise BadInput(f"device is {shown(given)}; give a name such as 'cpu' or 'cuda'.")


def precision(given: object) -> str:
    """Check how precisely a model computes."""
    if not isinstance(given, str) or given not in PRECISIONS:
        raise BadInput(f"precision (--precision) is {shown(given)}; it must be one of {', '.join(PRECISIONS)}.")
    return given


def stop(given: object) -> None:
    """Check an event that ends a watch; None never ends it."""
    if given is not None and not callable(getattr(given, "is_set", None)):
        raise BadInput(f"stop is {shown(given)}; give a threading.Event, or leave it out.")


def encoder(given: object) -> None:
    """Check that this is an encoder's name or an encoder."""
    if not isinstance(given, str) and not callable(getattr(given, "encode_queries", None)):
        raise BadInput(f"encoder is {shown(given)}; give a name such as 'mini', an encoder, or 'none'.")
