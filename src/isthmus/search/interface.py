"""``SearchInterface``: what collections on this machine and on a server have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from isthmus.documents import Document, Query
from isthmus.search.hits import Hits
from isthmus.search.request import SearchRequest
from isthmus.search.stats import Stats
from isthmus.search.writer import Added
from isthmus.storage.values import FieldValues


@runtime_checkable
class SearchInterface(Protocol):
    """A collection, here (``Collection``) or on a server (``isthmus.connect``). Integrations take either."""

    def __len__(self) -> int: ...

    def __contains__(self, name: object) -> bool: ...

    def __iter__(self) -> Iterator[Document]: ...

    def get(self, name: str) -> Document:
        """Return a document by its id."""

    def add(self, documents: Iterable[Document], *, progress: Callable[[int], None] | None = None) -> Added:
        """Add documents, each in place of the one that has its id."""

    def update(self, document: Document | str, metadata: Mapping[str, Any] | None = None) -> Added:
        """Change a document."""

    def delete(self, ids: str | Iterable[str]) -> int:
        """Delete documents; return how many existed."""

    def ids(self, where: Mapping[str, Any] | None = None) -> list[str]:
        """Return the ids of all documents, or of those that pass a filter."""

    def fields(self) -> list[str]:
        """Return the names of metadata that ``where`` can filter by."""

    def values(self, name: str, count: int = 20) -> FieldValues:
        """Return the most frequent values of a field with how many documents have each, and its ranges."""

    def search(self, query: str | Query | SearchRequest) -> Hits:
        """Find documents; options are in the request."""

    def search_many(self, queries: Iterable[str | Query | SearchRequest]) -> list[Hits]:
        """Search for several queries at once."""

    def stats(self) -> Stats:
        """Return counts, sizes, the encoder and the calibration."""

    def close(self) -> None:
        """Close it."""
