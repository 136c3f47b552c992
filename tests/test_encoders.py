"""One battery for every encoder: order, batches, passages, cache, and the answers to bad input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import embedding_service
import tiny_towers
from endpoint import serving
from isthmus import Document, Query, encoders
from isthmus.encoders.fusion import FusionEncoder
from isthmus.errors import BadImage, BadInput
from isthmus.types import Vectors
from tiny import LENGTH, write_encoder, write_fusion, write_sentence_transformer

ROOM = LENGTH - 2
TEXTS = ["a cat sits on the red sofa", "dog", "the house", "a cat", "red red red grass", "cat and dog and tree"]
ODD_TEXTS = ["the and of a", "🐱🐱 🐱", "שלום עולם", "cat שלום 猫 кот", "zebra quagga", "\ud83d lone", "!?"]
MTEB = ["mteb"] if find_spec("mteb") else []  # which `make test-all` installs
LONG = " ".join(np.random.default_rng(0).choice(["cat", "dog", "sofa", "tree"], 5 * ROOM))


@dataclass(frozen=True)
class Kind:
    """How to load one kind of encoder, and what it reads."""

    name: str
    parts: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def fuses(self) -> bool:
        """Whether it makes one vector of a text and an image."""
        return self.name.endswith("fusion")

    def load(self, **options: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            for variable, value in self.environment:
                patch.setenv(variable, value)
            return encoders.load(self.name, **options)


def picture(seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 255, size=(9, 7, 3), dtype=np.uint8)


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Kind]]:
    root = tmp_path_factory.mktemp("encoders")
    made = {
        parts: Kind(f"onnx:{write_encoder(root / parts, parts)}", tuple(parts.split("+")))
        for parts in ("text", "image", "image+text")
    }
    write_fusion(root / "fusion", root / "image+text")
    made["fusion"] = Kind(f"onnx:{root / 'fusion'}", ("image", "text"))
    saved = write_sentence_transformer(root / "st")
    made["st clip"] = Kind(f"st:{tiny_towers.sentence_clip(root / 'st clip')}", ("image", "text"))
    for make in (tiny_towers.clip, tiny_towers.siglip):
        made[f"hf {make.__name__}"] = Kind(f"hf:{make(root / make.__name__)}", ("image", "text"))
    made |= {"st": Kind(f"st:{saved}", ("text",)), "mteb": Kind(f"mteb:{saved}", ("text",))}
    with serving(reply=embedding_service.reply) as service:
        name = f"http:voyage:voyage-multimodal-3@{service.url}"
        yield {**made, "http": Kind(name, ("image", "text"), (("ISTHMUS_HTTP_TOKENS", "16"),))}


@pytest.fixture(
    params=["text", "image", "image+text", "fusion", "hf clip", "hf siglip", "http", "st", "st clip", *MTEB]
)
def kind(request: pytest.FixtureRequest, kinds: dict[str, Kind]) -> Kind:
    return kinds[request.param]


@pytest.fixture(params=["text", "image+text", "fusion", "hf clip", "hf siglip", "http", "st", "st clip", *MTEB])
def reader(request: pytest.FixtureRequest, kinds: dict[str, Kind]) -> Kind:
    return kinds[request.param]


@pytest.fixture(params=["image", "image+text", "fusion", "hf clip", "http", "st clip"])
def viewer(request: pytest.FixtureRequest, kinds: dict[str, Kind]) -> Kind:
    return kinds[request.param]


def documents(kind: Kind) -> list[Document]:
    """A mix of every modality that the encoder takes, long texts and repetitions among them."""
    made: list[Document] = []
    for row, text in enumerate([*TEXTS, LONG, *ODD_TEXTS, TEXTS[0]]):
        if "text" in kind.parts:
            made.append(Document(id=f"t{row}", text=text))
        if "image" in kind.parts:
            made.append(Document(id=f"i{row}", image=picture(row % 5)))
        if len(kind.parts) == 2:
            made.append(Document(id=f"b{row}", text=text, image=picture(row)))
    return made


def parts_of(vectors: Vectors) -> Iterator[tuple[str, Any, Any]]:
    for part, matrix in vectors.parts.items():
        yield part, matrix, vectors.present[part]


def assert_same(some: Vectors, others: Vectors) -> None:
    assert some.modality.tolist() == others.modality.tolist()
    for part, matrix, present in parts_of(some):
        np.testing.assert_allclose(matrix[present], others.parts[part][present], atol=1e-5)


def count_runs(encoder: Any) -> tuple[Any, list[int]]:
    """Count the rows that reach the model, whichever tower they go through."""
    rows: list[int] = []

    class Counting:
        def __init__(self, tower: Any) -> None:
            self.split = getattr(tower, "split", None)
            self.frame = getattr(tower, "frame", None)
            self.towers = getattr(tower, "towers", None)
            self.tower = tower

        def encode(self, inputs: Any) -> Any:
            rows.append(len(inputs))
            return self.tower.encode(inputs)

    if isinstance(encoder, FusionEncoder):
        counting: Any = Counting(encoder.document)
        return replace(encoder, document=counting), rows
    towers: Any = {p: Counting(t) if t else None for p, t in (("text", encoder.text), ("image", encoder.image))}
    return replace(encoder, **towers), rows


def test_vectors_are_unit_float32_of_the_said_dimension_one_row_each(kind: Kind) -> None:
    encoder = kind.load()
    given = documents(kind)
    vectors = encoder.encode_documents(given)
    assert len(vectors) == len(given)
    assert vectors.dim == encoder.dim
    assert vectors.modality.tolist() == [document.modality for document in given]
    assert {name for name in encoder.modalities if "video" not in name} == set(vectors.modalities)
    assert list(encoder.modalities) == sorted(encoder.modalities)
    for _, matrix, present in parts_of(vectors):
        assert matrix.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(matrix[present], axis=1), 1, atol=1e-6)


def test_a_mixed_batch_gives_each_document_the_vector_it_has_alone(kind: Kind) -> None:
    given = documents(kind)
    together = kind.load().encode_documents(given)
    forgetful = kind.load(cache=encoders.MemoryCache(limit=0))
    alone = [forgetful.encode_documents([document]) for document in given]
    assert_same(together, Vectors.concat(alone))


def test_the_order_of_documents_is_the_order_of_rows(kind: Kind) -> None:
    given = documents(kind)
    order = np.random.default_rng(3).permutation(len(given))
    shuffled = kind.load().encode_documents([given[row] for row in order])
    assert_same(kind.load().encode_documents(given).take(order), shuffled)


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_the_size_of_a_batch_does_not_matter(kind: Kind, batch: int) -> None:
    given = documents(kind)
    assert_same(kind.load().encode_documents(given), kind.load(batch=batch).encode_documents(given))


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_threads_does_not_matter(kind: Kind, threads: int) -> None:
    given = documents(kind)
    assert_same(kind.load().encode_documents(given), kind.load(threads=threads).encode_documents(given))


def test_nothing_in_is_nothing_out(kind: Kind) -> None:
    encoder = kind.load()
    assert len(encoder.encode_documents([])) == len(encoder.encode_queries([])) == 0
    vectors, owner = encoder.encode_passages([])
    assert (len(vectors), owner.tolist()) == (0, [])
    assert vectors.dim == encoder.dim


def test_a_long_text_has_passages_that_know_their_document_and_lie_where_split_says(reader: Kind) -> None:
    encoder = reader.load()
    given = [Document(id="a", text="cat"), Document(id="b", text=LONG), Document(id="c", text="dog")]
    vectors, owner = encoder.encode_passages(given)
    places = encoder.split(LONG)
    assert owner.tolist() == [0, *[1] * len(places), 2]
    assert len(places) >= 5
    assert "".join(LONG[start:end] for start, end in places) == LONG
    alone = encoder.encode_documents([Document(id="p", text=LONG[start:end]) for start, end in places])
    np.testing.assert_allclose(vectors.parts["text"][1:-1], alone.parts["text"], atol=1e-5)


def test_a_document_of_passages_is_their_unit_mean(reader: Kind) -> None:
    encoder = reader.load()
    long = Document(id="b", text=LONG)
    mean = encoder.encode_passages([long])[0].parts["text"].mean(axis=0)
    whole = encoder.encode_documents([long]).parts["text"][0]
    np.testing.assert_allclose(whole, mean / np.linalg.norm(mean), atol=1e-6)


def test_a_change_in_the_last_word_of_a_long_text_changes_its_vectors(reader: Kind) -> None:
    encoder = reader.load()
    one, other = (encoder.encode_documents([Document(id="x", text=f"{LONG} {end}")]) for end in ("cat", "grass"))
    assert np.abs(one.parts["text"] - other.parts["text"]).max() > 1e-4
    asked = encoder.encode_queries([f"{LONG} cat", f"{LONG} grass"]).parts["text"]
    assert np.abs(asked[0] - asked[1]).max() > 1e-4


def test_every_passage_carries_the_image_of_its_document(kinds: dict[str, Kind]) -> None:
    encoder = kinds["image+text"].load()
    given = [Document(id="a", image=picture(0)), Document(id="b", text=LONG, image=picture(1))]
    vectors, owner = encoder.encode_passages(given)
    assert owner.tolist() == [0] + [1] * (len(owner) - 1)
    assert vectors.modality.tolist() == ["image"] + ["image+text"] * (len(owner) - 1)
    pictures = encoder.encode_documents(given).parts["image"]
    np.testing.assert_array_equal(vectors.parts["image"], pictures[owner])


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_texts_are_read_like_any_other(reader: Kind, text: str) -> None:
    encoder = reader.load()
    (row,) = encoder.encode_queries([text]).parts["text"]
    assert np.isfinite(row).all()
    assert len(encoder.encode_documents([Document(id="a", text=text)])) == 1


def test_a_hundred_thousand_words_are_encoded(kinds: dict[str, Kind]) -> None:
    words = np.random.default_rng(1).choice(["cat", "dog", "sofa", "tree", "runs"], 100_000)
    vectors, owner = kinds["text"].load(batch=256).encode_passages([Document(id="book", text=" ".join(words))])
    assert len(vectors) == 10_000
    assert not owner.any()


def test_blank_text_is_no_part_and_a_document_needs_one(kinds: dict[str, Kind]) -> None:
    encoder = kinds["image+text"].load()
    for blank in ("", " \n", "\u200b"):  # the tokenizer finds nothing in the last
        vectors = encoder.encode_documents([Document(id="a", text=blank, image=picture(0))])
        assert vectors.modality.tolist() == ["image"]
    with pytest.raises(BadInput, match=r"document 'z': the encoder tiny-image\+text finds no words"):
        encoder.encode_documents([Document(id="z", text="\u200b")])
    with pytest.raises(BadInput, match="The query has neither text nor image"):
        encoder.encode_queries(["cat", ""])


def test_a_part_that_the_encoder_does_not_read_is_refused_not_dropped(kinds: dict[str, Kind]) -> None:
    both = Document(id="c", text="cat", image=picture(0))
    for name, part in (("text", "image"), ("image", "text"), ("st", "image")):
        with pytest.raises(BadInput, match=rf"document 'c': it has the part '{part}', and the encoder \S+ reads"):
            kinds[name].load().encode_documents([both])
    with pytest.raises(BadInput, match="query 1: it has the part 'image'"):
        kinds["text"].load().encode_queries(["cat", Query(image=picture(0))])


def test_a_string_is_a_query_of_words_and_both_parts_may_be_asked(kinds: dict[str, Kind]) -> None:
    encoder = kinds["image+text"].load()
    asked = encoder.encode_queries(["a cat", Query(text="a cat"), Query(text="a cat", image=picture(0))])
    assert asked.modality.tolist() == ["text", "text", "image+text"]
    np.testing.assert_array_equal(asked.parts["text"][0], asked.parts["text"][2])


def test_a_bad_picture_names_its_document_its_file_and_its_reason(viewer: Kind, tmp_path: Path) -> None:
    (tmp_path / "bad.jpg").write_text("not a picture")
    given = [Document(id="good", image=picture(0)), Document(id="bad", image=tmp_path / "bad.jpg")]
    with pytest.raises(BadImage, match=r"document 'bad': .*bad\.jpg is not an image"):
        viewer.load().encode_documents(given)


def test_bad_documents_can_be_skipped_and_the_rest_goes_on(kinds: dict[str, Kind], tmp_path: Path) -> None:
    for name in ("bad.jpg", "same.jpg"):
        (tmp_path / name).write_text("not a picture")
    given = [
        Document(id="a", image=tmp_path / "bad.jpg"),
        Document(id="b", text=LONG, image=tmp_path / "same.jpg"),
        Document(id="c", text="\u200b"),
        Document(id="d", text=LONG, image=picture(0)),
        Document(id="e", image=tmp_path / "none.jpg"),
    ]
    skipped: dict[int, str] = {}
    encoder = kinds["image+text"].load()
    vectors, owner = encoder.encode_passages(given, skip=lambda row, error: skipped.update({row: str(error)}))
    assert set(owner.tolist()) == {3}
    assert_same(vectors, encoder.encode_passages([given[3]])[0])
    assert sorted(skipped) == [0, 1, 2, 4]
    assert "bad.jpg" in skipped[0]
    assert "same.jpg" in skipped[1]
    assert "No such file" in skipped[4]


def test_the_same_content_is_encoded_once(kind: Kind) -> None:
    encoder, rows = count_runs(kind.load())
    given = [d for d in documents(kind) if d.text is None or d.text in TEXTS]  # odd ones share their unknown tokens
    twice = [*given, *(replace(document, id=f"again {document.id}") for document in given)]
    first = encoder.encode_documents(twice)
    parts = [(d.text, d.image.tobytes() if isinstance(d.image, np.ndarray) else None) for d in given]
    if kind.fuses:
        distinct = len(set(parts))
    else:
        distinct = len({text for text, _ in parts if text}) + len({image for _, image in parts if image})
    assert sum(rows) == distinct
    assert_same(first, encoder.encode_documents(twice))
    assert sum(rows) == distinct


def test_a_cache_on_disk_outlives_the_encoder_and_is_kept_by_content(kind: Kind, tmp_path: Path) -> None:
    given = documents(kind)
    first = kind.load(cache=tmp_path / "cache").encode_documents(given)
    encoder, rows = count_runs(kind.load(cache=str(tmp_path / "cache")))
    assert_same(first, encoder.encode_documents(given))
    assert rows == []
    assert [path.name for path in (tmp_path / "cache").glob("*.sqlite")] == ["vectors.sqlite"]


def test_the_same_file_under_two_names_is_one_content(viewer: Kind, tmp_path: Path) -> None:
    for name in ("one.png", "two.png"):
        Image.fromarray(picture(0)).save(tmp_path / name)
    encoder, rows = count_runs(viewer.load())
    data = (tmp_path / "one.png").read_bytes()
    sources: list[Any] = [tmp_path / "one.png", str(tmp_path / "two.png"), data]
    vectors = encoder.encode_documents([Document(id=str(n), image=image) for n, image in enumerate(sources)])
    assert rows == [1]
    assert len(np.unique(vectors.parts["image"], axis=0)) == 1


def test_one_pillow_image_may_stand_in_many_documents(viewer: Kind, tmp_path: Path) -> None:
    Image.fromarray(picture(0)).save(tmp_path / "one.png")
    with Image.open(tmp_path / "one.png") as shared:
        vectors = viewer.load(threads=4).encode_documents([Document(id=str(n), image=shared) for n in range(40)])
    assert len(np.unique(vectors.parts["image"], axis=0)) == 1


def test_progress_rises_to_the_total_and_ends_there(kind: Kind) -> None:
    seen: list[tuple[int, int]] = []
    encoder = kind.load(batch=2, progress=lambda done, total: seen.append((done, total)))
    given = documents(kind)
    encoder.encode_passages(given)
    totals = {total for _, total in seen}
    assert totals == {sum(len(encoder.split(d.text or "")) + (d.image is not None) for d in given)}
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1][0] == seen[-1][1]
    seen.clear()
    encoder.encode_passages(given)  # all of it from the cache
    assert seen[-1] == (totals.copy().pop(), totals.pop())


def test_arguments_are_left_as_they_were(viewer: Kind) -> None:
    image = picture(0)
    before = image.copy()
    viewer.load().encode_documents([Document(id="a", image=image)])
    np.testing.assert_array_equal(image, before)


def test_encoders_say_who_they_are(kinds: dict[str, Kind]) -> None:
    assert repr(kinds["image"].load()) == "<Encoder tiny-image, 8 dimensions: any of image, video>"
    assert kinds["st"].load().name == kinds["st"].name


def test_a_querys_weights_go_with_its_vectors(kinds: dict[str, Kind]) -> None:
    queries = [Query(text="cat", image=picture(1), weights={"text": 3}), Query(text="dog")]
    vectors = kinds["image+text"].load().encode_queries(queries)
    assert vectors.weights is not None
    assert vectors.weights["text"].tolist() == [3.0, 1.0]
    assert vectors.weights["image"].tolist() == [1.0, 1.0]


def test_clip_of_sentence_transformers_has_the_vectors_of_its_library_and_of_transformers(
    kinds: dict[str, Kind],
) -> None:
    from sentence_transformers import SentenceTransformer

    folder = kinds["st clip"].name.removeprefix("st:")
    bare = SentenceTransformer(folder, device="cpu", local_files_only=True)
    pictures = [picture(seed) for seed in range(3)]
    found = kinds["st clip"].load().encode_queries([*TEXTS[:2], *(Query(image=each) for each in pictures)])
    words = np.asarray(bare.encode(TEXTS[:2], normalize_embeddings=True))
    seen = np.asarray(bare.encode([Image.fromarray(each) for each in pictures], normalize_embeddings=True))
    np.testing.assert_allclose(found.parts["text"][:2], words, atol=1e-4)
    np.testing.assert_allclose(found.parts["image"][2:], seen, atol=1e-4)
    other = encoders.load(f"hf:{folder}/0_CLIPModel").encode_queries([Query(image=pictures[0]), TEXTS[0]])
    np.testing.assert_allclose(other.parts["image"][0], found.parts["image"][2], atol=1e-4)
    np.testing.assert_allclose(other.parts["text"][1], found.parts["text"][0], atol=1e-4)
