"""Tiny real encoders: models of a few numbers, exported, described and loaded like any other."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

DIM = 8
LENGTH = 12  # ten words and the two tokens around them
SIZE = 8
WORDS = ["a", "the", "and", "of", "cat", "dog", "red", "sofa", "grass", "runs", "sits", "on", "house", "tree"]
WORDS += ["שלום", "עולם", "猫", "犬", "🐱", "кот"]
MIXED = [*WORDS, "##s", "##ing", "##x"]

TEXT_TABLE = f"""
[text]
model = "text.onnx"
tokenizer = "tokenizer.json"
length = {LENGTH}
output = "vector"
"""
IMAGE_TABLE = f"""
[image]
model = "image.onnx"
size = {SIZE}
layout = "nhwc"
dtype = "uint8"
fit = "squash"
output = "vector"
"""


def tokenizer() -> Tokenizer:
    vocabulary = {token: row for row, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *MIXED])}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.enable_truncation(4)  # exports often carry such settings: they must not cut anything here
    made.enable_padding(length=6)
    return made


def constant(name: str, values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> onnx.TensorProto:
    return numpy_helper.from_array(values, name)


def text_model(rows: int, *, pooled: bool = True, dim: int = DIM) -> onnx.ModelProto:
    """Gather a vector per token; their mean under the mask."""
    table = np.random.default_rng(1).normal(size=(rows, dim)).astype(np.float32)
    nodes = [helper.make_node("Gather", ["table", "tokens"], ["each"])]  # (n, tokens, d)
    if pooled:
        nodes += [
            helper.make_node("Cast", ["mask"], ["weight"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["weight", "last"], ["column"]),
            helper.make_node("Mul", ["each", "column"], ["masked"]),
            helper.make_node("ReduceSum", ["masked", "middle"], ["sum"], keepdims=0),
            helper.make_node("ReduceSum", ["weight", "middle"], ["count"], keepdims=1),
            helper.make_node("Div", ["sum", "count"], ["vector"]),
        ]
    else:
        nodes += [
            helper.make_node("Cast", ["mask"], ["weight"], to=TensorProto.FLOAT),
            helper.make_node("Identity", ["each"], ["vector"]),
        ]
    ints = [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "t"]) for name in ("tokens", "mask")]
    shape: list[str | int] = ["n", dim] if pooled else ["n", "t", dim]
    outputs = [helper.make_tensor_value_info("vector", TensorProto.FLOAT, shape)]
    axes = [numpy_helper.from_array(np.array([axis], np.int64), name) for name, axis in (("last", 2), ("middle", 1))]
    return model(nodes, ints, outputs, [constant("table", table), *axes])


def image_model(*, layout: str = "nhwc", dtype: str = "uint8", dim: int = DIM) -> onnx.ModelProto:
    """Average blocks of 2 × 2 pixels, then one linear map; it sees where things are and which way is up."""
    weight = np.random.default_rng(2).normal(size=(3 * (SIZE // 2) ** 2, dim)).astype(np.float32)
    nodes = [helper.make_node("Cast", ["pixels"], ["float"], to=TensorProto.FLOAT)]
    first = "float"
    if layout == "nhwc":
        nodes.append(helper.make_node("Transpose", ["float"], ["channels"], perm=[0, 3, 1, 2]))
        first = "channels"
    nodes += [
        helper.make_node("AveragePool", [first], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weight"], ["linear"]),
        helper.make_node("Add", ["linear", "one"], ["vector"]),  # a black picture has a vector too
    ]
    kind = TensorProto.UINT8 if dtype == "uint8" else TensorProto.FLOAT
    shape: list[str | int] = ["n", SIZE, SIZE, 3] if layout == "nhwc" else ["n", 3, SIZE, SIZE]
    inputs = [helper.make_tensor_value_info("pixels", kind, shape)]
    outputs = [helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["n", dim])]
    return model(nodes, inputs, outputs, [constant("weight", weight), constant("one", np.ones(1, np.float32))])


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: list[onnx.TensorProto],
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(made)
    return made


def write_encoder(
    folder: Path, parts: str = "image+text", text: str = TEXT_TABLE, image: str = IMAGE_TABLE, dim: int = DIM
) -> Path:
    """Write a folder with ``encoder.toml``, its models and their checksums."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = [f'name = "tiny-{parts}"', f"dim = {dim}"]
    if "text" in parts:
        tables.append(text)
        made = tokenizer()
        made.save(str(folder / "tokenizer.json"))
        onnx.save(text_model(made.get_vocab_size(), pooled="pool" not in text, dim=dim), folder / "text.onnx")
    if "image" in parts:
        tables.append(image)
        layout, dtype = "nchw" if "nchw" in image else "nhwc", "float32" if "float32" in image else "uint8"
        onnx.save(image_model(layout=layout, dtype=dtype, dim=dim), folder / "image.onnx")
    files = sorted(path for path in folder.iterdir() if path.name != "encoder.toml")
    sums = [f'"{path.name}" = "{sha256(path.read_bytes()).hexdigest()}"' for path in files]
    (folder / "encoder.toml").write_text("\n".join([*tables, "[files]", *sums, ""]))
    return folder


def write_fusion(folder: Path, towers: Path, pool: str = "kinds", *, seed: int = 0) -> Any:
    """Export what joins the towers of a folder, with random weights; return the model itself."""
    import torch

    from isthmus.encoders.folder import describe
    from isthmus.train.fusion.export import Towers, export
    from isthmus.train.fusion.layers import Shape
    from isthmus.train.fusion.model import Fusion

    torch.manual_seed(seed)
    described = describe(towers)
    cut = {} if described.name == "mini" else {"text": "each", "image": "pooled"}
    sizes = {} if described.name == "mini" else {"dim": described.dim, "patch": 3, "heads": 2}
    model = Fusion(Shape(merge=1, match=1, pool=pool, **sizes))  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in model.parameters():  # what begins by adding nothing adds something
            parameter.add_(torch.randn_like(parameter), alpha=0.1 if sizes else 0.02)
        if sizes:
            model.document.patch.weight /= 100  # the cells of the tiny tower are means of bytes
    name = "mini" if described.name == "mini" else os.path.relpath(towers, folder)
    export(model, folder, Towers(towers=name, identity=described.identity, **cut), name="tiny-fusion", small=False)
    return model


def write_sentence_transformer(folder: Path) -> Path:
    """Save a BERT of two layers with random weights, mean pooling and prompts, as its library does."""
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    torch.manual_seed(0)
    made = tokenizer()
    made.no_truncation()
    made.no_padding()
    size = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=made.get_vocab_size(), max_position_embeddings=64, **size)).save_pretrained(folder)
    named = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=made, **named).save_pretrained(folder)
    whole = SentenceTransformer(str(folder), device="cpu", prompts={"query": "the ", "document": ""})
    whole.max_seq_length = LENGTH
    whole.save(str(folder / "whole"))
    return folder / "whole"
