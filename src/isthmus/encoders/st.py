"""``st:NAME_OR_PATH``: any sentence-transformers model, for text."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isthmus._optional import need, offline
from isthmus.encoders.base import Role, Settings
from isthmus.encoders.texts import Splitter, Strings, TextPassage
from isthmus.encoders.torch_models import torch_threads, weights
from isthmus.encoders.towers import TowerEncoder
from isthmus.errors import BadFile
from isthmus.types import Matrix

ROLE_PROMPTS: Mapping[Role, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage")}


def open_model(name: str, settings: Settings) -> TowerEncoder:
    """Make an encoder from a model."""
    model = load_model(name, settings.device)
    model.eval()
    tower = SentenceTower(
        model, Strings(splitter(model, name), {role: prompt_of(model, role) for role in ROLE_PROMPTS}), settings
    )
    dim = tower.encode([TextPassage(0, 1, b"document\na")]).shape[1]
    return TowerEncoder(
        name=f"st:{name}", dim=dim, identity=_identity(model), text=tower, image=None, settings=settings
    )


def load_model(name: str, device: str) -> Any:
    """Load a model from a folder, from the downloaded files, or (unless offline is set) from the hub."""
    st = need("sentence_transformers", extra="st")
    try:
        return st.SentenceTransformer(name, device=device, local_files_only=offline())
    except Exception as error:  # noqa: BLE001 - the hub, the file system and torch each have errors of their own
        how = "Offline is set: check the path, or download the model first." if offline() else "Check the name or path."
        raise BadFile(f"sentence-transformers cannot load {name!r}: {error} {how}") from None


@dataclass(frozen=True, slots=True, eq=False)
class SentenceTower:
    """A sentence-transformers model as a text tower."""

    model: Any
    strings: Strings
    settings: Settings

    def split(self, texts: Sequence[str], role: Role) -> list[list[TextPassage]]:
        """Return the passages of each text, as spans of it."""
        return self.strings.split(texts, role)

    def encode(self, passages: Sequence[TextPassage]) -> Matrix:
        """Return one row per passage."""
        role, texts = self.strings.read(passages)
        with torch_threads(self.settings.threads):
            rows = self.model.encode(
                texts, prompt=self.strings.prompts[role] or None, batch_size=len(texts), show_progress_bar=False
            )
        return np.asarray(rows, dtype=np.float32)


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
