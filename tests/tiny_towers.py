"""Tiny random models of the CLIP-like architectures of transformers, saved with their tokenizers and processors."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers as hub
from tokenizers import pre_tokenizers
from transformers.models.blip.image_processing_pil_blip import BlipImageProcessorPil
from transformers.models.chinese_clip.image_processing_pil_chinese_clip import ChineseCLIPImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from transformers.models.siglip2.image_processing_pil_siglip2 import Siglip2ImageProcessorPil

from tiny import LENGTH, WORDS, tokenizer

SIDE, LETTERS = 16, 32  # pixels of a picture; tokens of CLIP's passage, which are letters here
LAYERS = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
VISION = {**LAYERS, "image_size": SIDE, "patch_size": 8}
SQUARE = {"height": SIDE, "width": SIDE}


def save(model: Any, *others: Any, folder: Path) -> Path:
    """Save a model whose vectors depend on its input: initial weights are nearly zero."""
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)
    for each in (model, *others):
        each.save_pretrained(folder)
    return folder


def words() -> Any:
    """A fast tokenizer of words, [CLS] and [SEP] around them."""
    named = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    made = tokenizer()
    made.no_truncation()
    made.no_padding()
    return hub.PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=LENGTH, **named)


def text(**more: Any) -> dict[str, Any]:
    return {**LAYERS, "vocab_size": len(words()), "max_position_embeddings": 64, "pad_token_id": 0, **more}


def clip(folder: Path) -> Path:
    torch.manual_seed(0)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    numbered = {token: row for row, token in enumerate(tokens)}
    said = hub.CLIPTokenizer(vocab=numbered, merges=[], model_max_length=LETTERS)
    ends = {"bos_token_id": len(tokens) - 2, "eos_token_id": len(tokens) - 1, "pad_token_id": len(tokens) - 1}
    config = hub.CLIPConfig(
        text_config={**LAYERS, "vocab_size": len(tokens), "max_position_embeddings": LETTERS, **ends},
        vision_config=VISION,
        projection_dim=12,
    )
    see = CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size=SQUARE)
    return save(hub.CLIPModel(config), hub.CLIPProcessor(see, said), folder=folder)


def sentence_clip(folder: Path) -> Path:
    """CLIP as sentence-transformers lays out ``clip-ViT-B-32``."""
    clip(folder / "0_CLIPModel")
    module = {"idx": 0, "name": "0", "path": "0_CLIPModel", "type": "sentence_transformers.models.CLIPModel"}
    (folder / "modules.json").write_text(json.dumps([module]))
    (folder / "config_sentence_transformers.json").write_text('{"__version__": {"sentence_transformers": "2.0.0"}}')
    return folder


def pieces(folder: Path) -> Any:
    """A tokenizer of SentencePiece, trained on a few words."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(WORDS[:14])] * 20), model_writer=model, vocab_size=40, minloglevel=3,
        hard_vocab_limit=False, pad_id=-1, bos_id=-1, eos_id=1, unk_id=0, character_coverage=1.0,
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spiece.model").write_bytes(model.getvalue())
    return hub.SiglipTokenizer(str(folder / "spiece.model"), model_max_length=LETTERS)


def siglip(folder: Path) -> Path:
    torch.manual_seed(0)
    said = pieces(folder)
    config = hub.SiglipConfig(
        text_config={**LAYERS, "vocab_size": len(said) + 1, "max_position_embeddings": LETTERS, "pad_token_id": 1},
        vision_config=VISION,
    )
    return save(hub.SiglipModel(config), hub.SiglipProcessor(SiglipImageProcessorPil(size=SQUARE), said), folder=folder)


def siglip_of_two(folder: Path) -> Path:
    """SigLIP 2 at a fixed size: the model of the first, another tokenizer."""
    torch.manual_seed(0)
    config = hub.SiglipConfig(text_config=text(max_position_embeddings=LENGTH), vision_config=VISION)
    return save(hub.SiglipModel(config), words(), SiglipImageProcessorPil(size=SQUARE), folder=folder)


def siglip2(folder: Path) -> Path:
    torch.manual_seed(0)
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *"abcdefghijklmnopqrstuvwxyz"]
    said = hub.Siglip2Tokenizer({token: row for row, token in enumerate(tokens)}, model_max_length=LETTERS)
    config = hub.Siglip2Config(
        text_config={**LAYERS, "vocab_size": len(tokens), "max_position_embeddings": LETTERS},
        vision_config={**LAYERS, "num_patches": 16, "patch_size": 8},
    )
    see = Siglip2ImageProcessorPil(patch_size=8, max_num_patches=16)
    return save(hub.Siglip2Model(config), hub.Siglip2Processor(see, said), folder=folder)


def chinese_clip(folder: Path) -> Path:
    torch.manual_seed(0)
    config = hub.ChineseCLIPConfig(text_config=text(), vision_config=VISION, projection_dim=12)
    see = ChineseCLIPImageProcessorPil(size=SQUARE, crop_size=SQUARE)
    return save(hub.ChineseCLIPModel(config), words(), see, folder=folder)


def altclip(folder: Path) -> Path:
    torch.manual_seed(0)
    config = hub.AltCLIPConfig(text_config=text(project_dim=16), vision_config=VISION, projection_dim=12)
    see = CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size=SQUARE)
    return save(hub.AltCLIPModel(config), words(), see, folder=folder)


def metaclip_2(folder: Path) -> Path:
    torch.manual_seed(0)
    said = text(max_position_embeddings=LENGTH, eos_token_id=3)
    config = hub.MetaClip2Config(text_config=said, vision_config=VISION, projection_dim=12)
    see = CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size=SQUARE)
    return save(hub.MetaClip2Model(config), words(), see, folder=folder)


def blip(folder: Path) -> Path:
    torch.manual_seed(0)
    said = text(encoder_hidden_size=16, bos_token_id=2, eos_token_id=3, sep_token_id=3)
    config = hub.BlipConfig(text_config=said, vision_config=VISION, image_text_hidden_size=12)
    return save(hub.BlipForImageTextRetrieval(config), words(), BlipImageProcessorPil(size=SQUARE), folder=folder)


def dual(folder: Path) -> Path:
    torch.manual_seed(0)
    config = hub.VisionTextDualEncoderConfig.from_vision_text_configs(
        hub.ViTConfig(**VISION), hub.BertConfig(**text()), projection_dim=12
    )
    see = CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size=SQUARE)
    return save(hub.VisionTextDualEncoderModel(config), words(), see, folder=folder)


MADE = (clip, siglip, siglip_of_two, siglip2, chinese_clip, altclip, metaclip_2, blip, dual)
