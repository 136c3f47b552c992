"""The towers of ``hf:`` models, and how they run: batches are launched, and their vectors fetched later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from isthmus._optional import need
from isthmus.encoders.base import Role, Settings
from isthmus.encoders.images import LONGEST, Frame, Pixels, in_order
from isthmus.encoders.once import Pending
from isthmus.encoders.picture_recipe import PictureRecipe, tensor_of
from isthmus.encoders.texts import Splitter, TextPassage, padded
from isthmus.encoders.torch_models import BatchLimit, fetched_later, torch_threads
from isthmus.encoders.word_splitter import WordSplitter
from isthmus.isolated.picture import band
from isthmus.types import Matrix

EXTRA = "hf"
Features: TypeAlias = Callable[[Any, Mapping[str, Any]], Any]  # (model, inputs) → tensor (n, d)


def _text_features(model: Any, inputs: Mapping[str, Any]) -> Any:
    return model.get_text_features(**inputs).pooler_output


def _image_features(model: Any, inputs: Mapping[str, Any]) -> Any:
    return model.get_image_features(**inputs).pooler_output


def _own_text(model: Any, inputs: Mapping[str, Any]) -> Any:
    found = model.get_text_features(**inputs)  # a model's own code returns the vectors, as transformers 4 did
    return getattr(found, "pooler_output", found)


def _own_image(model: Any, inputs: Mapping[str, Any]) -> Any:
    found = model.get_image_features(**inputs)
    return getattr(found, "pooler_output", found)


def _mean_text(model: Any, inputs: Mapping[str, Any]) -> Any:
    """Mean of the states under the mask, then each vector with mean 0 and variance 1, as Nomic's model card has it."""
    states = model(**inputs).last_hidden_state  # (n, t, d)
    mask = inputs["attention_mask"].unsqueeze(-1).to(states.dtype)
    mean = (states * mask).sum(1) / mask.sum(1)
    return need("torch", extra=EXTRA).nn.functional.layer_norm(mean, mean.shape[1:])


def _first_of_image(model: Any, inputs: Mapping[str, Any]) -> Any:
    return model(**inputs).last_hidden_state[:, 0]


def _blip_text(model: Any, inputs: Mapping[str, Any]) -> Any:
    return model.text_proj(model.text_encoder(**inputs).last_hidden_state[:, 0])


def _blip_image(model: Any, inputs: Mapping[str, Any]) -> Any:
    return model.vision_proj(model.vision_model(**inputs).last_hidden_state[:, 0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """How models of one type are used, by their papers and their documentation."""

    model: str  # the class in transformers
    length: int | None = None  # tokens of a passage; None: as many as the model has positions
    pad_to_length: bool = False  # pad every text to the full length, as in training
    masked: bool = True  # whether the model gets the attention mask
    lower: bool = False  # whether it was trained on lower case
    query: str = ""  # what comes before every query
    document: str = ""  # what comes before every passage of a document
    remote: bool = False  # whether its code comes with the model
    text: Features = _text_features
    image: Features = _image_features


ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        "clip": Architecture(model="CLIPModel"),
        "siglip": Architecture(model="SiglipModel", pad_to_length=True, masked=False, lower=True),
        "siglip2": Architecture(model="Siglip2Model", pad_to_length=True, masked=False, lower=True),
        "chinese_clip": Architecture(model="ChineseCLIPModel", length=52),
        "altclip": Architecture(model="AltCLIPModel", length=77),
        "metaclip_2": Architecture(model="MetaClip2Model"),
        "blip": Architecture(model="BlipForImageTextRetrieval", length=35, text=_blip_text, image=_blip_image),
        "vision-text-dual-encoder": Architecture(model="VisionTextDualEncoderModel"),
    }
)
# Models with code of their own that has CLIP's two functions, such as Jina-CLIP. 512 tokens, as Jina's code cuts.
REMOTE = Architecture(model="AutoModel", length=512, text=_own_text, image=_own_image, remote=True)
# By the type of the text model: how it and its image model, whose code comes with it, are used.
PAIRS: Mapping[str, tuple[Architecture, Architecture]] = MappingProxyType(
    {
        "nomic_bert": (
            Architecture(model="NomicBertModel", text=_mean_text, query="search_query: ", document="search_document: "),
            Architecture(model="AutoModel", image=_first_of_image, remote=True),
        )
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class HfModel:
    """A model on its device, with batches that fit there."""

    model: Any
    settings: Settings
    limit: BatchLimit

    def launch(self, features: Features, inputs: Mapping[str, Any]) -> Pending:
        """Start the model; the result waits for one row per input."""
        torch = need("torch", extra=EXTRA)
        ready = {name: self._ready(torch.as_tensor(value)) for name, value in inputs.items()}
        with torch_threads(self.settings.threads), torch.inference_mode():
            return fetched_later(features(self.model, ready))

    def _ready(self, tensor: Any) -> Any:
        gpu = self.model.device.type == "cuda"
        there = tensor.pin_memory() if gpu and not tensor.is_cuda else tensor  # pinned: the copy need not wait
        return there.to(self.model.device, self.model.dtype if there.is_floating_point() else None, non_blocking=gpu)


@dataclass(frozen=True, slots=True, eq=False)
class HfText:
    """The text tower."""

    model: HfModel
    architecture: Architecture
    splitter: Splitter | WordSplitter
    pad: int
    left: bool = False  # the side that is padded

    def split(self, texts: Sequence[str], role: Role) -> list[list[TextPassage]]:
        """Return the passages of each text."""
        return self.splitter.split(texts, self.architecture.query if role == "query" else self.architecture.document)

    def encode(self, passages: Sequence[TextPassage]) -> Matrix:
        """Return one row per passage."""
        return self.launch(passages)()

    def launch(self, passages: Sequence[TextPassage]) -> Pending:
        """Start to encode; the result waits for one row per passage."""
        return self.model.limit.launch(self._launch, passages)

    def _launch(self, passages: Sequence[TextPassage]) -> Pending:
        longest = max(len(passage.tokens) for passage in passages)
        length = self.splitter.length if self.architecture.pad_to_length else longest
        tokens, mask = padded(passages, length, self.pad, left=self.left)  # (n, length)
        inputs = {"input_ids": tokens} | ({"attention_mask": mask} if self.architecture.masked else {})
        return self.model.launch(self.architecture.text, inputs)


@dataclass(frozen=True, slots=True, eq=False)
class HfImages:
    """The image tower. With a recipe it gets pictures of the model's size; else its own processor resizes them."""

    model: HfModel
    architecture: Architecture
    processor: Any
    recipe: PictureRecipe | None = None
    levels: Any = None  # of the recipe, on the device

    @property
    def frame(self) -> Frame:
        """The size of a picture it gets, or the largest."""
        return Frame(LONGEST, "within") if self.recipe is None else self.recipe.frame

    @property
    def covers(self) -> bool:
        """Whether it resizes the shorter side and cuts out the middle."""
        return "shortest_edge" in dict(self.processor.to_dict().get("size") or {})

    def encode(self, pixels: Sequence[Pixels]) -> Matrix:
        """Return one row per picture."""
        return self.launch(pixels)()

    def launch(self, pixels: Sequence[Pixels]) -> Pending:
        """Start to encode; the result waits for one row per picture."""
        return self.model.limit.launch(self._launch, pixels)

    def _launch(self, pixels: Sequence[Pixels]) -> Pending:
        return self.model.launch(self.architecture.image, self._inputs(pixels))

    def _inputs(self, pixels: Sequence[Pixels]) -> Mapping[str, Any]:
        if self.recipe is not None:
            return {"pixel_values": tensor_of(pixels, self.levels)}  # (n, 3, S, S)
        prepare = partial(self._prepared, covers=self.covers)  # on threads: it takes longer than a GPU's turn
        workers = min(self.model.settings.workers, len(pixels))
        with closing(in_order(prepare, pixels, workers=workers, ahead=len(pixels))) as several:
            each = list(several)
        return {name: np.concatenate([one[name] for one in each]) for name in each[0]}

    def _prepared(self, pixels: Pixels, *, covers: bool) -> Mapping[str, Any]:
        if self.architecture.remote:  # every processor takes pictures of Pillow
            return dict(self.processor(images=[_pillow(pixels)], return_tensors="np"))
        given = _middle(pixels) if covers else pixels
        found: Mapping[str, Any] = self.processor(
            images=[given], input_data_format="channels_last", return_tensors="np"
        )
        return found


def _middle(pixels: Pixels) -> Pixels:
    left, top, right, bottom = band(pixels.shape[1], pixels.shape[0])
    return pixels[top:bottom, left:right]


def _pillow(pixels: Pixels) -> Any:
    from PIL import Image

    return Image.fromarray(pixels)
