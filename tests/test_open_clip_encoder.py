"""``open_clip:``: without the library the error says what to run; with it, the vectors are the library's own."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isthmus import Collection, Document, Query, encoders
from isthmus.errors import BadInput, MissingExtra, UnknownName

TEXTS = ["a cat on the sofa", "dog", "the red house"]
CONFIG = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "patch_size": 16, "head_width": 16},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}
needs_library = pytest.mark.skipif(
    find_spec("open_clip") is None, reason="open_clip is not installed: it needs torchvision, which CI has not"
)


def test_without_the_library_the_error_says_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(
        MissingExtra, match=r"This needs 'open_clip'. Install it with: pip install 'isthmus\[open-clip\]'"
    ):
        encoders.load("open_clip:ViT-B-32/laion2b_s34b_b79k")


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
def test_a_collection_is_made_and_searched(name: str, tmp_path: Path) -> None:
    picture = np.random.default_rng(0).integers(0, 255, (20, 50, 3), np.uint8)
    with Collection.open(tmp_path / "c", encoder=name, calibration="none") as things:
        things.add([Document(id="a", text="a cat"), Document(id="b", image=picture)])
        assert things.search(Query(image=picture), k=1)[0].id == "b"


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
def test_unknown_models_and_weights_are_refused() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'ViT-B-32'"):
        encoders.load("open_clip:ViT-B-33/openai")
    with pytest.raises(BadInput, match=r"open_clip has no weights 'laion' of ViT-B-32.* one of: openai"):
        encoders.load("open_clip:ViT-B-32/laion")
