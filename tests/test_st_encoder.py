"""``st:``: models that read text and image together have one vector for both; words are never opened as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sentence_transformers import SentenceTransformer

import tiny_hf
import tiny_towers
from isthmus import Collection, Document, Query, encoders, samples
from isthmus.encoders.one_vector import OneVectorEncoder
from isthmus.errors import BadInput

pytestmark = pytest.mark.usefixtures("no_network")
PICTURE = np.random.default_rng(0).integers(0, 255, size=(30, 50, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_hf.sentence_llava(tmp_path_factory.mktemp("st"))


def unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_a_text_and_its_picture_have_the_one_vector_of_the_library(folder: Path) -> None:
    encoder = encoders.load(f"st:{folder}")
    assert isinstance(encoder, OneVectorEncoder)
    documents = [
        Document(id="words", text="a cat"),
        Document(id="picture", image=PICTURE),
        Document(id="both", text="a cat", image=PICTURE),
    ]
    found = encoder.encode_documents(documents)
    assert found.modality.tolist() == ["text", "image", "image+text"]
    bare = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    seen = Image.fromarray(PICTURE)
    right = [bare.encode([each])[0] for each in ({"text": "a cat"}, {"image": seen}, {"image": seen, "text": "a cat"})]
    np.testing.assert_allclose(found.parts["text"], unit(np.stack(right)), atol=1e-4)
    assert np.abs(found.parts["text"][2] - found.parts["text"][0]).max() > 1e-3
    asked = encoder.encode_queries(["a cat", Query(text="a cat", image=PICTURE)]).parts["text"]
    prompted = bare.encode([{"text": "a cat"}, {"image": seen, "text": "a cat"}], prompt="what is ")
    np.testing.assert_allclose(asked, unit(prompted), atol=1e-4)
    assert np.abs(asked[0] - found.parts["text"][0]).max() > 1e-3


def test_a_vector_does_not_depend_on_its_batch_and_blank_text_is_no_part(folder: Path) -> None:
    encoder = encoders.load(f"st:{folder}")
    documents = [
        Document(id="a", text="a cat on the sofa, what is wrong here"),
        Document(id="b", text=" \n", image=PICTURE),
        Document(id="c", text="dog", image=PICTURE[:9]),
        Document(id="d", text="a red cat"),
    ]
    together = encoder.encode_documents(documents)
    assert together.modality.tolist() == ["text", "image", "image+text", "text"]
    alone = [encoders.load(encoder.name, batch=1).encode_documents([each]).parts["text"] for each in documents]
    np.testing.assert_allclose(together.parts["text"], np.concatenate(alone), atol=1e-4)
    with pytest.raises(BadInput, match="neither text nor image"):
        encoder.encode_queries([""])


def test_long_texts_are_split_and_half_precision_is_close(folder: Path) -> None:
    encoder: Any = encoders.load(f"st:{folder}")
    long = "cat dog sofa " * 1000  # 3,000 tokens
    spans = encoder.split(long)
    assert "".join(long[start:end] for start, end in spans) == long
    assert len(spans) == 2
    whole, half = (encoders.load(encoder.name, precision=each) for each in ("full", "half"))
    asked: list[str | Query] = ["a cat", Query(image=PICTURE), Query(text="a dog", image=PICTURE)]
    one, other = (each.encode_queries(asked).parts["text"] for each in (whole, half))
    assert ((one * other).sum(axis=1) > 0.98).all()


def test_a_collection_of_the_sample_folder_is_calibrated_and_searched(folder: Path, tmp_path: Path) -> None:
    with Collection.open(tmp_path / "c", encoder=f"st:{folder}", calibration="center", follow=False) as things:
        assert not things.index(samples.folder(), ocr="never").skipped
        things.calibrate("center")
    with Collection.open(tmp_path / "c", follow=False) as things:
        photo = samples.folder() / "photos" / "tabby.jpg"
        assert things.search(Query(image=photo), k=1)[0].id == "photos/tabby.jpg"
        assert len(things.search("a tabby cat", k=10)) == 10


def test_words_that_look_like_a_picture_are_words(folder: Path, tmp_path: Path) -> None:
    """The library opens a bare string that ends as the name of a picture does."""
    Image.fromarray(PICTURE).save(tmp_path / "cat.png")
    texts = [str(tmp_path / "cat.png"), "https://example.org/cat.jpg", "cat.webp"]
    clip = f"{tiny_towers.sentence_clip(tmp_path / 'clip')}"
    one, other = (encoders.load(name) for name in (f"st:{clip}", f"hf:{clip}/0_CLIPModel"))
    found, right = (each.encode_queries(texts).parts["text"] for each in (one, other))
    np.testing.assert_allclose(found, right, atol=1e-4)
    both = encoders.load(f"st:{folder}").encode_documents([Document(id=text, text=text) for text in texts])
    assert both.modality.tolist() == ["text"] * 3
