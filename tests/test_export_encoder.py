"""``isthmus export-encoder``: the folder gives the same vectors, without torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tiny_towers
from isthmus import Document, encoders
from isthmus.cli import app
from isthmus.errors import BadFile, BadInput
from isthmus.train import export_encoder
from tiny import write_sentence_transformer

EXPORTED = [
    *("hf:clip", "hf:siglip_of_two", "hf:chinese_clip", "hf:altclip", "hf:metaclip_2", "hf:blip", "hf:dual"),
    *("st:sentence_clip", "st:text"),
]
NOT_EXPORTED = {"siglip", "siglip2"}  # by the test of what is refused
SIZES = [(16, 16), (20, 33), (33, 20), (17, 16), (9, 7), (40, 41)]


def picture(size: tuple[int, int]) -> Any:
    return np.random.default_rng(size[0]).integers(0, 255, size=(*size, 3), dtype=np.uint8)


def test_every_type_of_hf_is_exported_or_refused() -> None:
    types = {name.removeprefix("hf:") for name in EXPORTED if name.startswith("hf:")}
    assert types | NOT_EXPORTED == {make.__name__ for make in tiny_towers.MADE}


@pytest.mark.parametrize("which", EXPORTED)
def test_the_folder_has_the_vectors_of_the_encoder(which: str, tmp_path: Path) -> None:
    kind, _, model = which.partition(":")
    make = write_sentence_transformer if model == "text" else getattr(tiny_towers, model)
    name = f"{kind}:{make(tmp_path / 'model')}"
    done = CliRunner().invoke(app, ["export-encoder", name, str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert f"--encoder onnx:{tmp_path / 'out'}" in done.stdout
    texts = ["a cat sits on the red sofa", "dog", "the house and " * 40, "A Cat"]
    documents = [Document(id=str(at), text=text) for at, text in enumerate(texts)]
    if model != "text":
        documents += [Document(id=f"i{size}", image=picture(size)) for size in SIZES]
    encoder, exported = encoders.load(name), encoders.load(f"onnx:{tmp_path / 'out'}")
    for one, other in (
        (encoder.encode_documents(documents), exported.encode_documents(documents)),
        (encoder.encode_queries(texts), exported.encode_queries(texts)),
    ):
        for part, matrix in one.parts.items():
            np.testing.assert_allclose(other.parts[part], matrix, atol=1e-4)


def test_the_folder_runs_without_torch(tmp_path: Path) -> None:
    export_encoder.export_encoder(f"hf:{tiny_towers.clip(tmp_path / 'model')}", tmp_path / "out")
    program = f"""
import sys
from isthmus import encoders
assert encoders.load("onnx:{tmp_path / "out"}").encode_queries(["a cat"]).dim == 12
assert not {{"torch", "transformers"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("make", "why"),
    [(tiny_towers.siglip, "has no tokenizer.json"), (tiny_towers.siglip2, "no tokenizer.json, or pads on the left")],
)
def test_what_a_folder_cannot_describe_is_refused(make: Callable[[Path], Path], why: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=why):
        export_encoder.export_encoder(f"hf:{make(tmp_path / 'model')}", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    for name in ("mini", "clap:laion/clap-htsat-unfused", "vlm:gme:x"):
        with pytest.raises(BadInput, match=r"cannot be exported: .*hf:NAME, st:NAME, open_clip:NAME"):
            export_encoder.export_encoder(name, tmp_path / "out")
    with pytest.raises(BadInput, match="exists and is not an encoder's folder"):
        export_encoder.export_encoder(f"hf:{tmp_path / 'model'}", tmp_path)


def test_a_folder_with_other_vectors_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_encoder, "NEAR", -1.0)
    with pytest.raises(BadFile, match=r"tower gives other vectors .* Nothing was written"):
        export_encoder.export_encoder(f"hf:{tiny_towers.clip(tmp_path / 'model')}", tmp_path / "out")
    assert not (tmp_path / "out").exists()
