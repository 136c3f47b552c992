"""The encoder protocol: documents and queries in, unit vectors by part out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Literal, Protocol, TypeAlias

import numpy as np

from isthmus.documents import Document, Query
from isthmus.encoders.cache import Cache, open_cache
from isthmus.errors import BadInput, BadVectors
from isthmus.types import Matrix, Rows, Vectors

Role: TypeAlias = Literal["document", "query"]  # some models encode the two differently
Progress: TypeAlias = Callable[[int, int], None]  # (done, total), in passages and images
Skip: TypeAlias = Callable[[int, BadInput], None]  # (row of the document, why it cannot be encoded)
FULL = "full"
PRECISIONS = ("auto", FULL, "half", "float32", "float16", "bfloat16")
IN_FULL = ("auto", FULL, "float32")  # what every encoder can do
BATCH, GPU_BATCH = 32, 256  # passages or pictures per model call, on a processor and on a GPU


class Encoder(Protocol):
    """Documents and queries become unit float32 vectors, one per part, in the order given.

    A text longer than the encoder's input is split into passages, never truncated. One call may mix texts and images. A
    part that the encoder cannot read raises an error; it is not ignored.
    """

    @property
    def name(self) -> str:
        """The name: ``mini``, ``st:…``."""

    @property
    def identity(self) -> str:
        """A hash of everything the vectors depend on; it changes whenever they do."""

    @property
    def dim(self) -> int:
        """The number of dimensions of a vector."""

    @property
    def modalities(self) -> tuple[str, ...]:
        """The modalities it accepts, in documents and in queries: ``('image', 'image+text', 'text')``."""

    def encode_documents(self, documents: Sequence[Document]) -> Vectors:
        """Return one row per document; a long text is the unit mean of its passages."""

    def encode_passages(self, documents: Sequence[Document], *, skip: Skip | None = None) -> tuple[Vectors, Rows]:
        """Return one row per passage, and for each row the document it belongs to.

        The rows of a document are consecutive, in reading order. EVERY row of a document with an image has the image's
        vector: all rows have the document's modality, and each passage is scored together with the picture. A document
        without text has one row.

        With ``skip``, a document that cannot be encoded (such as a damaged picture) is passed to ``skip`` and has no
        row; without it, the first such document raises.
        """

    def encode_queries(self, queries: Sequence[Query | str]) -> Vectors:
        """Return one row per query; a string is a query of words."""

    def split(self, text: str) -> list[tuple[int, int]]:
        """Return the start and end of each passage of a document's text, in the order of ``encode_passages``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an encoder runs. No setting changes a vector by more than rounding: to 16 bits, with half precision."""

    device: str = "cpu"
    precision: str = FULL
    threads: int | None = None
    cache: str | PathLike[str] | Cache | None = None
    batch: int | None = None
    progress: Progress | None = None
    trust_remote_code: bool = False  # whether code that comes with a model may run
    store: Cache = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise BadInput(f"precision is {self.precision!r}; it must be one of {', '.join(PRECISIONS)}.")
        for name, value in (("threads", self.threads), ("batch", self.batch)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise BadInput(f"{name} is {value!r}; it must be a whole number of at least 1.")
        object.__setattr__(self, "store", open_cache(self.cache))

    @property
    def batch_size(self) -> int:
        """The number of passages or pictures per model call: ``batch``, or what suits the device."""
        return self.batch or (GPU_BATCH if self.device.startswith("cuda") else BATCH)

    @property
    def workers(self) -> int:
        """The number of threads that read pictures while the model runs."""
        return self.threads or os.cpu_count() or 1


def unit(rows: Matrix, whose: str) -> Matrix:
    """Scale each row to length 1, in float32.

    >>> unit(np.array([[3.0, 4.0]]), "mini")
    array([[0.6, 0.8]], dtype=float32)
    """
    wide = np.asarray(rows, dtype=np.float64)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    bad = ~(np.isfinite(length) & (length > 0))
    if bad.any():
        raise BadVectors(
            f"The model of {whose} returned zeros, NaN or infinity instead of a vector ({int(bad.sum())} of "
            f"{len(wide)} rows). It is damaged, or was exported with less precision than it needs."
        )
    scaled: Matrix = (wide / length).astype(np.float32)
    return scaled
