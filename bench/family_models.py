"""Models with random weights, one for each family of encoders: of a usual size where two cores can run it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import numpy as np
import sentence_transformers
import torch
import transformers
from encode_hf import END, ENDS, START
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from isthmus.encoders.bank import queries

QWEN = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
DIM = 256  # of the service's vectors
DELAY = 0.05  # seconds that the service takes for a request


def words(special: list[str] | None = None) -> Any:
    """Return a tokenizer of the bank's words."""
    made = Tokenizer(models.WordLevel(unk_token=END))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.train_from_iterator(queries(), trainers.WordLevelTrainer(special_tokens=list(ENDS)))
    made.post_processor = processors.TemplateProcessing(single=f"{START} $A {END}", special_tokens=list(ENDS.items()))
    reader = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, model_max_length=256, eos_token=END, pad_token=END, unk_token=END
    )
    reader.add_special_tokens({"additional_special_tokens": special or []})
    return reader


def sentence_model(folder: Path) -> Path:
    """Write a sentence-transformers model of the size of all-MiniLM-L6, with mean pooling."""
    reader = words()
    config = transformers.BertConfig(
        vocab_size=len(reader), hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    for each in (transformers.BertModel(config), reader):
        each.save_pretrained(folder / "bert")
    sentence_transformers.SentenceTransformer(str(folder / "bert"), device="cpu").save(str(folder / "st"))
    return folder / "st"


def clap_model(folder: Path) -> Path:
    """Write a CLAP of transformers' own defaults, which are those of clap-htsat-unfused."""
    reader = words()
    text = {"vocab_size": len(reader), "max_position_embeddings": 514, "pad_token_id": 1}
    listen = transformers.ClapFeatureExtractor(truncation="rand_trunc")
    for each in (transformers.ClapModel(transformers.ClapConfig(text_config=text)), reader, listen):
        each.save_pretrained(folder / "clap")
    return folder / "clap"


def vlm_model(folder: Path) -> Path:
    """Write a Qwen2-VL of 6 layers and 512 numbers: the smallest that is published has 28 layers and 1536."""
    reader = words(QWEN)
    names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    tokens = ("<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>")
    ids: dict[str, Any] = dict(zip(names, map(reader.convert_tokens_to_ids, tokens), strict=True))
    text: dict[str, Any] = {
        "hidden_size": 512,
        "intermediate_size": 2048,
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
    }
    text |= {"num_key_value_heads": 8, "max_position_embeddings": 4096, "vocab_size": len(reader)}
    text |= {"rope_parameters": {"rope_type": "default", "mrope_section": [8, 12, 12], "rope_theta": 10000.0}}
    see = {"embed_dim": 256, "depth": 6, "num_heads": 8, "hidden_size": 512, "patch_size": 14}
    model = transformers.Qwen2VLForConditionalGeneration(
        transformers.Qwen2VLConfig(text_config=text, vision_config=see, **ids)
    )
    for each in (model, reader, Qwen2VLImageProcessorPil(patch_size=14, merge_size=2, temporal_patch_size=2)):
        each.save_pretrained(folder / "vlm")
    return folder / "vlm"


def open_clip_weights(folder: Path, name: str) -> Path:
    """Write random weights of a model of open_clip."""
    import open_clip

    torch.save(open_clip.create_model(name).state_dict(), folder / "open_clip.pt")
    return folder / "open_clip.pt"


@contextmanager
def service() -> Iterator[str]:
    """Serve vectors in OpenAI's format on this machine; yield the address."""
    row = np.random.default_rng(0).normal(size=DIM).round(4).tolist()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            count = len(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"])
            rows = [{"object": "embedding", "index": at, "embedding": row} for at in range(count)]
            sleep(DELAY)
            body = json.dumps({"object": "list", "data": rows, "usage": {"total_tokens": count}}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
