"""MixBench: four corpora in which texts, images and documents of both compete, a third of each.

    DIR/SUBSET/queries.jsonl       {"query_id", "text"?, "image"?}
    DIR/SUBSET/mixed_corpus.jsonl  {"corpus_id", "text"?, "image"?}; corpus.jsonl holds the same before the mixing
    DIR/SUBSET/qrels/qrels.tsv     query_id ⇥ corpus_id ⇥ score
    DIR/SUBSET/images/…            the pictures that the rows name

is the first published layout (MixBench25, MixBench2025). MixBench2026 has ``queries.parquet`` and
``mixed_corpus.parquet`` instead, with ``id``, ``text`` and ``image`` (the bytes of the file, which are kept in
memory), and lacks the qrels: copy ``qrels/qrels.tsv`` from the first. SUBSET is MSCOCO, Google_WIT, VisualNews or
OVEN (whose questions have a picture too): ``mixbench:MSCOCO``, or DIR itself; ``mixbench:MSCOCO,corpus`` uses the
corpus before the mixing. There is no other split for references. Reference: Li et al., Closing the Modality Gap for
Mixed Modality Search, 2025 (arXiv 2507.19054), Section 5.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isthmus.documents import Document, Query
from isthmus.errors import BadInput
from isthmus.evaluate.benchmarks.base import Benchmark, Question
from isthmus.evaluate.benchmarks.files import BenchmarkFolder, Row, judgements, picture, rows, words
from isthmus.registry import lookup

HOME = "https://huggingface.co/datasets/mixed-modality-search/MixBench2025"
SUBSETS = ("MSCOCO", "Google_WIT", "VisualNews", "OVEN")
CHOICES = {name: name for name in (*SUBSETS, "corpus")}


def load(data: Path, chosen: Sequence[str]) -> Benchmark:
    """Read a subset, in either of the two layouts."""
    names = [lookup(CHOICES, word, "subset of mixbench") for word in chosen]
    subsets = [name for name in names if name != "corpus"]
    corpus = "corpus" if "corpus" in names else "mixed_corpus"
    folder = BenchmarkFolder(data, "mixbench", HOME)
    if len(subsets) > 1 or (not subsets and any((data / subset).is_dir() for subset in SUBSETS)):
        raise BadInput(f"mixbench is {len(SUBSETS)} corpora: choose one, as in mixbench:{SUBSETS[0]}.")
    if subsets and data.name != subsets[0]:
        folder = folder.inside(subsets[0])
    documents = [
        Document(_id(row, "corpus_id"), words(row.get("text")), _image(row, folder))
        for row in rows(folder.file(f"{corpus}.jsonl", f"{corpus}.parquet"))
    ]
    qrels = judgements(folder.file("qrels/qrels.tsv", "qrels.tsv", "qrels.parquet"), "query_id", "corpus_id")
    questions = [
        Question(key, Query(words(row.get("text")), _image(row, folder)))
        for row in rows(folder.file("queries.jsonl", "queries.parquet"))
        if (key := _id(row, "query_id")) in qrels
    ]
    return Benchmark(":".join(["mixbench", *names]), documents, questions, qrels)


def _id(row: Row, name: str) -> str:
    key: Any = row.get(name, row.get("id"))
    if key is None:
        raise BadInput(f"A row of mixbench has neither {name!r} nor 'id'; it has {', '.join(row)}.")
    return str(key)


def _image(row: Row, folder: BenchmarkFolder) -> Path | bytes | None:
    found = picture(row.get("image"), folder.path / "images")
    if isinstance(found, Path) and not found.exists():
        beside = folder.path / str(row["image"])  # some rows include the folder
        return beside if beside.exists() else found
    return found
