"""``hf:NAME_OR_PATH``: CLIP-like models of transformers, with a text tower and an image tower in one space.

    config.model_type ──▸ a row of ARCHITECTURES: class, text length, padding, mask, case
    text   ──▸ the model's own tokenizer, passages of the model's length ──▸ get_text_features
    image  ──▸ the model's own image processor, by Pillow               ──▸ get_image_features

No code from the hub is run (``trust_remote_code`` is never set), and a checkpoint that lacks weights of its class is
rejected: transformers would fill them with random numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from isthmus._optional import need
from isthmus.encoders.base import Role, Settings
from isthmus.encoders.images import LONGEST, Frame, Pixels, in_order
from isthmus.encoders.texts import Splitter, TextPassage, padded
from isthmus.encoders.torch_models import BatchLimit, from_hub, in_precision, torch_device, torch_threads, weights
from isthmus.encoders.towers import TowerEncoder
from isthmus.encoders.word_splitter import WordSplitter
from isthmus.errors import BadFile, BadInput
from isthmus.isolated.picture import band
from isthmus.types import Matrix

EXTRA = "hf"
Features: TypeAlias = Callable[[Any, Mapping[str, Any]], Any]  # (model, inputs) → tensor (n, d)


def _text_features(model: Any, inputs: Mapping[str, Any]) -> Any:
    return model.get_text_features(**inputs).pooler_output


def _image_features(model: Any, inputs: Mapping[str, Any]) -> Any:
    return model.get_image_features(**inputs).pooler_output


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


def open_model(name: str, settings: Settings) -> TowerEncoder:
    """Make an encoder from a model."""
    hub = need("transformers", extra=EXTRA)
    hub.utils.logging.disable_progress_bar()  # the command line has its own
    device = torch_device(settings.device, EXTRA)
    folder = Path(name).expanduser()
    place = str(folder) if folder.is_dir() else name
    config = from_hub(place, hub.AutoConfig.from_pretrained)
    architecture = _architecture(name, config)
    model = _loaded(place, hub, architecture)
    tokenizer = _tokenizer(place, hub, config)
    processor = from_hub(place, partial(hub.AutoImageProcessor.from_pretrained, backend="pil"))
    splitter = _splitter(tokenizer, _length(architecture, config, tokenizer), name, lower=architecture.lower)
    identity = _identity(model, tokenizer, processor, (config.model_type, splitter.length, architecture.lower))
    running = HfModel(in_precision(model, settings.precision).to(device), settings, BatchLimit(settings.batch))
    text = HfText(running, architecture, splitter, tokenizer.pad_token_id or 0, left=tokenizer.padding_side == "left")
    image = HfImages(running, architecture, processor)
    dim = text.encode(splitter.split(["a"])[0]).shape[1]
    _check_pictures(image, name)
    return TowerEncoder(name=f"hf:{name}", dim=dim, identity=identity, text=text, image=image, settings=settings)


def _architecture(name: str, config: Any) -> Architecture:
    found = ARCHITECTURES.get(config.model_type)
    if found is None:
        raise BadInput(
            f"{name} is a model of type {config.model_type!r}, and hf: encodes with {', '.join(ARCHITECTURES)}. Use a "
            "model of these types, or st:NAME for a sentence-transformers model."
        )
    return found


def _loaded(place: str, hub: Any, architecture: Architecture) -> Any:
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
        images.encode([np.full((32, 32, 3), 128, dtype=np.uint8)])
    except (RuntimeError, ValueError) as error:
        raise BadFile(
            f"The image processor of {name} does not fit its weights: {' '.join(str(error).split())} Save the one that "
            "belongs to the model there."
        ) from None


def _length(architecture: Architecture, config: Any, tokenizer: Any) -> int:
    """Return the tokens of a passage: those of training, at most as many as there are positions."""
    positions = int(config.text_config.max_position_embeddings)
    return min(architecture.length or positions, positions, int(tokenizer.model_max_length))


def _splitter(tokenizer: Any, length: int, name: str, *, lower: bool) -> Splitter | WordSplitter:
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


@dataclass(frozen=True, slots=True, eq=False)
class HfModel:
    """A model on its device, with batches that fit there."""

    model: Any
    settings: Settings
    limit: BatchLimit

    def run(self, features: Features, inputs: Mapping[str, Any]) -> Matrix:
        """Return one row per input."""
        torch = need("torch", extra=EXTRA)
        ready = {name: self._ready(torch.as_tensor(value)) for name, value in inputs.items()}
        with torch_threads(self.settings.threads), torch.inference_mode():
            rows: Matrix = features(self.model, ready).float().cpu().numpy()
        return rows

    def _ready(self, tensor: Any) -> Any:
        return tensor.to(self.model.device, self.model.dtype if tensor.is_floating_point() else None)


@dataclass(frozen=True, slots=True, eq=False)
class HfText:
    """The text tower."""

    model: HfModel
    architecture: Architecture
    splitter: Splitter | WordSplitter
    pad: int
    left: bool = False  # the side that is padded

    def split(self, texts: Sequence[str], role: Role) -> list[list[TextPassage]]:  # noqa: ARG002 - one tower for both
        """Return the passages of each text."""
        return self.splitter.split(texts)

    def encode(self, passages: Sequence[TextPassage]) -> Matrix:
        """Return one row per passage."""
        return self.model.limit.run(self._encode, passages)

    def _encode(self, passages: Sequence[TextPassage]) -> Matrix:
        longest = max(len(passage.tokens) for passage in passages)
        length = self.splitter.length if self.architecture.pad_to_length else longest
        tokens, mask = padded(passages, length, self.pad, left=self.left)  # (n, length)
        inputs = {"input_ids": tokens} | ({"attention_mask": mask} if self.architecture.masked else {})
        return self.model.run(self.architecture.text, inputs)


@dataclass(frozen=True, slots=True, eq=False)
class HfImages:
    """The image tower. It gets whole pictures: the model's own processor crops or resizes them."""

    model: HfModel
    architecture: Architecture
    processor: Any

    @property
    def frame(self) -> Frame:
        """The largest size of a picture it gets."""
        return Frame(LONGEST, "within")

    @property
    def covers(self) -> bool:
        """Whether it resizes the shorter side and cuts out the middle."""
        return "shortest_edge" in dict(self.processor.to_dict().get("size") or {})

    def encode(self, pixels: Sequence[Pixels]) -> Matrix:
        """Return one row per picture."""
        return self.model.limit.run(self._encode, pixels)

    def _encode(self, pixels: Sequence[Pixels]) -> Matrix:
        prepare = partial(self._prepared, covers=self.covers)  # on threads: it takes longer than a GPU's turn
        workers = min(self.model.settings.workers, len(pixels))
        with closing(in_order(prepare, pixels, workers=workers, ahead=len(pixels))) as several:
            each = list(several)
        return self.model.run(
            self.architecture.image, {name: np.concatenate([one[name] for one in each]) for name in each[0]}
        )

    def _prepared(self, pixels: Pixels, *, covers: bool) -> Mapping[str, Any]:
        given = _middle(pixels) if covers else pixels
        found: Mapping[str, Any] = self.processor(
            images=[given], input_data_format="channels_last", return_tensors="np"
        )
        return found


def _middle(pixels: Pixels) -> Pixels:
    left, top, right, bottom = band(pixels.shape[1], pixels.shape[0])
    return pixels[top:bottom, left:right]


def _identity(model: Any, tokenizer: Any, processor: Any, how: tuple[object, ...]) -> str:
    """Hash the weights and everything else that decides a vector: the model behind a name may change."""
    seen = {name: value for name, value in processor.to_dict().items() if "processor" not in name}
    said = json.dumps([*how, seen], sort_keys=True, default=str)
    digest = hashlib.sha256(f"hf\0{said}\0{tokenizer.pad_token_id}\0{tokenizer.padding_side}".encode())
    digest.update(json.dumps(sorted(tokenizer.get_vocab().items())).encode())
    for some in weights(model):
        digest.update(some)
    return digest.hexdigest()
