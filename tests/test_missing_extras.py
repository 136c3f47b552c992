"""Without the packages of a family, its name is answered by the command that installs them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from isthmus import encoders
from isthmus.cli import app
from isthmus.encoders.base import Settings
from isthmus.encoders.rerankers import load_reranker
from isthmus.errors import MissingExtra

NEEDS = [  # the name, the package that is missing, the extra that has it
    ("hf:openai/clip-vit-base-patch32", "transformers", "hf"),
    ("hf:openai/clip-vit-base-patch32", "torch", "hf"),
    ("vlm:gme:Alibaba-NLP/gme-Qwen2-VL-2B-Instruct", "transformers", "hf"),
    ("vlm:gme:Alibaba-NLP/gme-Qwen2-VL-2B-Instruct", "torch", "hf"),
    ("clap:laion/clap-htsat-unfused", "transformers", "hf"),
    ("clap:laion/clap-htsat-unfused", "torch", "hf"),
    ("st:all-MiniLM-L6-v2", "sentence_transformers", "st"),
    ("st:all-MiniLM-L6-v2", "torch", "st"),
    ("matryoshka:64:st:all-MiniLM-L6-v2", "sentence_transformers", "st"),
    ("mteb:intfloat/multilingual-e5-small", "mteb", "mteb"),
    ("open_clip:ViT-B-32/openai", "open_clip", "open-clip"),
]


@pytest.mark.parametrize(("name", "module", "extra"), NEEDS)
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    name: str, module: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    says = rf"This needs '{module}'. Install it with: pip install 'isthmus\[{extra}\]'"
    with pytest.raises(MissingExtra, match=says):
        encoders.load(name)
    (tmp_path / "note.txt").write_text("a cat")
    done = CliRunner().invoke(app, ["index", str(tmp_path), "--into", str(tmp_path / "c"), "--encoder", name])
    assert isinstance(done.exception, MissingExtra)


def test_a_cross_encoder_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match=r"pip install 'isthmus\[st\]'"):
        load_reranker("st:cross-encoder/ms-marco-MiniLM-L6-v2", Settings())


def test_every_family_that_needs_a_package_is_tested() -> None:
    tested = {name.partition(":")[0] for name, _, _ in NEEDS} - {"matryoshka"}
    assert tested == {word for word, family in encoders.KINDS.items() if family.needs}
