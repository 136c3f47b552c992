"""``import isthmus`` costs next to nothing, and so do its parts."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "faiss", "transformers", "scipy", "matplotlib", "safetensors", "starlette", "fastapi", "PIL")
READERS = ("onnxruntime", "sentence_transformers", "tokenizers", "rapidocr", "cv2")


@pytest.mark.parametrize(
    "statement",
    [
        "import isthmus",
        "from isthmus import calibration",
        "from isthmus import Document, Query, encoders",
        "from isthmus import align",
    ],
)
def test_importing_brings_in_nothing_heavy(statement: str) -> None:
    code = f"{statement}; import sys; print(*sorted({{m.partition('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "isthmus" in done.stdout.split()
    assert not {*HEAVY, *READERS} & set(done.stdout.split())
    assert done.stderr == ""


def test_searching_brings_in_nothing_of_alignment() -> None:
    code = "import isthmus.cli, isthmus.search, sys; print(*(m for m in sys.modules if m.startswith('isthmus.align')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
