"""Where the paper's matcher looks: Grad-CAM on its attention, as in Figure 7 of Mr. Right.

    python reproduce/mr_right_maps.py --data DIR --model OUT [--set SET] [--picture FILE]
                                                            (needs flickr8k/, docvqa/ for SET; two minutes)

OUT is the encoder that ``isthmus train fusion --paper`` wrote; SET is ``related_set.py``'s. For the first
``PHOTOS`` test photos and each kind of query: the logit of a match with its own document and with the next one, the
share of the heat that lies on the photo, and the photo's share of the document's tokens. The picture shows two of the
sample photos that come with isthmus: a heat map over the photo, and the words of its text, the brighter the redder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from related_set import build
from right_set import NAMES
from tables import Row, arguments, compared
from tokenizers import Tokenizer

from isthmus import Document, Query, encoders, samples
from isthmus.encoders.fusion import FusionEncoder
from isthmus.queries.kinds import KINDS
from isthmus.train.fusion.model import FusedDocuments
from isthmus.train.mr_right.export import TOWERS
from isthmus.train.mr_right.exported import read_matcher
from isthmus.train.mr_right.maps import MatchMap, match_map
from isthmus.train.mr_right.model import ReadTexts

PHOTOS = 20
SHOWN = [  # the documents of the picture, and their queries
    {"doc_image": "otters.jpg", "doc_text": "The otters of Oakland Zoo, out of the water for once."},
    {"doc_image": "lake.jpg", "doc_text": "Lake Sherburne in Montana: snow on the peaks, hardly any wind."},
]
ASKED = [
    {
        "query_text": "animals of a zoo in Oakland",
        "query_img": "an otter stands on a rock by the water",
        "query_multi": "an otter on a rock by the water in a zoo in Oakland",
    },
    {
        "query_text": "a lake in Montana",
        "query_img": "mountains are reflected in still water",
        "query_multi": "mountains reflected in the water of a lake in Montana",
    },
]
OPTIONS = {
    "model": "the output of `isthmus train fusion --paper`",
    "set": "the output of related_set.py; default: out/related",
    "picture": "a file for the picture",
}


class Reader:
    """An exported model: its encoder reads texts and pictures, and its matcher is read back for gradients."""

    def __init__(self, folder: Path) -> None:
        encoder = encoders.load(f"onnx:{folder}")
        if not isinstance(encoder, FusionEncoder):
            raise SystemExit(f"{folder} has no matcher.")
        self.read = encoder.matcher()
        self.model = read_matcher(folder / "match.onnx")
        self.tokens = Tokenizer.from_file(str(folder / TOWERS / "tokenizer.json"))

    def document(self, row: Mapping[str, str], images: Path) -> tuple[FusedDocuments, list[str]]:
        """Return the features of a document, without padding, and the tokens of its text."""
        document = Document(row["doc_image"], row["doc_text"], str(images / row["doc_image"]))
        item = next(one for _, one in self.read.inputs([document]))
        found = self.read.documents.fuse([item])
        real = found.masks[0].any(axis=0)
        tensors = map(torch.from_numpy, (found.vectors, found.tokens[:, real], found.masks[:, :, real]))
        tokens = [] if item.passage is None else item.passage.tokens.tolist()
        return FusedDocuments(*tensors), [self.tokens.id_to_token(one) or "" for one in tokens]

    def map(self, query: str, document: FusedDocuments) -> MatchMap:
        """Return the map of a query, as far as it is one passage, and a document."""
        read = self.read.query_inputs(Query(query))[0].sides
        words = ReadTexts(torch.from_numpy(read["words_0"]), torch.from_numpy(read["mask_0"].astype(bool)))
        return match_map(self.model, document, words)


def table(
    reader: Reader, rows: Sequence[Mapping[str, str]], asked: Sequence[Mapping[str, str]], images: Path
) -> list[Row]:
    """Return a row for each kind of query."""
    documents = [reader.document(row, images) for row in rows]
    found: list[Row] = []
    for kind in KINDS:
        own, other, heat, share = [], [], [], []
        for at, ((document, tokens), words) in enumerate(zip(documents, asked, strict=True)):
            seen = reader.map(words[NAMES[kind]], document)
            total = seen.words.sum(dim=0)
            own.append(seen.logit)
            other.append(reader.map(words[NAMES[kind]], documents[(at + 1) % len(documents)][0]).logit)
            heat.append(float(total[len(tokens) :].sum() / total.sum().clamp_min(1e-12)))
            share.append(1 - len(tokens) / len(total))
        numbers = {"own logit": own, "another's": other, "heat on the photo": heat, "tokens of the photo": share}
        found.append({"queries": kind, **{name: float(np.mean(several)) for name, several in numbers.items()}})
    return found


def draw(
    reader: Reader, rows: Sequence[Mapping[str, str]], asked: Sequence[Mapping[str, str]], images: Path, out: Path
) -> None:
    """Draw the maps of some documents, a row each, a column for each kind of query."""
    from matplotlib import pyplot as plt
    from PIL import Image

    figure, axes = plt.subplots(
        len(rows), len(KINDS), figsize=(13, 6.2 * len(rows)), layout="constrained", squeeze=False
    )
    for line, row, words in zip(axes, rows, asked, strict=True):
        document, tokens = reader.document(row, images)
        for place, kind in zip(line, KINDS, strict=True):
            seen = reader.map(words[NAMES[kind]], document)
            place.set_title(f"{kind}, logit {seen.logit:.2f}\n{_wrapped(words[NAMES[kind]])}", fontsize=9)
            _photo(place, images / row["doc_image"], seen.words.sum(dim=0)[len(tokens) :].numpy())
            _text(place, tokens, seen.words.sum(dim=0)[: len(tokens)].numpy())
    figure.savefig(out, dpi=75)
    Image.open(out).convert("RGB").quantize(96).save(out, optimize=True)  # a third of the size


def _photo(place: Any, image: Path, heat: Any) -> None:
    from PIL import Image

    side = round(len(heat) ** 0.5)
    picture = np.asarray(Image.open(image).convert("RGB").resize((256, 256)))
    grid = heat.reshape(side, side) / max(float(heat.max()), 1e-12)
    smooth = np.asarray(Image.fromarray((255 * grid).astype(np.uint8)).resize((256, 256), Image.Resampling.BICUBIC))
    place.imshow(picture)
    place.imshow(smooth, cmap="jet", alpha=0.45)
    place.axis("off")


def _text(place: Any, tokens: Sequence[str], heat: Any) -> None:
    """Write the tokens below the photo, the redder the brighter."""
    most, x, y = max(float(heat.max()), 1e-12), 0.0, -0.06
    for token, one in list(zip(tokens, heat, strict=True))[1:-1]:
        said = token.removeprefix("##") if token.startswith("##") else f" {token}"
        if x + 0.022 * len(said) > 1.0 and not token.startswith("##"):
            x, y = 0.0, y - 0.06
        style = {"fontsize": 8, "family": "monospace", "transform": place.transAxes, "va": "top"}
        place.text(x, y, said, bbox={"facecolor": (1, 0, 0, float(one) / most * 0.7), "lw": 0, "pad": 0.5}, **style)
        x += 0.022 * len(said)


def _wrapped(text: str, width: int = 58) -> str:
    import textwrap

    return textwrap.fill(text, width)


def main(data: Path, folder: Path, model: Path, picture: Path | None) -> list[Row]:
    """Return the table, and draw the picture if a file is given."""
    if not (folder / "multimodal_documents.json").exists():
        build(data, folder)
    held, asked = (
        json.loads((folder / f"multimodal_{name}.json").read_text("utf-8"))[:PHOTOS]
        for name in ("documents", "test_queries")
    )
    reader = Reader(model)
    if picture is not None:
        draw(reader, SHOWN, ASKED, samples.folder() / "photos", picture)
    return table(reader, held, asked, folder / "images")


if __name__ == "__main__":
    options = arguments(__doc__, OPTIONS)
    where = Path(options.picture) if options.picture else None
    found = main(options.data, Path(options.set or "out/related"), Path(options.model), where)
    raise SystemExit(compared("mr_right_maps", found, options.write))
