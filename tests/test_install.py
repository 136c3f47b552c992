"""The wheel, installed into an empty environment, is all that a user needs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

pytestmark = pytest.mark.install

ROOT = Path(__file__).parent.parent
SCRIPTS = "Scripts" if os.name == "nt" else "bin"
MADE = """
from isthmus import Collection, samples

with Collection.open("things.isthmus", calibration="center+standardize") as things:
    things.index(samples.folder(), ocr="never")
    things.search("a cat")
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command without this environment's settings, and return what it printed."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ISTHMUS", "VIRTUAL"))}
    done = subprocess.run(command, cwd=cwd, env=keep, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("isthmus-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The folder of the commands of an environment that holds the wheel and what it depends on, nothing else."""
    folder = wheel.parent / "empty"
    venv.create(folder, with_pip=True)
    run(folder / SCRIPTS / "python", "-m", "pip", "install", "--quiet", wheel, cwd=wheel.parent)
    return folder / SCRIPTS


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    package = ROOT / "src" / "isthmus"
    files = {path.relative_to(package.parent).as_posix() for path in package.rglob("*") if path.is_file()}
    expected = {name for name in files if "__pycache__" not in name}
    held = {name for name in ZipFile(wheel).namelist() if not name.split("/")[0].endswith(".dist-info")}
    assert held == expected
    for name in ("py.typed", "encoders/mini/text.onnx", "align/forge-mini.onnx", "align/prompts/forge.txt"):
        assert f"isthmus/{name}" in held
    assert sum(name.startswith("isthmus/samples/folder/") for name in held) > 50


def test_the_demo_runs_from_the_installed_wheel(installed: Path, tmp_path: Path) -> None:
    shown = run(installed / "isthmus", "demo", "--into", "samples.isthmus", cwd=tmp_path)
    assert "✓" in shown
    found = run(installed / "isthmus", "search", "a red parrot on a branch", "--in", "samples.isthmus", cwd=tmp_path)
    assert "photos/macaw.jpg" in found


def test_doctor_finds_nothing_missing_that_the_basic_install_needs(installed: Path, tmp_path: Path) -> None:
    shown = run(installed / "isthmus", "doctor", cwd=tmp_path)
    assert {"✓ core", "✓ mini"} <= {" ".join(line.split()[:2]) for line in shown.splitlines()}


def test_the_installed_package_is_imported_from_site_packages_and_marked_as_typed(
    installed: Path, tmp_path: Path
) -> None:
    where = run(installed / "python", "-c", "import isthmus; print(isthmus.__file__)", cwd=tmp_path)
    assert Path(where.strip()).parent.joinpath("py.typed").is_file()
    assert "site-packages" in where


@pytest.mark.parametrize("extra", ["langchain", "llamaindex", "haystack"])
def test_the_quick_start_of_a_framework_runs_with_its_extra_alone(extra: str, wheel: Path, tmp_path: Path) -> None:
    """Its page in docs/quickstarts.md, over a picture and a note: what it imports and sends needs no other extra."""
    venv.create(tmp_path / "own", with_pip=True)
    python = tmp_path / "own" / SCRIPTS / "python"
    run(python, "-m", "pip", "install", "--quiet", f"isthmus[{extra}] @ {wheel.as_uri()}", cwd=tmp_path)
    page = (ROOT / "docs" / "quickstarts.md").read_text("utf-8")
    (section,) = re.findall(rf"^## {extra}\n(.*?)^## ", page, re.MULTILINE | re.DOTALL | re.IGNORECASE)
    (code,) = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    (tmp_path / "made.py").write_text(MADE)
    (tmp_path / "start.py").write_text(code)
    run(python, "made.py", cwd=tmp_path)
    assert run(python, "start.py", cwd=tmp_path).startswith("photos/macaw.jpg")
