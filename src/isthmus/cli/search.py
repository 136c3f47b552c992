"""``isthmus search`` and ``export``: the verbs that read a collection."""

from __future__ import annotations

import json as js
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isthmus.atomic import replacing
from isthmus.calibration.layouts import MODALITY
from isthmus.cli import no_hits, progress, show
from isthmus.cli.opening import open_existing
from isthmus.cli.options import (
    Device,
    In,
    Json,
    Precision,
    Quiet,
    Threads,
    TrustRemoteCode,
    conditions,
    weights,
    writable,
)
from isthmus.cli.terminal import echo, echo_json
from isthmus.documents import Audio, Document, Image, Part, Query, Text
from isthmus.encoders.base import FULL
from isthmus.errors import CannotWrite, counted
from isthmus.kinds import IMAGE, TEXT
from isthmus.search import Collection, Hit, Hits, SearchRequest
from isthmus.search.json_forms import document_json, hit_json

if TYPE_CHECKING:
    from isthmus.align import Aligned

SILENT = logging.NullHandler()


def search(  # noqa: PLR0913 - one name per option
    into: In,
    words: Annotated[list[str] | None, typer.Argument(help="what to look for, in words")] = None,
    image: Annotated[
        list[Path] | None, typer.Option(help="a picture to search with, alone or with words; several with --align")
    ] = None,
    audio: Annotated[Path | None, typer.Option(help="a sound to search with, alone or with words")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="number of hits")] = 10,
    offset: Annotated[int, typer.Option(min=0, help="number of first hits to skip")] = 0,
    where: Annotated[
        list[str] | None,
        typer.Option(help="filter by metadata: lang=en, year>=2000, lang!=de, lang=en,de, or a JSON object"),
    ] = None,
    modality: Annotated[
        list[str] | None,
        typer.Option(help="text, image or image+text; a minus sign excludes one: --modality=-text"),
    ] = None,
    hybrid: Annotated[bool, typer.Option(help="match the words themselves as well (BM25)")] = False,
    align: Annotated[
        str | None,
        typer.Option(
            help="change the query first: caption (pictures become words), forge-mini or forge:hf:NAME (a chat becomes "
            "a query) …, auto, none"
        ),
    ] = None,
    min_probability: Annotated[
        float | None, typer.Option(min=0, max=1, help="leave out hits with a lower P(match)")
    ] = None,
    group: Annotated[bool, typer.Option(help="group near-duplicates under the best of them")] = False,
    explain: Annotated[bool, typer.Option(help="show how each score was computed")] = False,
    rerank: Annotated[
        str | None,
        typer.Option(
            help="reorder the hits by a model that reads query and document: onnx:FOLDER, "
            "st:CROSS-ENCODER or http:cohere:MODEL"
        ),
    ] = None,
    explain_maps: Annotated[
        Path | None,
        typer.Option(help="write an HTML page that shows which words and image patches made each hit: maps.html"),
    ] = None,
    partial: Annotated[
        bool, typer.Option(help="answer without the shards of a server that do not answer, instead of failing")
    ] = False,
    calibration: Annotated[str | None, typer.Option(help="none: rank by raw cosine similarity, for comparison")] = None,
    part_weights: Annotated[
        str | None,
        typer.Option("--weights", envvar="ISTHMUS_SEARCH_WEIGHTS", help="weights of words and picture: text=2,image=1"),
    ] = None,
    device: Device = "cpu",
    precision: Precision = FULL,
    trust_remote_code: TrustRemoteCode = False,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Find documents by words, a picture or both, in one ranking that is fair to texts and images.

        isthmus search "a cat on a red sofa" --in things.isthmus

        isthmus search "the same in green" --image sofa.jpg --in things.isthmus -k 5 --where lang=en

        isthmus search "a red parrot on a branch" --in things.isthmus --explain-maps maps.html

        isthmus search "what is wrong here" --image shot.png --align forge-mini --explain --in things.isthmus

    Each line shows the rank, P(match) as a bar and a percentage (the probability that the hit is right), the calibrated
    score, the modality, the id, and the sentence that matches best.
    """
    text = " ".join(words or [])
    if not image and audio is None and not text.strip():
        raise typer.BadParameter('Give a query: isthmus search "a red sofa", or --image FILE, or both.')
    if calibration not in (None, "none"):
        raise typer.BadParameter(f"--calibration takes none, not {calibration}. To change it, see isthmus calibrate.")
    writable(explain_maps)
    pictures = [str(path) for path in image or []]
    parts = [*([Text(text)] if text else []), *map(Image, pictures), *([Audio(audio)] if audio is not None else [])]
    query = Query(weights=weights(part_weights), parts=parts)
    request = SearchRequest(
        query,
        k=k,
        offset=offset,
        where=conditions(where or []),
        modalities=modality,
        hybrid=hybrid,
        align=align,
        min_probability=min_probability,
        explain=explain or align is not None,  # an aligner says in the explanation that it failed
        group=group,
        calibration=calibration,
        rerank=rerank,
        partial=partial,
    )
    with open_existing(into, device, precision, threads, trust_remote_code=trust_remote_code) as things:
        found, aligned = _searched(things, request, explain=explain)
        if explain_maps is not None:
            searched = query if align is None else things.align(query, align).query
            _maps(things, searched, found, explain_maps, quiet=json)
        if json:
            forms = [hit_json(hit) for hit in found]
            echo_json({"hits": forms, "missing": list(found.missing)} if partial else forms)
        else:
            if explain and align is not None:
                show.alignment(aligned or things.align(query, align))
            show.hits(found, text, explain=explain)
            if not found:
                no_hits.explain(things, query, where or [], modality or [], min_probability, align, offset)
            if explain_maps is not None:
                echo(f"\nThe maps are in {explain_maps}")
        show.used(things, err=True)
        if things.drifted and not json:
            echo(
                f"The documents have drifted since the calibration. Run: isthmus calibrate --in {things.path}", err=True
            )


def _searched(things: Collection, request: SearchRequest, *, explain: bool) -> tuple[Hits, Aligned | None]:
    """Return the hits, explained if asked for, and how the query was aligned; say what failed on the way."""
    logging.getLogger("isthmus.align").addHandler(SILENT)  # said here, on one line and for every query
    found = things.search(request)
    if found.missing:
        echo(f"The answer is partial: {', '.join(found.missing)} did not answer.", err=True)
    aligned = found[0].explanation.aligned if found and found[0].explanation is not None else None
    if explain:
        return found, aligned
    show.failed_alignment(aligned)
    return Hits((replace(hit, explanation=None) for hit in found), found.missing), aligned


def _maps(things: Collection, query: Query, found: Sequence[Hit], page: Path, *, quiet: bool) -> None:
    """Write the page of maps atomically."""
    from isthmus.diagnose.maps import maps_page

    with progress.counting("drawing maps", "hits", quiet=quiet) as update:
        written = maps_page(query, things.maps(query, found, progress=update), str(things.path))
    try:
        with replacing(page) as draft:
            draft.write_text(written, encoding="utf-8", errors="replace")  # a file name may contain lone surrogates
    except OSError as error:
        raise CannotWrite(f"{page} cannot be written: {error.strerror or error}.") from None


def export(
    into: In,
    to: Annotated[Path, typer.Option(help="the file to write: NAME.jsonl, NAME.npz or NAME.calibration")],
    layout: Annotated[
        str, typer.Option(help="of NAME.npz: 'modality' for one index per modality, 'one' for one index of everything")
    ] = MODALITY,
    queries: Annotated[
        str | None, typer.Option(help="the modality of the queries that layout 'one' serves, as in 'text'")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Export a collection: its documents, its folded vectors for another search engine, or its calibration.

    NAME.jsonl holds documents that `isthmus index` can read; NAME.npz holds vectors, ids and modalities for any
    inner-product engine; NAME.calibration maps queries and inner products to scores (isthmus.calibration.load).
    """
    writable(to)
    with Collection.open(into, create=False, follow=False) as things:
        try:
            count, what = _export(things, to, layout, queries, quiet=quiet or json)
        except OSError as error:
            raise CannotWrite(f"{to} cannot be written: {error.strerror or error}.") from None
        if json:
            echo_json({"written": str(to), "count": count})
        else:
            echo(f"Wrote {counted(count, what)} to {to}")


def _export(things: Collection, to: Path, layout: str, queries: str | None, *, quiet: bool) -> tuple[int, str]:
    """Write the file; return the number and the name of the things in it."""
    if to.suffix != ".npz" and (layout != MODALITY or queries is not None):
        raise typer.BadParameter("--layout and --queries belong to vectors. Name the file NAME.npz, or leave them out.")
    if to.suffix == ".jsonl":
        count, total = 0, len(things)
        bar = progress.counting("exporting", "documents", quiet=quiet)
        with replacing(to) as draft, draft.open("w", encoding="utf-8") as file, bar as update:
            for count, document in enumerate(things, 1):
                file.write(js.dumps(_row(document)) + "\n")
                update(count, max(total, count))
        return count, "document"
    if to.suffix == ".npz":
        with progress.waiting("exporting vectors", quiet=quiet):
            return things.export_vectors(to, layout=layout, queries=queries), "vector"
    if to.suffix == ".calibration":
        calibrated = things.calibration or things.snapshot().calibrated  # it may be unsaved: a read-only collection
        calibrated.fitted.save(to)
        return 1, "calibration"
    raise typer.BadParameter(f"{to.name} does not end in .jsonl, .npz or .calibration. Name it after what to export.")


def usual(document: Document) -> list[Part]:
    """Return a document's first text and first image: what a row has fields for."""
    first = {part.kind: part for part in reversed(document.parts)}
    return [first[kind] for kind in (TEXT, IMAGE) if kind in first]


def _row(document: Document) -> dict[str, Any]:
    """Return a document as a row that `isthmus index` can read, with the bytes of a picture that has no file."""
    row: dict[str, Any] = {**document_json(document)}
    del row["parts"]
    parts = [part.to_json() for part in document.parts]
    if document == Document.restored(document.id, usual(document), document.metadata, document.vectors):
        image = next((part for part in parts if part["kind"] == IMAGE), None)
        row[IMAGE] = image and (image["path"] or image["content"])
    else:
        row = {**{name: value for name, value in row.items() if name not in (TEXT, IMAGE)}, "parts": parts}
    vectors = {part: vector.tolist() for part, vector in document.vectors.items()}
    return row | ({"vectors": vectors} if vectors else {})
