"""A parsed ``where``, applied to documents in memory."""

from __future__ import annotations

import operator
from collections.abc import Callable

from isthmus.storage.facts import Scalar, readable
from isthmus.storage.memory.engine import Contents, StoredDocument
from isthmus.storage.where import COLUMNS, All, Compare, Condition, Either, Everything, Exists, Not, OneOf

SIGNS = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}


def allowed(contents: Contents, condition: Condition) -> list[int]:
    """Return the rows of the documents that pass a filter, in order."""
    return [row for row, held in contents.documents.items() if matches(held, condition)]


def matches(held: StoredDocument, condition: Condition) -> bool:
    """Whether a document passes a filter."""
    return passes(lambda name: _values(held, name), condition)


def passes(values: Callable[[str], list[Scalar]], condition: Condition) -> bool:
    """Whether a document passes a filter, given its values under a name."""
    match condition:
        case Everything():
            return True
        case OneOf(name, wanted):
            return any(_plain(name, value) in values(name) for value in wanted)
        case Compare(name, sign, value):
            operand = _plain(name, value)
            return any(SIGNS[sign](one, operand) for one in values(name) if _alike(one, operand))
        case Exists(name):
            return bool(values(name))
        case Not(inner):
            return not passes(values, inner)
        case All(several):
            return all(passes(values, one) for one in several)
        case Either(several):
            return any(passes(values, one) for one in several)


def _values(held: StoredDocument, name: str) -> list[Scalar]:
    if name in COLUMNS:
        return [held.document.id if name == "id" else held.entry.modality]
    wanted = readable(name)
    return [value for known, value in held.facts if known == wanted]


def _plain(name: str, value: Scalar) -> Scalar:
    """Return a value as it is compared: ids and modalities are texts, and compare as such."""
    return str(value) if name in COLUMNS else value


def _alike(one: Scalar, other: Scalar) -> bool:
    return isinstance(one, str) == isinstance(other, str)
