"""The towers of an encoder's folder (``mini``, or what ``isthmus train mini`` writes) as torch modules.

The paper starts from models that were pre-trained on pictures with text (METER, ALBEF, ViLT). Here ``mini`` is that
model. Its files are ONNX: weights are found by the names of parameters and nodes, and 8-bit weights become float again.
Batch normalisation was folded into the filters when the files were written, so the torch tower has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from isthmus._optional import need
from isthmus.encoders.folder import describe
from isthmus.errors import BadFile
from isthmus.train.towers import TrainableImageTower, TrainableTextTower

Tower = TypeVar("Tower", TrainableTextTower, TrainableImageTower)
HEAD_WIDTH = 32  # numbers of each attention head of a MiniLM: 384 numbers, 12 heads
BACKBONES = {64: "lite2", 49: "lite0"}  # by the number of convolutions


def text_tower(folder: Path) -> TrainableTextTower:
    """Read the text tower of an encoder's folder: a BERT of any size."""
    weights = Weights.read(folder, "text")
    transformers = need("transformers", extra="train")
    words, dim = weights["bert.embeddings.word_embeddings.weight"].shape
    layers = 1 + max(int(name.split(".")[3]) for name in weights if name.startswith("bert.encoder.layer."))
    config = transformers.BertConfig(
        vocab_size=words,
        hidden_size=dim,
        num_hidden_layers=layers,
        num_attention_heads=max(1, dim // HEAD_WIDTH),
        intermediate_size=len(weights["bert.encoder.layer.0.intermediate.dense.bias"]),
        max_position_embeddings=len(weights["bert.embeddings.position_embeddings.weight"]),
        type_vocab_size=len(weights["bert.embeddings.token_type_embeddings.weight"]),
    )
    tower = TrainableTextTower(transformers.BertModel(config, add_pooling_layer=False))
    return weights.into(tower)


def image_tower(folder: Path, size: int, drop: float = 0.1) -> TrainableImageTower:
    """Read the image tower of an encoder's folder, for pictures of ``size`` pixels a side."""
    weights = Weights.read(folder, "image")
    library = need("efficientnet_lite_pytorch", extra="train")
    count = sum("_conv" in name and name.endswith(".weight") for name in weights)
    if count not in BACKBONES:
        raise BadFile(
            f"{folder}: its image tower has {count} convolutions. Only EfficientNet-lite0 and -lite2 are known."
        )
    backbone = library.EfficientNet.from_name(f"efficientnet-{BACKBONES[count]}", image_size=size)
    _unfold(backbone)
    names, hidden = weights["image.names"], len(weights["image.head.0.bias"])
    features = weights["image.backbone._fc.weight"].shape[1]
    return weights.into(TrainableImageTower(backbone, features, names, hidden=hidden, drop=drop))


class Weights(dict[str, Tensor]):
    """The weights of an ONNX file by the names that they have in torch."""

    @classmethod
    def read(cls, folder: Path, tower: str) -> Weights:
        """Read a tower of a folder, with ``model`` in its description."""
        described = describe(folder)
        section = described.text if tower == "text" else described.image
        if section is None:
            raise BadFile(f"{folder} has no {tower} tower. Name an encoder of text and images, such as mini.")
        onnx = need("onnx", extra="train")
        graph = onnx.load_model_from_string(described.read(section.model)).graph
        floats = _floats({one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer})
        found = cls({name: torch.tensor(value) for name, value in floats.items() if "::" not in name})
        for node in graph.node:
            found._take(node, floats)
        return found

    def _take(self, node: Any, floats: Mapping[str, Any]) -> None:
        """Take a weight that the exporter renamed: of a linear layer, transposed, or of a convolution."""
        place = ".".join(node.name.strip("/").split("/")[:-1])
        weight = floats.get(node.input[1]) if len(node.input) > 1 else None
        if weight is None or "::" not in node.input[1]:
            return
        if node.op_type == "MatMul":
            self[f"{place}.weight"] = torch.tensor(weight.T)
        elif node.op_type == "Conv":
            place = place.replace("image.", "image.backbone.", 1)
            self[f"{place}.weight"], self[f"{place}.bias"] = (torch.tensor(floats[name]) for name in node.input[1:3])

    def into(self, tower: Tower) -> Tower:
        """Load the weights into a tower; every parameter must be there."""
        prefix = "" if isinstance(tower, TrainableTextTower) else "image."
        own = tower.state_dict()
        named = {name.removeprefix(prefix): value for name, value in self.items() if name.startswith(prefix)}
        fixed = {name for name in own if name.endswith(("position_ids", "token_type_ids"))}
        if lost := [name for name in own if name not in named and name not in fixed]:
            raise BadFile(f"The tower has no weight {lost[0]!r}: it was not written by `isthmus train mini`.")
        tower.load_state_dict({name: named.get(name, own[name]) for name in own})
        return tower


def _floats(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return float weights by name; 8-bit ones times their scale (``isthmus.train.export.shrink``)."""
    found = {}
    for name, value in stored.items():
        whole = name.removesuffix(".small")
        if name.endswith(".scale"):
            continue
        scale = stored.get(f"{whole}.scale", np.float32(1)) if whole != name else np.float32(1)
        if value.dtype.kind == "f" or whole != name:
            found[whole] = (value.astype(np.float32) * scale).astype(np.float32)
    return found


def _unfold(backbone: nn.Module) -> None:
    """Give every convolution the bias that normalisation became, and remove normalisation."""
    for name, module in list(backbone.named_modules()):
        parent = backbone.get_submodule(name.rpartition(".")[0])
        if isinstance(module, nn.Conv2d):
            module.bias = nn.Parameter(torch.zeros(module.out_channels))
        elif isinstance(module, nn.BatchNorm2d):
            setattr(parent, name.rpartition(".")[2], nn.Identity())
