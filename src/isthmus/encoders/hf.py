"""``hf:NAME_OR_PATH``: CLIP-like models of transformers, with a text tower and an image tower in one space.

    config.model_type ──▸ a row of ARCHITECTURES: class, text length, padding, mask, case
    text   ──▸ the model's own tokenizer, passages of the model's length ──▸ get_text_features
    image  ──▸ the model's own image processing, by Pillow              ──▸ get_image_features

No code from the hub is run without consent (``Settings.trust_remote_code``), and a checkpoint that lacks weights of its
class is rejected: transformers would fill them with random numbers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isthmus._optional import need
from isthmus.devices import torch_device
from isthmus.encoders.base import Settings
from isthmus.encoders.hf_files import HubFiles, code_of, identity_of
from isthmus.encoders.hf_towers import EXTRA, PAIRS, Architecture, HfImages, HfModel, HfText
from isthmus.encoders.images import read
from isthmus.encoders.locations import two_names
from isthmus.encoders.picture_recipe import recipe_of
from isthmus.encoders.texts import Splitter
from isthmus.encoders.torch_models import BatchLimit, in_precision, weights
from isthmus.encoders.towers import TowerEncoder
from isthmus.encoders.word_splitter import WordSplitter
from isthmus.errors import BadFile, BadInput


def open_model(name: str, settings: Settings) -> TowerEncoder:
    """Make an encoder from a model, or from two that share a space, ``TEXT+IMAGE``."""
    hub = need("transformers", extra=EXTRA)
    hub.utils.logging.disable_progress_bar()  # the command line has its own
    settings = replace(settings, device=torch_device(settings.device, EXTRA))
    names = two_names(name)
    if names is None:
        files = HubFiles(hub, name, settings.trust_remote_code)
        architecture = files.architecture()
        model = files.model(architecture)
        towers = TwoTowers(files, model, architecture, files, model, architecture)
    else:
        towers = _pair(*(HubFiles(hub, each, settings.trust_remote_code) for each in names))
    return _encoder(name, towers, settings)


@dataclass(frozen=True, slots=True, eq=False)
class TwoTowers:
    """The models of texts and of pictures: mostly one."""

    text_files: HubFiles
    text_model: Any
    text_use: Architecture
    image_files: HubFiles
    image_model: Any
    image_use: Architecture

    @property
    def of_two_models(self) -> bool:
        """Whether each tower is a model of its own."""
        return self.text_model is not self.image_model


def _pair(text: HubFiles, image: HubFiles) -> TwoTowers:
    kind = str(text.described.get("model_type"))
    if kind not in PAIRS:
        raise BadInput(
            f"{text.name} is a model of type {kind!r}, and hf:TEXT+IMAGE takes a text model of type {', '.join(PAIRS)}."
        )
    image.consented()
    text_use, image_use = PAIRS[kind]
    return TwoTowers(text, text.model(text_use), text_use, image, image.model(image_use), image_use)


def _encoder(name: str, towers: TwoTowers, settings: Settings) -> TowerEncoder:
    files, use = towers.text_files, towers.text_use
    tokenizer, processor = files.tokenizer(), towers.image_files.processor()
    splitter = splitter_of(tokenizer, files.length(use, tokenizer), name, lower=use.lower)
    recipe = None if towers.image_use.remote else recipe_of(processor)
    identity = _identity(towers, tokenizer, processor, (files.config.model_type, splitter.length, use.lower, recipe))
    limit = BatchLimit(settings.batch_size)
    reads = HfModel(in_precision(towers.text_model, settings.precision, settings.device), settings, limit)
    sees = HfModel(in_precision(towers.image_model, settings.precision, settings.device), settings, limit)
    text = HfText(reads, use, splitter, tokenizer.pad_token_id or 0, left=tokenizer.padding_side == "left")
    image = HfImages(sees, towers.image_use, processor, recipe, recipe and recipe.levels(settings.device))
    dim = text.encode(splitter.split(["a"])[0]).shape[1]
    _check_pictures(image, name)
    return TowerEncoder(name=f"hf:{name}", dim=dim, identity=identity, text=text, image=image, settings=settings)


def _identity(towers: TwoTowers, tokenizer: Any, processor: Any, how: tuple[object, ...]) -> str:
    use = towers.text_use
    if use.query or use.document:
        how = (*how, use.query, use.document)
    remote = [model for model, kind in ((towers.image_model, towers.image_use),) if kind.remote]
    how = (*how, *map(code_of, remote))
    if towers.of_two_models:
        how = (*how, *(hashlib.sha256(some).hexdigest() for some in weights(towers.image_model)))
    return identity_of(towers.text_model, tokenizer, processor, how)


def _check_pictures(images: HfImages, name: str) -> None:
    """Encode a grey picture: the image processor and the weights of a folder may not fit together."""
    try:
        images.encode([read(np.full((32, 32, 3), 128, dtype=np.uint8), images.frame)])
    except (RuntimeError, ValueError) as error:
        raise BadFile(
            f"The image processor of {name} does not fit its weights: {' '.join(str(error).split())} Save the one that "
            "belongs to the model there."
        ) from None


def splitter_of(tokenizer: Any, length: int, name: str, *, lower: bool) -> Splitter | WordSplitter:
    """Return what splits texts by a model's own tokenizer, in lower case where it was trained so."""
    from tokenizers import Tokenizer, normalizers

    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):  # one of SentencePiece, as SigLIP has; it changes the case itself

        def tokens(text: str) -> list[int]:
            found: list[int] = tokenizer(text, verbose=False)["input_ids"]
            return found

        return WordSplitter(tokens, length)
    own = Tokenizer.from_str(backend.to_str())  # a copy: the model's tokenizer keeps its own settings
    if lower:
        first = [own.normalizer] if own.normalizer is not None else []
        own.normalizer = normalizers.Sequence([normalizers.Lowercase(), *first])
    return Splitter.of(own, length, name)
