"""A data set like Mr. Right's, from other data: an abstract of SciFact and a photo of Flickr8k are one document.

    python reproduce/right_set.py --data DIR [--out OUT]            (needs scifact/ and flickr8k/; two minutes)

Text and picture carry different information, so that neither alone answers a question about both. Questions about the
text are pieces of it, taken out of the document (``isthmus.queries``, the embedded tagger); questions about the picture
are captions; mixed ones are one of each, in either order. Photos are split as Flickr8k's authors did, abstracts by
their id: a fifth each for dev and test. OUT (``out/right``) has the layout of the Mr. Right benchmark, with ``text_id``
and ``image_id``, because an abstract has several photos in training:

    multimodal_pretrain_pairs.json    12,000: made questions; captions 1 to 3 without names, filtered
    multimodal_finetune_pairs.json     6,000: captions 4 and 5 as people wrote them
    multimodal_val_pairs.json          1,000: caption 5
    multimodal_documents.json          1,000 to search, and multimodal_test_queries.json: caption 5
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from tables import Row as Counted
from tables import arguments, compared

from isthmus.documents import Document
from isthmus.evaluate.benchmarks import flickr8k, load
from isthmus.evaluate.benchmarks.captions import Captioned
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.queries import Embedded, made, without
from isthmus.queries.kinds import IMAGE, MIXED, TEXT

SEED = 7
ROUNDS = 2  # times that every training photo occurs in pre-training
NAMES = {TEXT: "query_text", IMAGE: "query_img", MIXED: "query_multi"}
Row = dict[str, str]


def split_of(name: str) -> str:
    """Return the split of an abstract, by its id.

    >>> split_of("4983")
    'test'
    """
    tenth = zlib.crc32(name.encode()) % 10
    return {0: "dev", 1: "dev", 2: "test", 3: "test"}.get(tenth, "train")


def rows(
    photos: Sequence[Captioned], texts: Sequence[Document], captions: Sequence[int], rng: np.random.Generator
) -> Iterator[Row]:
    """Pair each photo with a random abstract, and make queries about them; a single caption is used as it is."""
    parser = Embedded()
    order = np.concatenate([rng.permutation(len(texts)) for _ in range(-(-len(photos) // len(texts)))])
    for photo, at in zip(photos, order, strict=False):
        text = texts[at]
        caption = photo.captions[captions[int(rng.integers(len(captions)))]]
        document = Document(f"{text.id}-{photo.id}", text.text, photo.image)
        asked = {query.kind: query for query in made(document, caption, rng=rng, parser=parser)}
        if TEXT not in asked:
            continue
        shown = without(document, asked[TEXT])
        said = {TEXT: asked[TEXT].text, IMAGE: caption}
        if captions == MADE:
            if IMAGE not in asked:
                continue
            said[IMAGE] = asked[IMAGE].text
        both = [said[TEXT], said[IMAGE]]
        said[MIXED] = " ".join(both if rng.random() < 0.5 else reversed(both))
        yield {
            "id": document.id,
            "text_id": text.id,
            "image_id": photo.id,
            "doc_text": shown.text or "",
            "doc_image": Path(str(photo.image)).name,
            **{NAMES[kind]: words for kind, words in said.items()},
        }


MADE, WRITTEN, ASKED = (0, 1, 2), (3, 4), (4,)


def rng_of(stage: str) -> np.random.Generator:
    """Return the random generator of a stage, independent of other stages."""
    return np.random.default_rng([SEED, zlib.crc32(stage.encode())])


def build(data: Path, out: Path) -> list[Counted]:
    """Write the set; return the number of rows in each file."""
    folder = BenchmarkFolder(data / "flickr8k", "flickr8k", flickr8k.HOME)
    photos = {name: flickr8k.split(folder, name) for name in ("train", "dev", "test")}
    texts: dict[str, list[Document]] = {"train": [], "dev": [], "test": []}
    for document in load("beir:scifact", data).documents:
        texts[split_of(document.id)].append(document)
    rng = rng_of("pretrain")
    out.mkdir(parents=True, exist_ok=True)
    trained = photos["train"], texts["train"]
    pretrain = [row for _ in range(ROUNDS) for row in rows(*trained, MADE, rng)]
    test = list(rows(photos["test"], texts["test"], ASKED, rng_of("test")))
    files: dict[str, list[Row]] = {
        "pretrain_pairs": pretrain,
        "finetune_pairs": list(rows(*trained, WRITTEN, rng_of("finetune"))),
        "val_pairs": list(rows(photos["dev"], texts["dev"], ASKED, rng_of("dev"))),
        "documents": [{name: value for name, value in row.items() if "query" not in name} for row in test],
        "test_queries": [{"id": row["id"], **_queries(row)} for row in test],
    }
    for name, several in files.items():
        (out / f"multimodal_{name}.json").write_text(json.dumps(several, indent=0), "utf-8")
    pictures = out / "images"
    if not pictures.exists():
        pictures.symlink_to((data / "flickr8k" / "img224").resolve())
    return [{"file": name, "rows": len(several), "letters": _letters(several)} for name, several in files.items()]


def _queries(row: Row) -> Row:
    return {name: row[name] for name in NAMES.values()}


def _letters(several: Sequence[Row]) -> float:
    """Return the mean length of the texts and queries."""
    return float(
        np.mean([sum(len(row[name]) for name in row if name.startswith(("doc_text", "query"))) for row in several])
    )


if __name__ == "__main__":
    options = arguments(__doc__, {"out": "the output folder; default: out/right"})
    raise SystemExit(compared("right_set", build(options.data, Path(options.out or "out/right")), options.write))
