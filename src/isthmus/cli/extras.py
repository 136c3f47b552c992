"""The extras of the package: what each is for, and the modules that show whether it is installed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Extra(NamedTuple):
    """What an extra is for, and modules that come with it."""

    what: str
    modules: tuple[str, ...]


EXTRAS: Mapping[str, Extra] = MappingProxyType(
    {
        "align": Extra("text recognition in pictures, for index --ocr and search --align", ("rapidocr",)),
        "ann": Extra("Faiss: fast search in large collections", ("faiss",)),
        "hf": Extra("Hugging Face models: encoders hf:, vlm:, clap:, and search --align", ("transformers",)),
        "open-clip": Extra("open_clip models as encoders", ("open_clip",)),
        "pdf": Extra("PDF pages", ("pypdfium2",)),
        "html": Extra("HTML pages", ("selectolax",)),
        "parquet": Extra("Parquet tables and clip-retrieval folders", ("pyarrow",)),
        "heic": Extra("HEIC pictures", ("pillow_heif",)),
        "watch": Extra("index --watch", ("watchfiles",)),
        "evaluate": Extra("trec_eval's own measures", ("ir_measures",)),
        "plot": Extra("plots of results", ("matplotlib",)),
        "sound": Extra("sounds: WAV, FLAC, Ogg, MP3", ("soundfile",)),
        "video": Extra("videos, and sounds of other formats", ("av",)),
        "postgres": Extra("collections on a PostgreSQL server, and tables of pgvector", ("psycopg",)),
        "speech": Extra("what is said in sounds and videos, for index --transcribe", ("faster_whisper",)),
        "ray": Extra("encoding on many machines, for index --ray", ("ray",)),
        "serve": Extra(
            "isthmus serve: collections over HTTP", ("fastapi", "uvicorn", "prometheus_client", "python_multipart")
        ),
        "client": Extra("isthmus.connect: collections on a server", ("httpx2",)),
        "mcp": Extra("isthmus mcp: collections as tools for agents", ("mcp", "fastapi", "httpx2")),
        "chroma": Extra("Chroma's collections, for diagnose and calibrate", ("chromadb",)),
        "lancedb": Extra("LanceDB's tables, for diagnose and calibrate", ("lancedb",)),
        "qdrant": Extra("Qdrant: index --vectors qdrant://…, and its collections, for calibrate", ("qdrant_client",)),
        "milvus": Extra("Milvus: index --vectors milvus://…, and its collections, for calibrate", ("pymilvus",)),
        "haystack": Extra("collections in Haystack", ("haystack",)),
        "langchain": Extra("collections in LangChain", ("langchain_core",)),
        "llamaindex": Extra("collections in LlamaIndex", ("llama_index",)),
        "spacy": Extra("spaCy's parser, for generated queries", ("spacy",)),
        "st": Extra("sentence-transformers models as encoders", ("sentence_transformers",)),
        "mteb": Extra("mteb models as encoders, and encoders as mteb models", ("mteb",)),
        "train": Extra("training", ("torch", "onnx")),
        "gpu": Extra("biases and exact search on a GPU, by torch", ("torch",)),
        "lora": Extra("training LoRA adapters of language models", ("peft",)),
    }
)


def install(extra: str) -> str:
    """Return the command that installs an extra.

    >>> install("hf")
    "pip install 'isthmus[hf]'"
    """
    return f"pip install 'isthmus[{extra}]'"


def extra_of(module: str | None) -> str | None:
    """Return the extra that a module comes with.

    >>> extra_of("torch"), extra_of("numpy")
    ('train', None)
    """
    return next((name for name, extra in EXTRAS.items() if module in extra.modules), None)
