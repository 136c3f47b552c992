"""``hf:NAME_OR_PATH``: CLIP-like models of transformers, with a text tower and an image tower in one space.

    config.model_type ──▸ a row of ARCHITECTURES: class, text length, padding, mask, case
    text   ──▸ the model's own tokenizer, passages of the model's length ──▸ get_text_features
    image  ──▸ the model's own image processing, by Pillow              ──▸ get_image_features

No code from the hub is run (``trust_remote_code`` is never set), and a checkpoint that lacks weights of its class is
rejected: transformers would fill them with random numbers.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from isthmus._optional import need
from isthmus.devices import torch_device
from isthmus.encoders.base import Settings
from isthmus.encoders.hf_towers import ARCHITECTURES, EXTRA, Architecture, HfImages, HfModel, HfText
from isthmus.encoders.images import read
from isthmus.encoders.picture_recipe import recipe_of
from isthmus.encoders.texts import Splitter
from isthmus.encoders.torch_models import BatchLimit, from_hub, in_precision, weights
from isthmus.encoders.towers import TowerEncoder
from isthmus.encoders.word_splitter import WordSplitter
from isthmus.errors import BadFile, BadInput


def open_model(name: str, settings: Settings) -> TowerEncoder:
    """Make an encoder from a model."""
    hub = need("transformers", extra=EXTRA)
    hub.utils.logging.disable_progress_bar()  # the command line has its own
    settings = replace(settings, device=torch_device(settings.device, EXTRA))
    folder = Path(name).expanduser()
    place = str(folder) if folder.is_dir() else name
    config = from_hub(place, hub.AutoConfig.from_pretrained)
    architecture = _architecture(name, config)
    model = load_weights(place, hub, architecture)
    tokenizer = _tokenizer(place, hub, config)
    processor = from_hub(place, partial(hub.AutoImageProcessor.from_pretrained, backend="pil"))
    splitter = splitter_of(tokenizer, _length(architecture, config, tokenizer), name, lower=architecture.lower)
    recipe = recipe_of(processor)
    how = (config.model_type, splitter.length, architecture.lower, recipe)
    identity = identity_of(model, tokenizer, processor, how)
    model = in_precision(model, settings.precision, settings.device)
    running = HfModel(model, settings, BatchLimit(settings.batch_size))
    text = HfText(running, architecture, splitter, tokenizer.pad_token_id or 0, left=tokenizer.padding_side == "left")
    image = HfImages(running, architecture, processor, recipe, recipe and recipe.levels(settings.device))
    dim = text.encode(splitter.split(["a"])[0]).shape[1]
    _check_pictures(image, name)
    return TowerEncoder(name=f"hf:{name}", dim=dim, identity=identity, text=text, image=image, settings=settings)


def _architecture(name: str, config: Any) -> Architecture:
    found = ARCHITECTURES.get(config.model_type)
    if found is None:
        raise BadInput(
            f"{name} is a model of type {config.model_type!r}, and hf: encodes with {', '.join(ARCHITECTURES)}. Use a "
            "model of these types, st:NAME for a sentence-transformers model, or vlm:PROMPTS:NAME for an embedder made "
            "from a vision-language model."
        )
    return found


def load_weights(place: str, hub: Any, architecture: Architecture) -> Any:
    """Load the model in float32, and refuse one with missing weights."""
    torch = need("torch", extra=EXTRA)
    load = partial(getattr(hub, architecture.model).from_pretrained, dtype=torch.float32, output_loading_info=True)
    model, info = from_hub(place, load)
    missing = sorted(info["missing_keys"])
    if missing:
        raise BadFile(
            f"{place} lacks {len(missing)} weights of a {architecture.model} ({', '.join(missing[:3])} …). It is a "
            "model for another task; use a checkpoint for retrieval."
        )
    return model.eval()


def _tokenizer(place: str, hub: Any, config: Any) -> Any:
    """Load the tokenizer; transformers makes an empty one for a folder that has none, which reads all texts alike."""
    tokenizer = from_hub(place, hub.AutoTokenizer.from_pretrained)
    wanted = int(config.text_config.vocab_size)
    if 2 * len(tokenizer) < wanted:
        raise BadFile(
            f"{place} has no tokenizer of its model: it knows {len(tokenizer)} tokens, the model {wanted}. Save the "
            "tokenizer there: tokenizer.save_pretrained(FOLDER)."
        )
    return tokenizer


def _check_pictures(images: HfImages, name: str) -> None:
    """Encode a grey picture: the image processor and the weights of a folder may not fit together."""
    try:
        images.encode([read(np.full((32, 32, 3), 128, dtype=np.uint8), images.frame)])
    except (RuntimeError, ValueError) as error:
        raise BadFile(
            f"The image processor of {name} does not fit its weights: {' '.join(str(error).split())} Save the one that "
            "belongs to the model there."
        ) from None


def _length(architecture: Architecture, config: Any, tokenizer: Any) -> int:
    """Return the tokens of a passage: those of training, at most as many as there are positions."""
    positions = int(config.text_config.max_position_embeddings)
    return min(architecture.length or positions, positions, int(tokenizer.model_max_length))


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


def identity_of(model: Any, tokenizer: Any, processor: Any, how: tuple[object, ...]) -> str:
    """Hash the weights and everything else that decides a vector: the model behind a name may change."""
    seen = {name: value for name, value in processor.to_dict().items() if "processor" not in name}
    said = json.dumps([*how, seen], sort_keys=True, default=str)
    digest = hashlib.sha256(f"hf\0{said}\0{tokenizer.pad_token_id}\0{tokenizer.padding_side}".encode())
    digest.update(json.dumps(sorted(tokenizer.get_vocab().items())).encode())
    for some in weights(model):
        digest.update(some)
    return digest.hexdigest()
