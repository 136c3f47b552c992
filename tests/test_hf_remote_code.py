"""``hf:`` with models that bring code of their own: Jina-CLIP, Nomic, BGE-VL, and any other with CLIP's functions."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
import transformers as hub
from PIL import Image
from typer.testing import CliRunner

import tiny_remote
import tiny_towers
from isthmus import Collection, Document, Query, encoders
from isthmus.cli import app
from isthmus.errors import BadFile, BadInput
from sample_files import check_collection, few_files

pytestmark = pytest.mark.usefixtures("no_network")
TEXTS = ["a cat sits on the sofa", "dog", "the red house and"]
PICTURE = np.random.default_rng(0).integers(0, 255, size=(30, 20, 3), dtype=np.uint8)


@pytest.fixture(scope="module", autouse=True)
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A place for the code of models, one for all: Python looks for a package in one place only."""
    place = str(tmp_path_factory.mktemp("modules"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", place)
        yield


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*_: object) -> NoReturn:
        raise AssertionError("transformers asked on the terminal")

    monkeypatch.setenv("ISTHMUS_OFFLINE", "1")
    monkeypatch.setattr(builtins, "input", ask)


def unit(rows: Any) -> Any:
    return torch.nn.functional.normalize(rows, dim=-1).numpy()


def seen(folder: Path) -> Any:
    return hub.AutoImageProcessor.from_pretrained(folder, backend="pil")(
        [Image.fromarray(PICTURE)], return_tensors="pt"
    )


def test_code_of_a_model_runs_only_with_consent(tmp_path: Path) -> None:
    folder = tiny_remote.own_clip(tmp_path / "own")
    with pytest.raises(BadInput, match=r"comes with code of its own.* --trust-remote-code .*trust_remote_code=True"):
        encoders.load(f"hf:{folder}")
    assert not (folder / "RAN").exists()
    encoders.load(f"hf:{folder}", trust_remote_code=True)
    assert (folder / "RAN").exists()


def test_a_collection_and_the_command_line_ask_for_consent_each_time(tmp_path: Path) -> None:
    folder = tiny_remote.own_clip(tmp_path / "own")
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "cat.txt").write_text("a cat sits on the sofa")
    Image.fromarray(PICTURE).save(notes / "noise.png")
    to = ["--into", str(tmp_path / "c"), "--encoder", f"hf:{folder}", "--calibration", "none", "-q"]
    refused = CliRunner().invoke(app, ["index", str(notes), *to])
    assert isinstance(refused.exception, BadInput)
    assert not (folder / "RAN").exists()
    assert CliRunner().invoke(app, ["index", str(notes), *to, "--trust-remote-code"]).exit_code == 0
    (folder / "RAN").unlink()
    asked = ["search", "cat", "--in", str(tmp_path / "c")]
    assert isinstance(CliRunner().invoke(app, asked).exception, BadInput)  # the collection's name is no consent
    assert "cat.txt" in CliRunner().invoke(app, [*asked, "--trust-remote-code"]).output
    with Collection.open(tmp_path / "c", trust_remote_code=True) as things:
        assert things.search(Query(image=PICTURE), k=1)[0].id == "noise.png"


@pytest.mark.parametrize("kind", ["own", "nomic"])
def test_files_of_the_sample_folder_are_indexed_calibrated_and_searched(kind: str, tmp_path: Path) -> None:
    if kind == "own":
        name = f"hf:{tiny_remote.own_clip(tmp_path / 'own')}"
    else:
        name = f"hf:{tiny_remote.nomic_text(tmp_path / 'text')}+{tiny_remote.nomic_images(tmp_path / 'images')}"
    check_collection(name, few_files(tmp_path / "few"), tmp_path / "c", trust_remote_code=True)


def test_vectors_are_those_of_the_models_own_functions_with_its_instruction_before_queries(tmp_path: Path) -> None:
    folder = tiny_remote.own_clip(tmp_path / "own")
    encoder = encoders.load(f"hf:{folder}", trust_remote_code=True)
    model = hub.AutoModel.from_pretrained(folder, trust_remote_code=True).eval()
    said = tiny_towers.words()
    with torch.no_grad():
        documents = model.get_text_features(said(TEXTS, padding=True, return_tensors="pt")["input_ids"])
        told = [tiny_remote.INSTRUCTION + text for text in TEXTS]
        queries = model.get_text_features(said(told, padding=True, return_tensors="pt")["input_ids"])
        pictures = model.get_image_features(**seen(folder))
    found = encoder.encode_documents([Document(id=text, text=text) for text in TEXTS])
    np.testing.assert_allclose(found.parts["text"], unit(documents), atol=1e-4)
    np.testing.assert_allclose(encoder.encode_queries(TEXTS).parts["text"], unit(queries), atol=1e-4)
    asked = encoder.encode_queries([Query(image=PICTURE)])
    np.testing.assert_allclose(asked.parts["image"], unit(pictures), atol=1e-4)


def test_the_identity_follows_the_code(tmp_path: Path) -> None:
    first = encoders.load(f"hf:{tiny_remote.own_clip(tmp_path / 'one')}", trust_remote_code=True).identity
    same = encoders.load(f"hf:{tiny_remote.own_clip(tmp_path / 'two')}", trust_remote_code=True).identity
    other = tiny_remote.own_clip(tmp_path / "three")
    code = (other / "modeling_own.py").read_text()
    (other / "modeling_own.py").write_text(code.replace(".sum(1)", ".mean(1)"))
    assert first == same != encoders.load(f"hf:{other}", trust_remote_code=True).identity


def test_nomics_two_models_are_one_encoder(tmp_path: Path) -> None:
    text, images = tiny_remote.nomic_text(tmp_path / "text"), tiny_remote.nomic_images(tmp_path / "images")
    name = f"hf:{text}+{images}"
    with pytest.raises(BadInput, match="comes with code of its own"):
        encoders.load(name)
    assert not (images / "RAN").exists()
    encoder = encoders.load(name, trust_remote_code=True)
    assert {"image", "image+text", "text"} <= set(encoder.modalities)
    model = hub.NomicBertModel.from_pretrained(text).eval()
    sees = hub.AutoModel.from_pretrained(images, trust_remote_code=True).eval()
    for role, before in (("document", "search_document: "), ("query", "search_query: ")):
        inputs = tiny_towers.words()([before + text for text in TEXTS], padding=True, return_tensors="pt")
        with torch.no_grad():
            states = model(inputs["input_ids"], attention_mask=inputs["attention_mask"]).last_hidden_state
        mask = inputs["attention_mask"].unsqueeze(-1)
        mean = (states * mask).sum(1) / mask.sum(1)
        wanted = unit(torch.nn.functional.layer_norm(mean, (mean.shape[1],)))
        given = [Document(id=text, text=text) for text in TEXTS]
        found = encoder.encode_documents(given) if role == "document" else encoder.encode_queries(TEXTS)
        np.testing.assert_allclose(found.parts["text"], wanted, atol=1e-4)
    with torch.no_grad():
        pictures = unit(sees(**seen(images)).last_hidden_state[:, 0])
    found = encoder.encode_queries([Query(image=PICTURE)])
    np.testing.assert_allclose(found.parts["image"], pictures, atol=1e-4)


def test_a_pair_is_found_again_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_remote.nomic_text(tmp_path / "text")
    tiny_remote.nomic_images(tmp_path / "images")
    monkeypatch.chdir(tmp_path)
    assert encoders.located("hf:text+images") == f"hf:{tmp_path / 'text'}+{tmp_path / 'images'}"
    (tmp_path / "a+b").mkdir()
    assert encoders.located("hf:a+b") == f"hf:{tmp_path / 'a+b'}"  # a folder with a plus sign in its name


def test_a_pair_takes_a_text_model_that_it_knows(tmp_path: Path) -> None:
    images = tiny_remote.nomic_images(tmp_path / "images")
    with pytest.raises(BadInput, match="takes a text model of type nomic_bert"):
        encoders.load(f"hf:{tiny_towers.clip(tmp_path / 'clip')}+{images}", trust_remote_code=True)
    with pytest.raises(BadInput, match="is a model of type 'nomic_bert', and hf: encodes with clip"):
        encoders.load(f"hf:{tiny_remote.nomic_text(tmp_path / 'text')}")


@pytest.mark.parametrize("trusted", [True, False])
def test_a_clip_that_names_code_is_read_as_a_clip(trusted: bool, tmp_path: Path) -> None:
    """As BGE-VL-base and BGE-VL-large: their code adds ``encode`` to CLIP's own class and weights."""
    with_code = encoders.load(f"hf:{tiny_remote.bge_vl(tmp_path / 'bge')}", trust_remote_code=trusted)
    plain = encoders.load(f"hf:{tiny_towers.clip(tmp_path / 'clip')}")
    assert with_code.identity == plain.identity
    np.testing.assert_array_equal(
        with_code.encode_queries(TEXTS).parts["text"], plain.encode_queries(TEXTS).parts["text"]
    )


def test_models_of_other_families_never_run_code(tmp_path: Path) -> None:
    folder = tiny_remote.own_clip(tmp_path / "own")
    for name in (f"clap:{folder}", f"vlm:gme:{folder}"):
        with pytest.raises((BadFile, BadInput)):
            encoders.load(name, trust_remote_code=True)
    assert not (folder / "RAN").exists()
