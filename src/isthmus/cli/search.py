"""``isthmus search``, ``stats``, ``export``: what looks into a collection."""

from __future__ import annotations

import json as js
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from isthmus.atomic import replacing
from isthmus.cli import show
from isthmus.cli.options import Device, In, Json, Threads, conditions, names_in, weights
from isthmus.cli.terminal import echo, echo_json, line
from isthmus.documents import Document, Query
from isthmus.errors import CannotWrite
from isthmus.registry import suggestion
from isthmus.search import Collection, Hit, Stats


def search(  # noqa: PLR0913 - one name per option
    into: In,
    words: Annotated[list[str] | None, typer.Argument(help="what is looked for, in words")] = None,
    image: Annotated[
        list[Path] | None, typer.Option(help="a picture to ask with, alone or beside the words; several with --align")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="how many hits")] = 10,
    offset: Annotated[int, typer.Option(min=0, help="leave out so many of the first")] = 0,
    where: Annotated[
        list[str] | None, typer.Option(help="metadata: lang=en, year>=2000, lang!=de, lang=en,de, or a JSON object")
    ] = None,
    modality: Annotated[
        list[str] | None, typer.Option(help="text, image, image+text; with a minus sign: not these (--modality=-text)")
    ] = None,
    hybrid: Annotated[bool, typer.Option(help="weigh the words themselves as well (BM25)")] = False,
    align: Annotated[
        str | None, typer.Option(help="put pictures into words first: auto, caption, forge-mini, forge:hf:NAME …, none")
    ] = None,
    min_probability: Annotated[
        float | None, typer.Option(min=0, max=1, help="leave out hits less likely to match; there may be none left")
    ] = None,
    group: Annotated[bool, typer.Option(help="put near-duplicates under the first of them")] = False,
    explain: Annotated[bool, typer.Option(help="say how each score came about")] = False,
    rerank: Annotated[
        str | None, typer.Option(help="order the hits again by a model that reads both: mini-fusion, or onnx:FOLDER")
    ] = None,
    explain_maps: Annotated[
        Path | None, typer.Option(help="write a page that shows which words and patches made each hit: maps.html")
    ] = None,
    calibration: Annotated[str | None, typer.Option(help="none: rank by raw cosine, for comparison")] = None,
    part_weights: Annotated[
        str | None,
        typer.Option("--weights", envvar="ISTHMUS_SEARCH_WEIGHTS", help="what words and picture count: text=2,image=1"),
    ] = None,
    device: Device = "cpu",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Find documents by words, a picture or both; one list, in which each kind of document has its fair place.

        isthmus search "a cat on a red sofa" --in things.isthmus

        isthmus search "the same in green" --image sofa.jpg --in things.isthmus -k 5 --where lang=en

        isthmus search "a red parrot on a branch" --in things.isthmus --explain-maps maps.html

        isthmus search "what is wrong here" --image shot.png --align forge-mini --explain --in things.isthmus

    The bar and the percentage are P(match): how likely the hit is a right answer. Then come the calibrated score, the
    kind of document, its id, and where it matched.
    """
    text = " ".join(words or [])
    if not image and not text.strip():
        raise typer.BadParameter('Say what to look for: isthmus search "a red sofa", or --image FILE, or both.')
    if calibration not in (None, "none"):
        raise typer.BadParameter(f"--calibration is none or left out, not {calibration}: see isthmus calibrate.")
    if explain_maps is not None and not explain_maps.parent.is_dir():
        raise CannotWrite(f"{explain_maps} cannot be written: there is no folder {explain_maps.parent}. Make it first.")
    pictures = [str(path) for path in image or []]
    query = Query(text or None, next(iter(pictures), None), weights(part_weights), more_images=pictures[1:])
    with Collection.open(into, create=False, follow=False, device=device, threads=threads) as things:
        found = things.search(
            query,
            k,
            offset,
            where=conditions(where or []),
            modalities=modality,
            hybrid=hybrid,
            align=align,
            min_probability=min_probability,
            explain=explain,
            group=group,
            calibration=calibration,
            rerank=rerank,
        )
        if explain_maps is not None:
            searched = query if align is None else things.align(query, align).query
            _maps(things, searched, found, explain_maps, quiet=json)
        if json:
            echo_json([show.hit_json(hit) for hit in found])
        else:
            if explain and align is not None:
                told = found[0].explanation if found else None
                show.alignment(told.aligned if told is not None else things.align(query, align))
            show.hits(found, text, explain=explain)
            _why_nothing(things, found, query, where or [], min_probability, align)
            if explain_maps is not None:
                echo(f"\nThe page with maps is {explain_maps}")
        if things.drifted and not json:
            echo(f"the documents have drifted since the calibration: isthmus calibrate --in {into}", err=True)


def _maps(things: Collection, query: Query, found: Sequence[Hit], page: Path, *, quiet: bool) -> None:
    """Write the page of maps, all of it or nothing."""
    from isthmus.diagnose.maps import maps_page

    with show.counting("maps", "writing the page", quiet=quiet) as progress:
        written = maps_page(query, things.maps(query, found, progress=progress), str(things.path))
    try:
        with replacing(page) as draft:
            draft.write_text(written, encoding="utf-8", errors="replace")  # a file's name may hold what no page can
    except OSError as error:
        raise CannotWrite(f"{page} cannot be written: {error.strerror or error}.") from None


def _why_nothing(
    things: Collection,
    found: Sequence[Hit],
    query: Query,
    where: Sequence[str],
    least: float | None,
    align: str | None,
) -> None:
    """Say on stderr what kept everything out: a name that no document has, or a probability that none reaches."""
    if found:
        return
    known = things.fields()
    for name in names_in(where):
        if name not in known:
            echo(f"no document has metadata called {name!r}. {suggestion(name, known)}", err=True)
    best = things.search(query, 1, where=conditions(list(where)), align=align) if least is not None else []
    if best and best[0].probability is not None:
        echo(f"the best hit is {best[0].id!r}, with {best[0].probability:.0%}", err=True)


def stats(
    into: In,
    verify: Annotated[bool, typer.Option("--verify", help="read every byte and say what is damaged")] = False,
    json: Json = False,
) -> None:
    """Say what a collection holds: documents, encoder, calibration, drift, index, sources, what was skipped."""
    with Collection.open(into, create=False, follow=False) as things:
        told = things.stats()
        problems = things.verify() if verify else []
    if json:
        echo_json({**asdict(told), **({"problems": problems} if verify else {})})
    else:
        _told(told)
        if verify:
            echo("\n".join(["damaged:", *map(line, problems)]) if problems else "every byte is as it was written")
    if problems:
        raise typer.Exit(1)


def _told(told: Stats) -> None:
    total = sum(told.documents.values())
    kinds = ", ".join(f"{count:,} {name}" for name, count in told.documents.items())
    lines = [("collection", told.path), ("documents", f"{total:,}" + (f": {kinds}" if kinds else ""))]
    lines += [("size", f"{told.bytes['store'] / 1e6:,.1f} MB store, {told.bytes['index'] / 1e6:,.1f} MB index")]
    checksum = str(told.encoder["identity"])[:12]
    lines += [("encoder", f"{told.encoder['encoder']}, {told.encoder['dim']} dimensions, checksum {checksum}")]
    if told.reencoding is not None:
        lines += [("re-encoding", show.unfinished(told.path, told.reencoding))]
    lines += [("schema", f"{told.schema}, after {told.changes:,} changes")]
    lines += [("index", f"{name}: {kind}") for name, kind in told.index.items()]
    lines += [("source", f"{root}: {count:,} files") for root, count in told.sources.items()]
    lines += [("drift", f"{part}: {value:.3f} radii since the fit") for part, value in told.drift.items()]
    if told.logged is not None:
        lines += [("query log", f"on, {told.logged:,} queries")]
    if told.trouble:
        lines += [("trouble", told.trouble)]
    for name, value in lines:
        echo(f"{name:<12} {line(value)}")
    if told.calibration is None:
        echo("calibration  none yet: the first search makes it")
    else:
        echo(f"calibrated   {told.calibration['made']}, version {told.calibration['version']}")
        echo(told.calibration["described"])
        for name, value in told.calibration["match"].items():
            if value:
                echo(f"P(match)     {name} queries: AUROC {value['auroc']:.3f}, ECE {value['ece']:.3f}")
    for place, why in told.skipped:
        echo(f"skipped      {place!r}: {line(why)}")


def export(
    into: In,
    to: Annotated[Path, typer.Option(help="the file to write: .jsonl documents, .npz folded vectors, .calibration")],
    json: Json = False,
) -> None:
    """Take a collection elsewhere: its documents, its folded vectors for any engine, or its calibration.

    NAME.jsonl holds documents that `isthmus index` reads again; NAME.npz holds plain vectors, ids and modalities for
    any inner-product engine; NAME.calibration holds what maps queries and inner products to scores
    (isthmus.calibration.load).
    """
    with Collection.open(into, create=False, follow=False) as things:
        try:
            count = _export(things, to)
        except OSError as error:
            raise CannotWrite(f"{to} cannot be written: {error.strerror or error}.") from None
        if json:
            echo_json({"written": str(to), "count": count})
        else:
            echo(f"{count:,} written to {to}")


def _export(things: Collection, to: Path) -> int:
    if to.suffix == ".jsonl":
        count = 0
        with to.open("w", encoding="utf-8") as file:
            for document in things:
                file.write(js.dumps(_row(document)) + "\n")
                count += 1
        return count
    if to.suffix == ".npz":
        return things.export_vectors(to)
    if to.suffix == ".calibration":
        calibrated = things.calibration or things.served().calibrated  # saved nowhere if it cannot be
        calibrated.fitted.save(to)
        return 1
    raise typer.BadParameter(f"{to.name} ends in {to.suffix or 'nothing'}: name a file .jsonl, .npz or .calibration.")


def _row(document: Document) -> dict[str, Any]:
    """Return a document as a row that `isthmus index` reads again; a picture that is kept here goes along."""
    row = show.document_json(document)
    if isinstance(document.image, bytes):
        row["image"] = f"data:;base64,{b64encode(document.image).decode()}"
    vectors = {part: vector.tolist() for part, vector in document.vectors.items()}
    return row | ({"vectors": vectors} if vectors else {})
