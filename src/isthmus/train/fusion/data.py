"""Documents of text and image with queries, in the layout of the Mr. Right benchmark.

    DIR/multimodal_pretrain_pairs.json      [{"id", "doc_text", "doc_image", "query_text", "query_img"}]
    DIR/multimodal_finetune_pairs.json      the same; also ``query_multi``, if humans wrote it
    DIR/multimodal_val_pairs.json           the same, held out; or multimodal_val_queries.json, whose documents are
    DIR/multimodal_documents.json           among these
    DIR/images/                             the pictures

A row may have ``text_id`` and ``image_id``, if a text or a picture is in several documents: these are then not wrong
answers. A missing mixed query is the two others in random order. A human one is only used if queries are not split
(``pool="mean"``, and in ``isthmus.train.mr_right``), because it has no labels for which words describe which part.
``"related": true`` says that text and picture describe the same thing, as a caption and its photo do: then the words of
a query are about both, and nothing is learned of their side. ``group`` names the part of a mixture that a held-out row
belongs to. A row whose picture is missing, or without one of the queries, is left out and counted.
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
    """A document, and its queries by kind."""

    text_id: str
    image_id: str
    text: str
    image: Path
    queries: Mapping[str, str]
    related: bool = False  # text and image describe the same thing
    group: str = ""  # of a mixture


@dataclass(frozen=True, slots=True)
class TrainingPairs:
    """Pairs to train on, in the order of the stages, held-out pairs, and the number of incomplete rows."""

    stages: Mapping[str, Sequence[TrainingPair]]
    held: Sequence[TrainingPair]
    left_out: int = 0


def read(data: Path, *, seed: int = 0) -> TrainingPairs:
    """Read a set; a stage without a file is left out, but there must be one."""
    folder = BenchmarkFolder(data, "a set to train fusion on", HOME)
    rng = np.random.default_rng(seed)
    found = {
        stage: [_pair(row, data, rng) for row in rows(path, "id", "doc_text", "doc_image")]
        for stage in ("pretrain", "finetune")
        if (path := folder.find(PAIRS.format(stage))) is not None
    }
    if not found:
        folder.file(PAIRS.format("pretrain"))  # raises an error with the missing file
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
    """Return the held-out rows: with their documents, or by id."""
    pairs, queries = PAIRS.format("val"), "multimodal_val_queries.json"
    if (path := folder.file(pairs, queries)).name == pairs:
        return list(rows(path, "id", "doc_text", "doc_image"))
    by_id = {str(row["id"]): row for row in rows(path, "id")}
    documents = rows(folder.file("multimodal_documents.json"), "id", "doc_text")
    return [{**row, **by_id[str(row["id"])]} for row in documents if str(row["id"]) in by_id]


def _pair(row: Row, data: Path, rng: np.random.Generator) -> TrainingPair | None:
    said = {kind: text for kind, name in NAMES.items() if (text := words(row.get(name)))}
    swap = rng.random() < 0.5  # always drawn: an incomplete row must not change the others
    pictures = data / "images" if (data / "images").is_dir() else data
    text, image = words(row["doc_text"]), picture(row.get("doc_image"), pictures)
    if text is None or not isinstance(image, Path) or not image.is_file() or TEXT not in said or IMAGE not in said:
        return None
    both = [said[TEXT], said[IMAGE]]
    said.setdefault(MIXED, " ".join(reversed(both) if swap else both))
    own = str(row["id"])
    queries = {kind: said[kind] for kind in KINDS}
    ids = str(row.get("text_id", own)), str(row.get("image_id", own))
    return TrainingPair(*ids, text, image, queries, row.get("related") is True, str(row.get("group", "")))
