"""What flows through isthmus.

    documents ──encoder──▸ Vectors ──fold──▸ Folded ──engine──▸ inner products ──finish──▸ scores
    queries   ──encoder──▸ Vectors ──fold──▸ Folded ─┘

A document (or a query) has *parts*: ``text``, ``image``, ``audio`` … Its *modality* is the set of its
parts, written in alphabetical order: ``text``, ``image``, ``image+text``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isthmus.errors import BadInput, BadVectors, shown

Matrix: TypeAlias = NDArray[np.floating[Any]]
Mask: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = NDArray[np.intp]
Names: TypeAlias = NDArray[np.str_]
ModalityLike: TypeAlias = str | Sequence[str] | Sequence[Sequence[str]] | Names

MAX_PARTS = 16
MAX_PARTS_OF_ONE = 8  # parts of one document or query
PART_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Vectors:
    """Encoder vectors by part, with a mask of which rows have the part.

    ``parts[p]`` is ``(n, d)``; its rows where ``present[p]`` is false are ignored, whatever they hold.
    ``weights[p]`` is ``(n,)``: how much of each part goes into a row's own fusion (equal when absent).
    Vectors may have any scale: whoever uses them normalises them.

    >>> import numpy as np
    >>> both = Vectors(parts={"text": np.eye(3), "image": np.ones((3, 3))},
    ...                present={"text": [True, True, False], "image": [False, True, True]})
    >>> len(both), both.dim, both.modality.tolist()
    (3, 3, ['text', 'image+text', 'image'])
    """

    parts: Mapping[str, Matrix]
    present: Mapping[str, Mask] = field(default_factory=dict)
    weights: Mapping[str, Matrix] | None = None
    modalities: tuple[str, ...] = field(init=False, default=())
    modality_code: Rows = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts = _checked_parts(self.parts)
        n = len(next(iter(parts.values())))
        present = _checked_presence(self.present, parts, n)
        set_field = object.__setattr__
        set_field(self, "parts", parts)
        set_field(self, "present", present)
        set_field(self, "weights", _checked_weights(self.weights, present, n))
        modalities, code = _modalities(present, n)
        set_field(self, "modalities", modalities)
        set_field(self, "modality_code", code)

    @classmethod
    def of(cls, matrix: Matrix, modality: str | Sequence[str] | Names) -> Vectors:
        """Build from one ``(n, d)`` matrix and a modality per row (or one for all).

        A row called ``image+text`` is ONE vector that stands for both, as some encoders give.

        >>> Vectors.of(np.eye(2), ["text", "image"]).modality.tolist()
        ['text', 'image']
        """
        matrix = _array("vectors", matrix)
        rows = len(matrix) if matrix.ndim else 0
        names = _array("modality", modality)
        if names.dtype.kind != "U" and not all(isinstance(name, str) for name in names.flat):
            raise BadVectors(f"modality is {shown(modality)}; give a name such as 'text', or one for each row.")
        names = names.astype(str)
        empty = str(names) if names.ndim == 0 else "none"  # the part of vectors without any row
        if names.ndim == 0:
            names = np.full(rows, str(names))
        if names.shape != (rows,):
            raise BadVectors(
                f"{rows} vectors came with {names.size} modalities. Give one modality per row, or one for all."
            )
        present = {str(name): names == name for name in np.unique(names)}
        return cls(parts=dict.fromkeys(present or {empty: None}, matrix), present=present)

    @property
    def dim(self) -> int:
        """How many numbers a vector has."""
        return int(next(iter(self.parts.values())).shape[1])

    @property
    def modality(self) -> Names:
        """The modality of each row."""
        return np.asarray(self.modalities, dtype=str)[self.modality_code]

    def __len__(self) -> int:
        return len(self.modality_code)

    def __repr__(self) -> str:
        counts = np.bincount(self.modality_code, minlength=len(self.modalities))
        kinds = ", ".join(f"{count} {name}" for name, count in zip(self.modalities, counts, strict=True))
        return f"<Vectors {len(self)} × {self.dim}: {kinds or 'none'}>"

    @classmethod
    def concat(cls, several: Sequence[Vectors]) -> Vectors:
        """Put rows one after another; a part that some of them lack is absent there.

        >>> Vectors.concat([Vectors.of(np.eye(2), "text"), Vectors.of(np.eye(2), "image")])
        <Vectors 4 × 2: 2 image, 2 text>
        """
        if not several:
            raise BadVectors("There is nothing to put together.")
        names = dict.fromkeys(part for vectors in several for part in vectors.parts)
        weighted = any(vectors.weights is not None for vectors in several)

        def column(values: Mapping[str, Any] | None, part: str, absent: Any) -> Any:
            return absent if values is None or part not in values else values[part]

        return cls(
            {
                p: np.concatenate([column(v.parts, p, np.zeros((len(v), v.dim), np.float32)) for v in several])
                for p in names
            },
            {p: np.concatenate([column(v.present, p, np.zeros(len(v), bool)) for v in several]) for p in names},
            {p: np.concatenate([column(v.weights, p, np.ones(len(v))) for v in several]) for p in names}
            if weighted
            else None,
        )

    def take(self, rows: Rows | Mask | slice) -> Vectors:
        """Return these rows alone, in this order."""
        taken = {id(matrix): matrix[rows] for matrix in self.parts.values()}  # parts may share one matrix
        return Vectors(
            parts={p: taken[id(matrix)] for p, matrix in self.parts.items()},
            present={p: mask[rows] for p, mask in self.present.items()},
            weights=self.weights and {p: w[rows] for p, w in self.weights.items()},
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Folded:
    """Plain vectors, ready for any inner-product engine, and the modality of each row.

    ``active`` is there for dynamic calibrations only: which documents are in the activation sets,
    ``(n, query modalities, sets)``. ``queries`` is the query modality that ``layout="one"`` serves, else None.
    """

    vectors: Matrix
    modality: Names
    active: Mask | None = None
    queries: str | None = None

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        return f"<Folded {self.vectors.shape[0]} × {self.vectors.shape[1]}>"


def _checked_parts(parts: Mapping[str, Any]) -> dict[str, Matrix]:
    if not isinstance(parts, Mapping):
        raise BadVectors(f"parts are named, not a plain {type(parts).__name__}. Write Vectors.of(matrix, 'text').")
    if not parts:
        raise BadVectors("Vectors need at least one part, for instance parts={'text': matrix}.")
    if len(parts) > MAX_PARTS:
        raise BadVectors(f"{len(parts)} parts were given; {MAX_PARTS} is the most.")
    arrays = {stored_part_name(name): _array(name, matrix) for name, matrix in parts.items()}
    if len(arrays) < len(parts):
        raise BadVectors(f"{', '.join(parts)}: one part is named twice. Joint parts are the same in any order.")
    first, shape = next((name, a.shape) for name, a in arrays.items())
    for name, array in arrays.items():
        _check_matrix(name, array)
        if array.shape[1] != shape[1]:
            raise BadVectors(
                f"part {name!r} has {array.shape[1]} dimensions but part {first!r} has {shape[1]}. All parts come from "
                "one encoder, whose vectors share a space."
            )
        if array.shape != shape:
            raise BadVectors(
                f"part {name!r} has {array.shape[0]} rows but part {first!r} has {shape[0]}. Row i of each is the same "
                "document: fill the rows that a part lacks with anything and mark them in `present`."
            )
    return arrays


def _check_matrix(name: str, array: Any) -> None:
    if array.ndim != 2:
        raise BadVectors(f"part {name!r} has shape {array.shape}; it must be (rows, dimensions).")
    if array.shape[1] == 0:
        raise BadVectors(f"part {name!r} has vectors of 0 dimensions.")
    if array.dtype.kind not in "fiu":
        raise BadVectors(f"part {name!r} holds {array.dtype}; it must hold real numbers.")


def _array(name: object, matrix: object) -> Any:
    try:
        return np.asarray(matrix)
    except ValueError:  # rows of different lengths
        raise BadVectors(f"part {name!r} has rows of different lengths; it must be (rows, dimensions).") from None


def part_name(name: object) -> str:
    """Check the name of a new document's part, and write a joint part in alphabetical order.

    A name is an identifier: 1 to 32 ASCII letters, digits, ``_`` and ``-`` (not first); ``+`` joins several. A
    document or a query has at most 8.

    >>> part_name("text+image")
    'image+text'
    >>> part_name("../../etc")
    Traceback (most recent call last):
    isthmus.errors.BadInput: '../../etc' is not a part's name. Use 1 to 32 letters, digits, '_' and '-', as in 'text' \
or 'image'; '+' joins names, as in 'image+text'.
    """
    names = name.split("+") if isinstance(name, str) else []
    if not names or not all(map(PART_NAME.fullmatch, names)):
        raise BadInput(
            f"{shown(name)} is not a part's name. Use 1 to 32 letters, digits, '_' and '-', as in 'text' or 'image'; "
            "'+' joins names, as in 'image+text'."
        )
    return "+".join(sorted(set(names)))


def stored_part_name(name: object) -> str:
    """Return the name of a part that a collection may hold, in alphabetical order; earlier versions stored any name.

    >>> stored_part_name("text+clip.b32")
    'clip.b32+text'
    """
    if not isinstance(name, str) or not all(name.split("+")):
        raise BadVectors(f"{shown(name)} is not a part's name. Use 'text', 'image', or 'image+text'.")
    return "+".join(sorted(set(name.split("+"))))


def check_part_count(parts: Iterable[str]) -> None:
    """Refuse more parts than one document or query may have."""
    names = {atom for part in parts for atom in part.split("+")}
    if len(names) > MAX_PARTS_OF_ONE:
        raise BadInput(f"it has {len(names)} parts; {MAX_PARTS_OF_ONE} is the most. Split it into several documents.")


def _checked_presence(present: Mapping[str, Any], parts: Mapping[str, Matrix], n: int) -> dict[str, Mask]:
    if not isinstance(present, Mapping):
        raise BadVectors(f"`present` is {shown(present)}; it maps parts to masks, as in {{'text': mask}}.")
    present = {stored_part_name(part): _array(part, mask) for part, mask in present.items()}
    masks = {p: np.asarray(present.get(p, np.ones(n, dtype=bool))) for p in parts}
    if unknown := set(present) - set(parts):
        raise BadVectors(f"`present` names parts without vectors: {', '.join(sorted(unknown))}.")
    for part, mask in masks.items():
        if mask.shape != (n,) or mask.dtype != bool:
            raise BadVectors(f"present[{part!r}] must be {n} booleans, not {mask.dtype} of shape {mask.shape}.")
    empty = ~np.logical_or.reduce(list(masks.values()))
    if empty.any():
        raise BadVectors(
            f"row {int(np.argmax(empty))} has no part at all ({int(empty.sum())} such rows). Leave such rows out."
        )
    return masks


def _checked_weights(
    weights: Mapping[str, Any] | None, present: Mapping[str, Mask], n: int
) -> dict[str, Matrix] | None:
    if weights is None:
        return None
    if not isinstance(weights, Mapping):
        raise BadVectors(f"`weights` is {shown(weights)}; it maps parts to numbers, as in {{'text': [1.0, 2.0]}}.")
    weights = {stored_part_name(part): _array(part, weight) for part, weight in weights.items()}
    if unknown := set(weights) - set(present):
        raise BadVectors(f"`weights` names parts without vectors: {', '.join(sorted(unknown))}.")
    checked: dict[str, Matrix] = {p: np.asarray(weights.get(p, np.ones(n)), dtype=np.float64) for p in present}
    total = np.zeros(n)
    for part, weight in checked.items():
        if weight.shape != (n,):
            raise BadVectors(f"weights[{part!r}] must be {n} numbers, not of shape {weight.shape}.")
        bad = present[part] & ~(np.isfinite(weight) & (weight >= 0))
        if bad.any():
            row = int(np.argmax(bad))
            raise BadVectors(f"weights[{part!r}] is {weight[row]} at row {row}; weights are finite and not negative.")
        total += np.where(present[part], weight, 0.0)
    if n and total.min() <= 0:
        raise BadVectors(f"row {int(np.argmin(total))} gives weight 0 to every part it has.")
    return checked


def _modalities(present: Mapping[str, Mask], n: int) -> tuple[tuple[str, ...], Rows]:
    """Name the set of parts of each row: the distinct names, and each row's index into them."""
    pattern = np.zeros(n, dtype=np.intp)
    for bit, mask in enumerate(present.values()):
        pattern |= mask.astype(np.intp) << bit
    names = {
        int(p): "+".join(sorted({atom for bit, part in enumerate(present) if p >> bit & 1 for atom in part.split("+")}))
        for p in np.flatnonzero(np.bincount(pattern, minlength=1))
        if n
    }
    modalities = tuple(sorted(set(names.values())))
    table = np.zeros(max(names, default=0) + 1, dtype=np.intp)
    for p, name in names.items():
        table[p] = modalities.index(name)
    return modalities, table[pattern]
