"""``st:NAME_OR_PATH``: any sentence-transformers model, for text, and for images where it reads them.

    reads text and images, each alone (CLIP)                 two towers; a document of both has two vectors
    reads them together (``supports(("image", "text"))``)    one vector, of the picture and then the text

A text is given as ``{"text": …}`` where the model reads anything else, too: a bare string that looks like the path or
the URL of a picture, a sound or a video would be opened.
"""

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
from isthmus.encoders.once import Pending, VectorInput
from isthmus.encoders.one_vector import OneVectorEncoder
from isthmus.encoders.texts import Splitter, Strings, TextPassage
from isthmus.encoders.torch_models import BatchLimit, from_hub, in_precision, torch_threads, weights
from isthmus.encoders.towers import TowerEncoder
from isthmus.errors import BadInput
from isthmus.types import Matrix

EXTRA = "st"
FEW, LENGTH = 8, 2048  # inputs at once, and tokens of a passage, where text and image are read together, as in vlm:
ROLE_PROMPTS: Mapping[Role, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage")}


def open_model(name: str, settings: Settings) -> TowerEncoder | OneVectorEncoder:
    """Make an encoder from a model."""
    settings = replace(settings, device=torch_device(settings.device, EXTRA))
    model = load_model(name, settings.device)
    model.eval()
    if not model.supports("text"):
        raise BadInput(f"{name} reads {', '.join(map(str, model.modalities))}; isthmus needs a model that reads text.")
    identity = _identity(model)  # of the weights before they are rounded
    together = model.supports(("image", "text"))
    limit = BatchLimit(settings.batch or FEW if together else settings.batch_size)
    running = StModel(in_precision(model, settings.precision, settings.device), settings, limit)
    prompts = {role: prompt_of(model, role) for role in ROLE_PROMPTS}
    if together:
        return _one_vector(name, running, prompts, identity)
    text = StText(running, Strings(splitter(model, name), prompts))
    image = StImages(running) if model.supports("image") else None
    dim = text.encode([TextPassage(0, 1, b"document\na")]).shape[1]
    return TowerEncoder(name=f"st:{name}", dim=dim, identity=identity, text=text, image=image, settings=settings)


def _one_vector(name: str, running: StModel, prompts: Mapping[Role, str], identity: str) -> OneVectorEncoder:
    tower = StPairs(running, Strings(splitter(running.model, name, LENGTH), prompts))
    dim = tower.launch([VectorInput(TextPassage(0, 1, b"document\na"))], "document")().shape[1]
    identity = hashlib.sha256(f"{identity}\0image, text 1".encode()).hexdigest()
    return OneVectorEncoder(name=f"st:{name}", dim=dim, identity=identity, tower=tower, settings=running.settings)


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
        alone = [*self.model.model.modalities] == ["text"]
        return self.model.encode(texts if alone else [{"text": text} for text in texts], self.strings.prompts[role])


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


@dataclass(frozen=True, slots=True, eq=False)
class StPairs:
    """A model that reads texts, pictures, and both together."""

    model: StModel
    strings: Strings

    @property
    def frame(self) -> Frame:
        """The largest size of a picture it gets."""
        return Frame(LONGEST, "within")

    def split(self, texts: Sequence[str], role: Role) -> list[list[TextPassage]]:
        """Return the passages of each text."""
        return self.strings.split(texts, role)

    def launch(self, inputs: Sequence[VectorInput], role: Role) -> Pending:
        """Encode; the result has one row per input."""
        rows = self.model.encode([self._content(one) for one in inputs], self.strings.prompts[role])
        return lambda: rows

    def _content(self, one: VectorInput) -> dict[str, Any]:
        from PIL import Image

        seen = {} if one.pixels is None else {"image": Image.fromarray(one.pixels)}
        said = {} if one.passage is None else {"text": self.strings.read([one.passage])[1][0]}
        return {**seen, **said}  # in the order in which the model reads them


def prompt_of(model: Any, role: str) -> str:
    """Return the model's prompt for a query or a document."""
    prompts = model.prompts or {}
    names = ROLE_PROMPTS["query" if role == "query" else "document"]
    return next((prompts[name] for name in names if prompts.get(name)), "")


def splitter(model: Any, name: str, most: int | None = None) -> Splitter | None:
    """Return a splitter for the model's length, ``most`` at most; None if there is no limit, or no such tokenizer."""
    from tokenizers import Tokenizer

    tokenizer = getattr(model.tokenizer, "backend_tokenizer", model.tokenizer)
    known = [int(each) for each in (model.max_seq_length, most) if each is not None]
    if not known or not isinstance(tokenizer, Tokenizer):
        return None
    own = Tokenizer.from_str(tokenizer.to_str())  # a copy: the model keeps its own truncation and padding
    return Splitter.of(own, min(known), name)


def _identity(model: Any) -> str:
    """Hash the weights and everything else that decides a vector: the model behind a name may change."""
    digest = hashlib.sha256(repr((model.max_seq_length, model.prompts)).encode())
    for some in weights(model):
        digest.update(some)
    return digest.hexdigest()
