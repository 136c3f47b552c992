"""Tiny random models of the vision-language architectures of which embedders are made, saved like any other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hub
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from isthmus.encoders.vlm_prompts import PROMPTS
from tiny_towers import save

SIDE, PATCH = 16, 8
QWEN = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
QWEN += ["<|video_pad|>"]
LLAMA = ["<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<image>"]
TEXT = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
TEXT |= {"num_key_value_heads": 2, "max_position_embeddings": 4096}
ROPE = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}


def letters(special: list[str], end: str | None = None) -> Any:
    """A tokenizer of bytes with these special tokens; ``end`` is added after every text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: row for row, letter in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    reader = hub.PreTrainedTokenizerFast(tokenizer_object=made, pad_token=special[0], eos_token=special[0])
    reader.add_special_tokens({"additional_special_tokens": special[1:]})
    if end is not None:
        reader.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=f"$A {end}", special_tokens=[(end, reader.convert_tokens_to_ids(end))]
        )
    return reader


def _qwen_ids(reader: Any) -> dict[str, Any]:
    names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    tokens = ("<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>")
    return dict(zip(names, map(reader.convert_tokens_to_ids, tokens), strict=True))


def _qwen_pictures() -> Any:
    return Qwen2VLImageProcessorPil(
        patch_size=PATCH, merge_size=2, temporal_patch_size=2, min_pixels=(2 * PATCH) ** 2, max_pixels=(6 * PATCH) ** 2
    )


def qwen2_vl(folder: Path) -> Path:
    """GME and VLM2Vec are Qwen2-VL."""
    torch.manual_seed(0)
    reader = letters(QWEN)
    see = {"embed_dim": 32, "depth": 2, "num_heads": 2, "hidden_size": 32, "patch_size": PATCH, "mlp_ratio": 1}
    said = {**TEXT, "vocab_size": len(reader), "rope_parameters": ROPE}
    config = hub.Qwen2VLConfig(text_config=said, vision_config=see, **_qwen_ids(reader))
    return save(hub.Qwen2VLForConditionalGeneration(config), reader, _qwen_pictures(), folder=folder)


def qwen3_vl(folder: Path) -> Path:
    """Qwen3-VL-Embedding; its tokenizer ends every text with a token of its own."""
    torch.manual_seed(0)
    reader = letters(QWEN, end="<|endoftext|>")
    see: dict[str, Any] = {"hidden_size": 32, "depth": 2, "num_heads": 2, "intermediate_size": 32}
    see |= {"out_hidden_size": 32, "patch_size": PATCH, "num_position_embeddings": 16}
    see |= {"deepstack_visual_indexes": [0]}
    said = {**TEXT, "vocab_size": len(reader), "head_dim": 16, "rope_parameters": ROPE}
    config = hub.Qwen3VLConfig(text_config=said, vision_config=see, **_qwen_ids(reader))
    return save(hub.Qwen3VLForConditionalGeneration(config), reader, _qwen_pictures(), folder=folder)


def llava_next(folder: Path) -> Path:
    """E5-V is LLaVA-NeXT on Llama 3."""
    torch.manual_seed(0)
    reader = letters(LLAMA)
    see = hub.CLIPVisionConfig(hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
                               image_size=SIDE, patch_size=PATCH, projection_dim=16)  # fmt: skip
    grid = [[SIDE, 2 * SIDE], [2 * SIDE, SIDE], [2 * SIDE, 2 * SIDE]]
    config = hub.LlavaNextConfig(
        vision_config=see,
        text_config=hub.LlamaConfig(**TEXT, vocab_size=len(reader), pad_token_id=reader.pad_token_id),
        image_token_index=reader.convert_tokens_to_ids("<image>"),
        image_grid_pinpoints=grid,
    )
    square = {"height": SIDE, "width": SIDE}
    pictures = LlavaNextImageProcessorPil(size={"shortest_edge": SIDE}, crop_size=square, image_grid_pinpoints=grid)
    processor = hub.LlavaNextProcessor(
        pictures, reader, patch_size=PATCH, vision_feature_select_strategy="default", num_additional_image_tokens=1
    )
    return save(hub.LlavaNextForConditionalGeneration(config), processor, folder=folder)


MADE = (qwen2_vl, qwen3_vl, llava_next)


def few_pixels(patch: pytest.MonkeyPatch) -> None:
    """Let no family enlarge pictures: GME's least would be 3,136 patches of these models."""
    few = {name: replace(one, pixels=one.pixels and (32**2, 48**2)) for name, one in PROMPTS.items()}
    patch.setattr("isthmus.encoders.vlm.PROMPTS", few)
