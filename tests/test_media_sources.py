"""Recordings from folders and tables: an hour long, damaged, in Parquet, calibrated with every combination of kinds."""

from __future__ import annotations

import json
import wave
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from isthmus import Collection, Query, encoders
from isthmus.cli import app
from isthmus.encoders.base import unit
from isthmus.encoders.media import MediaEncoder
from isthmus.encoders.sounds import MediaVectors, seconds, segments
from isthmus.isolated import recordings as reading
from isthmus.kinds import FileLike
from recordings import RATE, noise, silence, siren, telephone, video, write
from stock import words
from test_sources_tables import table
from tiny import DIM

RED, BLUE = (220, 30, 30), (30, 30, 220)
HOUR = 3600


class Bands:
    """Encodes segments of 5 seconds by how loud the bands of their first second are."""

    identity = "bands"

    def encode(self, content: FileLike) -> MediaVectors:
        heard = [(len(samples), self._row(samples)) for samples in segments(reading.sound(content, RATE))]
        return MediaVectors(seconds([length for length, _ in heard], RATE), unit(np.stack([r for _, r in heard]), "it"))

    def spans(self, content: FileLike) -> list[tuple[float, float]]:
        return self.encode(content).spans

    def _row(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        loud = np.abs(np.fft.rfft(samples[:RATE]))[: 512 * DIM].reshape(DIM, 512).mean(axis=1)
        row: NDArray[np.float32] = (loud + 0.01).astype(np.float32)  # silence has a vector, too
        return row


@pytest.fixture(scope="module")
def hearing(tiny: str) -> MediaEncoder:
    """The tiny encoder with a tower for sound."""
    loaded = encoders.load(tiny)
    assert isinstance(loaded, MediaEncoder)
    return replace(loaded, sound=Bands())


def hour_of_silence(path: Path, at: int, samples: NDArray[np.float32]) -> Path:
    """Write a WAV of an hour with some samples in it, at a second."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(bytes(2 * RATE * at))
        file.writeframes((samples * 32767).astype("<i2").tobytes())
        file.writeframes(bytes(2 * (RATE * (HOUR - at) - len(samples))))
    return path


def test_an_hour_of_sound_is_indexed_and_found_at_its_moment(hearing: MediaEncoder, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    hour_of_silence(tmp_path / "in" / "hour.wav", 3000, siren(5))
    with Collection.open(tmp_path / "c", hearing, calibration="none") as opened:
        report = opened.index(tmp_path / "in")
        assert (report.added, report.skipped) == (1, [])
        row = opened.store.rows_of(["hour.wav"])["hour.wav"]
        assert len(opened.store.segments([row])[row]) == HOUR // 5
        (hit,) = opened.search(Query(audio=write(tmp_path / "siren.wav", siren(5))))
        assert hit.moment == "50:00–50:05"
        assert hit.similarity == pytest.approx(1, abs=1e-3)


def test_an_hour_of_film_is_indexed_and_found_at_its_moment(tiny: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    film = [(3000, RED), (30, BLUE), (570, RED)]
    video(tmp_path / "in" / "hour.mp4", [(float(length), colour) for length, colour in film], gop=1, steps=(5.0,))
    into = str(tmp_path / "c")
    done = CliRunner().invoke(
        app, ["index", str(tmp_path / "in"), "--into", into, "--encoder", tiny, "--calibration", "none"]
    )
    assert done.exit_code == 0, done.output
    with Collection.open(into) as opened:
        assert opened.stats().documents == {"video": 1}
        row = opened.store.rows_of(["hour.mp4"])["hour.mp4"]
        assert len(opened.store.segments([row])[row]) == HOUR // 5
        (hit,) = opened.search(Query(image=np.full((48, 64, 3), BLUE, np.uint8)))
        (segment,) = hit.segments
        assert segment.start is not None and 3000 <= segment.start < 3030


def test_a_film_whose_frame_rate_varies_is_found_at_its_moment(hearing: MediaEncoder, tmp_path: Path) -> None:
    sound = np.concatenate([noise(6), siren(6)])
    film = video(tmp_path / "film.mp4", [(6, RED), (6, BLUE)], sound, gop=4, steps=(0.02, 0.5, 0.1, 0.9))
    with Collection.open(":memory:", hearing, calibration="none") as opened:
        assert not opened.index(film).skipped
        (hit,) = opened.search(Query(image=np.full((48, 64, 3), BLUE, np.uint8)))
        start = next(one.start for one in hit.segments if one.name == "video")
        assert start is not None and 6 <= start < 12
        assert opened.get("film.mp4").modality == "audio+video"


def test_a_black_and_silent_film_is_indexed_by_mini_and_found_by_what_it_is(tmp_path: Path) -> None:
    film = video(tmp_path / "black.mp4", [(3, (0, 0, 0))], silence(3))
    with Collection.open(":memory:", calibration="none") as opened:
        assert not opened.index(film).skipped
        (hit,) = opened.search(Query(image=np.zeros((48, 64, 3), np.uint8)))
        assert hit.similarity > 0.7  # half of the document is its sound
        assert opened.search("silence", k=1)[0].id == "black.mp4"


@pytest.mark.parametrize("kept", [0.02, 0.5])
def test_a_damaged_video_is_listed_and_the_rest_is_indexed(kept: float, tiny: str, tmp_path: Path) -> None:
    """The index of an MP4 is at its end, so what is left of a half cannot be read either."""
    folder = tmp_path / "in"
    folder.mkdir()
    whole = video(tmp_path / "whole.mp4", [(4, RED), (4, BLUE)]).read_bytes()
    (folder / "cut.mp4").write_bytes(whole[: int(len(whole) * kept)])
    (folder / "whole.mp4").write_bytes(whole)
    (folder / "empty.mkv").write_bytes(b"")
    (folder / "note.txt").write_text("a red cat")
    command = ["index", str(folder), "--into", str(tmp_path / "c"), "--encoder", tiny, "--calibration", "none"]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 3, done.output
    told = json.loads(done.stdout)
    assert told["added"] == 2
    why = {one["id"]: one["why"] for one in told["skipped"]}
    assert set(why) == {"cut.mp4", "empty.mkv"}
    assert "damaged" in why["cut.mp4"]


def test_a_film_of_a_camcorder_is_read(tiny: str, tmp_path: Path) -> None:
    video(tmp_path / "00001.M2TS", [(3.0, RED)], format="mpegts")
    with Collection.open(":memory:", tiny, calibration="none") as opened:
        assert opened.index(tmp_path).added == 1
        (hit,) = opened.search(Query(image=np.full((48, 64, 3), RED, np.uint8)))
        assert hit.similarity > 0.99


def test_damage_in_the_middle_of_a_film_leaves_what_comes_before_it(tiny: str, tmp_path: Path) -> None:
    whole = video(tmp_path / "film.mkv", [(8.0, RED), (8.0, BLUE)], gop=20)
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size * 2 // 3])
    with Collection.open(":memory:", tiny, calibration="none") as opened:
        report = opened.index(whole)
        assert (report.added, report.skipped) == (1, [])
        (hit,) = opened.search(Query(image=np.full((48, 64, 3), RED, np.uint8)))
        assert hit.similarity > 0.99


def test_parquet_holds_sounds_and_videos_as_paths_and_as_bytes(hearing: MediaEncoder, tmp_path: Path) -> None:
    sound = write(tmp_path / "siren.wav", siren(5))
    film = video(tmp_path / "film.mp4", [(4, RED)])
    held: list[Any] = [sound.read_bytes(), write(tmp_path / "b.wav", telephone(5)).read_bytes(), b"no sound", None]
    table(tmp_path / "bytes.parquet", {"id": ["a", "b", "c", "d"], "audio": held, "text": ["a siren", "", "", "words"]})
    table(tmp_path / "paths.parquet", {"id": ["e", "f"], "audio": [str(sound), None], "video": [None, str(film)]})
    with Collection.open(":memory:", hearing, calibration="none") as opened:
        report = opened.index(tmp_path / "bytes.parquet", tmp_path / "paths.parquet")
        assert [one.id for one in report.skipped] == ["c"]
        found = {document.id: document.modality for document in opened}
        assert found == {"a": "audio+text", "b": "audio", "d": "text", "e": "audio", "f": "video"}
        assert opened.search(Query(audio=sound), k=1, modalities=["audio"])[0].id == "e"
        assert opened.get("a").audio == held[0]


def test_videos_with_and_without_sound_are_calibrated_as_modalities_of_their_own(
    hearing: MediaEncoder, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for seed in range(10):
        colour = (20 * seed, 200 - 10 * seed, 100)
        video(folder / f"mute{seed}.mp4", [(2.5, colour)])
        samples = noise(2.5, seed) + siren(2.5) * np.float32(seed / 5)
        video(folder / f"loud{seed}.mp4", [(2.5, colour)], samples)
        (folder / f"note{seed}.txt").write_text(words(np.random.default_rng(seed), 5))
    with Collection.open(tmp_path / "c", hearing, calibration="none") as opened:
        assert not opened.index(folder).skipped
        assert opened.stats().documents == {"audio+video": 10, "text": 10, "video": 10}
        fitted = opened.calibrate("center+standardize").fitted
        assert set(fitted.document_modalities) == {"audio+video", "text", "video"}
        for query in (Query("a red cat"), Query(image=np.full((48, 64, 3), BLUE, np.uint8))):
            raw, fair = (opened.search(query, k=30, calibration=spec) for spec in ("none", None))
            assert len(raw) == len(fair) == 30
            assert {hit.modality for hit in raw[:10]} != {"audio+video", "text", "video"}
            assert {hit.modality for hit in fair[:10]} == {"audio+video", "text", "video"}
