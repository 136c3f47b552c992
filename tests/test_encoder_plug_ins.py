"""Packages add encoders by entry points: real distributions, in folders on the path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from isthmus import Collection, Document, encoders
from isthmus.cli import app
from isthmus.devices import list_devices
from isthmus.errors import BadFile, BadInput, UnknownName
from sample_files import check_collection, few_files

LETTERS = """
import numpy as np
from isthmus import Query, Vectors
from isthmus.encoders import EncoderFamily

class Letters:
    identity, dim, modalities = "letters-1", 26, ("text",)
    def __init__(self, name, settings):
        self.name, self.settings = f"letters:{name}", settings
    def encode_queries(self, queries):
        texts = [Query.of(query).text.lower() for query in queries]
        counts = [[text.count(chr(97 + at)) + 1e-3 for at in range(26)] for text in texts]
        vectors = np.array(counts, dtype=np.float32).reshape(-1, 26)
        return Vectors.of(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), "text")
    def encode_documents(self, documents):
        return self.encode_queries([document.text for document in documents])
    def encode_passages(self, documents, *, skip=None):
        return self.encode_documents(documents), np.arange(len(documents))
    def split(self, text):
        return [(0, len(text))]

LETTERS = EncoderFamily(open=Letters, rest="NAME", summary="counts letters")
NEEDS = EncoderFamily(open=Letters, rest="NAME", needs=("no_such_module",), install="pip install no-such-module")
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install a package with entry points, as pip lays it out."""

    def installed(package: str, points: str, source: str = LETTERS) -> None:
        folder = tmp_path / f"site-{package}"
        described = folder / f"{package}-1.0.dist-info"
        described.mkdir(parents=True)
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (described / "entry_points.txt").write_text(f"[isthmus.encoders]\n{points}\n")
        (folder / f"{package}.py").write_text(source)
        monkeypatch.syspath_prepend(str(folder))

    return installed


def test_a_package_adds_an_encoder_that_a_collection_and_the_command_line_load_by_name(
    install: Any, tmp_path: Path
) -> None:
    install("isthmus_letters", "letters = isthmus_letters:LETTERS")
    assert encoders.load("letters:abc", batch=7).name == "letters:abc"
    place = str(tmp_path / "c.isthmus")
    with Collection.open(place, encoder="letters:abc", calibration="none") as things:
        things.add([Document(id="a", text="zigzag"), Document(id="b", text="hello world")])
    done = CliRunner().invoke(app, ["search", "zz", "--in", place, "--json"])
    assert json.loads(done.stdout)[0]["id"] == "a", done.output
    with pytest.raises(BadInput, match="Write letters:NAME"):
        encoders.load("letters")
    with pytest.raises(UnknownName, match="Did you mean 'letters'"):
        encoders.load("leters:abc")


def test_files_of_the_sample_folder_are_indexed_calibrated_and_searched(install: Any, tmp_path: Path) -> None:
    install("isthmus_letters", "letters = isthmus_letters:LETTERS")
    check_collection("letters:abc", few_files(tmp_path / "few"), tmp_path / "c", words_only=True)


def test_two_packages_with_one_name_are_both_named(install: Any) -> None:
    install("isthmus_one", "letters = isthmus_one:LETTERS")
    install("isthmus_two", "letters = isthmus_two:LETTERS")
    with pytest.raises(BadInput, match="isthmus_one and isthmus_two both add an encoder called 'letters'"):
        encoders.load("letters:abc")


@pytest.mark.parametrize(
    ("points", "source", "said"),
    [
        ("x = isthmus_bad:X", "raise RuntimeError('no licence')", r"isthmus_bad .*RuntimeError: no licence"),
        ("x = isthmus_bad:Y", "X = 1", r"isthmus_bad .* cannot be imported \(AttributeError"),
        ("x = isthmus_bad:X", "X = 1", "isthmus_bad adds the encoder 'x' as a int, not an EncoderFamily"),
    ],
)
def test_a_broken_package_is_named(install: Any, points: str, source: str, said: str) -> None:
    install("isthmus_bad", points, source)
    with pytest.raises(BadFile, match=said):
        encoders.load("x:abc")


def test_a_package_cannot_replace_an_encoder_of_isthmus(install: Any) -> None:
    install("isthmus_thief", "mini = isthmus_thief:LETTERS")
    assert encoders.load("mini").dim == 384


def test_doctor_lists_every_encoder_and_the_command_for_what_is_missing(install: Any) -> None:
    install("isthmus_letters", "letters = isthmus_letters:LETTERS\nneeds = isthmus_letters:NEEDS")
    install("isthmus_thief", "mini = isthmus_thief:LETTERS\nUP = isthmus_thief:LETTERS")
    done = CliRunner().invoke(app, ["doctor", "--json"])
    found = {(one["name"], one["good"]): one["said"] for one in json.loads(done.stdout)}
    names = {name for name, _ in found}
    assert {f"encoder {word}" for word in encoders.KINDS} <= {*names, *(f"encoder {name}" for name in names)}
    assert found["encoder letters", True] == "letters:NAME: counts letters, from the package isthmus_letters"
    assert "Cannot run here without no_such_module (pip install no-such-module)" in found["encoder needs", False]
    assert "isthmus_thief adds an encoder called 'mini', which is a name of isthmus" in found["encoder mini", False]
    assert "small letters" in found["encoder UP", False]


def test_doctor_says_what_the_files_of_a_kind_need_and_whether_a_service_has_a_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("isthmus.cli.doctor.find_spec", lambda module: None if module == "av" else object())
    monkeypatch.setenv("COHERE_API_KEY", "secret")
    shown = CliRunner().invoke(app, ["doctor"]).output
    heads = [at for at, line in enumerate(shown.splitlines()) if line[:1] not in "✓–"]
    assert [shown.splitlines()[at].split(":")[0] for at in heads] == ["This machine", "Encoders", "Extras"]
    assert "video (needs pip install 'isthmus[video]')" in shown
    assert "keys are set for cohere" in shown
    assert "secret" not in shown


def test_doctor_lists_the_devices_of_torch_and_which_compute_in_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    shown = CliRunner().invoke(app, ["doctor"]).output
    assert f"✓ torch                  cpu (half precision: bfloat16) (torch {torch.__version__})" in shown
    real = torch.ones

    def ones(size: Any, *, device: str, dtype: Any) -> Any:
        if device == "cuda:1":
            raise RuntimeError("no kernel image is available for execution on the device")
        return real(size, dtype=dtype)

    monkeypatch.setattr(torch, "ones", ones)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda name: f"GPU {name[-1]}")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert list_devices("hf") == {
        "cpu": "half precision: bfloat16",
        "cuda:0": "GPU 0, half precision: bfloat16",
        "cuda:1": "GPU 1, no half precision",
        "mps": "half precision: float16",
    }
