"""``vlm:PROMPTS:NAME_OR_PATH``: embedders made from vision-language models: E5-V, VLM2Vec, GME, Qwen3-VL-Embedding.

    text, image or both ──▸ the prompt of the family ──▸ the language model ──▸ the state of the last token

Text and image are read together: a document of both has ONE vector, in the part ``image+text``. ``vlm_prompts`` has
the prompts. No code from the hub is run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isthmus._optional import need
from isthmus.devices import torch_device
from isthmus.encoders.base import Role, Settings
from isthmus.encoders.hf_towers import HfModel
from isthmus.encoders.images import LONGEST, Frame, Pixels
from isthmus.encoders.once import Pending, VectorInput
from isthmus.encoders.one_vector import OneVectorEncoder
from isthmus.encoders.texts import Splitter, Strings, TextPassage
from isthmus.encoders.torch_models import BatchLimit, from_hub, in_precision, no_remote_code, weights
from isthmus.encoders.vlm_prompts import PROMPTS, Prompts
from isthmus.errors import BadFile, BadInput
from isthmus.registry import lookup

EXTRA = "hf"
LLAVA = "llava_next"


def open_model(rest: str, settings: Settings) -> OneVectorEncoder:
    """Make an encoder from ``PROMPTS:NAME_OR_PATH``."""
    style, _, name = rest.partition(":")
    prompts = lookup(PROMPTS, style, "family of prompts")
    if not name:
        raise BadInput(f"'vlm:{rest}' is not an encoder's full name. Write vlm:{style}:NAME_OR_PATH.")
    hub = need("transformers", extra=EXTRA)
    hub.utils.logging.disable_progress_bar()
    settings = replace(settings, device=torch_device(settings.device, EXTRA))
    folder = Path(name).expanduser()
    place = str(folder) if folder.is_dir() else name
    _check_type(place, hub, prompts, style)
    model = _loaded(place, hub, prompts)
    tokenizer = from_hub(place, no_remote_code(hub.AutoTokenizer))
    pictures = _pictures(place, hub, prompts)
    identity = _identity(model, tokenizer, pictures, prompts)
    limit = settings.batch_size if settings.batch else 8  # thousands of tokens each
    running = HfModel(in_precision(model, settings.precision, settings.device), settings, BatchLimit(limit))
    splitter = Splitter.of(_copy(tokenizer, name), prompts.length, name)
    tower = VlmTower(running, prompts, tokenizer, pictures, Strings(splitter, {"document": "", "query": ""}))
    dim = tower.launch([VectorInput(TextPassage(0, 1, b"document\na"))], "document")().shape[1]
    return OneVectorEncoder(name=f"vlm:{rest}", dim=dim, identity=identity, tower=tower, settings=settings)


@dataclass(frozen=True, slots=True, eq=False)
class PictureInputs:
    """What makes inputs of pictures: the model's own image processor, and how many tokens each picture takes."""

    processor: Any
    counter: Any  # of LLaVA, which counts in its own way; None: patches of the grid, merged

    def inputs(self, pixels: Sequence[Pixels]) -> tuple[dict[str, Any], list[int]]:
        """Return the inputs of the model, and how many tokens stand for each picture."""
        found = dict(self.processor(images=list(pixels), input_data_format="channels_last", return_tensors="np"))
        if self.counter is None:
            merged = self.processor.merge_size**2
            return found, [int(grid.prod()) // merged for grid in found["image_grid_thw"]]
        told = found | {"image_sizes": np.asarray(found["image_sizes"]).tolist()}
        token = self.counter.image_token
        counts = [len(self.counter.replace_image_token(told, row)) // len(token) for row in range(len(pixels))]
        return found, counts


@dataclass(frozen=True, slots=True, eq=False)
class VlmTower:
    """A language model that reads prompts with and without a picture."""

    model: HfModel
    prompts: Prompts
    tokenizer: Any
    pictures: PictureInputs
    strings: Strings

    @property
    def frame(self) -> Frame:
        """The largest size of a picture it gets."""
        return Frame(LONGEST, "within")

    def split(self, texts: Sequence[str], role: Role) -> list[list[TextPassage]]:
        """Return the passages of each text."""
        return self.strings.split(texts, role)

    def launch(self, inputs: Sequence[VectorInput], role: Role) -> Pending:
        """Start to encode; the result waits for one row per input."""
        return self.model.limit.launch(partial(self._launch, role), inputs)

    def _launch(self, role: Role, inputs: Sequence[VectorInput]) -> Pending:
        pixels = [one.pixels for one in inputs if one.pixels is not None]
        seen, counts = self.pictures.inputs(pixels) if pixels else ({}, [])
        repeats = iter(counts)
        said = [self.prompt(one, role, next(repeats) if one.pixels is not None else 0) for one in inputs]
        tokens, mask = self._tokens(said)  # (n, t)
        given = {"input_ids": tokens, "attention_mask": mask, **seen}
        if not self.prompts.grid:
            given["position_ids"] = np.broadcast_to(np.arange(tokens.shape[1]), (3, *tokens.shape)).copy()
        elif "image_grid_thw" in seen:
            shown = tokens == self.tokenizer.convert_tokens_to_ids(self.prompts.placeholder)
            given["mm_token_type_ids"] = shown.astype(np.int64)
        return self.model.launch(_last_state, given)

    def prompt(self, one: VectorInput, role: Role, patches: int) -> str:
        """Return the prompt of an input, whose picture takes this many tokens."""
        text = "" if one.passage is None else self.strings.read([one.passage])[1][0]
        text = text.replace(self.prompts.placeholder, " ")  # it would stand for a picture that is not there
        kinds = self.prompts.words if one.pixels is None else self.prompts.both if text else self.prompts.picture
        image = self.prompts.image.replace(self.prompts.placeholder, self.prompts.placeholder * patches)
        return kinds[role].replace("{image}", image if one.pixels is not None else "", 1).replace("{text}", text, 1)

    def _tokens(self, prompts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return tokens and mask, padded on the right: what comes later cannot change a state of a causal model."""
        several: list[list[int]] = self.tokenizer(list(prompts), verbose=False)["input_ids"]
        longest = max(map(len, several))
        tokens = np.full((len(several), longest), self.tokenizer.pad_token_id or 0, dtype=np.int64)
        mask = np.zeros_like(tokens)
        for row, ids in enumerate(several):
            tokens[row, : len(ids)], mask[row, : len(ids)] = ids, 1
        return tokens, mask


def _last_state(model: Any, inputs: Mapping[str, Any]) -> Any:
    """Return the state of the last token of each prompt, ``(n, d)``."""
    states = model.model(**inputs, use_cache=False).last_hidden_state  # (n, t, d)
    last = inputs["attention_mask"].sum(dim=1) - 1
    return states[need("torch", extra=EXTRA).arange(len(states), device=states.device), last]


def _check_type(place: str, hub: Any, prompts: Prompts, style: str) -> None:
    found = from_hub(place, no_remote_code(hub.AutoConfig)).model_type
    if found != prompts.model_type:
        fitting = [name for name, one in PROMPTS.items() if one.model_type == found]
        how = f"Write vlm:{fitting[0]}:NAME" if fitting else f"vlm: reads {', '.join(PROMPTS)}"
        raise BadInput(f"{place} is a model of type {found!r}, and {style} is of {prompts.model_type!r}. {how}.")


def _loaded(place: str, hub: Any, prompts: Prompts) -> Any:
    torch = need("torch", extra=EXTRA)
    load = partial(getattr(hub, prompts.model).from_pretrained, dtype=torch.float32, output_loading_info=True)
    model, info = from_hub(place, load)
    missing = sorted(key for key in info["missing_keys"] if not key.startswith("lm_head"))  # which says words only
    if missing:
        raise BadFile(
            f"{place} lacks {len(missing)} weights of a {prompts.model} ({', '.join(missing[:3])} …). Use the full "
            "checkpoint; merge an adapter into its model first."
        )
    return model.eval()


def _pictures(place: str, hub: Any, prompts: Prompts) -> PictureInputs:
    processor = from_hub(place, partial(no_remote_code(hub.AutoImageProcessor), backend="pil"))
    if prompts.pixels is not None:
        least, most = prompts.pixels
        processor.size = {"shortest_edge": least, "longest_edge": most}
    counter = from_hub(place, hub.LlavaNextProcessor.from_pretrained) if prompts.model_type == LLAVA else None
    return PictureInputs(processor, counter)


def _copy(tokenizer: Any, name: str) -> Any:
    from tokenizers import Tokenizer

    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise BadFile(f"{name} has no tokenizer.json, by which texts are split. Save its fast tokenizer there.")
    return Tokenizer.from_str(backend.to_str())  # a copy: the model's tokenizer keeps its own settings


def _identity(model: Any, tokenizer: Any, pictures: PictureInputs, prompts: Prompts) -> str:
    """Hash the weights, the prompts, and everything else that decides a vector."""
    seen = {name: value for name, value in pictures.processor.to_dict().items() if "processor" not in name}
    said = json.dumps([repr(prompts), seen, sorted(tokenizer.get_vocab().items())], sort_keys=True, default=str)
    digest = hashlib.sha256(f"vlm\0{said}".encode())
    for some in weights(model):
        digest.update(some)
    return digest.hexdigest()
