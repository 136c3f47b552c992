"""``hf:NAME_OR_PATH``: captioners and language models of Hugging Face, run locally (``isthmus[hf]``)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from isthmus._optional import need
from isthmus.align.prompts import Prompt
from isthmus.devices import torch_device
from isthmus.documents import ImageLike
from isthmus.encoders.images import whole
from isthmus.encoders.torch_models import from_hub, no_remote_code

if TYPE_CHECKING:
    from PIL.Image import Image

TOKENS = 512  # maximum tokens that a model may write


def open_captioner(name: str, prompt: Prompt, device: str = "cpu") -> LocalCaptioner:
    """Load a model that captions pictures: a captioner (BLIP, ViT-GPT2 …) or a vision language model."""
    hub = need("transformers", extra="hf")
    model = _loaded(name, hub.AutoModelForImageTextToText, device)
    if model.config.model_type == "vision-encoder-decoder":  # such a model has no processor
        see, tell = (
            from_hub(name, no_remote_code(hub.AutoImageProcessor)),
            from_hub(name, no_remote_code(hub.AutoTokenizer)),
        )
    else:
        see = tell = from_hub(name, no_remote_code(hub.AutoProcessor))
    return LocalCaptioner(f"hf:{name}", prompt, model, see, tell)


def open_writer(name: str, device: str = "cpu", tokens: int = TOKENS) -> LocalWriter:
    """Load a causal language model that writes at most ``tokens``."""
    hub = need("transformers", extra="hf")
    return LocalWriter(
        f"hf:{name}",
        _loaded(name, hub.AutoModelForCausalLM, device),
        from_hub(name, no_remote_code(hub.AutoTokenizer)),
        tokens,
    )


def _loaded(name: str, kind: Any, device: str) -> Any:
    place = torch_device(device, "hf")
    return from_hub(name, lambda name, **how: no_remote_code(kind)(name, **how).to(place).eval())


@dataclass(frozen=True, slots=True, eq=False)
class LocalCaptioner:
    """A vision model. It receives the prompt if it takes one; plain captioners do not."""

    name: str
    prompt: Prompt
    model: Any
    see: Any  # pictures to tensors
    tell: Any  # tensors to words
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def identity(self) -> str:
        """What its captions depend on: the model in a folder may be replaced."""
        return f"{self.name}\0{_version(self.name, self.model)}\0{self.prompt.digest}"

    def caption(self, images: Sequence[ImageLike]) -> list[str]:
        """Return the model's caption of each picture."""
        return [self._caption(whole(image)) for image in images]

    def _caption(self, picture: Image) -> str:
        if getattr(self.see, "chat_template", None):
            content = [{"type": "image", "image": picture}, {"type": "text", "text": self.prompt.text}]
            inputs = self.see.apply_chat_template(
                [{"role": "user", "content": content}],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                return_tensors="pt",
            )
        else:
            inputs = self.see(images=picture, return_tensors="pt")
        with self._lock:
            return _written(self.model, inputs, self.tell, TOKENS)


@dataclass(frozen=True, slots=True, eq=False)
class LocalWriter:
    """A language model, prompted by its chat template, or with plain text if it has none."""

    name: str
    model: Any
    tokenizer: Any
    tokens: int = TOKENS
    together: int = 1
    _lock: Lock = field(default_factory=Lock, repr=False)

    def write(self, prompt: Prompt, text: str) -> str:
        """Return the model's output for a prompt and a text."""
        if self.tokenizer.chat_template:
            inputs = self.tokenizer.apply_chat_template(
                [{"role": "system", "content": prompt.text}, {"role": "user", "content": text}],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                return_tensors="pt",
            )
        else:
            inputs = self.tokenizer(f"{prompt.text}\n\n{text}\n\n", return_tensors="pt")
        with self._lock:
            return _written(self.model, inputs, self.tokenizer, self.tokens)


def _written(model: Any, inputs: Any, tell: Any, longest: int) -> str:
    """Generate greedily, and return the new text."""
    torch = need("torch", extra="hf")
    repeats = "input_ids" in inputs and not model.config.is_encoder_decoder  # the prompt comes before the output
    given = inputs["input_ids"].shape[1] if repeats else 0
    greedy = {"do_sample": False, "num_beams": 1, "temperature": None, "top_p": None, "top_k": None}
    with torch.inference_mode():
        tokens = model.generate(**inputs.to(model.device), **greedy, max_new_tokens=longest)
    return str(tell.decode(tokens[0][given:], skip_special_tokens=True)).strip()


def _version(name: str, model: Any) -> str:
    """Return a fingerprint of a model: the hub's commit, or names, sizes and times of a folder's files."""
    folder = Path(name.removeprefix("hf:")).expanduser()
    if not folder.is_dir():
        return str(getattr(model.config, "_commit_hash", None))
    files = sorted((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in folder.iterdir())
    return hashlib.sha256(repr(files).encode()).hexdigest()[:16]
