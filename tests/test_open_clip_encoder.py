"""``open_clip:``: without the library the error says what to run; with it, the vectors are the library's own.

open_clip needs torchvision, of the same build as torch, so it is no part of the tests' environment. `make test-all`
puts both into a folder of their own and runs this file with it. Where the torch is another build, torchvision is
imported without its operators.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import needed
import recordings
from isthmus import Document, Query, encoders
from isthmus.errors import BadFile, BadInput, MissingExtra, UnknownName
from isthmus.isolated.recordings import frames as key_frames
from isthmus.train.export_encoder import export_encoder
from sample_files import check_collection, few_files

TEXTS = ["a cat on the sofa", "dog", "the red house"]
CONFIG = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "patch_size": 16, "head_width": 16},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}


def missing() -> str:
    """Say why open_clip cannot be imported; empty where it can."""
    if find_spec("open_clip") is None or find_spec("torchvision") is None:
        return "open_clip is not installed: make test-all installs it"
    try:
        import_module("torchvision")
    except RuntimeError:  # the one on PyPI is built for CUDA, and does not load its operators beside a torch for CPUs
        declare_operators()
    try:
        import open_clip  # noqa: F401
    except (ImportError, OSError, RuntimeError) as error:
        return f"torchvision is of another build than torch: {error}"
    return ""


def declare_operators() -> None:
    """Name the operators that torchvision describes when it is imported; open_clip uses none of them."""
    from torch.library import define

    for name in ("nms", "qnms"):
        define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


needs_library = needed.unless(missing())


def test_without_the_library_the_error_says_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(
        MissingExtra, match=r"This needs 'open_clip'. Install it with: pip install 'isthmus\[open-clip\]'"
    ):
        encoders.load("open_clip:ViT-B-32/laion2b_s34b_b79k")


def test_a_torchvision_of_another_build_is_called_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "open_clip.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "open_clip", raising=False)
    with pytest.raises(BadFile, match=r"nms does not exist\. It needs torchvision of the same build as torch"):
        encoders.load("open_clip:ViT-B-32/laion2b_s34b_b79k")


def test_a_missing_torchvision_is_called_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "open_clip.py").write_text("import torchvision")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "open_clip", raising=False)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(BadFile, match=r"torchvision.*\. It needs torchvision of the same build as torch: install both"):
        encoders.load("open_clip:ViT-B-32/laion2b_s34b_b79k")


HUB = """
class SimpleTokenizer: pass
def list_models(): return ["roberta-ViT-B-32"]
def list_pretrained_tags_by_model(name): return []
def get_model_config(name): return {"text_cfg": {"hf_tokenizer_name": "roberta-base"}}
def create_model_and_transforms(*_, **__): raise OSError("it asks the hub")
"""


@pytest.mark.parametrize("rest", ["hf-hub:timm/ViT-B-16-SigLIP", "roberta-ViT-B-32/{weights}"])
def test_offline_a_model_with_files_of_the_hub_is_not_begun(
    rest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open_clip.py").write_text(HUB)
    (tmp_path / "weights.pt").write_bytes(b"")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "open_clip", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("ISTHMUS_OFFLINE", "1")
    with pytest.raises(BadFile, match="open_clip reads HF_HUB_OFFLINE only"):
        encoders.load(f"open_clip:{rest.format(weights=tmp_path / 'weights.pt')}")


@pytest.fixture
def name(tmp_path: Path) -> str:
    """A tiny random model: its description is added to open_clip's, its weights are a file."""
    import open_clip
    import torch

    (tmp_path / "tiny-clip.json").write_text(json.dumps(CONFIG))
    open_clip.add_model_config(tmp_path / "tiny-clip.json")
    torch.manual_seed(0)
    torch.save(open_clip.create_model("tiny-clip").state_dict(), tmp_path / "weights.pt")
    return f"open_clip:tiny-clip/{tmp_path / 'weights.pt'}"


@needs_library
def test_vectors_are_those_of_open_clip(name: str) -> None:
    import open_clip
    import torch
    from PIL import Image

    encoder = encoders.load(name)
    model, _, prepare = open_clip.create_model_and_transforms("tiny-clip", pretrained=name.partition("/")[2])
    pictures: list[Any] = [np.random.default_rng(n).integers(0, 255, (20 + n, 50, 3), np.uint8) for n in range(3)]
    with torch.no_grad():
        said = model.eval().encode_text(open_clip.get_tokenizer("tiny-clip")(TEXTS), normalize=True)
        seen = model.encode_image(torch.stack([prepare(Image.fromarray(each)) for each in pictures]), normalize=True)
    np.testing.assert_allclose(encoder.encode_queries(TEXTS).parts["text"], said.numpy(), atol=1e-4)
    found = encoder.encode_documents([Document(id=str(n), image=each) for n, each in enumerate(pictures)])
    np.testing.assert_allclose(found.parts["image"], seen.numpy(), atol=1e-4)
    alone = encoders.load(name).encode_queries([Query(text=TEXTS[0], image=pictures[0])])
    np.testing.assert_allclose(alone.parts["image"][0], seen[0].numpy(), atol=1e-4)


@needs_library
def test_files_of_the_sample_folder_are_indexed_calibrated_and_searched(name: str, tmp_path: Path) -> None:
    check_collection(name, few_files(tmp_path / "few"), tmp_path / "c")


@needs_library
def test_300_words_are_split_and_half_precision_is_close(name: str) -> None:
    encoder = encoders.load(name)
    long = " ".join(["cat", "dog", "sofa"] * 100)
    spans = encoder.split(long)
    assert "".join(long[start:end] for start, end in spans) == long
    assert len(encoder.encode_passages([Document(id="a", text=long)])[1]) == len(spans) > 20
    one, other = (encoders.load(name, precision=p).encode_queries(TEXTS).parts["text"] for p in ("full", "half"))
    assert ((one * other).sum(axis=1) > 0.98).all()


@needs_library
def test_a_video_is_read_by_its_key_frames_and_blank_text_is_no_part(name: str, tmp_path: Path) -> None:
    encoder = encoders.load(name)
    film = recordings.video(tmp_path / "film.mp4", [(4, (200, 20, 20)), (4, (20, 20, 200))])
    vectors, owner = encoder.encode_passages([Document(id="film", video=film)])
    frames = list(key_frames(film))
    alone = encoder.encode_documents([Document(id=str(at), image=key.pixels) for at, key in enumerate(frames)])
    assert len(owner) == len(frames) > 1
    np.testing.assert_allclose(vectors.parts["video"], alone.parts["image"], atol=1e-5)
    with pytest.raises(BadInput, match="neither text nor image"):
        encoder.encode_queries([""])


@needs_library
@pytest.mark.usefixtures("no_network")
def test_a_file_of_weights_is_loaded_without_a_network(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISTHMUS_OFFLINE", "1")
    assert len(encoders.load(name).encode_queries(TEXTS)) == 3
    with pytest.raises(BadFile, match="would download 'laion2b_s34b_b79k', and offline is set"):
        encoders.load("open_clip:ViT-B-32/laion2b_s34b_b79k")


@needs_library
def test_it_is_exported_as_a_folder_with_the_same_vectors(name: str, tmp_path: Path) -> None:
    exported = export_encoder(name, tmp_path / "out")
    encoder = encoders.load(name)
    sizes = [(32, 32), (40, 66), (66, 40), (9, 7)]
    asked: list[str | Query] = [*TEXTS, "A Cat  on the house, 1234 it's"]
    asked += [Query(image=np.random.default_rng(0).integers(0, 255, (*size, 3), np.uint8)) for size in sizes]
    one, other = encoder.encode_queries(asked), exported.encode_queries(asked)
    for part, matrix in one.parts.items():
        np.testing.assert_allclose(other.parts[part], matrix, atol=1e-4)


@needs_library
def test_unknown_models_and_weights_are_refused() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'ViT-B-32'"):
        encoders.load("open_clip:ViT-B-33/openai")
    with pytest.raises(BadInput, match=r"open_clip has no weights 'laion' of ViT-B-32.* one of: openai"):
        encoders.load("open_clip:ViT-B-32/laion")
