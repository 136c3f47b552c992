"""``onnx:FOLDER``: a folder with exported towers, run by onnxruntime."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from isthmus.budget import MODEL_BYTES
from isthmus.encoders.base import IN_FULL, Role, Settings
from isthmus.encoders.folder import ClipSection, Description, ImageSection, TextSection
from isthmus.encoders.images import Fit, Frame, Pixels
from isthmus.encoders.once import ImageTower
from isthmus.encoders.texts import Splitter, TextPassage, TokenizedWord, padded, similar_lengths
from isthmus.encoders.towers import TowerEncoder
from isthmus.errors import BadFile, BadInput
from isthmus.files import read_regular
from isthmus.registry import suggestion
from isthmus.types import Matrix

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

PADDING = 12  # tokens; on a processor, a run of its own costs about as much as ten tokens
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


def open_towers(described: Description, settings: Settings) -> TowerEncoder:
    """Make an encoder of the towers that a folder describes."""
    text, image, clip = described.text, described.image, described.clip
    on_torch = clip is not None and torch_gpu(settings.device) is not None
    for_text = replace(settings, device="cpu") if on_torch else settings
    return TowerEncoder(
        name=described.name,
        dim=described.dim,
        identity=described.identity,
        identities=described.identities,
        text=OnnxText.open(described.owner, text, for_text) if text is not None else None,
        image=OnnxImage.open(described, image, settings) if image is not None else _clip(described, clip, settings),
        settings=settings,
    )


def _clip(described: Description, clip: ClipSection | None, settings: Settings) -> ImageTower | None:
    if clip is None:
        return None
    from isthmus.encoders.clip_image import ClipImage  # it imports this module

    if settings.precision not in IN_FULL and torch_gpu(settings.device) is None:
        raise BadInput(
            f"{described.name!r} runs in half precision on a GPU of torch alone. Leave precision out (--precision)."
        )
    return ClipImage.find(described, clip, settings)


@dataclass(frozen=True, slots=True, eq=False)
class OnnxText:
    """A text tower: ``tokens`` and ``mask`` in, one vector per row out.

    Short and long passages run apart: a run has at most ``padding`` tokens of padding.
    """

    section: TextSection
    splitter: Splitter
    model: Model
    padding: float = PADDING

    @classmethod
    def open(cls, described: Description, section: TextSection, settings: Settings) -> OnnxText:
        """Load the tokenizer and the model."""
        inputs = [section.tokens, section.mask, *([section.types] if section.types else [])]
        model = Model.described(described, section.model, inputs, section.output, settings)
        name = str(described.folder / section.tokenizer)
        splitter = Splitter.from_bytes(described.read(section.tokenizer), section.length, name)
        return cls(section, splitter, model, PADDING if settings.device == "cpu" else math.inf)

    def split(self, texts: Sequence[str], role: Role) -> list[list[TextPassage]]:
        """Return the passages of each text."""
        return self.splitter.split(texts, self._prefix(role))

    def words(self, text: str, role: Role) -> tuple[list[TextPassage], list[list[TokenizedWord]]]:
        """Return the passages of a text, and the words of each."""
        return self.splitter.words(text, self._prefix(role))

    def _prefix(self, role: Role) -> str:
        return self.section.query if role == "query" else self.section.document

    def encode(self, passages: Sequence[TextPassage]) -> Matrix:
        """Run the model, and pool if the model does not."""
        lengths = [len(passage.tokens) for passage in passages]
        groups = similar_lengths(lengths, self.padding)
        found = [self._run([passages[row] for row in group]) for group in groups]
        return np.concatenate(found)[np.argsort(np.concatenate(groups))]

    def _run(self, passages: Sequence[TextPassage]) -> Matrix:
        inputs, mask = self.feed(passages)
        return _pooled(self.model.run(inputs), mask, self.section.pool)

    def feed(self, passages: Sequence[TextPassage]) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
        """Pad to the longest passage; return the model's inputs, and the mask among them."""
        longest = max(len(passage.tokens) for passage in passages)
        tokens, mask = padded(passages, longest, self.section.pad)
        inputs = {self.section.tokens: tokens, self.section.mask: mask}
        if self.section.types:
            inputs[self.section.types] = np.zeros_like(tokens)
        return inputs, mask


@dataclass(frozen=True, slots=True, eq=False)
class OnnxImage:
    """An image tower: ``pixels`` in, one vector per row out."""

    section: ImageSection
    model: Model

    @classmethod
    def open(cls, described: Description, section: ImageSection, settings: Settings) -> OnnxImage:
        """Load the model."""
        return cls(section, Model.described(described, section.model, [section.pixels], section.output, settings))

    @property
    def frame(self) -> Frame:
        """The size of the pictures it reads."""
        return Frame(self.section.size, cast("Fit", self.section.fit), self.section.resample)

    def encode(self, pixels: Sequence[Pixels]) -> Matrix:
        """Return one row per picture."""
        return self.model.run(self.feed(pixels))

    def feed(self, pixels: Sequence[Pixels]) -> dict[str, NDArray[Any]]:
        """Convert the pictures to the type and the order of axes of the model."""
        ready: NDArray[Any] = np.stack(pixels)  # (n, size, size, 3)
        if self.section.dtype == "float32":
            mean, std = (np.array(three, dtype=np.float32) for three in (self.section.mean, self.section.std))
            ready = (ready.astype(np.float32) / np.float32(255) - mean) / std
        if self.section.layout == "nchw":
            ready = np.ascontiguousarray(ready.transpose(0, 3, 1, 2))
        return {self.section.pixels: ready}


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """An onnxruntime session and the name of its output."""

    path: Path
    session: InferenceSession
    output: str

    @classmethod
    def described(
        cls, described: Description, name: str, inputs: Sequence[str], output: str, settings: Settings
    ) -> Model:
        """Load a model of an encoder's folder."""
        return cls.open(described.folder / name, inputs, output, settings, described.read(name))

    @classmethod
    def open(
        cls, path: Path, inputs: Sequence[str], output: str, settings: Settings, content: bytes | None = None
    ) -> Model:
        """Load a model and check that it has the inputs and the output that its description names.

        ``content`` is loaded instead of the file: the verified bytes, or a part of the model.
        """
        import onnxruntime as ort

        providers = _providers(settings.device, ort.get_available_providers())
        options = ort.SessionOptions()
        options.intra_op_num_threads = settings.threads or 0
        options.log_severity_level = 3  # errors only: the optimiser's warnings do not help here
        # external weights are in the model's folder, not in the working folder
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
        try:
            whole = read_regular(path, MODEL_BYTES) if content is None else content
            session = ort.InferenceSession(whole, options, providers=providers)
        except Exception as error:  # noqa: BLE001 - onnxruntime's errors share no base
            if "INVALID_PROTOBUF" in str(error):
                raise BadFile(f"{path} is not an ONNX model, or is damaged.") from None
            raise BadFile(f"{path} cannot be loaded by onnxruntime: {error}") from None
        takes, gives = [i.name for i in session.get_inputs()], [o.name for o in session.get_outputs()]
        if set(takes) != set(inputs):
            raise BadFile(
                f"{path} takes {', '.join(takes)}, and its description names {', '.join(inputs)}. Name its inputs "
                "in encoder.toml."
            )
        if output and output not in gives:
            raise BadFile(f"{path} has no output {output!r}. {suggestion(output, gives)}")
        return cls(path, session, output or gives[0])

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> Matrix:
        """Return the model's output."""
        return self.several(inputs, [self.output])[0]

    def width(self, name: str) -> int:
        """Return the length of an input's last axis."""
        return int(next(each.shape[-1] for each in self.session.get_inputs() if each.name == name))

    def several(self, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str]) -> list[Matrix]:
        """Return some of the outputs, by name."""
        try:
            found = self.session.run(list(outputs), dict(inputs))
        except Exception as error:  # noqa: BLE001 - onnxruntime's errors share no base
            raise BadFile(
                f"{self.path} failed on inputs of shape {[a.shape for a in inputs.values()]}: {error} Check `length`, "
                "`size`, `layout` and `dtype` in its encoder.toml."
            ) from None
        return [np.asarray(output) for output in found]


def _pooled(output: Matrix, mask: NDArray[np.int64], pool: str) -> Matrix:
    """Pool the token vectors: their mean under the mask, or the first."""
    if pool == "none" or output.ndim != 3:
        return output
    if pool == "first":
        return output[:, 0]
    weight = mask[:, :, None].astype(np.float32)  # (n, tokens, 1)
    mean: Matrix = (output * weight).sum(axis=1) / weight.sum(axis=1)
    return mean


def torch_gpu(device: str) -> str | None:
    """Return the GPU that is asked for, if torch has it and onnxruntime has not; otherwise None."""
    import onnxruntime as ort

    kind = device.partition(":")[0]
    if kind == "cpu" or PROVIDERS["cuda"] in ort.get_available_providers() or find_spec("torch") is None:
        return None
    from isthmus.devices import torch_device

    found = torch_device(device, "hf")
    return None if found == "cpu" else found


def _providers(device: str, available: Sequence[str]) -> list[Any]:
    kind, _, number = device.partition(":")
    known = {name for name, provider in PROVIDERS.items() if provider in available}
    kind = ("cuda" if "cuda" in known else "cpu") if device == "auto" else kind
    if kind not in known or (number and (kind == "cpu" or not number.isdigit())):
        raise BadInput(
            f"onnxruntime has no device {device!r}; this installation has {', '.join(sorted(known))}, and auto. "
            "Install onnxruntime-gpu for cuda (cuda:1 is the second GPU)."
        )
    chosen: list[Any] = [(PROVIDERS[kind], {"device_id": number})] if number else [PROVIDERS[kind]]
    return chosen if kind == "cpu" else [*chosen, PROVIDERS["cpu"]]
