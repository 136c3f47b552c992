"""The prompts of embedders made from vision-language models, as their papers and model cards have them.

A prompt has ``{image}`` where the picture is and ``{text}`` where the words are. The state of its last token is the
vector. Sources and deviations:

- ``e5-v``: Jiang et al., *E5-V: Universal Embeddings with Multimodal Large Language Models*, 2024, section 3, and its
  code. A query of words and a picture is prompted as its composed retrieval is. For a document of both, the paper has
  no prompt; ours asks for a summary of both.
- ``vlm2vec``: Jiang et al., *VLM2Vec*, ICLR 2025, and the card of VLM2Vec-Qwen2VL: each task has its instruction. Ours
  are those of the card; a text document has none, as in its benchmark.
- ``gme``: Zhang et al., *GME: Improving Universal Multimodal Retrieval by Multimodal LLMs*, 2024, and its code: the
  default instruction, for queries too.
- ``qwen3-vl-embedding``: Li et al., *Qwen3-VL-Embedding*, 2026, and its card: one instruction for queries, the default
  for documents. The tokenizer adds the last token itself.

Positions: Qwen2-VL and Qwen3-VL give the tokens of a picture positions in a grid (M-RoPE). VLM2Vec and GME count them
one after another, as words: the prompt of VLM2Vec has no ``<|vision_start|>``, by which transformers found pictures
when it was trained, and GME's code calls the language model without positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from isthmus.encoders.base import Role

LLAMA_TURN = (
    "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n \n"
)
QWEN_TURN = "<|im_start|>system\n{}<|im_end|>\n<|im_start|>user\n{{image}}{{text}}<|im_end|>\n<|im_start|>assistant\n"
QWEN_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """How one family of embedders is asked for a vector."""

    model_type: str  # of the checkpoint's configuration
    model: str  # the class in transformers
    image: str  # what stands for a picture in the prompt
    placeholder: str  # the token in it that is repeated for every patch
    words: Mapping[Role, str]  # the prompt of a text
    picture: Mapping[Role, str]
    both: Mapping[Role, str]
    length: int  # tokens of a passage
    grid: bool = True  # whether the tokens of a picture have positions in a grid; False: one after another
    pixels: tuple[int, int] | None = None  # of a picture, at least and at most; None: as the model's processor says


def _same(prompt: str) -> dict[Role, str]:
    return {"document": prompt, "query": prompt}


def _qwen(document: str, query: str, end: str = "") -> dict[Role, str]:
    return {"document": QWEN_TURN.format(document) + end, "query": QWEN_TURN.format(query) + end}


_GME = _qwen("You are a helpful assistant.", "You are a helpful assistant.", end="<|endoftext|>")
_QWEN3 = _qwen("Represent the user's input.", "Retrieve images or text relevant to the user's query.")

PROMPTS: Mapping[str, Prompts] = MappingProxyType(
    {
        "e5-v": Prompts(
            model_type="llava_next",
            model="LlavaNextForConditionalGeneration",
            image="<image>",
            placeholder="<image>",
            words=_same(LLAMA_TURN.format("{text}\nSummary above sentence in one word: ")),
            picture=_same(LLAMA_TURN.format("{image}\nSummary above image in one word: ")),
            both={
                "document": LLAMA_TURN.format("{image}\n{text}\nSummary above image and sentence in one word: "),
                "query": LLAMA_TURN.format(
                    '{image}Modify this image with "{text}", describe modified image in one word: '
                ),
            },
            length=512,
        ),
        "vlm2vec": Prompts(
            model_type="qwen2_vl",
            model="Qwen2VLForConditionalGeneration",
            image="<|image_pad|>",
            placeholder="<|image_pad|>",
            words={
                "document": "{text}",
                "query": "Find me an everyday image that matches the given caption: {text}",
            },
            picture=_same("{image} Represent the given image."),
            both=_same("{image} Represent the given image with the following question: {text}"),
            length=512,
            grid=False,
        ),
        "gme": Prompts(
            model_type="qwen2_vl",
            model="Qwen2VLForConditionalGeneration",
            image=QWEN_IMAGE,
            placeholder="<|image_pad|>",
            words=_GME,
            picture=_GME,
            both=_GME,
            length=1800,
            grid=False,
            pixels=(256 * 28 * 28, 1280 * 28 * 28),
        ),
        "qwen3-vl-embedding": Prompts(
            model_type="qwen3_vl",
            model="Qwen3VLForConditionalGeneration",
            image=QWEN_IMAGE,
            placeholder="<|image_pad|>",
            words=_QWEN3,
            picture=_QWEN3,
            both=_QWEN3,
            length=2048,
            pixels=(4 * 32 * 32, 1800 * 32 * 32),
        ),
    }
)
