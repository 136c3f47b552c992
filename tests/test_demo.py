"""The demo and the README show what really happens."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path
from urllib.request import urlopen

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import needed
from isthmus import Document, samples
from isthmus.cli import app
from isthmus.search import Collection
from serving import command

ROOT = Path(__file__).parent.parent
LINE = re.compile(r"^\s*(\d+)  .{10} +(?:(\d+)%|–) +(-?[\d.]+)  (\S+) +(\S+)", re.MULTILINE)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The demo's output, and the collection it leaves behind."""
    place = str(tmp_path_factory.mktemp("demo") / "samples.isthmus")
    done = CliRunner().invoke(app, ["demo", "--into", place])
    assert done.exit_code == 0, done.output
    return done.stdout, place


def test_the_demo_finds_more_pictures_calibrated_than_raw_and_loses_little_else(shown: tuple[str, str]) -> None:
    rows = re.findall(r"^  (\S+) +(\d+)% +(\d+)%$", shown[0], re.MULTILINE)
    share = {kind: (int(raw), int(fair)) for kind, raw, fair in rows}
    assert set(share) == {"image", "image+text", "text", "all"}
    assert share["image"][1] >= share["image"][0] + 5
    assert share["all"][1] >= share["all"][0]
    assert share["text"][1] >= share["text"][0] - 10
    assert shown[0].count("✓") >= 3
    assert "Try next" in shown[0]


def test_the_search_in_the_readme_is_what_comes_out(shown: tuple[str, str]) -> None:
    readme = (ROOT / "README.md").read_text()
    query = re.search(r'isthmus search "([^"]+)" --in things', readme)
    assert query is not None
    block = readme.split("that search gives")[1].split("The percentage is P(match)")[0]
    said = [(rank, p, float(score), kind, name) for rank, p, score, kind, name in LINE.findall(block)]
    assert len(said) == 6
    for lines, more in ((said[:3], []), (said[3:], ["--calibration", "none"])):
        done = CliRunner().invoke(app, ["search", query[1], "--in", shown[1], *more])
        real = [(rank, p, float(score), kind, name) for rank, p, score, kind, name in LINE.findall(done.stdout)][:3]
        assert [(rank, kind, name) for rank, _, _, kind, name in lines] == [(r, k, n) for r, _, _, k, n in real]
        assert [one[2] for one in lines] == pytest.approx([one[2] for one in real], abs=0.05)
        assert [int(one[1] or 0) for one in lines] == pytest.approx([int(one[1] or 0) for one in real], abs=3)


def test_the_demo_does_not_mix_with_documents_of_ones_own(tmp_path: Path) -> None:
    place = tmp_path / "own.isthmus"
    with Collection.open(place, calibration="none") as things:
        things.add([Document(id="a", text="a note")])
    done = CliRunner().invoke(app, ["demo", "--into", str(place), "--quiet"])
    assert done.exit_code == 1
    assert "holds documents of your own" in str(done.exception)
    with Collection.open(place, create=False) as things:
        assert list(things.ids()) == ["a"]


def test_every_answer_of_the_sample_questions_is_a_document(shown: tuple[str, str]) -> None:
    with Collection.open(shown[1], follow=False) as things:
        known = set(things.ids())
        assert {answer for question in samples.queries() for answer in question.right} <= known
        kinds = {document.id: document.modality for document in things}
        assert all(kinds[question.right[0]] == question.kind for question in samples.queries())


def test_the_demo_serves_its_folder_with_a_page_until_it_is_stopped() -> None:
    with command("demo", "--serve", "--port", "0", "--quiet") as demo:
        with urlopen(f"http://127.0.0.1:{demo.port}/") as page:
            assert b"<html" in page.read()
        (one,) = demo.ask("GET", "/v1/collections")[1]["collections"]
        asked = {"query": "a red parrot on a branch", "k": 1}
        (hit,) = demo.ask("POST", f"/v1/collections/{one['name']}/search", asked)[1]["hits"]
        assert (one["name"], hit["id"]) == ("demo", "photos/macaw.jpg")
        demo.process.send_signal(signal.SIGTERM)
        assert demo.process.wait(60) in (0, -signal.SIGTERM)


def test_make_demo_ends_with_the_command_that_opens_the_page() -> None:
    make = needed.program("make")
    steps = subprocess.run(  # said without the names of folders, which `make` prints where another one runs it
        [make, "--no-print-directory", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert steps[-1].startswith("echo; echo ")
    said = subprocess.run(["/bin/sh", "-c", steps[-1]], capture_output=True, text=True, check=True).stdout.splitlines()
    words = said[-1].partition(":  ")[2].split()
    assert words[0].endswith("bin/isthmus")
    verb = get_command(app).commands[words[1]]  # type: ignore[attr-defined]  # it is a group
    assert verb.make_context(words[1], words[2:]).params["serve"] is True
