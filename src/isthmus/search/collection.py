"""``Collection``: put things in, find them.

    with Collection.open("things.isthmus") as things:
        things.add([Document(id="a", text="…"), Document(id="b", image="cat.jpg")])
        for hit in things.search("a cat on a red sofa"):
            print(hit.score, hit.probability, hit.id)

A collection is a folder: ``collection.sqlite`` is the truth, ``index/`` is made from it and can be deleted. Many
processes may read, one writes at a time, and each sees what another has committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any

from isthmus import sources
from isthmus._optional import need
from isthmus.calibration import Fitted
from isthmus.calibration.layouts import MODALITY
from isthmus.documents import Document, Query
from isthmus.encoders import Encoder
from isthmus.encoders.abilities import EncodesAhead, Usage
from isthmus.encoders.base import FULL
from isthmus.encoders.locations import user_cache
from isthmus.encoders.runtime import ModelPool, Runtime
from isthmus.errors import BadInput, BadVectors, CannotReach, CannotWrite, UnknownDocument, UnknownName, shown
from isthmus.ocr.cache import TextCache
from isthmus.prefetch import prefetch
from isthmus.registry import lookup, suggestion
from isthmus.search import arguments, calibrate
from isthmus.search.copy import Copied, Stages, copied, open_target
from isthmus.search.copy_record import COPY, check_finished
from isthmus.search.export import exported
from isthmus.search.handle import Handle, Result, named_server, open_handle
from isthmus.search.hits import Hit, Hits
from isthmus.search.ingest import prepared
from isthmus.search.maps import Map, MapMaker
from isthmus.search.page_texts import AUTO, NEVER, PageCounts, PageTexts
from isthmus.search.query_log import QueryLog, of_words
from isthmus.search.reencode import Reencoded, reencode
from isthmus.search.references import Own, ReferenceSets, gather
from isthmus.search.request import SearchRequest
from isthmus.search.reranking import Reranker
from isthmus.search.searcher import Searcher
from isthmus.search.snapshot import Calibrated, Snapshot
from isthmus.search.snapshot_manager import SnapshotManager
from isthmus.search.source_events import Indexed, ReadSettings
from isthmus.search.stats import Stats, stats
from isthmus.search.sync import SourceSync, Workers
from isthmus.search.values import ValueCounts
from isthmus.search.writer import BATCH, Added, Arrival, Skipped, Writer, arrivals, batches, merged
from isthmus.sources.folder import FolderSource
from isthmus.sources.speech import SPOKEN, SpeechSource, Transcriber
from isthmus.sources.whole_files import APART, WAYS
from isthmus.storage.base import Compacted
from isthmus.storage.protocols import PublishedVectors, Store
from isthmus.storage.values import FieldValues
from isthmus.storage.where import parse
from isthmus.types import Vectors

if TYPE_CHECKING:
    from isthmus.align import Aligned, Aligner


class Collection:
    """A searchable folder of documents. ``Collection.open`` makes or opens one; use it in a ``with`` block."""

    def __init__(self, opened: Handle, *, calibration: str = "auto", follow: bool = True) -> None:
        self.path: Any = opened.folder  # a Path; of a collection on a server, its address without the password
        self._handle = opened
        self._store = opened.store
        self._snapshots = SnapshotManager(opened, self._store, calibration, follow)
        self._log = QueryLog(self._store)
        self._values = ValueCounts(self._store)
        self._maps = MapMaker(opened)
        self._searches = Searcher(opened, self._snapshots, self._log)

    @classmethod
    def open(  # noqa: PLR0913 - one name per option
        cls,
        path: str | PathLike[str],
        encoder: str | Encoder | None = None,
        calibration: str = "auto",
        *,
        create: bool = True,
        follow: bool = True,
        index: str | None = None,
        vectors: str | PublishedVectors | None = None,
        device: str = "cpu",
        threads: int | None = None,
        precision: str = FULL,
        pool: ModelPool | None = None,
        trust_remote_code: bool = False,
    ) -> Collection:
        """Open a collection, or make one where there is none.

        ``encoder``: a name, an encoder, or ``"none"`` for documents that bring their own vectors; left out, the
        collection's own, and ``mini`` for a new one. ``calibration``: what the first calibration is. ``create=False``
        refuses to make a new collection. ``follow=False`` leaves it to you to calibrate again when documents have
        drifted. ``index``: ``"exact"``, ``"ivf-sq8"``, ``"ivf-rabitq"``, ``"hnsw"``, or ``"auto"``, which chooses by
        size. It is kept and used when the indexes are next built; left out, what was kept stays, and a new collection
        has ``"auto"``.
        ``vectors``: where the folded vectors live and are searched: the address of a server
        (``"qdrant://localhost:6333/things"``), or ``"folder"``, the default. It is kept, too.
        ``device``, ``threads``, ``precision`` and ``trust_remote_code`` are for the encoder, as in ``encoders.load``.
        Collections with the same ``pool`` share their models, each loaded once. The path ``":memory:"`` makes a new
        collection that is never written to disk and ends with this object.
        """
        arguments.path(path)
        if encoder is not None:
            arguments.encoder(encoder)
        calibrate.checked(calibration)  # before hours of encoding
        create, follow = arguments.flag("create", create), arguments.flag("follow", follow)
        arguments.index(index)
        arguments.device(device)
        threads = None if threads is None else arguments.count("threads", threads, least=1)
        arguments.pool(pool)
        arguments.vectors(vectors)
        runtime = Runtime(
            device=device,
            threads=threads,
            precision=arguments.precision(precision),
            trust_remote_code=arguments.flag("trust_remote_code", trust_remote_code),
            pool=pool,
        )
        found = open_handle(path, encoder, create=create, runtime=runtime, vectors=vectors)
        made = cls(found, calibration=calibration, follow=follow)
        try:
            made._snapshots.sweep()
            if index is not None:
                made._snapshots.use_index(index)
        except BaseException:
            made.close()
            raise
        return made

    def __enter__(self) -> Collection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self._store.counts().items())
        return f"<Collection {self.path}: {counts or 'empty'}>"

    def __len__(self) -> int:
        return self._store.count()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and arguments.is_text(name) and bool(self._store.rows_of([name]))

    def __iter__(self) -> Iterator[Document]:
        """Yield every document, in the order in which they were added, as of the moment when iteration begins."""
        after = -1
        with self._handle.database.held() as within:
            while True:
                with within():
                    rows = self._store.page(after, BATCH)
                    known = self._store.documents(rows)
                    found = [known[row] if row in known else self._store.document(row) for row in rows]
                if not rows:
                    return
                yield from found
                after = rows[-1]

    @property
    def encoder(self) -> Encoder | None:
        """The collection's encoder, loaded when first needed; None for a collection of vectors."""
        self._handle.reload_if_reencoded()
        return self._handle.load()

    @property
    def usage(self) -> dict[str, Usage]:
        """What services were asked since the collection was opened, by the name of the encoder or the reranker."""
        return {**self._handle.usage(), **self._searches.rerankers.usage()}

    def get(self, name: str) -> Document:
        """Return a document by its id."""
        arguments.identifier(name)
        with self._handle.database.reading():
            rows = self._store.rows_of([name])
            if not rows:
                raise self._unknown(name)
            return self._store.document(rows[name])

    def _unknown(self, name: str) -> UnknownDocument:
        some = self._store.names_like(str(name)[:3])
        hint = suggestion(str(name), some) if some else "No id begins like it."
        return UnknownDocument(f"No document is called {name!r} in {self.path}. {hint}")

    def add(
        self,
        documents: Iterable[Document],
        *,
        ocr: str = NEVER,
        progress: Callable[[int], None] | None = None,
    ) -> Added:
        """Add documents, each in place of the one that has its id; what has not changed is left alone.

        ``ocr="auto"`` adds the text in pictures that look like pages, ``"always"`` that in all pictures, as ``index``
        does. Batches are committed as they are encoded: what ``progress(count)`` has acknowledged stays, whatever
        happens.
        """
        documents = arguments.documents(documents)
        arguments.callback("progress", progress)
        with self._page_texts(ocr) as texts:
            return self._add(documents, texts, progress)

    def _add(self, documents: Iterable[Document], texts: PageTexts, progress: Callable[[int], None] | None) -> Added:
        done: list[Added] = []
        count = 0
        skipped: list[Skipped] = []
        arriving = arrivals(documents, texts, skipped.append)
        if isinstance(documents, Sequence):  # a generator is the caller's code, which runs on the caller's thread
            arriving = prefetch(arriving, 2 * BATCH, lambda arrival: arrival.one.size)
        with self._writing() as writer, closing(arriving) as coming:
            for batch in batches(coming, lambda: writer.room):
                done.append(writer.add(batch))
                count += len(done[-1]) + len(done[-1].unchanged)
                if progress is not None:
                    progress(count)
        return Added.together([*done, Added(skipped=tuple(skipped))])

    def update(self, document: Document | str, metadata: Mapping[str, Any] | None = None) -> Added:
        """Change a document: parts that are given replace its own, the others stay; metadata are merged.

        With an id instead of a document, the metadata alone: ``update("a", metadata={"lang": "en"})``.
        """
        arguments.change(document, metadata)
        name = document if isinstance(document, str) else document.id

        def changed() -> tuple[Arrival, int]:
            with self._handle.database.reading():
                before, row = self.get(name), self._store.rows_of([name])[name]
                file = self._store.origins([row])[row]
            if isinstance(document, str):
                said = {**before.metadata, **(metadata or {})}
                after = Document.restored(name, before.parts, said, before.vectors)
            else:
                after = merged(before, document)
            return Arrival(prepared(after), *file), row

        with self._writing() as writer:
            return writer.replace(changed)

    def delete(self, ids: str | Iterable[str]) -> int:
        """Delete documents; return how many existed."""
        names = arguments.identifiers(ids)
        with self._writing() as writer:
            return sum(_removed(writer, names[start : start + BATCH]) for start in range(0, len(names), BATCH))

    def index(
        self,
        *paths: str | PathLike[str],
        kind: str | None = None,
        prune: bool | None = None,
        ocr: str = AUTO,
        pages: str = APART,
        progress: Callable[[Indexed], None] | None = None,
        transcribe: Transcriber | None = None,
        workers: Workers | None = None,
    ) -> Indexed:
        """Read folders, tables, shards … into the collection: what is new or changed is encoded, the rest is left.

        Documents whose files are gone from a path are removed, unless not one file is left there, as when a drive is
        not mounted: ``prune=True`` removes them then as well, ``prune=False`` removes nothing. Files that are there
        but cannot be opened are skipped, and their documents stay as they were. ``transcribe``, as
        ``sources.speech.transcriber()`` returns one, adds what is said in sounds and videos. ``workers``, as
        ``isthmus.bulk.Cluster``, encode the documents on other machines; this process reads and writes.

        The text in pictures that look like pages is read and becomes a part of their documents (extra ``align``;
        without it, they are counted): ``ocr="always"`` reads all pictures, ``ocr="never"`` none. Each page of
        a PDF file is a document; with ``pages="together"`` each file is one, and ``hit.page`` says the page.
        """
        prune = None if prune is None else arguments.flag("prune", prune)
        arguments.callback("progress", progress)
        lookup({way: way for way in WAYS}, pages, "value of pages")
        found = [self._source(path, kind) for path in paths]
        if transcribe is not None:
            spoken = TextCache(user_cache() / SPOKEN)
            found = [SpeechSource(source, transcribe, spoken) for source in found]
        report = Indexed(listing=len(found))
        elsewhere = None if workers is None else self._elsewhere(workers)
        with self._page_texts(ocr, report.pages) as texts, self._writing(elsewhere, alone=True) as writer:
            for source in found:
                settings = ReadSettings(texts, pages)
                sync = SourceSync(self._store, writer, source, report, progress or _ignore, settings, elsewhere)
                sync.follow(prune=prune)
        return report

    def _elsewhere(self, workers: Workers) -> EncodesAhead | None:
        """Return the encoder on other machines; None for a collection of vectors."""
        encoder = self.encoder
        return None if encoder is None else workers.around(encoder, self._handle.name, self._handle.runtime)

    def _page_texts(self, ocr: str, counts: PageCounts | None = None) -> closing[PageTexts]:
        """Return what reads pictures; counts go to ``counts``."""
        self._handle.reload_if_reencoded()
        return closing(PageTexts(ocr, self._handle.loader, counts or PageCounts(), self._handle.runtime.threads))

    def _source(self, path: str | PathLike[str], kind: str | None) -> sources.Source:
        source = sources.open_source(arguments.path(path), kind=kind)
        return replace(source, without=str(self.path)) if isinstance(source, FolderSource) else source

    def watch(
        self,
        *paths: str | PathLike[str],
        kind: str | None = None,
        prune: bool | None = None,
        ocr: str = AUTO,
        pages: str = APART,
        stop: Event | None = None,
        transcribe: Transcriber | None = None,
    ) -> Iterator[Indexed]:
        """Index what changes below these paths, as it changes, until ``stop`` is set; yield what each change did."""
        watchfiles = need("watchfiles", extra="watch")
        arguments.stop(stop)
        prune = None if prune is None else arguments.flag("prune", prune)
        roots = [self._source(path, kind).root for path in paths]
        own = Path(self.path).resolve()
        usual = watchfiles.DefaultFilter()

        def outside(change: Any, path: str) -> bool:
            """Whether a change is not our own: writing the collection must not start the next run."""
            return bool(usual(change, path)) and not Path(path).resolve().is_relative_to(own)

        for _ in watchfiles.watch(*roots, watch_filter=outside, stop_event=stop, raise_interrupt=True):
            yield self.index(*paths, kind=kind, prune=prune, ocr=ocr, pages=pages, transcribe=transcribe)

    def reencode(
        self,
        encoder: str | Encoder,
        *,
        drop: bool = False,
        force: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Reencoded:
        """Re-encode every document by another encoder; searches go on with the old vectors until all is done.

        What ``progress(done, documents)`` has acknowledged stays: interrupted, the same call goes on where it stopped,
        and another encoder starts over. In the end vectors, encoder and a calibration made for them are switched in one
        step. While documents cannot be encoded, as their pictures are gone, it ends in ``CannotEncode`` and everything
        stays as it was; ``drop`` deletes such documents.

        ``Reencoded.score`` compares the search before and after on the same questions: your own with known answers, or
        made from the documents. If it is worse, everything stays as it was (``WorseEncoder``), unless with ``force``.
        """
        arguments.encoder(encoder)
        arguments.callback("progress", progress)
        drop, force = arguments.flag("drop", drop), arguments.flag("force", force)
        with self._writing(alone=True):
            return reencode(self._snapshots, encoder, drop=drop, force=force, progress=progress or _ignore)

    def copy_to(
        self,
        target: str | PathLike[str] | Collection,
        *,
        vectors: str | PublishedVectors | None = None,
        progress: Stages | None = None,
    ) -> Copied:
        """Copy everything to a new collection on any engine; both then answer alike.

        ``target``: a folder, the URL of a server, or an open collection that is empty, such as one in memory.
        ``vectors``: where its folded vectors live, as in ``open``. The copy is as of this moment, also while others
        write here; it is read again and compared with what is here. Interrupted, the same call goes on where it
        stopped; until the copy is finished, it cannot be opened. Nothing is overwritten. Files that documents name by
        their path are not copied. ``progress(stage)`` is called when a stage begins, and returns what is called with
        (done, documents).
        """
        arguments.vectors(vectors)
        arguments.callback("progress", progress)
        self._log.flush()
        if isinstance(target, Collection):
            if vectors is not None:
                raise BadInput("vectors belongs to a path. An open collection has said where its vectors live.")
            return copied(self._store, target.store, progress or _no_stages)
        named_server(arguments.path(target), vectors)  # an address that is wrong is refused before hours of work
        with open_target(target) as store:
            done = copied(self._store, store, progress or _no_stages)
        with Collection.open(target, create=False, follow=False, vectors=vectors) as made:
            if done.calibration and len(made):
                (progress or _no_stages)("building the index")
                made.refresh()
        return done

    def ids(self, where: Mapping[str, Any] | None = None) -> list[str]:
        """Return the ids of all documents, or of those that pass a filter, in the order they were added."""
        return self._store.ids(parse({} if where is None else where))

    def fields(self) -> list[str]:
        """Return the names of metadata that ``where`` can filter by."""
        return ["id", "modality", *self._store.fields()]

    def values(self, name: str, count: int = 20) -> FieldValues:
        """Return the most frequent values of a field with how many documents have each, and its ranges.

        They are counted when they are first asked for, and again when documents have changed.
        """
        return self._values.of(name, count)

    @contextmanager
    def _writing(self, encoder: Encoder | None = None, *, alone: bool = False) -> Iterator[Writer]:
        """Hold the right to write, with another encoder if one is given; ``alone``: while no other process does."""
        if (why := self._handle.database.read_only()) is not None:
            raise CannotWrite(f"{self.path} cannot be written to: {why}.")
        self._handle.database.check_place()  # taking the lock would create a deleted folder again
        with self._store.sole_writer() if alone else self._store.writer():
            check_finished(self._handle.database.manifest(COPY), self.path)  # it may have been opened before that copy
            self._handle.reload_if_reencoded()
            loader = self._handle.loader if encoder is None else lambda: encoder
            yield Writer(self._store, loader, self._handle.dim)
            self._store.shrink()

    def retry_if_reencoded(self, work: Callable[[], Result]) -> Result:
        """Run work that reads vectors; repeat it if the collection was re-encoded meanwhile."""
        return self._handle.retry_if_reencoded(work)

    def search(  # noqa: PLR0913 - one name per option
        self,
        query: str | Query | SearchRequest,
        k: int = 10,
        offset: int = 0,
        where: Mapping[str, Any] | None = None,
        modalities: str | Iterable[str] | None = None,
        hybrid: bool = False,
        align: str | Aligner | None = None,
        min_probability: float | None = None,
        explain: bool = False,
        *,
        group: bool = False,
        calibration: str | None = None,
        rerank: str | Reranker | None = None,
        partial: bool = False,
    ) -> Hits:
        """Find the ``k`` best documents for words, a picture, both, or a vector.

        ``SearchRequest`` says what the options mean. ``search(SearchRequest(…))`` takes one that has them inside.
        """
        return self.search_many(
            [query],
            k,
            offset,
            where,
            modalities,
            hybrid,
            align,
            min_probability,
            explain,
            group=group,
            calibration=calibration,
            rerank=rerank,
            partial=partial,
        )[0]

    def search_many(  # noqa: PLR0913 - as search
        self,
        queries: Iterable[str | Query | SearchRequest],
        k: int = 10,
        offset: int = 0,
        where: Mapping[str, Any] | None = None,
        modalities: str | Iterable[str] | None = None,
        hybrid: bool = False,
        align: str | Aligner | None = None,
        min_probability: float | None = None,
        explain: bool = False,
        *,
        group: bool = False,
        calibration: str | None = None,
        rerank: str | Reranker | None = None,
        partial: bool = False,
    ) -> list[Hits]:
        """Search for several queries at once, in batches; the options are those of ``search``."""
        options = SearchRequest(
            "any",  # checked where there is no query, too
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
        requests = options.each(arguments.queries(queries))
        arguments.check_parts((one.asked for one in requests), self._store.parts)
        return self._searches.many(requests)

    def align(self, query: str | Query, align: str | Aligner) -> Aligned:
        """Return what a search with ``align`` makes of a query before it is searched."""
        return self._searches.aligned(Query.of(query), align)

    def maps(
        self, query: str | Query, hits: Sequence[Hit], *, progress: Callable[[int, int], None] | None = None
    ) -> list[Map]:
        """Return what each word and patch of the query and of these hits adds to their raw similarity.

        The query is what was searched: after an alignment, ``things.align(query, …).query``. Takes an encoder that can
        leave out words and patches, as ``mini`` and models of ``isthmus train fusion`` can.
        """
        asked, found = arguments.query(query), arguments.hits(hits)
        arguments.callback("progress", progress)
        return self.retry_if_reencoded(lambda: self._maps.maps(asked, found, progress or _ignore))

    @property
    def has_maps(self) -> bool:
        """Whether ``maps`` works with the encoder of this collection."""
        return self._maps.possible

    def calibrate(
        self,
        spec: str = "auto",
        queries: Iterable[str | Query | tuple[str | Query, str]] | None = None,
        *,
        means: Fitted | Vectors | Iterable[Document] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Calibrated:
        """Calibrate on what is there now; ``progress(done, steps)`` is called after each step.

        ``queries`` are your own reference queries, each with the id of its right document if you know it:
        ``("a cat", "cat.jpg")``. Those of words alone are kept for later calibrations, until others are given; ``[]``
        forgets them.

        ``means``: documents (or their raw vectors, or another fitted calibration) whose means ``center`` and ``dn``
        subtract, such as those of a training split; later re-fits keep them. Default: the collection's own.
        """
        if (why := self._handle.database.read_only()) is not None:
            raise CannotWrite(
                f"A calibration of {self.path} cannot be saved: {why}. Search it as it is (a "
                "search calibrates for its own process where nothing is saved), or calibrate a copy of your own."
            )
        own: Own = arguments.references(queries)
        arguments.callback("progress", progress)
        arguments.check_parts((query for query, _ in own), self._store.parts)
        for _, answer in own:
            if answer is not None and answer not in self:
                raise self._unknown(answer)
        self._log.flush()
        if queries is not None:
            self._log.keep(own)
            own = [(query, answer) for query, answer in own if not of_words(query)]
        tell, origin = progress or _ignore, calibrate.means_of(means, self._handle.load)
        return self.retry_if_reencoded(
            lambda: self._snapshots.calibrated(spec, own, replacing=True, means=origin, progress=tell)
        ).calibrated

    @property
    def calibration(self) -> Calibrated | None:
        """The calibration that is served; None before the first."""
        return self.retry_if_reencoded(self._snapshots.published)

    @property
    def calibration_spec(self) -> str:
        """The spec that was requested for this collection, or ``auto``."""
        return self._snapshots.requested_spec

    def calibrations(self) -> list[Calibrated]:
        """Return the calibrations that are kept, oldest first: the served one and a few before it."""

        def kept() -> list[Calibrated]:
            with self._handle.database.reading():
                served, numbers = self._snapshots.version(), self._store.calibrations.versions()
                return [self._snapshots.read(number) for number in numbers if number <= served]

        return self.retry_if_reencoded(kept)

    def use_calibration(self, version: int) -> Calibrated:
        """Serve an earlier calibration again, under a new number; later re-fits follow its spec."""
        known = [str(one.version) for one in self.calibrations()]
        if str(version) not in known:
            raise UnknownName(f"No calibration has the number {shown(version)}. {suggestion(str(version), known)}")
        if (why := self._handle.database.read_only()) is not None:
            raise CannotWrite(f"The calibration of {self.path} cannot be changed: {why}.")
        return self.retry_if_reencoded(lambda: self._snapshots.use_again(version)).calibrated

    def refresh(self) -> None:
        """Bring what is served up to date, and write it where the next process finds it."""
        self.retry_if_reencoded(self._snapshots.latest)
        self.retry_if_reencoded(self._snapshots.persist)

    @property
    def store(self) -> Store:
        """What the collection holds, to be read: documents and their raw vectors."""
        return self._store

    def snapshot(self, *, raw: bool = False) -> Snapshot:
        """Return what answers queries now: a calibration and the vectors folded by it; with ``raw``, plain cosine."""
        return self.retry_if_reencoded(self._snapshots.raw if raw else self._snapshots.latest)

    def references(self, own: Own = ()) -> ReferenceSets:
        """Return what a calibration is fitted and judged on now: sampled documents, and queries with their sources.

        ``own`` come first; those given to earlier calibrations, or logged, follow.
        """
        first = arguments.references(own)
        arguments.check_parts((query for query, _ in first), self._store.parts)
        return self.retry_if_reencoded(
            lambda: gather(self._store, self._handle.load(), [*first, *self._snapshots.own_queries()])
        )

    def export_vectors(self, path: str | PathLike[str], *, layout: str = MODALITY, queries: str | None = None) -> int:
        """Write plain folded vectors with ids and modalities, for any inner-product engine; return how many rows.

        ``layout`` and ``queries`` as in ``Fitted.fold``: for one index per modality, or for one index of everything.
        """

        def export() -> int:
            with self._snapshots.view() as view:
                return exported(view.snapshot, self._store, arguments.path(path), layout, queries)

        return self.retry_if_reencoded(export)

    @property
    def drifted(self) -> bool:
        """Whether documents have changed enough since the calibration that another one is worth its cost."""
        now = self.calibration
        return now is not None and self._snapshots.drifted(now.fitted.statistics)

    def log_queries(self, on: bool = True) -> None:
        """Keep the words of queries from now on, for the next calibration; ``on=False`` stops and forgets them."""
        self._log.switch(arguments.flag("on", on))

    def stats(self) -> Stats:
        """Return counts, sizes, the encoder, the calibration and drift."""
        self._log.flush()
        return self.retry_if_reencoded(lambda: stats(self.path, self._handle.database, self._snapshots))

    def verify(self) -> list[str]:
        """Read every byte of the store and of the index, and return what is damaged."""
        return self.retry_if_reencoded(lambda: [*self._store.problems(), *self._snapshots.problems()])

    def compact(self) -> Compacted:
        """Rewrite the store without the unused space of deleted documents, and the index if it is out of date.

        Needs free disk space of twice the store's size; searches continue meanwhile. The store is rewritten
        automatically when a third of it is unused.
        """
        with self._writing(alone=True):
            self.retry_if_reencoded(self._snapshots.tidy)
            return self._store.compact()

    def close(self) -> None:
        """Wait for background work, write the index for the next process, and close the files."""
        if self._handle.database.closed:
            return
        try:
            self._snapshots.worker.close()
            self._log.flush()
            if self._snapshots.current is not None:
                with suppress(CannotReach):  # the server gets what is new when it answers again
                    self.retry_if_reencoded(self._snapshots.persist)
        finally:
            self._handle.database.close()
            if self._handle.publisher is not None:
                self._handle.publisher.close()


def _removed(writer: Writer, names: Sequence[str]) -> int:
    """Remove documents together; one by one where they have more different parts than fit into one transaction."""
    try:
        return len(writer.remove(names))
    except BadVectors:
        if len(names) == 1:
            raise
        return sum(len(writer.remove([name])) for name in names)


def _ignore(*_: object) -> None:
    """Accept and ignore a report of progress."""


def _no_stages(_: str) -> Callable[[int, int], None]:
    """Accept and ignore the beginning of a stage."""
    return _ignore
