"""``st:NAME_OR_PATH``: any sentence-transformers model, for text, and for images where it reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from isthmus._optional import need
from isthmus.devices import torch_device
from isthmus.encoders.base import Role, Settings
from isthmus.encoders.images import LONGEST, Frame, Pixels
from isthmus.encoders.texts import Splitter, Strings, TextPassage
from isthmus.encoders.torch_models import BatchLimit, from_hub, in_precision, torch_threads, weights
from isthmus.encoders.towers import TowerEncoder
from isthmus.errors import BadInput
from isthmus.types import Matrix

EXTRA = "st"
ROLE_PROMPTS: Mapping[Role, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage")}


def open_model(name: str, settings: Settings) -> TowerEncoder:
    """Make an encoder from a model."""
    settings = replace(settings, device=torch_device(settings.device, EXTRA))
    model = load_model(name, settings.device)
    model.eval()
    if not model.supports("text"):
        raise BadInput(f"{name} reads {', '.join(map(str, model.modalities))}; isthmus needs a model that reads text.")
    identity = _identity(model)  # of the weights before they are rounded
    running = StModel(
        in_precision(model, settings.precision, settings.device), settings, BatchLimit(settings.batch_size)
    )
    prompts = {role: prompt_of(model, role) for role in ROLE_PROMPTS}
    text = StText(running, Strings(splitter(model, name), prompts))
    image = StImages(running) if model.supports("image") else None
    dim = text.encode([TextPassage(0, 1, b"document\na")]).shape[1]
    return TowerEncoder(name=f"st:{name}", dim=dim, identity=identity, text=text, image=image, settings=settings)


def load_model(name: str, device: str) -> Any:
    """Load a model from a folder, from the downloaded files, or (unless offline is set) from the hub."""
    st = need("sentence_transformers", extra=EXTRA)
    load = partial(st.SentenceTransformer, device=device)
    return from_hub(name, load, "sentence-transformers", name if "/" in name else f"sentence-transformers/{name}")


@dataclass(frozen=True, slots=True, eq=False)
class StModel:
    """A model of sentence-transformers, with batches that fit into the memory of its device."""

    model: Any
    settings: Settings
    limit: BatchLimit

    def encode(self, inputs: Sequence[Any], prompt: str = "") -> Matrix:
        """Return one row per input: all texts, or all pictures."""
        return self.limit.run(partial(self._encode, prompt), inputs)

    def _encode(self, prompt: str, inputs: Sequence[Any]) -> Matrix:
        with torch_threads(self.settings.threads):
            rows = self.model.encode(
                list(inputs),
                prompt=prompt or None,
                batch_size=len(inputs),
                show_progress_bar=False,
                convert_to_tensor=True,
            )
        vectors: Matrix = rows.float().cpu().numpy()
        return vectors


@dataclass(frozen=True, slots=True, eq=False)
class StText:
    """The text tower."""

    model: StModel
    strings: Strings

    def split(self, texts: Sequence[str], role: Role) -> list[list[TextPassage]]:
        """Return the passages of each text, as spans of it."""
        return self.strings.split(texts, role)

    def encode(self, passages: Sequence[TextPassage]) -> Matrix:
        """Return one row per passage."""
        role, texts = self.strings.read(passages)
        return self.model.encode(texts, self.strings.prompts[role])


@dataclass(frozen=True, slots=True, eq=False)
class StImages:
    """The image tower. It passes whole pictures, because the model crops or resizes them itself."""

    model: StModel

    @property
    def frame(self) -> Frame:
        """The largest size of a picture it gets."""
        return Frame(LONGEST, "within")

    def encode(self, pixels: Sequence[Pixels]) -> Matrix:
        """Return one row per picture."""
        from PIL import Image

        return self.model.encode([Image.fromarray(each) for each in pixels])


def prompt_of(model: Any, role: str) -> str:
    """Return the model's prompt for a query or a document."""
    prompts = model.prompts or {}
    names = ROLE_PROMPTS["query" if role == "query" else "document"]
    return next((prompts[name] for name in names if prompts.get(name)), "")


def splitter(model: Any, name: str) -> Splitter | None:
    """Return a splitter for the model's length; None if the length has no limit, or the tokenizer is not supported."""
    from tokenizers import Tokenizer

    tokenizer = getattr(model.tokenizer, "backend_tokenizer", model.tokenizer)
    if model.max_seq_length is None or not isinstance(tokenizer, Tokenizer):
        return None
    own = Tokenizer.from_str(tokenizer.to_str())  # a copy: the model keeps its own truncation and padding
    return Splitter.of(own, int(model.max_seq_length), name)


def _identity(model: Any) -> str:
    """Hash the weights and everything else that decides a vector: the model behind a name may change."""
    digest = hashlib.sha256(repr((model.max_seq_length, model.prompts)).encode())
    for some in weights(model):
        digest.update(some)
    return digest.hexdigest()
