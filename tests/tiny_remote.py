"""Tiny models that bring code of their own, as Jina-CLIP and the image model of Nomic do."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import torch
import transformers as hub
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

import tiny_towers
from tiny_towers import LAYERS, SIDE, SQUARE, VISION

INSTRUCTION = "the red "
CONFIG = """
    from pathlib import Path
    from transformers import PretrainedConfig

    Path({ran!r}).write_text("the code of the model ran")

    class OwnConfig(PretrainedConfig):
        model_type = {kind!r}

        def __init__(self, words=0, side=16, text_config=None, **more):
            self.words, self.side, self.text_config = words, side, text_config
            super().__init__(**more)

        def get_text_config(self, *_, **__):
            return PretrainedConfig(**(self.text_config or {{}}))
"""
CLIP = """
    import torch
    from torch import nn
    from transformers import PreTrainedModel
    from .configuration_own import OwnConfig

    class OwnModel(PreTrainedModel):
        config_class = OwnConfig

        def __init__(self, config):
            super().__init__(config)
            self.words = nn.Embedding(config.words, 12)
            self.pixels = nn.Linear(3 * config.side * config.side, 12)
            self.post_init()

        def get_text_features(self, input_ids=None, *_, **__):
            mask = (input_ids != 0).unsqueeze(-1).to(self.words.weight.dtype)
            return (self.words(input_ids) * mask).sum(1)

        def get_image_features(self, pixel_values=None, *_, **__):
            return self.pixels(pixel_values.flatten(1))
"""
IMAGES = """
    from torch import nn
    from transformers import PreTrainedModel
    from transformers.modeling_outputs import BaseModelOutput
    from .configuration_own import OwnConfig

    class OwnModel(PreTrainedModel):
        config_class = OwnConfig

        def __init__(self, config):
            super().__init__(config)
            self.pixels = nn.Linear(3 * config.side * config.side, 16)
            self.post_init()

        def forward(self, pixel_values=None):
            return BaseModelOutput(last_hidden_state=self.pixels(pixel_values.flatten(1)).unsqueeze(1))
"""


def processor() -> Any:
    return CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size=SQUARE)


def _own(folder: Path, model: str, kind: str, weights: dict[str, Any], **config: Any) -> Path:
    """Write a model with its code, which writes the file RAN when it runs."""
    folder.mkdir(parents=True)
    (folder / "configuration_own.py").write_text(dedent(CONFIG).format(ran=str(folder / "RAN"), kind=kind))
    (folder / "modeling_own.py").write_text(dedent(model))
    named = {"AutoConfig": "configuration_own.OwnConfig", "AutoModel": "modeling_own.OwnModel"}
    described = {"model_type": kind, "architectures": ["OwnModel"], "auto_map": named, "side": SIDE, **config}
    (folder / "config.json").write_text(json.dumps(described))
    torch.save(weights, folder / "pytorch_model.bin")
    processor().save_pretrained(folder)
    return folder


def own_clip(folder: Path) -> Path:
    """A model with the two functions of CLIP, and an instruction before queries, as Jina-CLIP 2 has."""
    torch.manual_seed(0)
    said = tiny_towers.words()
    weights = {
        "words.weight": torch.randn(len(said), 12),
        "pixels.weight": torch.randn(12, 3 * SIDE * SIDE) / SIDE,
        "pixels.bias": torch.randn(12),
    }
    told = {"hf_model_config_kwargs": {"task_instructions": {"retrieval.query": INSTRUCTION}}}
    _own(folder, CLIP, "own_clip", weights, words=len(said), text_config=told)
    said.save_pretrained(folder)
    return folder


def nomic_text(folder: Path) -> Path:
    torch.manual_seed(0)
    said = tiny_towers.words()
    config = hub.NomicBertConfig(**LAYERS, vocab_size=len(said), max_position_embeddings=64)
    return tiny_towers.save(hub.NomicBertModel(config), said, folder=folder)


def nomic_images(folder: Path) -> Path:
    """An image model of the type of its text model, as Nomic's says it is."""
    torch.manual_seed(2)
    weights = {"pixels.weight": torch.randn(16, 3 * SIDE * SIDE) / SIDE, "pixels.bias": torch.randn(16)}
    return _own(folder, IMAGES, "nomic_bert", weights)


def bge_vl(folder: Path) -> Path:
    """A CLIP that names code for a function ``encode``, which nobody needs: VISION and text are CLIP's."""
    assert VISION["image_size"] == SIDE
    tiny_towers.clip(folder)
    described = json.loads((folder / "config.json").read_text())
    described["auto_map"] = {"AutoModel": "modeling_own.OwnModel"}
    (folder / "config.json").write_text(json.dumps(described))
    (folder / "modeling_own.py").write_text('raise RuntimeError("the code of the model ran")\n')
    return folder
