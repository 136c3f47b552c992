"""Loading encoders: names, settings, and folders that are not what they say."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import tiny
from isthmus import Collection, Document, Query, encoders
from isthmus.encoders.cache import FolderCache, MemoryCache
from isthmus.encoders.onnx import PROVIDERS
from isthmus.encoders.references import SHIPPED_QUERIES, bank_vectors
from isthmus.errors import BadFile, BadInput, BadVectors, MissingExtra, UnknownName
from tiny import IMAGE_TABLE, TEXT_TABLE, text_model, write_encoder, write_fusion, write_sentence_transformer

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("minni", "Did you mean 'mini'?"),
        ("onx:/tmp", "Did you mean 'onnx'?"),
        ("mini-fusion", "The encoder 'mini-fusion' is not part of isthmus any more. It found less than mini"),
        ("/models/mine", "Known: base, clap, hf, http, matryoshka, mini, mteb, onnx, open_clip, st, vlm."),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(name: str, said: str) -> None:
    with pytest.raises(UnknownName) as caught:
        encoders.load(name)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["onnx", "onnx:", "st", "st:", "mteb", "mteb:", "mini:large", "hf:", "http:"])
def test_half_a_name_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="not an encoder's full name"):
        encoders.load(name)


@pytest.mark.parametrize(
    ("kind", "module"), [("st", "sentence_transformers"), ("mteb", "mteb"), ("hf", "transformers")]
)
def test_a_kind_that_is_not_installed_names_its_extra(kind: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'isthmus\[{kind}\]'"):
        encoders.load(f"{kind}:some/model")


def test_every_kind_of_encoder_stands_in_the_docs() -> None:
    page = (ROOT / "docs/encoders.md").read_text()
    assert [kind for kind in encoders.KINDS if f"| `{kind}" not in page] == []


def test_the_example_in_the_docs_is_a_description_that_can_be_read(tmp_path: Path) -> None:
    example = (ROOT / "docs/encoders.md").read_text().split("```toml\n")[1].split("```")[0]
    table = tomllib.loads(example)
    assert set(table["files"]) == {"text.onnx", "tokenizer.json", "image.onnx"}
    (tmp_path / "encoder.toml").write_text(example)
    with pytest.raises(BadFile, match=r"text\.onnx cannot be read: No such file"):
        encoders.load(f"onnx:{tmp_path}")


def test_mini_without_its_files_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(encoders, "EMBEDDED", {"mini": tmp_path})
    with pytest.raises(BadFile, match=r"'mini' is not in this installation: .* has no encoder\.toml"):
        encoders.load("mini")
    monkeypatch.setattr(encoders, "EMBEDDED", {"mini": write_encoder(tmp_path)})
    assert encoders.load("mini").dim == tiny.DIM


@pytest.mark.parametrize("setting", ["threads", "batch"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2"])
def test_a_setting_that_is_no_count_is_refused(setting: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"{setting} is {value!r}; it must be a whole number"):
        encoders.load(f"onnx:{write_encoder(tmp_path)}", **{setting: value})


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "cpu:1", ""])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(device: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"device {device!r}; this installation has .*cpu"):
        encoders.load(f"onnx:{write_encoder(tmp_path)}", device=device)


def test_auto_is_a_device_that_is_there(tmp_path: Path) -> None:
    assert encoders.load(f"onnx:{write_encoder(tmp_path)}", device="auto").dim == tiny.DIM
    assert "cpu" in PROVIDERS


def test_a_folder_that_is_no_encoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"has no encoder\.toml, so it is not an encoder"):
        encoders.load(f"onnx:{tmp_path}")
    with pytest.raises(BadFile, match="nowhere is not a folder"):
        encoders.load(f"onnx:{tmp_path / 'nowhere'}")


@pytest.mark.parametrize("file", ["text.onnx", "image.onnx", "tokenizer.json"])
def test_a_damaged_or_missing_file_is_found_at_load(file: str, tmp_path: Path) -> None:
    folder = write_encoder(tmp_path)
    path = folder / file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(BadFile, match=rf"{file} is damaged, or is not the file that encoder\.toml describes"):
        encoders.load(f"onnx:{folder}")
    path.unlink()
    with pytest.raises(BadFile, match=rf"{file} cannot be read: No such file"):
        encoders.load(f"onnx:{folder}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.replace("[text]", "[txt]"), "is called 'txt'. Did you mean 'text'?"),
        (lambda t: t.replace("length", "lenght"), "of [text] is called 'lenght'. Did you mean 'length'?"),
        (lambda t: t.replace("length = 12", ""), "[text] has no 'length'"),
        (lambda t: t.replace("length = 12", "length = 'x'"), "text.length is 'x'; it must be a whole number"),
        (lambda t: t.replace("length = 12", "length = 0"), "at least 1"),
        (lambda t: t.replace("dim = 8", ""), "dim is missing; it must be a whole number"),
        (lambda t: t.replace('"squash"', '"stretch"'), "image.fit is 'stretch'; it must be one of"),
        (lambda t: t.replace('"nhwc"', '"nhwc"\nmean = [1, 2]'), "must be three numbers"),
        (lambda t: t.replace('"text.onnx" =', '"other.onnx" ='), "has no checksum of text.onnx"),
        (lambda t: t.replace('output = "vector"', 'output = "vektor"'), "no output 'vektor'. Did you mean 'vector'?"),
        (lambda t: t.replace("[text]", '[text]\ntokens = "input_ids"'), "takes tokens, mask, and its description"),
        (lambda t: "name = ", "cannot be read"),
        (lambda t: 'name = "x"\ndim = 8\n[files]\n', "neither [text] nor [image]"),
    ],
)
def test_a_description_that_is_wrong_is_refused_with_what_to_mend(
    change: Callable[[str], str], said: str, tmp_path: Path
) -> None:
    path = write_encoder(tmp_path) / "encoder.toml"
    path.write_text(change(path.read_text()))
    with pytest.raises(BadFile) as caught:
        encoders.load(f"onnx:{tmp_path}")
    assert said in str(caught.value)


def signed(folder: Path) -> str:
    """Write the description again for the files as they are now, and load by the name returned."""
    table = tomllib.loads((folder / "encoder.toml").read_text())["files"]
    text = (folder / "encoder.toml").read_text()
    from isthmus.encoders.folder import checksum

    for name, old in table.items():
        text = text.replace(old, checksum(folder / name))
    (folder / "encoder.toml").write_text(text)
    return f"onnx:{folder}"


def test_a_file_that_is_no_model_and_a_model_of_another_dimension_are_refused(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path, "text")
    onnx.save(text_model(50, dim=5), folder / "text.onnx")
    with pytest.raises(BadFile, match=r"returned shape \(1, 5\) where \(1, 8\) was expected"):
        encoders.load(signed(folder)).encode_queries(["cat"])
    (folder / "text.onnx").write_text("not a model")
    with pytest.raises(BadFile, match=r"text\.onnx.* not an ONNX model"):
        encoders.load(signed(folder))


def test_a_model_that_fails_or_gives_nan_is_a_clear_error(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path, "text")
    onnx.save(text_model(3), folder / "text.onnx")  # fewer rows than the tokenizer has tokens
    with pytest.raises(BadFile, match=r"text\.onnx failed on inputs of shape \[\(1, 3\), \(1, 3\)\]"):
        encoders.load(signed(folder)).encode_queries(["cat"])
    broken = text_model(50)
    table = broken.graph.initializer[0]
    table.CopyFrom(onnx.numpy_helper.from_array(np.full((50, tiny.DIM), np.nan, np.float32), "table"))
    onnx.save(broken, folder / "text.onnx")
    with pytest.raises(BadVectors, match="returned zeros, NaN or infinity"):
        encoders.load(signed(folder)).encode_queries(["cat"])


def test_tokens_are_pooled_here_where_the_model_has_not(tmp_path: Path) -> None:
    tokens = ["a cat sits", "dog"]
    pooled = encoders.load(f"onnx:{write_encoder(tmp_path / 'in', 'text')}").encode_queries(tokens)
    mean = write_encoder(tmp_path / "mean", "text", text=TEXT_TABLE + 'pool = "mean"\n')
    np.testing.assert_allclose(
        encoders.load(f"onnx:{mean}").encode_queries(tokens).parts["text"], pooled.parts["text"], atol=1e-6
    )
    first = write_encoder(tmp_path / "first", "text", text=TEXT_TABLE + 'pool = "first"\n')
    rows = encoders.load(f"onnx:{first}").encode_queries(tokens).parts["text"]
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-6)  # both begin with [CLS]


def test_a_prefix_sets_queries_and_documents_apart(tmp_path: Path) -> None:
    table = TEXT_TABLE + 'query = "the"\ndocument = "a"\n'
    encoder = encoders.load(f"onnx:{write_encoder(tmp_path / 'with', 'text', text=table)}")
    plain = encoders.load(f"onnx:{write_encoder(tmp_path / 'without', 'text')}")
    np.testing.assert_array_equal(
        encoder.encode_queries(["cat"]).parts["text"], plain.encode_queries(["the cat"]).parts["text"]
    )
    np.testing.assert_array_equal(
        encoder.encode_documents([Document(id="x", text="cat")]).parts["text"],
        plain.encode_queries(["a cat"]).parts["text"],
    )


def test_layout_and_type_of_pixels_follow_the_description(tmp_path: Path) -> None:
    asked = [Query(image=np.random.default_rng(0).integers(0, 255, (8, 8, 3), dtype=np.uint8))]
    plain = encoders.load(f"onnx:{write_encoder(tmp_path / 'nhwc', 'image')}").encode_queries(asked)
    table = IMAGE_TABLE.replace("nhwc", "nchw")
    turned = encoders.load(f"onnx:{write_encoder(tmp_path / 'nchw', 'image', image=table)}").encode_queries(asked)
    np.testing.assert_allclose(turned.parts["image"], plain.parts["image"], atol=1e-6)
    scale = 1 / 255  # (rgb / 255 − 0) / (1 / 255) is rgb again
    table = table.replace("uint8", "float32") + f"mean = [0, 0, 0]\nstd = [{scale}, {scale}, {scale}]\n"
    scaled = encoders.load(f"onnx:{write_encoder(tmp_path / 'float', 'image', image=table)}").encode_queries(asked)
    np.testing.assert_allclose(scaled.parts["image"], plain.parts["image"], atol=1e-5)


def test_another_description_never_sees_the_vectors_of_the_first(tmp_path: Path) -> None:
    cache = MemoryCache()
    asked = [Query(image=np.arange(96, dtype=np.uint8).reshape(4, 8, 3).repeat(2, axis=0).repeat(3, axis=1))]
    loaded = [
        encoders.load(f"onnx:{write_encoder(tmp_path / fit, 'image', image=table)}", cache=cache)
        for fit, table in (("squash", IMAGE_TABLE), ("crop", IMAGE_TABLE.replace("squash", "crop")))
    ]
    squashed, cropped = (encoder.encode_queries(asked).parts["image"] for encoder in loaded)
    assert np.abs(squashed - cropped).max() > 1e-3


def test_memory_is_bounded_and_what_was_used_last_stays() -> None:
    cache = MemoryCache(limit=8)
    one = np.ones(1, dtype=np.float32)
    cache.put({b"a": one, b"b": one})
    cache.get([b"a"])
    cache.put({b"c": one})
    assert sorted(cache.get([b"a", b"b", b"c"])) == [b"a", b"c"]
    nothing = MemoryCache(limit=0)
    nothing.put({b"a": one})
    assert nothing.get([b"a"]) == {}


def test_a_cache_on_disk_gives_back_what_it_was_given_in_any_number(tmp_path: Path) -> None:
    vectors = {f"{row}".encode(): np.array([row, 0.1], dtype=np.float32) for row in range(1200)}
    writer, other = FolderCache(tmp_path), FolderCache(tmp_path)
    writer.put(vectors)
    writer.put({b"0": np.zeros(2, dtype=np.float32)})  # the first stays
    found = other.get([*vectors, b"none"])
    assert found.keys() == vectors.keys()
    assert all((found[name] == vectors[name]).all() for name in vectors)
    writer.close()
    other.close()


def test_a_damaged_cache_says_that_it_can_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "vectors.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(BadFile, match=r"Delete it .* or name another folder"):
        FolderCache(tmp_path)


def test_a_model_of_sentence_transformers_keeps_its_prompts_and_its_own_vectors(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    path = write_sentence_transformer(tmp_path)
    encoder = encoders.load(f"st:{path}")
    model = SentenceTransformer(str(path), device="cpu")
    own = model.encode(["cat"], prompt_name="query", normalize_embeddings=True)
    np.testing.assert_allclose(encoder.encode_queries(["cat"]).parts["text"], own, atol=1e-6)
    own = model.encode(["cat"], normalize_embeddings=True)
    np.testing.assert_allclose(encoder.encode_documents([Document(id="a", text="cat")]).parts["text"], own, atol=1e-6)


def test_offline_is_obeyed_and_a_missing_model_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("the network was touched")

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    with pytest.raises(BadFile, match="Offline is set: check the path, or download the model first"):
        encoders.load("st:nobody/no-such-model")


def test_a_matryoshka_has_the_first_numbers_at_unit_length_and_a_name_that_loads(tmp_path: Path) -> None:
    name = f"onnx:{write_encoder(tmp_path / 'encoder')}"
    documents = [Document(id="a", text="a cat"), Document(id="b", image=np.zeros((4, 4), np.uint8))]
    whole, cut = encoders.load(name), encoders.load(f"matryoshka:3:{name}")
    assert (cut.dim, cut.modalities) == (3, whole.modalities)
    assert cut.identity != whole.identity
    for part, matrix in whole.encode_documents(documents).parts.items():
        rows = matrix[:, :3] / np.maximum(np.linalg.norm(matrix[:, :3], axis=1, keepdims=True), 1e-9)
        np.testing.assert_allclose(cut.encode_documents(documents).parts[part], rows, atol=1e-5)
    with Collection.open(tmp_path / "c", encoder=f"matryoshka:3:{name}", calibration="none") as things:
        things.add(documents)
    with Collection.open(tmp_path / "c") as things:
        assert things.search("a cat", k=1)[0].id == "a"


def test_a_matryoshka_cuts_the_vectors_of_the_bank_that_ship_and_encodes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, cut = encoders.load("mini"), encoders.load("matryoshka:64:mini")
    monkeypatch.setattr(type(cut), "encode_queries", None)  # a call would raise
    shipped, found = (bank_vectors(each, limit=SHIPPED_QUERIES) for each in (whole, cut))
    assert found.modality.tolist() == shipped.modality.tolist()
    rows = shipped.parts["text"][shipped.present["text"]][:, :64]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(found.parts["text"][found.present["text"]], rows, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("matryoshka:mini", "not an encoder's full name. Write how many numbers to keep, at least 1"),
        ("matryoshka:0:mini", "not an encoder's full name"),
        ("matryoshka:999:mini", "has 384 dimensions, fewer than 999"),
        ("matryoshka:8:minni", "Did you mean 'mini'"),
    ],
)
def test_a_matryoshka_of_nothing_is_refused(name: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        encoders.load(name)


def test_a_matryoshka_of_one_vector_for_text_and_image_is_refused(tmp_path: Path) -> None:
    write_fusion(tmp_path / "fusion", write_encoder(tmp_path / "towers"))
    with pytest.raises(BadInput, match="has no towers"):
        encoders.load(f"matryoshka:4:onnx:{tmp_path / 'fusion'}")


def test_the_bank_of_a_matryoshka_is_cut_and_not_encoded(tmp_path: Path) -> None:
    whole, cut = encoders.load("mini"), encoders.load("matryoshka:32:mini")
    found, right = (bank_vectors(each, tmp_path, limit=SHIPPED_QUERIES) for each in (cut, whole))
    assert list(tmp_path.iterdir()) == []  # `mini` ships its vectors
    for part in ("text", "image"):
        rows = right.parts[part][right.present[part], :32]
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        np.testing.assert_allclose(found.parts[part][found.present[part]], rows, atol=1e-6)
