"""What of an encoder can be written as ONNX: the towers of ``hf:``, ``st:`` and ``open_clip:`` as graphs.

A text tower becomes a model of tokens and mask, ``(n, t)`` each, an image tower one of pixels, ``(n, 3, size, size)``;
with each goes what ``encoder.toml`` says of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor, nn

from isthmus._optional import need
from isthmus.encoders.hf_towers import HfImages, HfText
from isthmus.encoders.images import Fit, Frame
from isthmus.encoders.open_clip import OpenClipImages, OpenClipText
from isthmus.encoders.picture_recipe import PictureRecipe, recipe_of
from isthmus.encoders.st import StImages, StText
from isthmus.encoders.texts import Splitter
from isthmus.errors import BadInput

BYTE = 1 / 255  # the factor that encoder.toml knows
RESAMPLES = ("lanczos", "bilinear", "bicubic")  # those that it knows
FITS: dict[str, Fit] = {"shortest": "cover", "squash": "squash"}  # open_clip's words for them


class TracedTower(nn.Module):
    """A tower as a module that can be traced: a function of a model and its inputs."""

    def __init__(self, model: nn.Module, run: Callable[..., Tensor]) -> None:
        super().__init__()
        self.model, self.run = model, run

    def forward(self, *inputs: Tensor) -> Tensor:
        """Run it."""
        return self.run(self.model, *inputs)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ExportableText:
    """A text tower."""

    graph: TracedTower
    splitter: Splitter
    pad: int = 0
    query: str = ""
    document: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ExportableImages:
    """An image tower."""

    graph: TracedTower
    recipe: PictureRecipe


@singledispatch
def exportable_text(tower: object) -> ExportableText:
    """Return a text tower as it is exported; refuse what ``encoder.toml`` cannot describe."""
    raise BadInput(f"a {type(tower).__name__} is no text tower of hf:, st: or open_clip:")


@singledispatch
def exportable_images(tower: object) -> ExportableImages:
    """Return an image tower as it is exported; refuse what ``encoder.toml`` cannot describe."""
    raise BadInput(f"a {type(tower).__name__} is no image tower of hf:, st: or open_clip:")


@exportable_text.register
def _(tower: HfText) -> ExportableText:
    how, pad = tower.architecture, tower.pad
    if not isinstance(tower.splitter, Splitter) or tower.left:
        raise BadInput("its tokenizer has no tokenizer.json, or pads on the left")
    length = tower.splitter.length

    def run(model: nn.Module, tokens: Tensor, mask: Tensor) -> Tensor:
        tokens = torch.where(mask.bool(), tokens, torch.full_like(tokens, pad))
        tokens = filled(tokens, length, pad) if how.pad_to_length else tokens
        inputs = {"input_ids": tokens} | ({"attention_mask": mask} if how.masked else {})
        rows: Tensor = how.text(model, inputs)
        return rows

    return ExportableText(
        graph=TracedTower(tower.model.model, run),
        splitter=tower.splitter,
        pad=pad,
        query=how.query,
        document=how.document,
    )


@exportable_images.register
def _(tower: HfImages) -> ExportableImages:
    how = tower.architecture
    return ExportableImages(
        TracedTower(tower.model.model, lambda model, pixels: how.image(model, {"pixel_values": pixels})),
        known(tower.recipe),
    )


@exportable_text.register
def _(tower: StText) -> ExportableText:
    splitter, prompts = tower.strings.splitter, tower.strings.prompts
    if not isinstance(splitter, Splitter):
        raise BadInput("its tokenizer has no tokenizer.json, or its texts have no limit")
    model = tower.model.model

    def run(model: nn.Module, tokens: Tensor, mask: Tensor) -> Tensor:
        rows: Tensor = model({"input_ids": tokens, "attention_mask": mask})["sentence_embedding"]
        return rows

    return ExportableText(
        graph=TracedTower(model, run), splitter=splitter, pad=int(model.tokenizer.pad_token_id or 0),
        query=prompts["query"], document=prompts["document"],
    )  # fmt: skip


@exportable_images.register
def _(tower: StImages) -> ExportableImages:
    model = tower.model.model
    processor = getattr(getattr(model[0], "processor", None), "image_processor", None)
    recipe = None if processor is None else recipe_of(processor)

    def run(model: nn.Module, pixels: Tensor) -> Tensor:
        rows: Tensor = model({"pixel_values": pixels, "modality": "image"})["sentence_embedding"]
        return rows

    return ExportableImages(TracedTower(model, run), known(recipe))


@exportable_text.register
def _(tower: OpenClipText) -> ExportableText:
    library, hub = need("open_clip", extra="open-clip"), need("transformers", extra="hf")
    tokenize = tower.tokenize
    if not isinstance(tokenize, library.SimpleTokenizer):
        raise BadInput("its tokenizer is not CLIP's, and has no tokenizer.json")
    ranks = sorted(tokenize.bpe_ranks, key=tokenize.bpe_ranks.get)
    start, end = (tokenize.decoder[token] for token in (tokenize.sot_token_id, tokenize.eot_token_id))
    ends = {"bos_token": start, "eos_token": end, "unk_token": end, "pad_token": end}
    same = hub.CLIPTokenizer(vocab=dict(tokenize.encoder), merges=ranks, **ends)  # without ftfy's mending of texts
    length = int(tokenize.context_length)

    def run(model: Any, tokens: Tensor, mask: Tensor) -> Tensor:
        rows: Tensor = model.encode_text(filled(tokens * mask, length, 0))
        return rows

    return ExportableText(
        graph=TracedTower(tower.model.model, run), splitter=Splitter.of(same.backend_tokenizer, length, "")
    )


@exportable_images.register
def _(tower: OpenClipImages) -> ExportableImages:
    described = need("open_clip", extra="open-clip").get_model_preprocess_cfg(tower.model.model)
    side = described["size"][0] if isinstance(described["size"], (list, tuple)) else described["size"]
    fit = FITS.get(described["resize_mode"])
    frame = None if fit is None else Frame(int(side), fit, described["interpolation"])
    recipe = frame and PictureRecipe(frame=frame, factor=BYTE, mean=described["mean"], std=described["std"])
    return ExportableImages(
        TracedTower(tower.model.model, lambda model, pixels: model.encode_image(pixels)), known(recipe or None)
    )


def known(recipe: PictureRecipe | None) -> PictureRecipe:
    """Return a recipe that ``encoder.toml`` can describe; refuse others."""
    if recipe is None or recipe.frame.resample not in RESAMPLES or abs(recipe.factor - BYTE) > 1e-9:
        raise BadInput("encoder.toml cannot describe how it prepares pictures")
    return recipe


def filled(tokens: Tensor, length: int, pad: int) -> Tensor:
    """Return tokens ``(n, t)`` with padding up to a length, ``(n, length)``."""
    more = torch.full((tokens.shape[0], length - tokens.shape[1]), pad, dtype=torch.long)
    return torch.cat([tokens, more], dim=1)
