"""``AsyncRemoteCollection``: a collection on a server, for ``await``."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from isthmus.client.forms import Means, RemoteCalibration, not_loaded, read_calibration
from isthmus.client.operations import BATCH, Operations, served
from isthmus.client.sessions import AsyncSession, ConnectSettings
from isthmus.documents import Document, Query
from isthmus.search import Added, Hits, SearchRequest, Stats, arguments
from isthmus.storage.values import FieldValues


class AsyncRemoteCollection:
    """A collection on a server; ``isthmus.connect_async`` returns one. Use it in an ``async with`` block.

    The methods are those of ``RemoteCollection``, each with ``await``; ``count``, ``has``, ``calibration``,
    ``calibration_spec`` and ``drifted`` are methods, too. The pictures of hits are fetched by ``load``.
    """

    def __init__(self, name: str, settings: ConnectSettings) -> None:
        self.name, self.url = name, settings.url
        self._session = AsyncSession(settings)
        self._operations = Operations(name, not_loaded)

    async def __aenter__(self) -> AsyncRemoteCollection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncRemoteCollection {self.name} at {self.url}>"

    async def count(self) -> int:
        """Return how many documents there are."""
        return int((await self._session.run(self._operations.describe()))["documents"])

    async def has(self, name: object) -> bool:
        """Whether there is a document with this id."""
        return await self._session.run(self._operations.has(name))

    async def __aiter__(self) -> AsyncIterator[Document]:
        """Yield every document, in the order in which they were added."""
        after: int | None = -1
        while after is not None:
            documents, after = await self._session.run(self._operations.page(after))
            for document in documents:
                yield document

    async def get(self, name: str) -> Document:
        """Return a document by its id, with the bytes of its pictures."""
        return await self.load(await self._session.run(self._operations.get(name)))

    async def add(
        self,
        documents: Iterable[Document] | AsyncIterable[Document],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> Added:
        """Add documents, as ``RemoteCollection.add`` does; from an asynchronous iterable, too."""
        if not isinstance(documents, AsyncIterable):
            return await self._session.run(self._operations.add(documents, progress))
        done: list[Added] = []
        held: list[Document] = []

        async def flush() -> None:
            done.append(await self._session.run(self._operations.add(held, None)))
            held.clear()
            if progress is not None:
                progress(sum(len(one) + len(one.unchanged) for one in done))

        async for document in documents:
            held.append(document)
            if len(held) >= BATCH:
                await flush()
        await flush()
        return Added.together(done)

    async def update(self, document: Document | str, metadata: Mapping[str, Any] | None = None) -> Added:
        """Change a document: parts that are given replace its own, the others stay; metadata are merged."""
        return await self._session.run(self._operations.update(document, metadata))

    async def delete(self, ids: str | Iterable[str]) -> int:
        """Delete documents; return how many existed."""
        return await self._session.run(self._operations.delete(ids))

    async def ids(self, where: Mapping[str, Any] | None = None) -> list[str]:
        """Return the ids of all documents, or of those that pass a filter, in the order they were added."""
        return await self._session.run(self._operations.ids(where))

    async def fields(self) -> list[str]:
        """Return the names of metadata that ``where`` can filter by."""
        return await self._session.run(self._operations.fields())

    async def values(self, name: str, count: int = 20) -> FieldValues:
        """Return the most frequent values of a field with how many documents have each, and its ranges."""
        return await self._session.run(self._operations.values(name, count))

    async def search(  # noqa: PLR0913 - one name per option
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
        return (await self._session.run(self._operations.search(options.each([query]))))[0]

    async def search_many(  # noqa: PLR0913 - as search
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
        return await self._session.run(self._operations.search(options.each(arguments.queries(queries))))

    async def calibrate(
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
        return await self._session.run(self._operations.calibrate(spec, own, means, progress))

    async def calibration(self) -> RemoteCalibration | None:
        """The calibration that is served; None before the first."""
        return served(await self._session.run(self._operations.calibrations()))

    async def calibration_spec(self) -> str:
        """The spec that was requested for this collection, or ``auto``."""
        return str((await self._session.run(self._operations.calibrations()))["spec"])

    async def calibrations(self) -> list[RemoteCalibration]:
        """Return the calibrations that are kept, oldest first: the served one and a few before it."""
        return [read_calibration(one) for one in (await self._session.run(self._operations.calibrations()))["versions"]]

    async def use_calibration(self, version: int) -> RemoteCalibration:
        """Serve an earlier calibration again, under a new number."""
        return await self._session.run(self._operations.use_calibration(version))

    async def drifted(self) -> bool:
        """Whether documents have changed enough since the calibration that another one is worth its cost."""
        return bool((await self._session.run(self._operations.calibrations()))["drifted"])

    async def stats(self) -> Stats:
        """Return counts, sizes, the encoder, the calibration and drift; ``path`` is the collection's name."""
        return await self._session.run(self._operations.stats())

    async def load(self, document: Document) -> Document:
        """Return a document with the bytes of its pictures."""
        return await self._session.run(self._operations.load(document))

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()
