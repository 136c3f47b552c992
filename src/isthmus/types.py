"""What flows through isthmus.

    documents ──encoder──▸ Vectors ──fold──▸ Folded ──engine──▸ inner products ──finish──▸ scores
    queries   ──encoder──▸ Vectors ──fold──▸ Folded ─┘

A document (or a query) has *parts*: ``text``, ``image``, ``audio`` … Its *modality* is the set of its
parts, written in alphabetical order: ``text``, ``image``, ``image+text``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isthmus.errors import BadVectors

Matrix: TypeAlias = NDArray[np.floating[Any]]
Mask: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = NDArray[np.intp]
Names: TypeAlias = NDArray[np.str_]
ModalityLike: TypeAlias = str | Sequence[str] | Sequence[Sequence[str]] | Names

MAX_PARTS = 16


@dataclass(frozen=True, slots=True, eq=False)
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
        matrix = np.asarray(matrix)
        rows = len(matrix) if matrix.ndim else 0
        names = np.asarray(modality, dtype=str)
        if names.ndim == 0:
            names = np.full(rows, str(names))
        if names.shape != (rows,):
            raise BadVectors(
                f"{rows} vectors came with {names.size} modalities. Give one modality per row, or one for all."
            )
        present = {str(name): names == name for name in np.unique(names)}
        return cls(parts=dict.fromkeys(present or {"text": None}, matrix), present=present)

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

    def take(self, rows: Rows | Mask | slice) -> Vectors:
        """Return these rows alone, in this order."""
        return Vectors(
            parts={p: matrix[rows] for p, matrix in self.parts.items()},
            present={p: mask[rows] for p, mask in self.present.items()},
            weights=self.weights and {p: w[rows] for p, w in self.weights.items()},
        )


@dataclass(frozen=True, slots=True, eq=False)
class Folded:
    """Plain vectors, ready for any inner-product engine, and the modality of each row.

    ``active`` is there for dynamic calibrations only: which documents are in the activation sets,
    ``(n, query modalities, sets)``.
    """

    vectors: Matrix
    modality: Names
    active: Mask | None = None

    def __len__(self) -> int:
        return len(self.vectors)


def _checked_parts(parts: Mapping[str, Any]) -> dict[str, Matrix]:
    if not parts:
        raise BadVectors("Vectors need at least one part, for instance parts={'text': matrix}.")
    if len(parts) > MAX_PARTS:
        raise BadVectors(f"{len(parts)} parts were given; {MAX_PARTS} is the most.")
    arrays = {name: np.asarray(matrix) for name, matrix in parts.items()}
    first, shape = next((name, a.shape) for name, a in arrays.items())
    for name, array in arrays.items():
        if not all(name.split("+")):
            raise BadVectors(f"{name!r} is not a part's name. Use 'text', 'image', or 'image+text'.")
        if array.ndim != 2:
            raise BadVectors(f"part {name!r} has shape {array.shape}; it must be (rows, dimensions).")
        if array.shape[1] == 0:
            raise BadVectors(f"part {name!r} has vectors of 0 dimensions.")
        if array.dtype.kind not in "fiu":
            raise BadVectors(f"part {name!r} holds {array.dtype}; it must hold real numbers.")
        if array.shape != shape:
            raise BadVectors(
                f"part {name!r} has shape {array.shape} but part {first!r} has {shape}. All parts share rows "
                "and dimensions: fill the rows a part lacks with anything and mark them in `present`."
            )
    return arrays


def _checked_presence(present: Mapping[str, Any], parts: Mapping[str, Matrix], n: int) -> dict[str, Mask]:
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
