"""The benchmark of mixtures with ``mini``: raw cosine, the published methods and ``auto``, by slice.

    python reproduce/mixtures.py --data DIR --packs PACKS [--mixtures OUT] [--cache CACHE] [--held-out]
                                        (builds the mixtures if OUT has none; half an hour, five minutes from the cache)

Each mixture is a collection that gets only its documents, as people use it; every calibration is fitted on what the
collection generates and on the built-in bank. ``none`` and ``auto`` are searches of the collection; the others are the
methods as published, on the same vectors, without what a collection adds (identical pictures first).

nDCG@10 by slice (modality of the question → modality of the best document), their mean, what ``auto`` gains over
``none`` with its paired 95% interval, and *identical*: the share of
questions by an identical picture whose first hit has it, picture to picture and where the question or the document has
a text too. Methods are designed on the mixtures named ``-dev``. The others run only with ``--held-out``. ``dbnorm``
also needs documents that are not searched: those of ``emoji-dev`` (for ``emoji-dev`` those of ``photos-dev``).

For one's own experiments with arrays, ``corpus(OUT, "photos-dev", CACHE)`` returns a mixture with its vectors.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mixtures_set
import numpy as np
from tables import Row, arguments, compared

from isthmus import Collection, Query, calibration, encoders
from isthmus.encoders.base import Encoder
from isthmus.encoders.references import SHIPPED_QUERIES, bank_vectors
from isthmus.evaluate import Corpus, References, run_of, values
from isthmus.evaluate.benchmarks import Benchmark, load, mixtures
from isthmus.evaluate.compare import in_blocks
from isthmus.evaluate.encode import passages
from isthmus.evaluate.intervals import Interval, interval, macro
from isthmus.types import Vectors

PUBLISHED = ("center", "dn", "standardize", "nnn(k=16)", "qbnorm", "dbnorm", "center+nnn(k=16)+standardize")
SPECS = ("none", *PUBLISHED, "auto", "auto, hybrid")
OPTIONS = {
    "packs": "packed photos and drawings",
    "mixtures": "the mixtures; default: out/mixtures",
    "cache": "vectors and collections; default: out/mixtures-cache",
    "specs": "calibrations, separated by semicolons; default: all",
}
MEASURE = "nDCG@10"
K = 10
IDENTICAL = ("identical, with text", "identical")
GALLERY = "dbnorm"  # needs documents that are not searched


def mini(cache: Path) -> Encoder:
    """Return the encoder; what it encodes stays in the cache."""
    return encoders.load("mini", batch=32, cache=cache / "vectors")


def corpus(folder: Path, name: str, cache: Path) -> Corpus:
    """Return a mixture as arrays, its vectors from the cache if they are there.

    ``documents`` has a row per passage, of the document ``document_ids[owner[row]]``; ``types`` the slice of each
    question; ``references`` the built-in bank.
    """
    benchmark = load(f"mixtures:{name}", folder)
    file, encoder = cache / f"{name}.npz", mini(cache)
    if not file.exists():
        ids, documents, owner = passages(encoder, benchmark.documents, None)
        queries = encoder.encode_queries([question.query for question in benchmark.questions])
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(file, ids=ids, owner=owner, **_arrays("document", documents), **_arrays("query", queries))
    with np.load(file) as held:
        return Corpus(
            document_ids=held["ids"].tolist(),
            documents=_vectors("document", held),
            owner=held["owner"],
            query_ids=[question.id for question in benchmark.questions],
            queries=_vectors("query", held),
            qrels=benchmark.qrels,
            types={question.id: question.kind for question in benchmark.questions},
            references=References(queries=bank_vectors(encoder, limit=SHIPPED_QUERIES)),
            benchmark=benchmark.name,
            encoder="mini",
        )


def collection(benchmark: Benchmark, cache: Path) -> Collection:
    """Return a collection of the documents, made if it is not in the cache."""
    name = benchmark.name.removeprefix("mixtures:")
    things = Collection.open(cache / f"{name}.isthmus", encoder=mini(cache), follow=False)
    if not len(things):
        things.add(benchmark.documents)
    return things


def encoded_queries(benchmark: Benchmark, encoded: Corpus, *, files: bool = True) -> list[Query]:
    """Return the questions with their vectors, so that no search encodes them again.

    ``files``: a question keeps its picture, whose hash the collection looks up, as it does for people.
    """
    held = encoded.queries
    return [
        Query(
            question.query.text,
            image=question.query.image if files else None,
            vectors={part: held.parts[part][row] for part in held.parts if held.present[part][row]},
        )
        for row, question in enumerate(benchmark.questions)
    ]


def identical(benchmark: Benchmark) -> dict[str, set[str]]:
    """Return the documents that have the same picture file as a question, for each question where there are any."""
    holders: dict[Any, set[str]] = {}
    for document in benchmark.documents:
        holders.setdefault(document.image, set()).add(document.id)
    asked = {question.id: question.query.image for question in benchmark.questions}
    return {key: holders[image] for key, image in asked.items() if image is not None and image in holders}


Run = dict[str, dict[str, float]]


def measured(benchmark: Benchmark, run: Run) -> dict[str, float]:
    """Return the measure of each slice, their mean, and the shares of identical pictures found first."""
    found = values(MEASURE, run, benchmark.qrels)
    by_slice: dict[str, list[float]] = {}
    first: dict[str, list[bool]] = {}
    same, modality = identical(benchmark), {document.id: document.modality for document in benchmark.documents}
    for question in benchmark.questions:
        by_slice.setdefault(question.kind, []).append(found[question.id])
        if right := same.get(question.id):
            alone = {question.query.modality, *map(modality.__getitem__, right)} == {"image"}
            hits = run[question.id]
            first.setdefault(IDENTICAL[alone], []).append(max(hits, key=hits.__getitem__, default="") in right)
    means = {name: float(np.mean(by_slice[name])) for name in sorted(by_slice)}
    shares = {name: float(np.mean(first[name])) for name in reversed(IDENTICAL) if name in first}
    return {**means, "mean": float(np.mean(list(means.values()))), **shares}


def gains(benchmark: Benchmark, run: Run, raw: Run) -> dict[str, Interval]:
    """Return what a run gains over raw cosine, with a paired 95% interval: of each slice, and of their mean."""
    after, before = (values(MEASURE, one, benchmark.qrels) for one in (run, raw))
    gained = {question.id: after[question.id] - before[question.id] for question in benchmark.questions}
    kinds = {question.id: question.kind for question in benchmark.questions}
    by_slice = {kind: interval([gained[one] for one in kinds if kinds[one] == kind]) for kind in set(kinds.values())}
    return {**by_slice, "mean": macro(gained, kinds)}


def runs(folder: Path, name: str, cache: Path, specs: Sequence[str]) -> dict[str, Run]:
    """Search a mixture under each calibration; return the runs."""
    benchmark = load(f"mixtures:{name}", folder)
    encoded = corpus(folder, name, cache)
    asked = encoded_queries(benchmark, encoded)
    out: dict[str, Run] = {}
    fitted = "none"
    with collection(benchmark, cache) as things:
        for wanted in specs:
            spec, _, hybrid = wanted.partition(", ")
            if spec in PUBLISHED:
                other = "photos-dev" if name == "emoji-dev" else "emoji-dev"
                gallery = corpus(folder, other, cache).documents if spec == GALLERY else None
                out[wanted] = as_published(spec, things, encoded, gallery)
                continue
            if spec not in ("none", fitted):
                print(f"{name}: {spec} = {things.calibrate(spec).fitted.spec}", file=sys.stderr)
                fitted = spec
            hits = things.search_many(asked, K, hybrid=bool(hybrid), calibration="none" if spec == "none" else None)
            out[wanted] = {
                question.id: {hit.id: float(K - hit.rank) for hit in some}
                for question, some in zip(benchmark.questions, hits, strict=True)
            }
    return out


def as_published(spec: str, things: Collection, encoded: Corpus, gallery: Vectors | None) -> Run:
    """Rank by the equations of a method, fitted on the references of the collection."""
    real = things.references().real
    place = {name: row for row, name in enumerate(encoded.document_ids)}
    sources = np.array([place[real.ids[row]] if row >= 0 else -1 for row in real.sources])
    fitted = calibration.fit(
        spec, real.documents, real.queries, sources=real.sources, owner=real.owner, reference_documents=gallery
    )
    run: Run = {}
    for rows, scores in in_blocks(fitted, encoded.queries, encoded.documents, encoded.owner, sources):
        run |= run_of(scores, encoded.query_ids[rows], encoded.document_ids, K)
    return run


def _arrays(prefix: str, vectors: Vectors) -> dict[str, Any]:
    parts = {f"{prefix} {part}": matrix for part, matrix in vectors.parts.items()}
    return parts | {f"{prefix} has {part}": mask for part, mask in vectors.present.items()}


def _vectors(prefix: str, held: Mapping[str, Any]) -> Vectors:
    parts = [name.removeprefix(f"{prefix} has ") for name in held if name.startswith(f"{prefix} has ")]
    return Vectors(
        {part: held[f"{prefix} {part}"] for part in parts}, {part: held[f"{prefix} has {part}"] for part in parts}
    )


def table(folder: Path, cache: Path, group: str, specs: Sequence[str]) -> list[Row]:
    """Measure every mixture of a group; return a row per mixture and slice, and the means over mixtures."""
    rows: list[Row] = []
    for name in mixtures.names(folder, group):
        benchmark = load(f"mixtures:{name}", folder)
        found = runs(folder, name, cache, specs)
        columns = {spec: measured(benchmark, run) for spec, run in found.items()}
        gained = gains(benchmark, found["auto"], found["none"]) if {"auto", "none"} <= found.keys() else {}
        rows += [
            {"mixture": name, "slice": part, **{spec: columns[spec][part] for spec in specs}, **_gain(gained.get(part))}
            for part in columns[specs[0]]
        ]
    for part in ("mean", *reversed(IDENTICAL)):
        of = [row for row in rows if row["slice"] == part]
        means: Row = {spec: float(np.mean([row[spec] for row in of])) for spec in specs}
        rows.append({"mixture": f"all {group}", "slice": part, **means, **_gain(None)})
    return rows


def _gain(found: Interval | None) -> Row:
    return dict(zip(("auto gains", "from", "to"), ("", "", "") if found is None else found, strict=True))


if __name__ == "__main__":
    options = arguments(__doc__, OPTIONS, {"held-out": "run the held-out mixtures, not those for design"})
    place, group = Path(options.mixtures or "out/mixtures"), "held-out" if options.held_out else "dev"
    if not place.exists():
        mixtures_set.build(options.data, Path(options.packs), place)
    chosen = tuple(options.specs.split(";")) if options.specs else SPECS
    found = table(place, Path(options.cache or "out/mixtures-cache"), group, chosen)
    raise SystemExit(compared("mixtures_held_out" if options.held_out else "mixtures", found, options.write))
