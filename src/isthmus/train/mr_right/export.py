"""A trained Mr. Right as folders that ``onnx:OUT`` reads.

    OUT/towers/     text.onnx, image.onnx, the tokenizer, encoder.toml: the trained towers, an encoder of their own
    OUT/            document.onnx, query.onnx, match.onnx, encoder.toml with [fusion], on those towers

The files take what those of ``isthmus.train.fusion.export`` take. The paper's model has no use for two of these inputs:
the image's vector beside its patches, and the similarity that our own matcher reads. A text of more than
``document_tokens`` tokens becomes passages there, and a query is not cut.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isthmus.encoders.folder import describe as described
from isthmus.train import export as folders
from isthmus.train.export import shrink, text_onnx
from isthmus.train.fusion.export import N, P, S, T, Towers, describe
from isthmus.train.fusion.layers import mean_weights, unit_mean
from isthmus.train.mr_right.matcher import RIGHT, ClassMatcher
from isthmus.train.mr_right.model import MergeEncoder, MrRight, patches
from isthmus.train.mr_right.recipe import MrRightRecipe
from isthmus.train.onnx import write
from isthmus.train.towers import TrainableImageTower

STATES = "/bert/encoder/layer.{}/output/LayerNorm/LayerNormalization_output_0"  # the text tower's last states
CELLS = "cells"
TOWERS = "towers"  # the folder in OUT
FREE = {0: N, 1: T}


def export(model: MrRight, tokenizer: Path, out: Path, *, name: str, recipe: MrRightRecipe, small: bool = True) -> None:
    """Write the folders; ``small``: with 8-bit weights."""
    model = model.cpu().eval()
    _towers(model, tokenizer, out / TOWERS, recipe, small)
    words, there = torch.randn(2, 5, model.shape.dim), torch.ones(2, 5, dtype=torch.bool)
    cells, seen = torch.randn(2, 4, model.shape.dim), torch.ones(2, 4, dtype=torch.bool)
    write(
        _Document(model.merge),
        (words, there, cells, seen, torch.randn(2, model.shape.dim)),
        out / "document.onnx",
        {"text": FREE, "text_mask": FREE, "patches": {0: N, 1: P}, "patch_mask": {0: N, 1: P}, "image": {0: N}},
        {"vectors": {0: N}, "tokens": {0: N, 1: S}, "masks": {0: N, 2: S}, "shares": {0: N, 1: S}},
    )
    asked = {"words_0": {0: N, 1: f"{T}0"}, "mask_0": {0: N, 1: f"{T}0"}}
    write(_Query(model.ask), (words, there), out / "query.onnx", asked, {"vectors": {0: N}, "shares": {0: N, 1: S}})
    write(
        _Match(model.matcher),
        (torch.randn(2, 9, model.shape.dim), torch.ones(2, 2, 9, dtype=torch.bool), torch.zeros(2, 1), words, there),
        out / "match.onnx",
        {"document": {0: N, 1: S}, "masks": {0: N, 2: S}, "similarity": {0: N}, **asked},
        {"logits": {0: N}},
    )
    (out / "choose.onnx").unlink(missing_ok=True)  # of another training
    if small:
        for file in ("document.onnx", "query.onnx", "match.onnx"):
            shrink(out / file)
    states = STATES.format(len(model.text.bert.encoder.layer) - 1)  # type: ignore[union-attr,arg-type]
    identity = described(out / TOWERS).identity
    told = Towers(towers=TOWERS, identity=identity, text=states, image=CELLS)  # relative: the folder may be moved
    describe(out, told, name=name, dim=model.shape.dim, sides=1)


def _towers(model: MrRight, tokenizer: Path, out: Path, recipe: MrRightRecipe, small: bool) -> None:
    """Write the towers as an encoder: the mean of a text's tokens, the mean of a picture's patches."""
    out.mkdir(parents=True, exist_ok=True)
    text_onnx(model.text, out / "text.onnx")
    pixels = torch.zeros((2, recipe.size, recipe.size, 3), dtype=torch.uint8)
    outputs = {"vectors": {0: N}, CELLS: {0: N}}
    write(_ImagePatches(model.image), (pixels,), out / "image.onnx", {"pixels": {0: N}}, outputs)
    shutil.copy(tokenizer, out / "tokenizer.json")
    if small:
        for file in ("text.onnx", "image.onnx"):
            shrink(out / file)
    tables = folders.TEXT_TABLE.format(length=recipe.document_tokens) + folders.IMAGE_TABLE.format(size=recipe.size)
    folders.describe(out, "towers", model.shape.dim, tables)


class _ImagePatches(nn.Module):
    """The image tower with bytes as input ``(n, size, size, 3)``: a vector, and the patches ``(n, d, p)``."""

    def __init__(self, tower: TrainableImageTower) -> None:
        super().__init__()
        self.tower = tower

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        cells = patches(self.tower, (pixels.permute(0, 3, 1, 2).float() - 127.0) / 128.0)
        return F.normalize(cells.mean(dim=1), dim=1), cells.transpose(1, 2)


class _Document(nn.Module):
    """Merged documents, and what each token adds to the vector."""

    def __init__(self, merge: MergeEncoder) -> None:
        super().__init__()
        self.merge = merge

    def forward(
        self, text: Tensor, text_mask: Tensor, cells: Tensor, cell_mask: Tensor, image: Tensor
    ) -> tuple[Tensor, ...]:
        fused = self.merge(text, text_mask, cells, cell_mask)
        weights = mean_weights(fused.masks.any(dim=1))
        added = self.merge.out(fused.tokens) * weights  # their sum is the vector before it is normalised
        unused = 0 * image.sum(dim=1)[:, None]  # an input of the file must have a use in it
        return (
            fused.vectors + unused,
            fused.tokens,
            fused.masks,
            added / added.sum(dim=1, keepdim=True).norm(dim=2, keepdim=True),
        )


class _Query(nn.Module):
    """Queries, and what each word adds to the vector."""

    def __init__(self, ask: nn.Linear) -> None:
        super().__init__()
        self.ask = ask

    def forward(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        added = self.ask(words) * mean_weights(mask)
        whole = added.sum(dim=1)
        length = whole.norm(dim=1, keepdim=True).clamp_min(1e-6)
        return whole / length, added / length[:, None]


class _Match(nn.Module):
    """The logit of P(match): the difference of the two classes."""

    def __init__(self, matcher: ClassMatcher) -> None:
        super().__init__()
        self.matcher = matcher

    def forward(self, document: Tensor, masks: Tensor, similarity: Tensor, words: Tensor, mask: Tensor) -> Tensor:
        classes = self.matcher(document, masks, unit_mean(words, mask), mask)
        return classes[:, RIGHT] - classes[:, 1 - RIGHT] + 0 * similarity.sum(dim=1)  # type: ignore[no-any-return]
