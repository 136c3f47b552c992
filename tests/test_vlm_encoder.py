"""``vlm:``: the vectors of the library's own forward with each family's prompt written out, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hub
from PIL import Image

import tiny_towers
import tiny_vlm
from isthmus import Collection, Document, Query, encoders
from isthmus.encoders.vlm_prompts import PROMPTS
from isthmus.errors import BadFile, BadInput, UnknownName

pytestmark = pytest.mark.usefixtures("no_network")
FAMILIES = {
    "e5-v": tiny_vlm.llava_next,
    "vlm2vec": tiny_vlm.qwen2_vl,
    "gme": tiny_vlm.qwen2_vl,
    "qwen3-vl-embedding": tiny_vlm.qwen3_vl,
}
HEAD, FOOT = (
    "<|start_header_id|>user<|end_header_id|>\n\n",
    "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n \n",
)
GME = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
ANSWER = "<|im_end|>\n<|im_start|>assistant\n"
DOCUMENT = "<|im_start|>system\nRepresent the user's input.<|im_end|>\n<|im_start|>user\n"
QUERY = "<|im_start|>system\nRetrieve images or text relevant to the user's query.<|im_end|>\n<|im_start|>user\n"
SEEN = "<|vision_start|><|image_pad|><|vision_end|>"
WRITTEN = {  # the prompts of a text, a picture, both, and a query of words
    "e5-v": (
        f"{HEAD}a cat\nSummary above sentence in one word: {FOOT}",
        f"{HEAD}<image>\nSummary above image in one word: {FOOT}",
        f"{HEAD}<image>\na cat\nSummary above image and sentence in one word: {FOOT}",
        f"{HEAD}a cat\nSummary above sentence in one word: {FOOT}",
    ),
    "vlm2vec": (
        "a cat",
        "<|image_pad|> Represent the given image.",
        "<|image_pad|> Represent the given image with the following question: a cat",
        "Find me an everyday image that matches the given caption: a cat",
    ),
    "gme": (
        f"{GME}a cat{ANSWER}<|endoftext|>",
        f"{GME}{SEEN}{ANSWER}<|endoftext|>",
        f"{GME}{SEEN}a cat{ANSWER}<|endoftext|>",
        f"{GME}a cat{ANSWER}<|endoftext|>",
    ),
    "qwen3-vl-embedding": (  # the tokenizer adds <|endoftext|>
        f"{DOCUMENT}a cat{ANSWER}",
        f"{DOCUMENT}{SEEN}{ANSWER}",
        f"{DOCUMENT}{SEEN}a cat{ANSWER}",
        f"{QUERY}a cat{ANSWER}",
    ),
}
ONE_AFTER_ANOTHER = {"vlm2vec", "gme"}  # how their own code counts the positions of a picture's tokens
PICTURE = np.random.default_rng(0).integers(0, 255, size=(30, 50, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("vlm")
    return {make.__name__: make(root / make.__name__) for make in tiny_vlm.MADE}


def name_of(family: str, folders: dict[str, Path]) -> str:
    return f"vlm:{family}:{folders[FAMILIES[family].__name__]}"


def state(family: str, folder: Path, prompt: str, *, pictured: bool) -> Any:
    """The unit state of the last token by the library alone: one prompt, no padding."""
    model = getattr(hub, PROMPTS[family].model).from_pretrained(folder).eval()
    reader = hub.AutoTokenizer.from_pretrained(folder)
    if family == "e5-v":
        own = hub.LlavaNextProcessor.from_pretrained(folder)
        given = own(text=prompt, images=Image.fromarray(PICTURE) if pictured else None, return_tensors="pt")
    else:
        see = hub.AutoImageProcessor.from_pretrained(folder, backend="pil")
        if PROMPTS[family].pixels is not None:
            least, most = PROMPTS[family].pixels or (0, 0)
            see.size = {"shortest_edge": least, "longest_edge": most}
        seen = see(images=[Image.fromarray(PICTURE)], return_tensors="pt") if pictured else {}
        count = int(seen["image_grid_thw"].prod()) // 4 if pictured else 0
        given = reader(prompt.replace("<|image_pad|>", "<|image_pad|>" * count), return_tensors="pt")
        given = {name: given[name] for name in ("input_ids", "attention_mask")} | dict(seen)
        if family in ONE_AFTER_ANOTHER:
            return _by_language_model(model, given)
        if pictured:
            given["mm_token_type_ids"] = (given["input_ids"] == model.config.image_token_id).int()
    with torch.no_grad():
        states = model(**given, output_hidden_states=True).hidden_states[-1]  # as E5-V's own code takes it
    return torch.nn.functional.normalize(states[0, -1], dim=-1).numpy()


def _by_language_model(model: Any, given: dict[str, Any]) -> Any:
    """The unit state of the last token as GME's own code takes it: no positions reach the language model."""
    with torch.no_grad():
        embedded = model.get_input_embeddings()(given["input_ids"])
        if "pixel_values" in given:
            seen = model.model.visual(given["pixel_values"], grid_thw=given["image_grid_thw"]).pooler_output
            embedded[given["input_ids"] == model.config.image_token_id] = seen
        states = model.model.language_model(inputs_embeds=embedded, attention_mask=given["attention_mask"])
    return torch.nn.functional.normalize(states.last_hidden_state[0, -1], dim=-1).numpy()


def test_every_family_of_prompts_is_tested() -> None:
    assert set(FAMILIES) == set(WRITTEN) == set(PROMPTS)


@pytest.mark.parametrize("family", FAMILIES)
def test_vectors_are_the_last_states_of_the_papers_prompts(family: str, folders: dict[str, Path]) -> None:
    encoder = encoders.load(name_of(family, folders))
    documents = [
        Document(id="words", text="a cat"),
        Document(id="picture", image=PICTURE),
        Document(id="both", text="a cat", image=PICTURE),
    ]
    found = encoder.encode_documents(documents)
    assert found.modality.tolist() == ["text", "image", "image+text"]
    folder = folders[FAMILIES[family].__name__]
    for row, prompt in enumerate(WRITTEN[family][:3]):
        right = state(family, folder, prompt, pictured=row > 0)
        np.testing.assert_allclose(found.parts["text"][row], right, atol=1e-4)
    asked = encoder.encode_queries(["a cat"]).parts["text"][0]
    np.testing.assert_allclose(asked, state(family, folder, WRITTEN[family][3], pictured=False), atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_vector_does_not_depend_on_its_batch(family: str, folders: dict[str, Path]) -> None:
    encoder = encoders.load(name_of(family, folders))
    others = [np.full((size, 40, 3), size, dtype=np.uint8) for size in (9, 60, 33)]
    documents = [
        Document(id="a", text="a cat"),
        Document(id="b", image=PICTURE),
        Document(id="c", text="a long text about a dog that sits on the sofa", image=others[0]),
        Document(id="d", text="a cat", image=PICTURE),
        Document(id="e", image=others[1]),
        Document(id="f", text="another and a longer text, to be padded"),
        Document(id="g", text=" ", image=others[2]),  # blank text is no part
    ]
    together = encoder.encode_documents(documents)
    assert together.modality.tolist()[-1] == "image"
    alone = [encoders.load(encoder.name, batch=1).encode_documents([document]) for document in documents]
    rows = np.concatenate([one.parts["text"] for one in alone])
    np.testing.assert_allclose(together.parts["text"], rows, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_texts_have_the_vectors_of_the_librarys_batch_padded_on_the_left(family: str, folders: dict[str, Path]) -> None:
    folder = folders[FAMILIES[family].__name__]
    texts = ["a cat", "a long text about a dog that sits on the sofa", "red"]
    model = getattr(hub, PROMPTS[family].model).from_pretrained(folder).eval()
    reader = hub.AutoTokenizer.from_pretrained(folder, padding_side="left")
    prompts = [WRITTEN[family][0].replace("a cat", text) for text in texts]
    given = reader(prompts, padding=True, return_tensors="pt")
    assert given["attention_mask"][:, 0].tolist() == [0, 1, 0]
    inputs = {name: given[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        states = model(**inputs, output_hidden_states=True).hidden_states[-1][:, -1]
    encoder = encoders.load(name_of(family, folders))
    found = encoder.encode_documents([Document(id=str(row), text=text) for row, text in enumerate(texts)])
    right = torch.nn.functional.normalize(states, dim=-1).numpy()
    np.testing.assert_allclose(found.parts["text"], right, atol=1e-4)


@pytest.mark.parametrize("family", sorted(ONE_AFTER_ANOTHER))
def test_a_grid_of_positions_would_give_a_picture_another_vector(family: str, folders: dict[str, Path]) -> None:
    encoder: Any = encoders.load(name_of(family, folders))
    grid = replace(encoder, tower=replace(encoder.tower, prompts=replace(PROMPTS[family], grid=True)), identity="grid")
    one, other = (each.encode_queries([Query(image=PICTURE)]).parts["image"][0] for each in (encoder, grid))
    assert one @ other < 0.999


@pytest.mark.parametrize("family", FAMILIES)
def test_300_tokens_are_one_passage_and_what_is_longer_becomes_several(family: str, folders: dict[str, Path]) -> None:
    encoder: Any = encoders.load(name_of(family, folders))
    length = PROMPTS[family].length
    short = ("cat dog sofa " * 24)[:300]  # a token is a letter here
    assert encoder.split(short) == [(0, 300)]
    long = "cat dog sofa " * (2 * length // 13 + 1)
    passages = encoder.split(long)
    assert "".join(long[start:end] for start, end in passages) == long
    assert all(end - start <= length for start, end in passages)
    vectors, owner = encoder.encode_passages([Document(id="a", text=long), Document(id="b", text=short)])
    assert owner.tolist() == [0] * len(passages) + [1]
    assert len(passages) == 3
    alone = encoder.encode_documents([Document(id="a", text=long[slice(*passages[1])])])
    np.testing.assert_allclose(vectors.parts["text"][1], alone.parts["text"][0], atol=1e-4)


def test_passages_stand_beside_their_picture_and_a_word_for_a_picture_is_not_one(folders: dict[str, Path]) -> None:
    encoder: Any = encoders.load(name_of("vlm2vec", folders))
    long = " ".join(["cat", "dog", "sofa"] * 100)
    assert len(encoder.encode_passages([Document(id="a", text=long, image=PICTURE)])[1]) == 3
    tricky = encoder.encode_documents([Document(id="a", text="a <|image_pad|> cat", image=PICTURE)])
    assert np.isfinite(tricky.parts["image+text"]).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_half_precision_gives_nearly_the_same_vectors(family: str, folders: dict[str, Path]) -> None:
    whole, half = (encoders.load(name_of(family, folders), precision=each) for each in ("full", "half"))
    asked: list[str | Query] = ["a cat", Query(image=PICTURE), Query(text="a dog", image=PICTURE)]
    one, other = (each.encode_queries(asked).parts["text"] for each in (whole, half))
    assert ((one * other).sum(axis=1) > 0.98).all()
    assert half.identity == whole.identity


@pytest.mark.parametrize("family", FAMILIES)
def test_blank_text_is_no_part(family: str, folders: dict[str, Path]) -> None:
    encoder = encoders.load(name_of(family, folders))
    found = encoder.encode_documents([Document(id="a", text=" \n", image=PICTURE), Document(id="b", image=PICTURE)])
    assert found.modality.tolist() == ["image", "image"]
    np.testing.assert_array_equal(*found.parts["image"])
    with pytest.raises(BadInput, match="neither text nor image"):
        encoder.encode_queries([""])


def test_a_collection_holds_one_vector_for_text_and_image(folders: dict[str, Path], tmp_path: Path) -> None:
    with Collection.open(tmp_path / "c", encoder=name_of("vlm2vec", folders), calibration="none") as things:
        things.add([Document(id="a", text="a cat"), Document(id="b", text="a dog", image=PICTURE)])
        assert things.search(Query(text="a dog", image=PICTURE), k=1)[0].id == "b"
    with Collection.open(tmp_path / "c") as things, pytest.raises(BadInput, match="makes one vector of image"):
        things.search(Query(text="a dog", image=PICTURE, weights={"text": 2.0, "image": 1.0}))


def test_other_models_and_prompts_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"No family of prompts is called 'gmee'. Did you mean 'gme'?"):
        encoders.load("vlm:gmee:x")
    with pytest.raises(BadInput, match="Write vlm:gme:NAME_OR_PATH"):
        encoders.load("vlm:gme")
    with pytest.raises(
        BadInput, match=r"is a model of type 'qwen3_vl', and gme is of 'qwen2_vl'. Write vlm:qwen3-vl-e"
    ):
        encoders.load(f"vlm:gme:{folders['qwen3_vl']}")
    with pytest.raises(BadInput, match="is a model of type 'clip'"):
        encoders.load(f"vlm:gme:{tiny_towers.clip(tmp_path / 'clip')}")
    with pytest.raises(BadInput, match=r"model of type 'qwen2_vl'.* vlm:"):
        encoders.load(f"hf:{folders['qwen2_vl']}")
    with pytest.raises(BadFile, match="There is no folder"):
        encoders.load(f"vlm:gme:{tmp_path / 'nowhere'}")
