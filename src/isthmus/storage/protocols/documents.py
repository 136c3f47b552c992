"""Documents, in and out of a store, and searched by their words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from isthmus.documents import Document
from isthmus.storage.base import Described, Entry, Found, Transaction
from isthmus.storage.facts import Scalar
from isthmus.storage.values import FieldValues
from isthmus.storage.where import Condition
from isthmus.types import Rows


class DocumentTable(Protocol):
    """The documents of a collection, by row number; a changed document gets a new row."""

    def put(self, transaction: Transaction, /, entries: Sequence[Entry]) -> list[int]:
        """Add documents and replace those with the same ids; return the new rows."""
        ...

    def remove(self, transaction: Transaction, /, ids: Sequence[str]) -> list[str]:
        """Delete documents; return the ids of those that existed."""
        ...

    def met(self, transaction: Transaction, /, seen: Sequence[tuple[int | None, int | None, str]]) -> None:
        """Record the file and the run in which unchanged documents were found: (file, run, id)."""
        ...

    def of_unit(self, number: int, *, but_run: int | None = None) -> list[str]:
        """Return the ids of a file's documents; with ``but_run``, only those that this run did not find."""
        ...

    def filtered(self, condition: Condition) -> Rows:
        """Return the rows that pass a filter; the results of the last few filters are cached until documents change."""
        ...

    def count(self) -> int:
        """Return the number of documents."""
        ...

    def counts(self) -> dict[str, int]:
        """Return the number of documents of each modality."""
        ...

    def modalities(self) -> set[str]:
        """Return the modalities of the documents, without counting them."""
        ...

    def fields(self) -> list[str]:
        """Return the names of the metadata, with one index lookup for each."""
        ...

    def values(self, name: str) -> FieldValues:
        """Return the values of a field with how many documents have each; this reads every value of the field."""
        ...

    def facts(self, rows: Sequence[int]) -> dict[int, list[tuple[str, Scalar]]]:
        """Return the metadata of documents as filters see them: (name, value), by row; without those that have none."""
        ...

    def copies(self, row: int) -> set[int]:
        """Return the rows of the documents with exactly the same parts as this one, including itself."""
        ...

    def ids(self, condition: Condition) -> list[str]:
        """Return the ids of the documents that pass a filter, in the order they were added."""
        ...

    def names(self) -> dict[int, str]:
        """Return the id of every document by its row."""
        ...

    def names_like(self, start: str) -> list[str]:
        """Return some ids with a common prefix."""
        ...

    def page(self, after: int, count: int) -> list[int]:
        """Return the next rows after a row, in order."""
        ...

    def rows(self, modality: str | None = None) -> list[int]:
        """Return the rows of all documents in order, or of those of a modality."""
        ...

    def texts(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the words of these documents, from all text parts."""
        ...

    def other_modalities(self, known: Sequence[str]) -> list[tuple[str, str]]:
        """Return (id, modality) of the documents with any other modality."""
        ...

    def described(self, rows: Sequence[int]) -> dict[int, Described]:
        """Return the modality and the hashes of documents."""
        ...

    def origins(self, rows: Sequence[int]) -> dict[int, tuple[int | None, int | None]]:
        """Return the file and the run that documents came from."""
        ...

    def same_parts(self, digest: bytes, count: int) -> list[int]:
        """Return some documents whose parts have this combined hash, and whose vectors are all the encoder's."""
        ...

    def same_part(self, kind: str, digest: bytes, count: int) -> list[tuple[int, int]]:
        """Return some parts, (document, number), of a kind that have this hash."""
        ...

    def encoded_row(self, modality: str) -> int | None:
        """Return a document of a modality whose vectors are all the encoder's; None if there is none."""
        ...

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the row of each of these ids that exists."""
        ...

    def has_text(self, rows: Sequence[int]) -> set[int]:
        """Return those of the rows whose documents have a text."""
        ...

    def document(self, row: int) -> Document:
        """Return the document in a row, which must exist."""
        ...

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Return the documents in these rows, with the content that is stored here."""
        ...


class Words(Protocol):
    """BM25 over the documents' texts."""

    def search(self, words: Sequence[str], k: int, where: Condition | None = None) -> Found:
        """Return the ``k`` best documents by BM25 that pass a filter."""
        ...

    def search_among(self, words: Sequence[str], documents: Sequence[int]) -> Found:
        """Return those of these documents that share words with a query."""
        ...
