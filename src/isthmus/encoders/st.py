"""``st:NAME_OR_PATH``: any sentence-transformers model, for text."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from isthmus._optional import need
from isthmus.encoders.base import Role, Settings
from isthmus.encoders.texts import Passage, Splitter
from isthmus.encoders.towers import TowerEncoder
from isthmus.errors import BadFile
from isthmus.types import Matrix

OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "ISTHMUS_OFFLINE")
ROLE_PROMPTS: Mapping[Role, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage")}


def open_model(name: str, settings: Settings) -> TowerEncoder:
    """Make an encoder from a model."""
    model = load_model(name, settings.device)
    model.eval()
    tower = SentenceTower(model, _splitter(model, name), settings)
    dim = tower.encode([Passage(0, 1, b"document\na")]).shape[1]
    return TowerEncoder(
        name=f"st:{name}", dim=dim, identity=_identity(model), text=tower, image=None, settings=settings
    )


def load_model(name: str, device: str) -> Any:
    """Load a model from a folder, from what was downloaded before, or (unless offline is set) from the hub."""
    st = need("sentence_transformers", extra="st")
    offline = any(os.environ.get(variable, "").lower() in ("1", "true", "yes", "on") for variable in OFFLINE)
    try:
        return st.SentenceTransformer(name, device=device, local_files_only=offline)
    except Exception as error:  # noqa: BLE001 - the hub, the file system and torch each have errors of their own
        how = "Offline is set: check the path, or download the model first." if offline else "Check the name or path."
        raise BadFile(f"sentence-transformers cannot load {name!r}: {error} {how}") from None


@dataclass(frozen=True, slots=True, eq=False)
class SentenceTower:
    """A sentence-transformers model behind passages; a passage's content is its role and its text."""

    model: Any
    splitter: Splitter | None  # None: the model reads texts of any length
    settings: Settings

    def split(self, texts: Sequence[str], role: Role) -> list[list[Passage]]:
        """Return the passages of each text, as stretches of it."""
        return [
            [Passage(start, end, f"{role}\n{text[start:end]}".encode()) for start, end in self._stretches(text, role)]
            for text in texts
        ]

    def encode(self, passages: Sequence[Passage]) -> Matrix:
        """Return one row per passage."""
        role, texts = "document", []
        for passage in passages:
            role, _, text = passage.content.decode().partition("\n")
            texts.append(text)
        with _threads(self.settings.threads):
            rows = self.model.encode(
                texts, prompt=prompt_of(self.model, role) or None, batch_size=len(texts), show_progress_bar=False
            )
        return np.asarray(rows, dtype=np.float32)

    def _stretches(self, text: str, role: Role) -> list[tuple[int, int]]:
        if not text.strip():
            return []
        if self.splitter is None:
            return [(0, len(text))]
        prompt = prompt_of(self.model, role)
        return [
            piece
            for p in self.splitter.split([text], prompt)[0]
            for piece in self._fitting(text, p.start, p.end, prompt)
        ]

    def _fitting(self, text: str, start: int, end: int, prompt: str) -> list[tuple[int, int]]:
        """Halve a stretch that has more tokens alone than it had inside the text, until nothing would be cut."""
        again = self.splitter.split([text[start:end]], prompt)[0] if self.splitter else []
        if len(again) < 2:
            return [(start, end)]
        return [piece for p in again for piece in self._fitting(text, start + p.start, start + p.end, prompt)]


def prompt_of(model: Any, role: str) -> str:
    """Return the words that a model wants in front of a query or a document."""
    prompts = model.prompts or {}
    names = ROLE_PROMPTS["query" if role == "query" else "document"]
    return next((prompts[name] for name in names if prompts.get(name)), "")


def _splitter(model: Any, name: str) -> Splitter | None:
    from tokenizers import Tokenizer

    tokenizer = getattr(model.tokenizer, "backend_tokenizer", model.tokenizer)
    if model.max_seq_length is None or not isinstance(tokenizer, Tokenizer):
        return None
    own = Tokenizer.from_str(tokenizer.to_str())  # the model keeps its own settings for cutting and padding
    return Splitter.of(own, int(model.max_seq_length), name)


def _identity(model: Any) -> str:
    """Hash the weights and what else decides a vector: a name alone may come to mean another model."""
    digest = hashlib.sha256(repr((model.max_seq_length, model.prompts)).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().float().numpy().tobytes())
    return digest.hexdigest()


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Hold torch to so many threads while it runs here."""
    torch = need("torch", extra="st")
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
