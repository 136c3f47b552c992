"""A trained model as a folder: ONNX files and the ``encoder.toml`` that ``onnx:FOLDER`` reads.

    document.onnx    text, text_mask, patches, patch_mask, image → vectors, tokens, masks, shares
    query.onnx       words_0, mask_0 (and words_1, mask_1) → vectors, shares
    choose.onnx      words, mask → logits; if a query has two sides
    match.onnx       document, masks, similarity, words_0, mask_0 (and words_1, mask_1) → logits

The towers are not copied: the folder names them, and their identity is checked when it is opened.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from isthmus.encoders.folder import DESCRIPTION, checksum
from isthmus.encoders.tokens import IMAGE, TEXT
from isthmus.train.export import shrink
from isthmus.train.fusion.model import DocumentEncoder, Fusion, TowerFeatures
from isthmus.train.onnx import write

TOML = """# Written by isthmus.train.fusion.export; the checksums are verified when the encoder is loaded.
name = {name}
dim = {dim}

[fusion]
towers = {towers}
identity = {identity}
text = {text}
image = {image}
sides = {sides}
echo = [{echo[0]}, {echo[1]}]
match_echo = [{match_echo[0]}, {match_echo[1]}]

[files]
{files}
"""
N, T, P, S = "n", "t", "p", "s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Towers:
    """The towers below: an encoder's name or folder, its identity, and the tensors at which it was cut."""

    towers: str
    identity: str
    text: str = TEXT
    image: str = IMAGE


class _Flat(nn.Module):
    """The document encoder with plain tensors in and out."""

    def __init__(self, document: DocumentEncoder) -> None:
        super().__init__()
        self.document = document

    def forward(
        self, text: Tensor, text_mask: Tensor, patches: Tensor, patch_mask: Tensor, image: Tensor
    ) -> tuple[Tensor, ...]:
        fused = self.document(TowerFeatures(text, text_mask, patches, patch_mask, image))
        return *fused, self.document.shares(fused)


def export(model: Fusion, out: Path, towers: Towers, *, name: str, small: bool = True) -> None:
    """Write the folder; ``small``: with 8-bit weights."""
    out.mkdir(parents=True, exist_ok=True)
    model = model.cpu().eval()
    shape, sides = model.shape, model.query.sides
    words, there = torch.randn(2, 5, shape.dim), torch.ones(2, 5, dtype=torch.bool)
    cells = torch.randn(2, 4, shape.patch), torch.ones(2, 4, dtype=torch.bool), torch.randn(2, shape.dim)
    free = {0: N, 1: T}
    write(
        _Flat(model.document),
        (words, there, *cells),
        out / "document.onnx",
        {"text": free, "text_mask": free, "patches": {0: N, 1: P}, "patch_mask": {0: N, 1: P}, "image": {0: N}},
        {"vectors": {0: N}, "tokens": {0: N, 1: S}, "masks": {0: N, 2: S}, "shares": {0: N, 1: S}},
    )
    axes = {f"{what}_{side}": {0: N, 1: f"{T}{side}"} for side in range(sides) for what in ("words", "mask")}
    write(model.query, (words, there) * sides, out / "query.onnx", axes, {"vectors": {0: N}, "shares": {0: N, 1: S}})
    if sides > 1:
        write(model.chooser, (words, there), out / "choose.onnx", {"words": free, "mask": free}, {"logits": free})
    write(
        model.matcher,
        (torch.randn(2, 9, shape.dim), torch.ones(2, 2, 9, dtype=torch.bool), torch.zeros(2, sides))
        + (words, there) * sides,
        out / "match.onnx",
        {"document": {0: N, 1: S}, "masks": {0: N, 2: S}, "similarity": {0: N}, **axes},
        {"logits": {0: N}},
    )
    files = [out / name for name in ("choose.onnx", "document.onnx", "match.onnx", "query.onnx")]
    for file in files:
        if file.name == "choose.onnx" and sides == 1:
            file.unlink(missing_ok=True)  # of another training
        elif small:
            shrink(file)
    describe(out, towers, name=name, dim=shape.out, sides=sides)


def describe(
    out: Path,
    towers: Towers,
    *,
    name: str,
    dim: int,
    sides: int,
    echo: tuple[float, float] = (0.0, 0.0),
    match_echo: tuple[float, float] = (0.0, 0.0),
) -> None:
    """Write ``encoder.toml``, with the checksums of the models."""
    sums = "\n".join(f'"{file.name}" = "{checksum(file)}"' for file in sorted(out.glob("*.onnx")))
    told = {key: json.dumps(value) for key, value in asdict(towers).items()}
    settings = {"dim": dim, "sides": sides, "echo": echo, "match_echo": match_echo}
    (out / DESCRIPTION).write_text(TOML.format(name=json.dumps(name), files=sums, **settings, **told), "utf-8")
