"""The files of a model of transformers: its description, weights, tokenizer and image processor.

Some models come with code of their own (``auto_map`` in their ``config.json``). It runs only with consent
(``Settings.trust_remote_code``); a native class of transformers is used in any case where there is one.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from isthmus._optional import need
from isthmus.encoders.hf_towers import ARCHITECTURES, EXTRA, PAIRS, REMOTE, Architecture
from isthmus.encoders.torch_models import from_hub, weights
from isthmus.errors import BadFile, BadInput

AUTO_MAP = "auto_map"  # of a config.json: the classes that a model brings along


@dataclass(frozen=True, eq=False)
class HubFiles:
    """A model in a folder, or of the hub."""

    hub: Any  # transformers
    name: str
    trusted: bool

    @property
    def place(self) -> str:
        """The folder, or the name on the hub."""
        folder = Path(self.name).expanduser()
        return str(folder) if folder.is_dir() else self.name

    @cached_property
    def described(self) -> Mapping[str, Any]:
        """What ``config.json`` says. Nothing of the model is run."""
        found: Mapping[str, Any] = from_hub(self.place, self.hub.PreTrainedConfig.get_config_dict)[0]
        return found

    @cached_property
    def config(self) -> Any:
        """The configuration, by the model's own class if need be and allowed."""
        if AUTO_MAP in self.described and self.described.get("model_type") not in self.hub.CONFIG_MAPPING:
            self.consented()
        return self._auto(self.hub.AutoConfig)

    def consented(self) -> None:
        """Raise an error unless the model's own code may run."""
        if not self.trusted:
            raise BadInput(
                f"{self.name} comes with code of its own, which would run on this machine with your rights. Read it, "
                "then say --trust-remote-code (in Python: trust_remote_code=True)."
            )

    def architecture(self) -> Architecture:
        """Return how the model is used."""
        kind = self.config.model_type
        found = ARCHITECTURES.get(kind)
        if found is None and AUTO_MAP in self.described and kind not in PAIRS:
            found = replace(REMOTE, query=_instruction(self.config))
        if found is None:
            raise BadInput(
                f"{self.name} is a model of type {kind!r}, and hf: encodes with {', '.join(ARCHITECTURES)}. Use a "
                "model of these types, st:NAME for a sentence-transformers model, or vlm:PROMPTS:NAME for an embedder "
                "made from a vision-language model."
            )
        return found

    def model(self, architecture: Architecture) -> Any:
        """Load the model in float32."""
        if architecture.remote:
            self.consented()
        return load_weights(self.place, self.hub, architecture)

    def tokenizer(self) -> Any:
        """Load the tokenizer. For a folder without one transformers makes one that reads all texts alike."""
        tokenizer = self._auto(self.hub.AutoTokenizer)
        wanted = int(getattr(self.config.get_text_config(), "vocab_size", None) or 0)  # not every model says it
        if 2 * len(tokenizer) < wanted:
            raise BadFile(
                f"{self.place} has no tokenizer of its model: it knows {len(tokenizer)} tokens, the model {wanted}. "
                "Save the tokenizer there: tokenizer.save_pretrained(FOLDER)."
            )
        return tokenizer

    def processor(self) -> Any:
        """Load the image processor, by Pillow."""
        return self._auto(self.hub.AutoImageProcessor, backend="pil")

    def length(self, architecture: Architecture, tokenizer: Any) -> int:
        """Return the tokens of a passage: those of training, at most as many as there are positions."""
        positions = getattr(self.config.get_text_config(), "max_position_embeddings", None)
        known = [architecture.length, positions, tokenizer.model_max_length]
        return min(int(each) for each in known if each is not None)

    def _auto(self, kind: Any, **more: str) -> Any:
        return from_hub(self.place, partial(kind.from_pretrained, trust_remote_code=self.trusted, **more))


def _instruction(config: Any) -> str:
    """Return what comes before a query, as Jina-CLIP 2 says it; empty for models that say nothing."""
    said = getattr(config.get_text_config(), "hf_model_config_kwargs", None) or {}
    found = (said.get("task_instructions") or {}).get("retrieval.query", "")
    return str(found)


def load_weights(place: str, hub: Any, architecture: Architecture) -> Any:
    """Load the model in float32, and refuse one with missing weights."""
    torch = need("torch", extra=EXTRA)
    load = partial(getattr(hub, architecture.model).from_pretrained, dtype=torch.float32, output_loading_info=True)
    model, info = from_hub(place, partial(load, trust_remote_code=True) if architecture.remote else load)
    missing = sorted(info["missing_keys"])
    if missing:
        raise BadFile(
            f"{place} lacks {len(missing)} weights of a {architecture.model} ({', '.join(missing[:3])} …). It is a "
            "model for another task; use a checkpoint for retrieval."
        )
    return model.eval()


def identity_of(model: Any, tokenizer: Any, processor: Any, how: tuple[object, ...]) -> str:
    """Hash the weights and everything else that decides a vector: the model behind a name may change."""
    seen = {name: value for name, value in processor.to_dict().items() if "processor" not in name}
    said = json.dumps([*how, seen], sort_keys=True, default=str)
    digest = hashlib.sha256(f"hf\0{said}\0{tokenizer.pad_token_id}\0{tokenizer.padding_side}".encode())
    digest.update(json.dumps(sorted(tokenizer.get_vocab().items())).encode())
    for some in weights(model):
        digest.update(some)
    return digest.hexdigest()


def code_of(model: Any) -> str:
    """Return the source of a model's own code."""
    return inspect.getsource(inspect.getmodule(type(model)) or type(model))
