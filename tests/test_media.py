"""Sounds and videos are parts like any other: indexed from folders, tables and shards, searched, calibrated, timed."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from isthmus import Audio, Collection, Document, Query, Text, Video, encoders
from isthmus.cli import app
from isthmus.encoders.abilities import part_identity
from isthmus.encoders.media import MediaEncoder
from isthmus.encoders.sounds import FOLDER, SEGMENT, SoundTower, segments, windows
from isthmus.errors import BadFile, BadInput, CannotFit, MissingExtra
from isthmus.isolated import recordings as reading
from isthmus.kinds import Image
from isthmus.search.json_forms import hit_json
from isthmus.sources.speech import Spoken, passages
from recordings import RATE, noise, silence, siren, telephone, video, voice, write

RED, BLUE = (220, 30, 30), (30, 30, 220)


@pytest.fixture(scope="module")
def mini() -> MediaEncoder:
    loaded = encoders.load("mini", threads=1)
    assert isinstance(loaded, MediaEncoder)
    return loaded


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("media")
    write(root / "siren.wav", siren(5))
    write(root / "phone.flac", telephone(5))
    write(root / "noise.ogg", noise(3))
    write(root / "silent.mp3", silence(2))
    write(root / "later.wav", np.concatenate([noise(10), siren(5), noise(7)]))
    (root / "siren.txt").write_text("recorded from the window in March")
    (root / "empty.wav").write_bytes(b"")
    (root / "broken.ogg").write_bytes(b"OggS" + bytes(200))
    (root / "note.txt").write_text("buy bread and milk tomorrow")
    video(root / "film.mp4", [(4, RED), (4, BLUE)], siren(8), gop=20)
    video(root / "mute.mp4", [(3, BLUE)])
    return root


@pytest.fixture(scope="module")
def things(folder: Path, mini: MediaEncoder) -> Iterator[tuple[Collection, Any]]:
    with Collection.open(":memory:", mini, calibration="none") as opened:
        yield opened, opened.index(folder)


def test_mini_still_has_the_identity_that_collections_were_made_with(mini: MediaEncoder) -> None:
    written = (Path(encoders.__file__).parent / "mini" / "encoder.toml").read_bytes()
    plain = encoders.load(f"onnx:{Path(encoders.__file__).parent / 'mini'}")
    assert written and mini.identity == plain.identity
    assert [part_identity(mini, part) for part in ("text", "image")] == [
        part_identity(plain, part) for part in ("text", "image")
    ]
    assert part_identity(mini, "audio") not in (mini.identity, part_identity(mini, "text"))
    given = [Document("a", "a cat"), Document("b", "a dog", np.zeros((8, 8, 3), np.uint8))]
    for part, matrix in plain.encode_documents(given).parts.items():
        np.testing.assert_array_equal(mini.encode_documents(given).parts[part], matrix)


def test_words_find_the_sound_they_name(mini: MediaEncoder, folder: Path) -> None:
    names = ["siren.wav", "phone.flac", "noise.ogg", "silent.mp3"]
    heard = mini.encode_documents([Document(name, audio=folder / name) for name in names]).parts["audio"]
    said = mini.encode_queries(["a siren", "a telephone", "white noise", "silence"]).parts["text"]
    assert (said @ heard.T).argmax(axis=1).tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(np.linalg.norm(heard, axis=1), 1, atol=1e-5)


def test_a_folder_becomes_documents_and_what_is_damaged_is_listed(things: tuple[Collection, Any]) -> None:
    opened, report = things
    assert opened.stats().documents == {"audio": 4, "audio+text": 1, "audio+video": 1, "text": 1, "video": 1}
    assert opened.get("siren.wav").text == "recorded from the window in March"
    assert [part.kind for part in opened.get("film.mp4").parts] == ["video", "audio"]
    why = {one.id: one.why for one in report.skipped}
    assert set(why) == {"empty.wav", "broken.ogg"}
    assert why["empty.wav"] == "is empty (0 bytes)"
    assert "broken.ogg' is damaged, or not a sound" in why["broken.ogg"]


def test_a_video_file_without_pictures_is_a_sound(mini: MediaEncoder, tmp_path: Path) -> None:
    voice(tmp_path / "memo.mp4", siren(5))
    with Collection.open(":memory:", mini, calibration="none") as opened:
        assert not opened.index(tmp_path).skipped
        assert [part.kind for part in opened.get("memo.mp4").parts] == ["audio"]


def test_a_hit_says_the_moment(things: tuple[Collection, Any], folder: Path) -> None:
    opened, _ = things
    hit = next(hit for hit in opened.search("a siren", k=9) if hit.id == "later.wav")
    assert [(one.name, one.start, one.stop) for one in hit.segments] == [("audio", 10.0, 15.0)]
    assert hit.moment == "0:10–0:15" == hit_json(hit)["moment"]
    json.dumps(hit_json(hit))
    film = next(hit for hit in opened.search("the colour blue", k=9) if hit.id == "film.mp4")
    assert film.moment is not None and {one.name for one in film.segments} == {"audio", "video"}
    assert next(hit for hit in opened.search("bread", k=9) if hit.id == "note.txt").moment is None
    same = opened.search(Query(audio=folder / "phone.flac"), k=1)[0]
    assert (same.id, round(same.similarity, 3)) == ("phone.flac", 1.0)


def test_the_command_line_prints_the_moment(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "later.wav").write_bytes((folder / "later.wav").read_bytes())
    run, things = CliRunner(), str(tmp_path / "c")
    done = run.invoke(app, ["index", str(tmp_path / "in"), "--into", things, "--calibration", "none", "--quiet"])
    assert done.exit_code == 0, done.output
    assert "0:10–0:15 (audio)" in run.invoke(app, ["search", "a siren", "--in", things]).output
    sound = run.invoke(app, ["search", "--audio", str(folder / "siren.wav"), "--in", things])
    assert "0:10–0:15 (audio)" in sound.output, sound.output
    told = json.loads(run.invoke(app, ["search", "a siren", "--in", things, "--json"]).output)
    assert [hit["moment"] for hit in told] == ["0:10–0:15"]


def test_tables_and_shards_hold_sounds_and_videos(folder: Path, mini: MediaEncoder, tmp_path: Path) -> None:
    rows = [{"id": "path", "audio": str(folder / "siren.wav"), "text": "a siren"}, {"id": "none", "audio": ""}]
    rows += [{"id": "film", "video": str(folder / "mute.mp4")}, {"id": "web", "audio": "https://example.org/a.mp3"}]
    (tmp_path / "table.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "table.csv").write_text(f"id,audio\nrain,{folder / 'noise.ogg'}\n")
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        members = [("a.mp3", "silent.mp3"), ("b.wav", "siren.wav"), ("c.mp4", "mute.mp4"), ("b.txt", "siren.txt")]
        for name, source in sorted(members):
            data = (folder / source).read_bytes()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    with Collection.open(":memory:", mini, calibration="none") as opened:
        skipped = opened.index(tmp_path / "table.jsonl", tmp_path / "table.csv", tmp_path / "0.tar").skipped
        assert opened.stats().documents == {"audio": 2, "audio+text": 2, "video": 2}
        assert isinstance(opened.get("b").audio, bytes)
        assert opened.search("a siren", k=1)[0].id in ("path", "b")
    assert sorted(one.why.partition(":")[0] for one in skipped) == [
        "Document 'none' has neither text nor image. Give it one, or leave it out.",
        "has an audio at https",
    ]


def test_sound_with_words_is_calibrated_as_a_modality_of_its_own(mini: MediaEncoder, tmp_path: Path) -> None:
    kinds = {"siren": siren, "telephone": telephone, "noise": noise}
    documents = []
    for seed in range(24):
        name, make = list(kinds.items())[seed % 3]
        samples = make(1) * 0.5 + noise(1, seed) * 0.02
        part = Audio(write(tmp_path / f"{seed}.wav", samples))
        documents.append(Document(f"a{seed}", parts=[part]))
        documents.append(Document(f"b{seed}", parts=[Text(f"take {seed} of a {name}"), part]))
        documents.append(Document(f"t{seed}", f"a note about the {name}, number {seed}"))
    with Collection.open(":memory:", mini) as opened:
        opened.add(documents)
        fitted = opened.calibrate("center+standardize").fitted
        assert set(fitted.document_modalities) == {"audio", "audio+text", "text"}
        assert {"audio", "text"} <= set(fitted.query_modalities)
        raw = opened.search_many(["a siren", "a telephone", "noise"], k=10, calibration="none")
        fair = opened.search_many(["a siren", "a telephone", "noise"], k=10)
    shares = [[sum(hit.modality == "audio" for hit in found) for found in several] for several in (raw, fair)]
    assert sum(shares[0]) < sum(shares[1])  # raw cosine hides sounds behind texts


def test_the_rows_of_a_video_pair_frames_with_the_sound_of_their_time(things: tuple[Collection, Any]) -> None:
    opened, _ = things
    hits = [hit for hit in opened.search("a siren", k=9) if hit.id == "film.mp4"]
    (frame, sound) = sorted(hits[0].segments, key=lambda one: one.name, reverse=True)
    assert frame.start is not None and sound.start is not None
    assert abs(frame.start - sound.start) <= 5


def test_an_encoder_row_is_a_segment_and_spans_are_not_read_twice(mini: MediaEncoder, folder: Path) -> None:
    later, film = (Document("l", audio=folder / "later.wav"), Document("f", video=folder / "film.mp4"))
    _, owner = mini.encode_passages([later, Document("t", "words"), film])
    assert owner.tolist()[:6] == [0, 0, 0, 0, 0, 1]
    spans = mini.split_part(Audio(folder / "later.wav"))
    assert spans == [(0, 5), (5, 10), (10, 15), (15, 20), (20, 22)]
    fresh = encoders.load("mini", threads=1)
    assert isinstance(fresh, MediaEncoder)
    assert fresh.split_part(Audio(folder / "later.wav")) == spans
    assert fresh.split_part(Video(folder / "film.mp4")) == mini.split_part(film.parts[0])
    assert mini.split_part(Text("short")) == [] == mini.split_part(Image("a.png"))
    both, of = mini.encode_passages([Document("b", "words", audio=folder / "later.wav", video=folder / "film.mp4")])
    assert (both.modality.tolist(), of.tolist()) == (["audio+text+video"], [0])
    alone = mini.encode_documents([later]).parts["audio"]
    np.testing.assert_allclose(both.parts["audio"], alone, atol=1e-6)


def test_what_cannot_be_encoded_says_which_and_why(mini: MediaEncoder, folder: Path) -> None:
    bad = Document("bad", audio=b"no sound at all", text="words")
    with pytest.raises(BadInput, match=r"document 'bad': its audio <15 bytes> is damaged"):
        mini.encode_documents([bad])
    skipped: list[int] = []
    good = Document("good", audio=folder / "noise.ogg")
    _, owner = mini.encode_passages([bad, good], skip=lambda row, _: skipped.append(row))
    assert (skipped, owner.tolist()) == ([0], [1])
    two = Document("two", parts=[Audio(folder / "noise.ogg"), Audio(folder / "siren.wav")])
    with pytest.raises(BadInput, match="has several of them"):
        mini.encode_documents([two])
    with pytest.raises(BadInput, match="has an audio of type int"):
        Document("x", audio=3)  # type: ignore[arg-type]


def test_a_query_weighs_its_sound_and_its_words(mini: MediaEncoder, folder: Path) -> None:
    query = Query("a telephone", audio=folder / "siren.wav", weights={"text": 3, "audio": 1})
    vectors = mini.encode_queries([query, "rain"])
    assert vectors.modality.tolist() == ["audio+text", "text"]
    assert vectors.weights is not None and vectors.weights["text"][0] == 3


def test_words_and_a_sound_ask_together_where_no_document_has_both(mini: MediaEncoder, folder: Path) -> None:
    with Collection.open(":memory:", mini) as opened:
        opened.add([Document(f"t{at}", f"note {at} about the weather") for at in range(8)])
        opened.add([Document(name, audio=folder / name) for name in ("siren.wav", "noise.ogg", "phone.flac")])
        assert opened.search(Query("a siren", audio=folder / "siren.wav"), k=1)[0].id == "siren.wav"


def test_windows_cover_a_segment_and_a_short_rest_joins_the_last(mini: MediaEncoder) -> None:
    whole = np.arange(20 * RATE + 100, dtype=np.float32)
    pieces = list(segments([whole[: 20 * RATE], whole[20 * RATE :]]))
    assert [len(piece) for piece in pieces] == [SEGMENT] * 3 + [SEGMENT + 100]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    assert windows(pieces[-1])[-1][-1] == whole[-1]


def test_a_damaged_sound_tower_is_refused(mini: MediaEncoder, tmp_path: Path) -> None:
    for name in ("sound.toml", "anchors.npz"):
        (tmp_path / name).write_bytes((FOLDER / name).read_bytes())
    (tmp_path / "yamnet.onnx").write_bytes(b"damaged")
    with pytest.raises(BadFile, match="its checksum is another"):
        SoundTower(mini.settings, tmp_path).scores(silence(1))


def test_without_its_extra_a_sound_is_skipped_with_the_command(
    mini: MediaEncoder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("isthmus.isolated.recordings", "isthmus._optional"):
        monkeypatch.setattr(f"{module}.find_spec", lambda _: None)
    with Collection.open(":memory:", mini, calibration="none") as opened:
        added = opened.add([Document("a", audio=folder / "noise.ogg"), Document("b", "words")])
        assert added.added == ("b",)
        assert "pip install 'isthmus[sound]'" in added.skipped[0].why
        report = opened.index(folder / "mute.mp4")
    assert "pip install 'isthmus[video]'" in report.skipped[0].why
    with pytest.raises(MissingExtra, match="video"):
        reading.tracks(folder / "mute.mp4")


class Scribe:
    """Says the same of every recording that is longer than four seconds."""

    name = "scribe"

    def transcribe(self, content: Any) -> Iterator[Spoken]:
        if sum(map(len, reading.sound(content))) > 4 * RATE:
            yield Spoken(1.0, 3.5, "The bridge is closed.")
            yield Spoken(42.0, 47.0, "Take the ferry instead.")


def test_what_is_said_becomes_texts_with_their_time(folder: Path, mini: MediaEncoder, tmp_path: Path) -> None:
    for name in ("siren.wav", "noise.ogg", "broken.ogg"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    with Collection.open(":memory:", mini, calibration="none") as opened:
        report = opened.index(tmp_path, transcribe=Scribe())
        assert opened.stats().documents == {"audio": 2, "text": 2}
        assert [one.id for one in report.skipped] == ["broken.ogg"]
        hit = opened.search("a boat across the river", k=1)[0]
        assert (hit.id, hit.moment) == ("siren.wav#t=42", "0:42–0:47")
        assert opened.search("ferry", k=9, where={"start": {"lt": 10}})[0].document.text == "The bridge is closed."
        assert opened.index(tmp_path, transcribe=Scribe()).unchanged == 4
        assert opened.index(tmp_path).removed == 2  # without a transcriber there are no words


class Counted(Scribe):
    """A scribe that counts the recordings it was given."""

    name = "a script, counted"

    def __init__(self) -> None:
        self.given = 0

    def transcribe(self, content: Any) -> Iterator[Spoken]:
        self.given += 1
        return super().transcribe(content)


def test_what_is_said_in_tables_and_shards_becomes_texts_and_each_recording_is_written_down_once(
    folder: Path, mini: MediaEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISTHMUS_CACHE", str(tmp_path / "cache"))
    table, shard, scribe = tmp_path / "talks.jsonl", tmp_path / "0.tar", Counted()
    rows = [{"id": "one", "audio": str(folder / "siren.wav"), "speaker": "Ann"}, {"id": "two", "text": "no sound"}]
    table.write_text("\n".join(map(json.dumps, rows)))
    with tarfile.open(shard, "w") as tar:
        tar.add(folder / "phone.flac", "three.flac")
    with Collection.open(":memory:", mini, calibration="none") as opened:
        assert not opened.index(table, shard, transcribe=scribe).skipped
        names = {document.id for document in opened}
        assert names == {"one", "one#t=1", "one#t=42", "two", "three", "three#t=1", "three#t=42"}
        assert opened.get("one#t=42").metadata["speaker"] == "Ann"
        assert opened.get("three#t=1").text == "The bridge is closed."
        assert scribe.given == 2
        rows.append({"id": "four", "audio": str(folder / "later.wav")})
        table.write_text("\n".join(map(json.dumps, rows)))
        report = opened.index(table, shard, transcribe=scribe)
        assert (report.added, report.updated, report.removed) == (3, 0, 0)
        assert scribe.given == 3


def test_pieces_of_speech_become_passages_of_half_a_minute() -> None:
    pieces = [Spoken(5.0 * at, 5.0 * at + 4, f"word{at}") for at in range(13)]
    joined = passages(pieces)
    assert [(one.start, one.stop) for one in joined] == [(0, 29), (30, 59), (60, 64)]
    assert " ".join(one.text for one in joined) == " ".join(piece.text for piece in pieces)


def test_the_way_to_transcribe_is_checked(folder: Path, tmp_path: Path) -> None:
    command = ["index", str(folder), "--into", str(tmp_path / "c"), "--transcribe"]
    assert "No way to transcribe is called 'nver'" in str(CliRunner().invoke(app, [*command, "nver"]).exception)
    told = CliRunner().invoke(app, [*command, "never", "--whisper", "tiny"])
    assert told.exit_code == 2 and "--transcribe never" in told.output


def test_words_find_sounds_with_a_probability_and_a_sound_says_why_it_has_none(
    mini: MediaEncoder, tmp_path: Path
) -> None:
    made = [siren(5), telephone(5), noise(5), siren(7)]
    files = [write(tmp_path / f"{at}.wav", samples) for at, samples in enumerate(made)]
    documents = [Document(id=f"sound {at}", audio=file) for at, file in enumerate(files)]
    documents += [Document(id=f"text {at}", text=f"a story about {at} lamps and the sea") for at in range(12)]
    documents.append(Document(id="both", audio=files[0], text="an ambulance in the street"))
    with Collection.open(":memory:", mini) as opened:
        opened.add(documents)
        opened.calibrate()
        heard = opened.search("a siren", k=3, modalities=["audio"], explain=True)
        assert all(hit.probability is not None and 0 <= hit.probability <= 1 for hit in heard)
        assert all(hit.explanation is not None and hit.explanation.no_probability is None for hit in heard)
        for query in (Query(audio=files[1]), Query(audio=files[1], text="a telephone")):
            hit = opened.search(query, k=1, explain=True, modalities=["text"])[0]
            assert hit.probability is None
            assert f"no P(match): there were no {query.modality} queries" in str(hit.explanation)
            with pytest.raises(CannotFit, match=rf"how probable a match is for {re.escape(query.modality)} queries"):
                opened.search(query, min_probability=0.5)
