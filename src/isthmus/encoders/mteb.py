"""``mteb:NAME``: any model of mteb that returns one vector for a text or a picture.

    mteb.get_model(NAME) ──▸ passages and pictures go through its own encode, as in a retrieval task

The model uses its own prompts for queries and documents: it gets the role, and a retrieval task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache as once
from itertools import chain
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from isthmus._optional import need, offline
from isthmus.devices import torch_device
from isthmus.encoders.base import Progress, Role, Settings
from isthmus.encoders.byte_splitter import byte_splitter
from isthmus.encoders.cache import Cache
from isthmus.encoders.images import LONGEST, Frame, Pixels
from isthmus.encoders.st import splitter
from isthmus.encoders.texts import Strings, TextPassage
from isthmus.encoders.torch_models import check_hub_offline, torch_threads, weights
from isthmus.encoders.towers import TowerEncoder
from isthmus.errors import BadFile, BadInput
from isthmus.types import Matrix

Part: TypeAlias = Literal["text", "image"]

EXTRA = "mteb"
GREY: Pixels = np.full((32, 32, 3), 127, dtype=np.uint8)
INSTRUCTION = "Retrieve text based on user query."  # mteb's default instruction, for tasks without one


def open_model(name: str, settings: Settings) -> TowerEncoder:
    """Load a model that mteb knows by name, or a folder of sentence-transformers."""
    mteb = need("mteb", extra=EXTRA)
    folder = Path(name).expanduser()
    device = torch_device(settings.device, EXTRA)
    try:
        if folder.is_dir():
            wrapper = need("mteb.models", extra=EXTRA).SentenceTransformerEncoderWrapper
            model = wrapper(str(folder.resolve()), device=device)
        else:
            check_hub_offline("mteb", name)
            model = mteb.get_model(name, device=device)
    except BadFile:
        raise
    except Exception as error:  # noqa: BLE001 - the hub, pip's metadata and torch each have errors of their own
        how = "Offline is set: download the model first." if offline() else "Check the name and the packages it needs."
        raise BadFile(f"mteb cannot load {name!r}: {error} {how}") from None
    return _encoder(model, f"mteb:{name}", settings)


def wrap(
    model: Any,
    *,
    threads: int | None = None,
    cache: str | PathLike[str] | Cache | None = None,
    batch: int = 32,
    progress: Progress | None = None,
) -> TowerEncoder:
    """Wrap a model that is already loaded and follows mteb's ``EncoderProtocol``.

    Its name is that of its ``ModelMeta``. A collection made with it stores that name; if ``mteb.get_model`` does not
    know the name, pass the model to ``Collection.open`` again.
    """
    protocol = need("mteb.models", extra=EXTRA).EncoderProtocol
    if not isinstance(model, protocol) or model.mteb_model_meta is None:
        raise BadInput(
            f"A {type(model).__name__} is not an mteb encoder: it needs encode, similarity, similarity_pairwise and "
            "mteb_model_meta."
        )
    settings = Settings(threads=threads, cache=cache, batch=batch, progress=progress)
    return _encoder(model, f"mteb:{model.mteb_model_meta.name}", settings)


def _encoder(model: Any, name: str, settings: Settings) -> TowerEncoder:
    models = need("mteb.models", extra=EXTRA)
    if not isinstance(model, models.EncoderProtocol) or "dense" not in model.mteb_model_meta.model_type:
        raise BadInput(
            f"{name} does not return one vector for each text: it ranks pairs, searches on its own, or returns a "
            "vector for each word. Use a dense model."
        )
    modalities = model.mteb_model_meta.modalities
    if not {"text", "image"} & set(modalities):
        raise BadInput(f"{name} reads {' and '.join(modalities)}; isthmus encodes texts and images.")
    text = MtebText(model, _strings(model, name), settings) if "text" in modalities else None
    images = MtebImages(model, settings)
    probe = images.encode([GREY]) if text is None else text.encode([TextPassage(0, 1, b"document\na")])
    return TowerEncoder(
        name=name,
        dim=probe.shape[1],
        identity=_identity(model),
        text=text,
        image=images if "image" in modalities else None,
        settings=settings,
    )


@dataclass(frozen=True, slots=True, eq=False)
class MtebText:
    """The text tower of an mteb model."""

    model: Any
    strings: Strings
    settings: Settings

    def split(self, texts: Sequence[str], role: Role) -> list[list[TextPassage]]:
        """Return the passages of each text, as spans of it."""
        return self.strings.split(texts, role)

    def encode(self, passages: Sequence[TextPassage]) -> Matrix:
        """Return one row per passage."""
        role, texts = self.strings.read(passages)
        return _encoded(self.model, "text", texts, role, self.settings)


@dataclass(frozen=True, slots=True, eq=False)
class MtebImages:
    """The image tower. It passes whole pictures, because the model crops or resizes them itself."""

    model: Any
    settings: Settings

    @property
    def frame(self) -> Frame:
        """The largest size of a picture it gets."""
        return Frame(LONGEST, "within")

    def encode(self, pixels: Sequence[Pixels]) -> Matrix:
        """Return one row per picture."""
        from PIL import Image

        return _encoded(self.model, "image", [Image.fromarray(each) for each in pixels], "document", self.settings)


def _encoded(model: Any, part: Part, values: list[Any], role: Role, settings: Settings) -> Matrix:
    """Encode one batch as mteb does: a loader over a dataset, with the task and the role."""
    torch = need("torch", extra=EXTRA)
    loader = need("torch.utils.data", extra=EXTRA).DataLoader(
        need("datasets", extra=EXTRA).Dataset.from_dict({part: values}), batch_size=len(values), collate_fn=_together
    )
    with torch_threads(settings.threads):
        rows = model.encode(
            loader,
            task_metadata=_task(part),
            hf_split="test",
            hf_subset="default",
            prompt_type=need("mteb.types", extra=EXTRA).PromptType(role),
            batch_size=len(values),
            show_progress_bar=False,
        )
    if isinstance(rows, torch.Tensor):
        rows = rows.detach().cpu().float().numpy()
    vectors = np.asarray(rows, dtype=np.float32)
    if vectors.ndim != 2:
        raise BadInput(
            f"{model.mteb_model_meta.name} returned vectors of shape {vectors.shape}, not one row for each {part}."
        )
    return vectors


def _together(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


@once
def _task(part: Part) -> Any:
    """Return the metadata of a retrieval task that mteb does not have, so the model uses no task-specific prompt."""
    return need("mteb.abstasks.task_metadata", extra=EXTRA).TaskMetadata(
        name="IsthmusRetrieval",
        description="Whatever a collection holds.",
        prompt=INSTRUCTION,
        dataset={"path": "isthmus/none", "revision": "none"},
        type="Retrieval" if part == "text" else "Any2AnyRetrieval",
        category="t2t" if part == "text" else "i2i",
        modalities=[part],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
    )


def _strings(model: Any, name: str) -> Strings:
    """Split by the model's own tokenizer if it is a sentence-transformer, else by bytes."""
    if _is_sentence_transformer(model):
        roles = need("mteb.types", extra=EXTRA).PromptType
        prompt = need("mteb.models.abs_encoder", extra=EXTRA).get_prompt
        prompts = model.model_prompts
        return Strings(
            splitter(model.model, name),
            {
                "query": prompt(prompts, _task("text"), roles.query) or "",
                "document": prompt(prompts, _task("text"), roles.document) or "",
            },
        )
    most = model.mteb_model_meta.max_tokens
    by_bytes = byte_splitter(int(most), name) if most and isfinite(most) else None
    return Strings(by_bytes, {"query": "", "document": ""})


def _identity(model: Any) -> str:
    """Hash the weights of every torch module of the model, and everything else that decides a vector.

    For a model behind a service, or one without torch, only name and revision are known.
    """
    meta, module = model.mteb_model_meta, need("torch.nn", extra=EXTRA).Module
    held = (
        [model]
        if isinstance(model, module)
        else [v for _, v in sorted(getattr(model, "__dict__", {}).items()) if isinstance(v, module)]
    )
    known = None if held else (meta.name, meta.revision)  # not for a folder: its name is a path, and it may move
    digest = hashlib.sha256(repr(("mteb", type(model).__name__, known, meta.max_tokens)).encode())
    if _is_sentence_transformer(model):
        digest.update(repr((model.model_prompts, model.model.max_seq_length)).encode())
    for some in chain.from_iterable(map(weights, held)):
        digest.update(some)
    return digest.hexdigest()


def _is_sentence_transformer(model: Any) -> bool:
    return isinstance(model, need("mteb.models", extra=EXTRA).SentenceTransformerEncoderWrapper)
