"""``open_clip:MODEL/PRETRAINED``: models of open_clip, by its documented functions.

    open_clip:ViT-B-16/laion2b_s34b_b88k         a model and a name of weights, which are downloaded
    open_clip:ViT-B-16//models/weights.pt        a model and a file of weights
    open_clip:hf-hub:timm/ViT-B-16-SigLIP        a repository of the hub

Texts go through the model's own tokenizer, pictures through the model's own transforms, which need torchvision.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from isthmus._optional import need, offline
from isthmus.devices import torch_device
from isthmus.encoders.base import Role, Settings
from isthmus.encoders.images import LONGEST, Frame, Pixels
from isthmus.encoders.once import Pending
from isthmus.encoders.texts import Strings, TextPassage
from isthmus.encoders.torch_models import (
    BatchLimit,
    check_hub_offline,
    fetched_later,
    in_precision,
    torch_threads,
    weights,
)
from isthmus.encoders.towers import TowerEncoder
from isthmus.encoders.word_splitter import WordSplitter
from isthmus.errors import BadFile, BadInput, MissingExtra
from isthmus.registry import lookup
from isthmus.types import Matrix

EXTRA = "open-clip"
HUB = "hf-hub:"


def open_model(rest: str, settings: Settings) -> TowerEncoder:
    """Make an encoder from ``MODEL/PRETRAINED``."""
    library = _library()
    settings = replace(settings, device=torch_device(settings.device, EXTRA))
    model_name, pretrained = _names(rest, library)
    if pretrained is None or _asks_hub(library.get_model_config(model_name)):
        check_hub_offline("open_clip", rest)
    try:
        model, _, prepare = library.create_model_and_transforms(model_name, pretrained=pretrained)
        tokenize = library.get_tokenizer(model_name)
    except Exception as error:  # noqa: BLE001 - the hub, the file system and torch each have errors of their own
        raise BadFile(f"open_clip cannot load {rest!r}: {' '.join(str(error).split())[:300]} Check the name.") from None
    identity = _identity(model.eval(), rest, prepare)
    running = OpenClipModel(
        in_precision(model, settings.precision, settings.device), settings, BatchLimit(settings.batch_size)
    )
    splitter = WordSplitter(lambda text: _tokens(tokenize, text, library), int(tokenize.context_length))
    text = OpenClipText(running, tokenize, Strings(splitter, {"document": "", "query": ""}))
    dim = text.encode([TextPassage(0, 1, b"document\na")]).shape[1]
    image = OpenClipImages(running, prepare)
    return TowerEncoder(name=f"open_clip:{rest}", dim=dim, identity=identity, text=text, image=image, settings=settings)


def _library() -> Any:
    """Import open_clip. It imports torchvision, which must be built for the torch that is installed."""
    try:
        return need("open_clip", extra=EXTRA)
    except MissingExtra:
        raise
    except (ImportError, OSError, RuntimeError) as error:  # of an operator or a library of another build
        said = " ".join(str(error).split())[:200].rstrip(".")
        raise BadFile(
            f"open_clip cannot be imported: {said}. It needs torchvision of the same build as torch: install both "
            "from one package index."
        ) from None


def _names(rest: str, library: Any) -> tuple[str, str | None]:
    """Return the model and the weights, checked: with unknown weights open_clip would make random ones."""
    if rest.startswith(HUB):
        return rest, None
    name, _, pretrained = rest.partition("/")
    lookup({model: model for model in library.list_models()}, name, "model of open_clip")
    tags = library.list_pretrained_tags_by_model(name)
    if pretrained not in tags and not Path(pretrained).expanduser().is_file():
        raise BadInput(
            f"open_clip has no weights {pretrained!r} of {name}, and there is no such file. Write open_clip:{name}/"
            f"PRETRAINED with one of: {', '.join(tags) or 'a file'}."
        )
    if pretrained in tags and offline():
        raise BadFile(
            f"open_clip would download {pretrained!r}, and offline is set. Name a file: open_clip:{name}/FILE."
        )
    return name, pretrained if pretrained in tags else str(Path(pretrained).expanduser())


def _asks_hub(described: Mapping[str, Any] | None) -> bool:
    """Whether the tokenizer or the text tower of a model comes from the hub, whatever its weights."""
    text = (described or {}).get("text_cfg", {})
    return "hf_tokenizer_name" in text or "hf_model_name" in text


def _tokens(tokenize: Any, text: str, library: Any) -> Sequence[int]:
    """Return the tokens of a text with those around it; open_clip's own call cuts it and pads it."""
    if isinstance(tokenize, library.SimpleTokenizer):
        return [tokenize.sot_token_id, *tokenize.encode(text), tokenize.eot_token_id]
    found: Sequence[int] = tokenize.tokenizer(text)["input_ids"]  # one of transformers
    return found


@dataclass(frozen=True, slots=True, eq=False)
class OpenClipModel:
    """A model on its device, with batches that fit there."""

    model: Any
    settings: Settings
    limit: BatchLimit

    def launch(self, run: Callable[[Any], Any], inputs: Any) -> Pending:
        """Start the model; the result waits for one row per input."""
        torch = need("torch", extra=EXTRA)
        weight = next(self.model.parameters())
        ready = inputs.to(weight.device, weight.dtype if inputs.is_floating_point() else None)
        with torch_threads(self.settings.threads), torch.inference_mode():
            return fetched_later(run(ready))


@dataclass(frozen=True, slots=True, eq=False)
class OpenClipText:
    """The text tower."""

    model: OpenClipModel
    tokenize: Any
    strings: Strings

    def split(self, texts: Sequence[str], role: Role) -> list[list[TextPassage]]:
        """Return the passages of each text, as spans of it."""
        return self.strings.split(texts, role)

    def encode(self, passages: Sequence[TextPassage]) -> Matrix:
        """Return one row per passage."""
        return self.model.limit.launch(self._launch, passages)()

    def _launch(self, passages: Sequence[TextPassage]) -> Pending:
        return self.model.launch(self.model.model.encode_text, self.tokenize(self.strings.read(passages)[1]))


@dataclass(frozen=True, slots=True, eq=False)
class OpenClipImages:
    """The image tower. It passes whole pictures, because the model's transforms crop or resize them."""

    model: OpenClipModel
    prepare: Callable[[Any], Any]

    @property
    def frame(self) -> Frame:
        """The largest size of a picture it gets."""
        return Frame(LONGEST, "within")

    def encode(self, pixels: Sequence[Pixels]) -> Matrix:
        """Return one row per picture."""
        return self.model.limit.launch(self._launch, pixels)()

    def _launch(self, pixels: Sequence[Pixels]) -> Pending:
        from PIL import Image

        ready = need("torch", extra=EXTRA).stack([self.prepare(Image.fromarray(each)) for each in pixels])
        return self.model.launch(self.model.model.encode_image, ready)


def _identity(model: Any, name: str, prepare: Any) -> str:
    """Hash the weights, the model's name (which decides the tokenizer) and the transforms."""
    digest = hashlib.sha256(f"open_clip\0{name.partition('/')[0]}\0{prepare}".encode())
    for some in weights(model):
        digest.update(some)
    return digest.hexdigest()
