"""``RemoteCollection``: a collection on a server, with the methods of ``Collection``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any

from isthmus.client.calls import Call, Operation
from isthmus.client.forms import Means, RemoteCalibration, read_calibration
from isthmus.client.operations import Operations, served
from isthmus.client.sessions import ConnectSettings, Session
from isthmus.documents import Document, Query
from isthmus.search import Added, Hits, SearchRequest, Stats, arguments
from isthmus.storage.values import FieldValues


def _bytes(url: str) -> Operation[bytes]:
    reply = yield Call(method="GET", path=url)
    return reply.body


class RemoteCollection:
    """A collection on a server; ``isthmus.connect`` returns one. Use it in a ``with`` block.

    What differs from ``Collection``: pictures are sent and kept as bytes, those of found documents are fetched when
    they are first read; ``align`` and ``rerank`` are names; iterating sees changes that are made meanwhile; documents
    come without vectors. What works on files of the server (``index``, ``reencode``, ``compact`` …) is not here.
    """

    def __init__(self, name: str, settings: ConnectSettings) -> None:
        self.name, self.url = name, settings.url
        self._session = Session(settings)
        self._operations = Operations(name, lambda url: self._session.run(_bytes(url)))

    def __enter__(self) -> RemoteCollection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteCollection {self.name} at {self.url}>"

    def __len__(self) -> int:
        return int(self._session.run(self._operations.describe())["documents"])

    def __contains__(self, name: object) -> bool:
        return self._session.run(self._operations.has(name))

    def __iter__(self) -> Iterator[Document]:
        """Yield every document, in the order in which they were added."""
        after: int | None = -1
        while after is not None:
            documents, after = self._session.run(self._operations.page(after))
            yield from documents

    def get(self, name: str) -> Document:
        """Return a document by its id."""
        return self._session.run(self._operations.get(name))

    def add(self, documents: Iterable[Document], *, progress: Callable[[int], None] | None = None) -> Added:
        """Add documents, each in place of the one that has its id; what has not changed is left alone.

        Documents are sent in batches while they are read from the iterable. What ``progress(count)`` has acknowledged
        stays. A batch whose answer was lost is sent again: its documents are then reported as unchanged.
        """
        return self._session.run(self._operations.add(documents, progress))

    def update(self, document: Document | str, metadata: Mapping[str, Any] | None = None) -> Added:
        """Change a document: parts that are given replace its own, the others stay; metadata are merged."""
        return self._session.run(self._operations.update(document, metadata))

    def delete(self, ids: str | Iterable[str]) -> int:
        """Delete documents; return how many existed."""
        return self._session.run(self._operations.delete(ids))

    def ids(self, where: Mapping[str, Any] | None = None) -> list[str]:
        """Return the ids of all documents, or of those that pass a filter, in the order they were added."""
        return self._session.run(self._operations.ids(where))

    def fields(self) -> list[str]:
        """Return the names of metadata that ``where`` can filter by."""
        return self._session.run(self._operations.fields())

    def values(self, name: str, count: int = 20) -> FieldValues:
        """Return the most frequent values of a field with how many documents have each, and its ranges."""
        return self._session.run(self._operations.values(name, count))

    def search(  # noqa: PLR0913 - one name per option
        self,
        query: str | Query | SearchRequest,
        k: int = 10,
        offset: int = 0,
        where: Mapping[str, Any] | None = None,
        modalities: str | Iterable[str] | None = None,
        hybrid: bool = False,
        align: str | None = None,
        min_probability: float | None = None,
        explain: bool = False,
        *,
        group: bool = False,
        calibration: str | None = None,
        rerank: str | None = None,
        partial: bool = False,
    ) -> Hits:
        """Find the ``k`` best documents for words, a picture, both, or a vector; see ``SearchRequest``."""
        options = SearchRequest(
            "any",
            k=k,
            offset=offset,
            where=where,
            modalities=modalities,
            hybrid=hybrid,
            align=align,
            min_probability=min_probability,
            explain=explain,
            group=group,
            calibration=calibration,
            rerank=rerank,
            partial=partial,
        )
        return self._session.run(self._operations.search(options.each([query])))[0]

    def search_many(  # noqa: PLR0913 - as search
        self,
        queries: Iterable[str | Query | SearchRequest],
        k: int = 10,
        offset: int = 0,
        where: Mapping[str, Any] | None = None,
        modalities: str | Iterable[str] | None = None,
        hybrid: bool = False,
        align: str | None = None,
        min_probability: float | None = None,
        explain: bool = False,
        *,
        group: bool = False,
        calibration: str | None = None,
        rerank: str | None = None,
        partial: bool = False,
    ) -> list[Hits]:
        """Search for several queries at once; the options are those of ``search``."""
        options = SearchRequest(
            "any",
            k=k,
            offset=offset,
            where=where,
            modalities=modalities,
            hybrid=hybrid,
            align=align,
            min_probability=min_probability,
            explain=explain,
            group=group,
            calibration=calibration,
            rerank=rerank,
            partial=partial,
        )
        return self._session.run(self._operations.search(options.each(arguments.queries(queries))))

    def calibrate(
        self,
        spec: str = "auto",
        queries: Iterable[str | Query | tuple[str | Query, str]] | None = None,
        *,
        means: Means | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> RemoteCalibration:
        """Calibrate on what is there now, as a job of the server; return when it is served.

        ``means``: documents, or their raw vectors, whose means ``center`` and ``dn`` subtract.
        """
        arguments.callback("progress", progress)
        own = None if queries is None else arguments.references(queries)
        return self._session.run(self._operations.calibrate(spec, own, means, progress))

    @property
    def calibration(self) -> RemoteCalibration | None:
        """The calibration that is served; None before the first."""
        return served(self._session.run(self._operations.calibrations()))

    @property
    def calibration_spec(self) -> str:
        """The spec that was requested for this collection, or ``auto``."""
        return str(self._session.run(self._operations.calibrations())["spec"])

    def calibrations(self) -> list[RemoteCalibration]:
        """Return the calibrations that are kept, oldest first: the served one and a few before it."""
        return [read_calibration(one) for one in self._session.run(self._operations.calibrations())["versions"]]

    def use_calibration(self, version: int) -> RemoteCalibration:
        """Serve an earlier calibration again, under a new number."""
        return self._session.run(self._operations.use_calibration(version))

    @property
    def drifted(self) -> bool:
        """Whether documents have changed enough since the calibration that another one is worth its cost."""
        return bool(self._session.run(self._operations.calibrations())["drifted"])

    def stats(self) -> Stats:
        """Return counts, sizes, the encoder, the calibration and drift; ``path`` is the collection's name."""
        return self._session.run(self._operations.stats())

    def load(self, document: Document) -> Document:
        """Return a document with the bytes of its pictures."""
        return self._session.run(self._operations.load(document))

    def close(self) -> None:
        """Close the connections."""
        self._session.close()
