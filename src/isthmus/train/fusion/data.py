"""Documents of text and image, and what is asked of them, in the layout of the Mr. Right benchmark.

    DIR/multimodal_pretrain_pairs.json      [{"id", "doc_text", "doc_image", "query_text", "query_img"}]
    DIR/multimodal_finetune_pairs.json      the same; ``query_multi`` too, where people wrote it
    DIR/multimodal_val_pairs.json           the same, to decide by; or multimodal_val_queries.json, whose documents are
    DIR/multimodal_documents.json           among these
    DIR/images/                             the pictures

A row may say ``text_id`` and ``image_id``, where a text or a picture stands in several documents: then it is no wrong
answer there. A mixed query that is not given is the two others, in an order drawn by chance; one that people wrote is
read where queries are not parted (``pool="mean"``), for nobody says which of its words ask for what. A row whose
picture is not there, or without one of the queries, is left out, and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isthmus.errors import BadInput
from isthmus.evaluate.benchmarks.files import BenchmarkFolder, Row, picture, rows, words
from isthmus.evaluate.benchmarks.mr_right import HOME
from isthmus.queries.kinds import IMAGE, KINDS, MIXED, TEXT

PAIRS = "multimodal_{}_pairs.json"
NAMES = {TEXT: "query_text", IMAGE: "query_img", MIXED: "query_multi"}


@dataclass(frozen=True, slots=True)
class TrainingPair:
    """A document, and what is asked of it by kind."""

    text_id: str
    image_id: str
    text: str
    image: Path
    queries: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TrainingPairs:
    """Pairs to learn from, in the order of the stages, those to decide by, and how many rows said too little."""

    stages: Mapping[str, Sequence[TrainingPair]]
    held: Sequence[TrainingPair]
    left_out: int = 0


def read(data: Path, *, seed: int = 0) -> TrainingPairs:
    """Read a set; a stage whose file is not there is left out, but one must be."""
    folder = BenchmarkFolder(data, "a set to train fusion on", HOME)
    rng = np.random.default_rng(seed)
    found = {
        stage: [_pair(row, data, rng) for row in rows(path, "id", "doc_text", "doc_image")]
        for stage in ("pretrain", "finetune")
        if (path := folder.find(PAIRS.format(stage))) is not None
    }
    if not found:
        folder.file(PAIRS.format("pretrain"))  # says what is missing
    found["held"] = [_pair(row, data, rng) for row in _held(folder)]
    kept = {stage: [pair for pair in pairs if pair is not None] for stage, pairs in found.items()}
    if empty := [stage for stage, pairs in kept.items() if not pairs]:
        raise BadInput(
            f"{data}: no row of {empty[0]} has a text, a picture and queries about both. Look at doc_image: it names a "
            "file in images/."
        )
    lost = sum(len(found[stage]) - len(kept[stage]) for stage in found)
    return TrainingPairs({stage: kept[stage] for stage in kept if stage != "held"}, kept["held"], lost)


def _held(folder: BenchmarkFolder) -> list[Row]:
    """Return the rows to decide by: with their documents, or by id."""
    pairs, queries = PAIRS.format("val"), "multimodal_val_queries.json"
    if (path := folder.file(pairs, queries)).name == pairs:
        return list(rows(path, "id", "doc_text", "doc_image"))
    asked = {str(row["id"]): row for row in rows(path, "id")}
    documents = rows(folder.file("multimodal_documents.json"), "id", "doc_text")
    return [{**row, **asked[str(row["id"])]} for row in documents if str(row["id"]) in asked]


def _pair(row: Row, data: Path, rng: np.random.Generator) -> TrainingPair | None:
    said = {kind: text for kind, name in NAMES.items() if (text := words(row.get(name)))}
    swap = rng.random() < 0.5  # drawn always: what a row lacks changes no other row
    pictures = data / "images" if (data / "images").is_dir() else data
    text, image = words(row["doc_text"]), picture(row.get("doc_image"), pictures)
    if text is None or not isinstance(image, Path) or not image.is_file() or TEXT not in said or IMAGE not in said:
        return None
    both = [said[TEXT], said[IMAGE]]
    said.setdefault(MIXED, " ".join(reversed(both) if swap else both))
    own = str(row["id"])
    queries = {kind: said[kind] for kind in KINDS}
    return TrainingPair(str(row.get("text_id", own)), str(row.get("image_id", own)), text, image, queries)
