"""Sounds and videos are read in blocks, whatever their format, and damage is reported."""

from __future__ import annotations

import resource
import wave
from pathlib import Path

import numpy as np
import pytest

from isthmus.budget import MIB
from isthmus.errors import BadInput
from isthmus.isolated import recordings
from isthmus.kinds import clock, moment
from recordings import RATE, noise, silence, siren, video, write

RED, GREEN, BLUE = (220, 30, 30), (30, 200, 30), (30, 30, 220)


@pytest.mark.parametrize("ending", ["wav", "flac", "ogg", "mp3", "aiff"])
@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100])
def test_every_format_and_rate_becomes_16_khz_mono(ending: str, rate: int, tmp_path: Path) -> None:
    time = np.arange(3 * rate) / rate
    tone = (0.5 * np.sin(2 * np.pi * 440 * time)).astype(np.float32)
    path = write(tmp_path / f"tone.{ending}", np.stack([tone, tone], axis=1), rate)
    samples = np.concatenate(list(recordings.sound(path)))
    assert abs(len(samples) / RATE - 3) < 0.1
    loudest = np.abs(np.fft.rfft(samples[:RATE])).argmax()
    assert loudest == 440
    from_bytes = np.concatenate(list(recordings.sound(path.read_bytes())))
    np.testing.assert_array_equal(samples, from_bytes)


def test_a_long_sound_comes_in_blocks_and_none_is_lost(tmp_path: Path) -> None:
    whole = noise(47.5)
    blocks = list(recordings.sound(write(tmp_path / "long.flac", whole)))
    assert [len(block) / RATE for block in blocks] == [20, 20, 7.5]
    assert np.abs(np.concatenate(blocks) - whole).max() < 1e-3


def test_an_hour_is_read_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "hour.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        for _ in range(60):
            file.writeframes(bytes(2 * RATE * 60))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(len(block) for block in recordings.sound(path)) == 3600 * RATE
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 64 * MIB  # samples take 220


def test_a_worker_that_starts_anew_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    whole = noise(47.5)
    blocks = []
    for block in recordings.sound(write(tmp_path / "long.flac", whole)):
        blocks.append(block)
        if len(blocks) == 2:
            recordings.WORKER.close()
    assert np.abs(np.concatenate(blocks) - whole).max() < 1e-3


DAMAGED = {
    "noise": (b"\x07" * 5000, "is damaged, or not a sound"),
    "playlist": (b"#EXTM3U\n#EXTINF:1,\n/etc/hostname\n", "is damaged, or not a sound"),
    "list of files": (b"ffconcat version 1.0\nfile '/etc/hostname'\n", "is damaged, or not a sound"),
    "head of a wav": (b"RIFF\x24\x00\x00\x00WAVEfmt ", "is damaged, or not a sound"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_and_files_that_name_other_files_are_refused(name: str) -> None:
    content, why = DAMAGED[name]
    with pytest.raises(BadInput, match=why):
        list(recordings.sound(content))
    with pytest.raises(BadInput, match=why):
        list(recordings.frames(content))


def test_what_comes_before_damage_is_kept(tmp_path: Path) -> None:
    data = write(tmp_path / "a.flac", noise(30)).read_bytes()
    samples = np.concatenate(list(recordings.sound(data[: len(data) // 2])))
    assert 5 < len(samples) / RATE < 20


def test_an_empty_sound_and_a_missing_file_say_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"has no sound in it \(0 samples\)"):
        list(recordings.sound(write(tmp_path / "empty.wav", silence(0))))
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        list(recordings.sound(tmp_path / "missing.wav"))


def test_samples_that_are_no_numbers_are_silence(tmp_path: Path) -> None:
    bad = siren(1)
    bad[::7] = np.nan
    import soundfile

    soundfile.write(tmp_path / "bad.wav", bad, RATE, subtype="FLOAT")
    samples = np.concatenate(list(recordings.sound(tmp_path / "bad.wav")))
    assert np.isfinite(samples).all() and not samples[::7].any()


def colours(path: Path) -> list[tuple[float, float, int]]:
    """Each key frame's span, and its brightest channel."""
    return [
        (round(key.start, 1), round(key.stop, 1), int(key.pixels.mean(axis=(0, 1)).argmax()))
        for key in recordings.frames(path)
    ]


def test_a_video_gives_key_frames_with_spans_that_follow_one_another(tmp_path: Path) -> None:
    path = video(tmp_path / "a.mp4", [(4, RED), (4, GREEN), (4, BLUE)], siren(12), gop=20)
    found = colours(path)
    assert [start for start, _, _ in found][1:] == [stop for _, stop, _ in found][:-1]
    assert all(stop - start >= 1.9 for start, stop, _ in found[:-1])
    assert [channel for _, _, channel in found] == sorted(channel for _, _, channel in found)
    assert {channel for _, _, channel in found} == {0, 1, 2}
    assert recordings.tracks(path) == {"audio": True, "video": True}
    assert abs(sum(map(len, recordings.sound(path))) / RATE - 12) < 0.2


def test_key_frames_that_are_far_apart_are_filled_up(tmp_path: Path) -> None:
    path = video(tmp_path / "one.mp4", [(10, RED), (10, GREEN), (10, BLUE)], gop=100_000)
    found = colours(path)
    assert [start for start, _, _ in found] == [0, 5, 10, 15, 20, 25]
    assert [channel for _, _, channel in found] == [0, 0, 1, 1, 2, 2]
    assert recordings.tracks(path) == {"audio": False, "video": True}


def test_times_are_right_where_the_frame_rate_varies(tmp_path: Path) -> None:
    path = video(tmp_path / "vfr.mp4", [(6, RED), (6, BLUE)], gop=4, steps=(0.02, 0.5, 0.1, 0.9))
    found = colours(path)
    assert found[-1][1] == pytest.approx(12, abs=1.0)
    first_blue = next(start for start, _, channel in found if channel == 2)
    assert 6 <= first_blue <= 9


@pytest.mark.parametrize("ending", ["ts", "mp4"])
def test_times_count_from_the_begin_of_a_recorded_broadcast(ending: str, tmp_path: Path) -> None:
    path = video(tmp_path / f"late.{ending}", [(4, RED), (4, BLUE)], gop=20, begin=25 * 3600)
    found = colours(path)
    assert [start for start, _, _ in found] == [0, 2, 4, 6]
    assert [channel for _, _, channel in found] == [0, 0, 2, 2]
    assert found[-1][1] == pytest.approx(8, abs=0.3)


def test_a_sound_has_no_pictures_and_a_silent_film_no_sound(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="has no pictures in it"):
        list(recordings.frames(write(tmp_path / "a.ogg", siren(1))))
    with pytest.raises(BadInput, match="has no sound track"):
        list(recordings.sound(video(tmp_path / "a.mp4", [(1, RED)])))


def test_times_are_written_as_a_player_writes_them() -> None:
    assert moment(42, 47) == "0:42–0:47"
    assert [clock(seconds) for seconds in (0, 59.9, 60, 3600, 36_061)] == [
        "0:00",
        "0:59",
        "1:00",
        "1:00:00",
        "10:01:01",
    ]
