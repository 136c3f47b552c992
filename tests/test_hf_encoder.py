"""``hf:``: the vectors of the library's own forward, for each architecture, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from threading import current_thread
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
import transformers as hub
from huggingface_hub.errors import HFValidationError
from PIL import Image
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

import recordings
import tiny_hf
import tiny_towers
from isthmus import Collection, Document, Query, encoders
from isthmus.budget import CHARACTERS
from isthmus.devices import torch_device
from isthmus.encoders.base import Settings
from isthmus.encoders.hf_towers import ARCHITECTURES
from isthmus.encoders.images import Frame
from isthmus.encoders.once import EncoderRun
from isthmus.encoders.picture_recipe import recipe_of
from isthmus.encoders.texts import TextPassage
from isthmus.encoders.torch_models import BatchLimit
from isthmus.errors import BadFile, BadInput
from isthmus.isolated.recordings import frames as key_frames
from tiny import write_encoder, write_sentence_transformer

TEXTS = ["a cat sits on the sofa", "dog", "the red house and"]
SIZES = [(9, 7), (40, 40), (30, 90), (1, 1), (3, 1), (2, 60)]


def picture(size: tuple[int, int]) -> Any:
    return np.random.default_rng(size[0]).integers(0, 255, size=(*size, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("hf")
    return {make.__name__: make(root / make.__name__) for make in tiny_towers.MADE}


def similarities(folder: Path) -> Any:
    """The cosines of texts and pictures by the library alone: its tokenizer, its processor, its forward."""
    kind = hub.AutoConfig.from_pretrained(folder).model_type
    model = getattr(hub, ARCHITECTURES[kind].model).from_pretrained(folder).eval()
    full = {"padding": "max_length", "max_length": model.config.text_config.max_position_embeddings}
    said = hub.AutoTokenizer.from_pretrained(folder)(
        TEXTS, return_tensors="pt", **(full if kind.startswith("siglip") else {"padding": True})
    )
    said.pop("token_type_ids", None)
    if kind.startswith("siglip"):
        said.pop("attention_mask", None)
    see = hub.AutoImageProcessor.from_pretrained(folder, backend="pil")
    seen = see(
        [Image.fromarray(picture(size)) for size in SIZES], return_tensors="pt", input_data_format="channels_last"
    )
    with torch.no_grad():
        if kind == "blip":  # its forward returns the cosines
            return model(**said, **seen, use_itm_head=False).itm_score.numpy().T
        out = model(**said, **seen)
    words, pictures = (torch.nn.functional.normalize(each, dim=-1) for each in (out.text_embeds, out.image_embeds))
    return (words @ pictures.T).numpy()


def test_every_architecture_is_tested() -> None:
    kinds = {"siglip_of_two": "siglip", "dual": "vision-text-dual-encoder"}
    assert {kinds.get(make.__name__, make.__name__) for make in tiny_towers.MADE} == set(ARCHITECTURES)


@pytest.mark.parametrize("make", tiny_towers.MADE)
def test_vectors_are_those_of_the_librarys_own_forward(
    make: Callable[..., Any], folders: dict[str, Path], tmp_path: Path
) -> None:
    encoder = encoders.load(f"hf:{folders[make.__name__]}")
    documents = [Document(id=f"i{size}", image=picture(size)) for size in SIZES]
    documents.insert(2, Document(id="both", text=TEXTS[0], image=picture((5, 5))))  # one call mixes them
    found = encoder.encode_documents(documents)
    pictures = np.delete(found.parts["image"], 2, axis=0)
    words = encoder.encode_queries(TEXTS).parts["text"]
    np.testing.assert_allclose(words @ pictures.T, similarities(folders[make.__name__]), atol=1e-4)
    np.testing.assert_allclose(found.parts["text"][2], words[0], atol=1e-5)
    alone = encoders.load(encoder.name).encode_queries([Query(image=picture(SIZES[0]))])
    np.testing.assert_allclose(alone.parts["image"][0], pictures[0], atol=1e-5)
    assert np.ptp(words @ pictures.T) > 1e-3  # the models are random, and not constant


@pytest.mark.parametrize("make", tiny_towers.MADE)
def test_300_words_become_passages_that_fit(make: Callable[..., Any], folders: dict[str, Path]) -> None:
    encoder: Any = encoders.load(f"hf:{folders[make.__name__]}")
    long = " ".join(["cat", "dog", "sofa"] * 100)
    passages = encoder.text.split([long], "document")[0]
    assert "".join(long[one.start : one.end] for one in passages) == long
    assert all(len(one.tokens) <= encoder.text.splitter.length for one in passages)
    assert len(encoder.encode_passages([Document(id="a", text=long)])[1]) == len(passages) > 10


@pytest.mark.parametrize("make", [tiny_towers.siglip, tiny_towers.siglip_of_two, tiny_towers.siglip2])
def test_siglip_reads_lower_case_as_it_was_trained(make: Callable[..., Any], folders: dict[str, Path]) -> None:
    rows = encoders.load(f"hf:{folders[make.__name__]}").encode_queries(["A CAT on the SOFA", "a cat on the sofa"])
    np.testing.assert_array_equal(*rows.parts["text"])


def test_a_line_of_pixels_is_encoded_in_little_memory(folders: dict[str, Path]) -> None:
    encoder: Any = encoders.load(f"hf:{folders['clip']}")
    sizes: list[int] = []
    processor = encoder.image.processor

    class Measuring:
        to_dict = processor.to_dict

        def __call__(self, images: Any, **more: Any) -> Any:
            sizes.extend(image.shape[1] for image in images)
            return processor(images=images, **more)

    narrow = replace(encoder, image=replace(encoder.image, processor=Measuring(), recipe=None))
    narrow.encode_queries([Query(image=picture((1, 1000))), Query(image=picture((40, 60)))])
    assert sorted(sizes) == [16, 60]


@pytest.mark.parametrize("make", tiny_towers.MADE)
def test_pictures_prepared_in_few_passes_are_those_of_the_models_own_processor(
    make: Callable[..., Any], folders: dict[str, Path]
) -> None:
    encoder: Any = encoders.load(f"hf:{folders[make.__name__]}")
    assert (encoder.image.recipe is None) == (make is tiny_towers.siglip2)  # whose pictures keep their proportions
    slow = replace(encoder, image=replace(encoder.image, recipe=None), identity="by the processor")
    asked = [Query(image=picture(size)) for size in SIZES]
    one, other = (each.encode_queries(asked).parts["image"] for each in (encoder, slow))
    np.testing.assert_allclose(one, other, atol=1e-4)


def test_a_processor_that_does_something_else_is_used_itself() -> None:
    plain = CLIPImageProcessorPil()
    assert recipe_of(plain) is not None
    for settings in (
        {"do_center_crop": False},
        {"do_normalize": False},
        {"crop_size": {"height": 100, "width": 100}},
        {"size": {"height": 20, "width": 30}, "do_center_crop": False},
    ):
        assert recipe_of(CLIPImageProcessorPil(**settings)) is None


def test_the_next_batch_starts_before_the_last_is_fetched() -> None:
    seen: list[str] = []

    def launch(items: Any) -> Any:
        def fetch() -> Any:
            seen.append("fetch")
            return np.ones((len(items), 2), dtype=np.float32)

        seen.append(f"start {len(items)}")
        return fetch

    steps: list[tuple[int, int]] = []
    settings = Settings(batch=2, progress=lambda done, total: steps.append((done, total)))
    run = EncoderRun(name="a", dim=2, identity="i", settings=settings, total=5)
    passages = [TextPassage(0, 1, bytes([row])) for row in range(5)]
    assert run.texts(launch, passages).shape == (5, 2)
    assert seen == ["start 2", "start 2", "fetch", "start 1", "fetch", "fetch"]
    assert steps == [(2, 5), (4, 5), (5, 5)]


def test_a_short_call_is_encoded_in_several_batches_and_large_pictures_in_small_ones() -> None:
    run = EncoderRun(name="a", dim=2, identity="i", settings=Settings(device="cuda"), total=0)
    small, large = Frame(224, "cover"), Frame(1024, "within")
    sizes = [run.pictures_at_once(small, count) for count in (1, 128, 400, 10_000)]
    assert sizes == [32, 32, 100, 256]
    assert run.pictures_at_once(large, 10_000) == 85


def test_blank_text_is_no_part(folders: dict[str, Path]) -> None:
    encoder = encoders.load(f"hf:{folders['siglip']}")
    assert encoder.encode_documents([Document(id="a", text=" \n", image=picture((4, 4)))]).modality.tolist() == [
        "image"
    ]
    with pytest.raises(BadInput, match="neither text nor image"):
        encoder.encode_queries([""])


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", [*(f"hf:{make.__name__}" for make in tiny_towers.MADE), "st:clip"])
def test_half_precision_gives_nearly_the_same_vectors_under_the_same_identity(
    name: str, precision: str, folders: dict[str, Path]
) -> None:
    kind, _, model = name.partition(":")
    whole, half = (encoders.load(f"{kind}:{folders[model]}", precision=each) for each in ("float32", precision))
    asked: list[str | Query] = [*TEXTS, Query(image=picture((40, 40)))]
    one, other = whole.encode_queries(asked), half.encode_queries(asked)
    for part, matrix in one.parts.items():
        cosines = (matrix * other.parts[part]).sum(axis=1)[one.present[part]]
        assert (cosines > 0.99).all()
        assert np.abs(matrix - other.parts[part]).max() > 0
    assert half.identity == whole.identity


def test_the_identity_follows_weights_and_processor_and_not_the_place(folders: dict[str, Path], tmp_path: Path) -> None:
    first = encoders.load(f"hf:{folders['clip']}").identity
    moved = copytree(folders["clip"], tmp_path / "moved")
    assert encoders.load(f"hf:{moved}").identity == first
    described = next(path for path in moved.glob("*processor_config.json") if '"image_mean"' in path.read_text())
    described.write_text(described.read_text().replace("0.48145466", "0.5"))
    assert encoders.load(f"hf:{moved}").identity != first


def test_models_for_other_tasks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISTHMUS_OFFLINE", "1")
    with pytest.raises(BadInput, match="model of type 'bert', and hf: encodes with clip, siglip"):
        encoders.load(f"hf:{write_sentence_transformer(tmp_path / 'st')}")
    with pytest.raises(BadFile, match=r"lacks \d+ weights of a BlipForImageTextRetrieval .* another task"):
        encoders.load(f"hf:{tiny_hf.blip(tmp_path / 'captioner')}")
    with pytest.raises(BadFile, match="transformers cannot load 'no/such-model'"):
        encoders.load("hf:no/such-model")


def test_only_encoders_that_can_run_in_half_precision_take_it(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot run in the precision 'float16'. .* these can: base, hf, st, "):
        encoders.load(f"onnx:{write_encoder(tmp_path)}", precision="float16")
    with pytest.raises(BadInput, match="precision is 'int3'; it must be one of auto, full, half, float32"):
        encoders.load("mini", precision="int3")


def test_a_folder_without_its_tokenizer_or_with_another_image_processor_is_refused(tmp_path: Path) -> None:
    folder = tiny_towers.clip(tmp_path / "words")
    for file in [*folder.glob("*token*"), *folder.glob("*vocab*"), *folder.glob("merges*")]:
        file.unlink()
    with pytest.raises(BadFile, match="has no tokenizer of its model"):
        encoders.load(f"hf:{folder}")
    folder = tiny_towers.clip(tmp_path / "eyes")
    size = {"height": 2 * tiny_towers.SIDE, "width": 2 * tiny_towers.SIDE}
    CLIPImageProcessorPil(size=size, crop_size=size).save_pretrained(folder)
    (folder / "processor_config.json").unlink(missing_ok=True)
    with pytest.raises(BadFile, match="does not fit its weights"):
        encoders.load(f"hf:{folder}")
    with pytest.raises(BadFile, match="There is no folder"):
        encoders.load(f"hf:{tmp_path / 'nowhere'}")


def test_a_device_is_chosen_or_refused(folders: dict[str, Path]) -> None:
    assert torch_device("auto", "hf") in ("cuda", "mps", "cpu")
    assert encoders.load(f"hf:{folders['clip']}", device="auto").dim == 12
    with pytest.raises(BadInput, match="torch has no device 'tpu'; this installation has cpu"):
        encoders.load(f"hf:{folders['clip']}", device="tpu")


def test_a_batch_that_does_not_fit_is_halved_until_it_does() -> None:
    sizes: list[int] = []

    def encode(items: Any) -> Any:
        sizes.append(len(items))
        if len(items) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return np.array(items, dtype=np.float32).reshape(-1, 1)

    limit = BatchLimit(16)
    assert limit.run(encode, range(10)).ravel().tolist() == list(range(10))
    assert sizes == [10, 5, 2, 2, 2, 2, 2]
    assert limit.run(encode, range(3)).ravel().tolist() == [0, 1, 2]  # the size is remembered

    def never(items: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(BadInput, match="One input alone does not fit into the memory"):
        BatchLimit(4).run(never, range(4))


def test_an_encoder_survives_a_device_without_memory(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"hf:{folders['clip']}"
    documents = [Document(id=str(n), image=picture((n + 4, 9))) for n in range(9)]
    right = encoders.load(name).encode_documents(documents)
    forward = hub.CLIPModel.get_image_features

    def small(self: Any, pixel_values: Any, **more: Any) -> Any:
        if len(pixel_values) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, pixel_values, **more)

    monkeypatch.setattr(hub.CLIPModel, "get_image_features", small)
    found = encoders.load(name).encode_documents(documents)
    np.testing.assert_allclose(found.parts["image"], right.parts["image"], atol=1e-5)


@pytest.mark.parametrize("name", ["hf:openai/clip", "st:clip", "vlm:gme:nobody/gme"])
@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (ConnectionError("Name or service not known"), r"the Hugging Face hub cannot be reached \(Name or service"),
        (
            HFValidationError("Repo id must be"),
            "the Hugging Face hub has no model of this name. Check the name or path",
        ),
    ],
)
def test_a_model_that_is_not_here_is_asked_for_once_and_the_error_is_plain(
    name: str, problem: Exception, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def model_info(self: Any, model: str, *, timeout: float) -> NoReturn:
        asked.append(model)
        raise problem

    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "ISTHMUS_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", model_info)
    with pytest.raises(BadFile, match=says):
        encoders.load(name)
    assert asked == [{"st:clip": "sentence-transformers/clip"}.get(name, name.rpartition(":")[2])]


def test_a_document_of_both_parts_is_the_sum_of_both_vectors(tmp_path: Path) -> None:
    """As for models such as BGE-VL, a CLIP whose text and image vectors are added."""
    encoder = encoders.load(f"hf:{tiny_towers.clip(tmp_path / 'model')}")
    picture = np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8)
    both = Document(id="both", text="a red cat", image=picture)
    parts = encoder.encode_documents([both]).parts
    total = parts["text"][0] + parts["image"][0]
    asked = encoder.encode_queries(["the dog"]).parts["text"][0]
    with Collection.open(":memory:", encoder, calibration="none") as things:
        things.add([both])
        hit = things.search("the dog", k=1)[0]
    assert hit.similarity == pytest.approx(float(asked @ total / np.linalg.norm(total)), abs=1e-4)


def test_many_texts_are_split_on_another_thread_with_the_same_vectors(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = encoders.load(f"hf:{folders['clip']}")
    documents = [Document(id=str(n), text=f"{n} cats on the sofa " * (1 + n % 3)) for n in range(20)]
    documents[13] = Document(id="13", text="a" * (CHARACTERS + 1))  # too long
    refused: list[int] = []
    whole, owner = encoder.encode_passages(documents, skip=lambda row, _: refused.append(row))
    splitting: list[str] = []
    split = type(encoder.text).split  # type: ignore[attr-defined]

    def noted(self: Any, texts: Any, role: Any) -> Any:
        splitting.append(current_thread().name)
        return split(self, texts, role)

    monkeypatch.setattr(type(encoder.text), "split", noted)  # type: ignore[attr-defined]
    monkeypatch.setattr("isthmus.encoders.towers.AHEAD", 6)
    found, again = encoder.encode_passages(documents, skip=lambda row, _: refused.append(row))
    assert splitting == ["isthmus-prefetch"] * 4
    np.testing.assert_array_equal(again, owner)
    np.testing.assert_allclose(found.parts["text"], whole.parts["text"], atol=1e-5)
    assert refused == [13, 13]


@pytest.mark.parametrize("kind", ["hf", "st", "onnx"])
def test_a_video_is_read_by_its_key_frames(kind: str, tmp_path: Path) -> None:
    made = {"hf": tiny_towers.clip, "st": tiny_towers.sentence_clip, "onnx": write_encoder}
    encoder = encoders.load(f"{kind}:{made[kind](tmp_path / 'model')}")
    film = recordings.video(tmp_path / "film.mp4", [(4, (200, 20, 20)), (4, (20, 20, 200))])
    vectors, owner = encoder.encode_passages([Document(id="film", video=film)])
    frames = list(key_frames(film))
    alone = encoder.encode_documents([Document(id=str(at), image=key.pixels) for at, key in enumerate(frames)])
    assert len(owner) == len(frames) > 1
    np.testing.assert_allclose(vectors.parts["video"], alone.parts["image"], atol=1e-5)
    with Collection.open(":memory:", encoder, calibration="none") as things:
        things.add([Document(id="film", video=film), Document(id="word", text="a cat")])
        hit = things.search(Query(image=frames[-1].pixels), k=1, modalities=["video"])[0]
    assert (hit.id, hit.moment is not None) == ("film", True)
    with pytest.raises(BadInput, match="reads no sounds"):
        encoder.encode_queries([Query(audio=tmp_path / "bark.wav")])
