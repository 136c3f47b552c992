"""Tiny random models of real Hugging Face architectures, made and saved like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers as hub
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers.models.blip.image_processing_pil_blip import BlipImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<image>"]
WORDS = [*SPECIAL, "a", "red", "cat", "dog", "on", "the", "sofa", "error", "fault", "what", "is", "wrong", "here"]
SIDE = 16
CHAT = (
    "{% for m in messages %}{% if m.content is string %}{{ m.content }} {% else %}{% for c in m.content %}"
    "{% if c.type == 'image' %}<image> {% else %}{{ c.text }} {% endif %}{% endfor %}{% endif %}{% endfor %}"
)


def tokenizer(chat: str | None = None) -> Any:
    made = Tokenizer(models.WordLevel({word: row for row, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    special = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=False))
    ends = {"bos_token": "[CLS]", "eos_token": "[SEP]", "additional_special_tokens": ["<image>"]}
    return hub.PreTrainedTokenizerFast(tokenizer_object=made, chat_template=chat, **special, **ends)


def blip(folder: Path) -> Path:
    torch.manual_seed(0)
    text = {"vocab_size": len(WORDS), "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    text |= {"num_attention_heads": 2, "encoder_hidden_size": 16, "bos_token_id": 2, "eos_token_id": 3}
    text |= {"sep_token_id": 3, "pad_token_id": 0, "max_position_embeddings": 64}
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision |= {"image_size": SIDE, "patch_size": 8}
    config = hub.BlipConfig(text_config=text, vision_config=vision, projection_dim=16)
    hub.BlipForConditionalGeneration(config).save_pretrained(folder)
    reader = hub.BertTokenizer(vocab={word: row for row, word in enumerate(WORDS)})
    see = BlipImageProcessorPil(size={"height": SIDE, "width": SIDE})
    hub.BlipProcessor(see, reader).save_pretrained(folder)
    return folder


def vit_gpt2(folder: Path) -> Path:
    torch.manual_seed(0)
    see = hub.ViTConfig(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                        image_size=SIDE, patch_size=8)  # fmt: skip
    say = hub.GPT2Config(vocab_size=len(WORDS), n_positions=64, n_embd=16, n_layer=1, n_head=2, bos_token_id=2,
                         eos_token_id=3)  # fmt: skip
    config = hub.VisionEncoderDecoderConfig.from_encoder_decoder_configs(see, say)
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 2, 0, 3
    model = hub.VisionEncoderDecoderModel(config)
    model.generation_config.decoder_start_token_id, model.generation_config.pad_token_id = 2, 0
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    ViTImageProcessorPil(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)
    return folder


def llava(folder: Path) -> Path:
    torch.manual_seed(0)
    see = hub.CLIPVisionConfig(hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
                               image_size=SIDE, patch_size=8, projection_dim=16)  # fmt: skip
    config = hub.LlavaConfig(vision_config=see, text_config=_llama(), image_token_index=WORDS.index("<image>"))
    hub.LlavaForConditionalGeneration(config).save_pretrained(folder)
    size = {"height": SIDE, "width": SIDE}
    processor = hub.LlavaProcessor(
        CLIPImageProcessorPil(size=size, crop_size=size), tokenizer(), patch_size=8, chat_template=CHAT,
        vision_feature_select_strategy="default", num_additional_image_tokens=1,
    )  # fmt: skip
    processor.save_pretrained(folder)
    return folder


def sentence_llava(folder: Path) -> Path:
    """A language model that sees, the state of its last token, and a prompt for queries, by sentence-transformers."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    read = Transformer(str(llava(folder / "llava")))
    pool = Pooling(read.get_embedding_dimension(), pooling_mode="lasttoken")
    whole = SentenceTransformer(modules=[read, pool], device="cpu", prompts={"query": "what is ", "document": ""})
    whole.save(str(folder / "whole"))
    return folder / "whole"


def llama(folder: Path, chat: str | None = CHAT) -> Path:
    torch.manual_seed(0)
    hub.LlamaForCausalLM(_llama()).save_pretrained(folder)
    tokenizer(chat).save_pretrained(folder)
    return folder


def _llama() -> Any:
    return hub.LlamaConfig(vocab_size=len(WORDS), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                           num_attention_heads=2, num_key_value_heads=2, bos_token_id=2, eos_token_id=3, pad_token_id=0,
                           max_position_embeddings=512)  # fmt: skip
