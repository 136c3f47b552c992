"""In the worker: sounds as blocks of samples, videos as key frames; by soundfile, or else by PyAV.

A file is read in blocks, so its length does not matter for memory. One that is longer than the request allows is
refused: by its header before anything is decoded, or else where the limit is reached. Playlists and files that refer to
other files are not read: ffmpeg gets an open file, no protocol, and a list of containers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from importlib.util import find_spec
from time import monotonic
from typing import Any

import numpy as np

from isthmus._optional import need
from isthmus.errors import BadInput
from isthmus.files import open_regular
from isthmus.isolated.open_files import OpenFiles

for _module in ("soundfile", "av"):  # before the memory is limited
    with suppress(ImportError):
        __import__(_module)

BLOCK = 20  # seconds of sound in one answer
RATES = (1_000, 768_000)  # the lowest and the highest that a file may have
CHANNELS = 64
CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,mpegvideo,mpegts,asf,flv,ogg,wav,w64,caf,aiff,au,mp3,aac,flac,amr"
)
OPTIONS = {"protocol_whitelist": "pipe", "format_whitelist": CONTAINERS}
SIDE = 512  # pixels of a frame's longer side
PIXELS = 8192 * 8192  # of a frame
APART = 2.0  # seconds between two frames at least
EVERY = 5.0  # seconds between two frames of a video whose key frames are too far apart
SPARSE = 10.0  # seconds between key frames that are too far apart
PROBE = 60.0  # seconds of a video whose packets are looked at
UNKNOWN = 2**62  # libsndfile counts as many samples where the header does not say how many there are
AT_ONCE = 8  # frames in one answer,
TURN = 1.5  # or as many as were decoded in so many seconds


class MediaReading:
    """A file that is being read: pieces in their order, and how many were given."""

    def __init__(self, path: str, first: int, rate: int | None, longest: float) -> None:
        self._stream = open_regular(path)
        self.next = 0
        try:
            self._pieces: Iterator[Any] = (
                _frames(self._stream, longest) if rate is None else _sound(self._stream, rate, longest)
            )
            while self.next < first and next(self._pieces, None) is not None:  # those that an earlier worker gave
                self.next += 1
        except BaseException:
            self._stream.close()
            raise

    def take(self) -> Any:
        """Return the next piece; None at the end."""
        piece = next(self._pieces, None)
        self.next += piece is not None
        return piece

    def close(self) -> None:
        """Close the file."""
        self._pieces.close()  # type: ignore[attr-defined]
        self._stream.close()


readings: OpenFiles[MediaReading] = OpenFiles()


def answer(request: dict[str, Any], _: list[bytes]) -> tuple[object, list[bytes]]:
    """Return the tracks of a file, or pieces of it from ``first`` on; ``close`` closes the file."""
    number, what = request["reading"], str(request.get("what"))
    if request.get("close"):
        readings.drop(number)
        return None, []
    if what == "tracks":
        return _tracks(request["path"]), []
    first = request["first"]
    rate = request["rate"] if what == "sound" else None

    def opened() -> MediaReading:
        return MediaReading(request["path"], first, rate, request["longest"])

    reading = readings.get(number, opened)
    if reading.next > first:  # an answer was lost
        readings.drop(number)
        reading = readings.get(number, opened)
    if what == "sound":
        block = reading.take()
        return {"end": block is None}, [] if block is None else [block.tobytes()]
    return _several(reading)


def _several(reading: MediaReading) -> tuple[object, list[bytes]]:
    begun = monotonic()
    frames: list[tuple[float, float, Any]] = []
    while len(frames) < AT_ONCE and monotonic() - begun < TURN:
        frame = reading.take()
        if frame is None:
            break
        frames.append(frame)
    about = [{"start": start, "stop": stop, "shape": pixels.shape} for start, stop, pixels in frames]
    return {"frames": about}, [pixels.tobytes() for _, _, pixels in frames]


def _tracks(path: str) -> dict[str, bool]:
    with open_regular(path) as stream, _container(stream) as container:
        return {"audio": bool(container.streams.audio), "video": bool(container.streams.video)}


def _sound(stream: Any, rate: int, longest: float) -> Iterator[Any]:
    """Yield blocks of mono samples, ``rate`` per second; the last may be shorter."""
    blocks = _with_soundfile(stream, rate, longest) if find_spec("soundfile") is not None else None
    empty, count = True, 0
    for block in blocks if blocks is not None else _with_av(stream, rate, longest):
        count += len(block)
        _check_length(count / rate, longest)
        empty = empty and not len(block)
        if len(block):
            yield np.nan_to_num(block, posinf=0, neginf=0).astype(np.float32)
    if empty:
        raise BadInput("has no sound in it (0 samples)")


def _check_length(seconds: float, longest: float) -> None:
    if seconds > longest:
        raise BadInput(f"is longer than {longest / 60:g} minutes. Split it")


def _with_soundfile(stream: Any, rate: int, longest: float) -> Iterator[Any] | None:
    """Return the blocks; None where libsndfile does not know the format and PyAV may."""
    import soundfile

    try:
        file = soundfile.SoundFile(stream)
    except soundfile.LibsndfileError as error:
        if find_spec("av") is None:
            raise BadInput(
                f"is damaged, or of a format that soundfile does not read ({error.error_string}). For more formats: "
                "pip install 'isthmus[video]'"
            ) from None
        stream.seek(0)
        return None
    _check(file.samplerate, file.channels)
    _check_length(file.frames / file.samplerate if file.frames < UNKNOWN else 0.0, longest)
    return _resampled(file, rate)


def _resampled(file: Any, rate: int) -> Iterator[Any]:
    import soundfile

    ratio = Fraction(rate, file.samplerate).limit_denominator(1000)
    damaged = False
    while not damaged:
        held = []
        try:
            for _ in range(BLOCK):  # a second at a time: what was read before damage is kept
                held.append(file.read(file.samplerate, dtype="float32", always_2d=True).mean(axis=1))  # noqa: PERF401
        except soundfile.LibsndfileError:
            damaged = True
        mono = np.concatenate(held or [np.zeros(0)])
        if not len(mono):
            return
        yield mono if ratio == 1 else _at_rate(mono, ratio)


def _at_rate(samples: Any, ratio: Fraction) -> Any:
    from scipy.signal import resample_poly  # late: most of the time of a start

    return resample_poly(samples, ratio.numerator, ratio.denominator)


def _check(rate: int, channels: int) -> None:
    if not RATES[0] <= rate <= RATES[1] or not 1 <= channels <= CHANNELS:
        raise BadInput(f"claims {rate:,} samples per second on {channels} channels. It is damaged")


def _container(stream: Any) -> Any:
    av: Any = need("av", extra="video")
    try:
        return av.open(stream, options=OPTIONS)
    except av.FFmpegError as error:
        raise BadInput(f"is damaged, or not a sound or a video ({error.strerror})") from None


def _with_av(stream: Any, rate: int, longest: float) -> Iterator[Any]:
    with _container(stream) as container:
        if not container.streams.audio:
            raise BadInput("has no sound track")
        av: Any = need("av", extra="video")
        track = container.streams.audio[0]
        _check(track.codec_context.sample_rate, track.codec_context.channels)
        _check_length(_duration(container, track), longest)
        resampler = av.AudioResampler(format="flt", layout="mono", rate=rate)
        held: list[Any] = []
        count = 0
        for frame in _decoded(container, track):
            for piece in resampler.resample(frame):
                held.append(piece.to_ndarray().reshape(-1))
                count += len(held[-1])
            while count >= BLOCK * rate:
                whole = np.concatenate(held)
                yield whole[: BLOCK * rate]
                held, count = [whole[BLOCK * rate :]], count - BLOCK * rate
        if held:
            yield np.concatenate(held)


def _decoded(container: Any, track: Any) -> Iterator[Any]:
    """Yield the frames of a track; damaged packets are left out, and a damaged rest ends it."""
    av: Any = need("av", extra="video")
    track.codec_context.thread_count = 1
    packets = container.demux(track)
    while True:
        try:
            packet = next(packets, None)
            if packet is None:
                return
            frames = packet.decode()
        except av.InvalidDataError:
            continue
        except av.FFmpegError:
            return
        yield from frames


def _frames(stream: Any, longest: float) -> Iterator[tuple[float, float, Any]]:
    """Yield key frames, each with the span until the next: (start, stop, pixels)."""
    with _container(stream) as container:
        if not container.streams.video:
            raise BadInput("has no pictures in it")
        track = container.streams.video[0]
        if track.codec_context.width * track.codec_context.height > PIXELS:
            raise BadInput(f"has frames of more than {PIXELS:,} pixels")
        _check_length(_duration(container, track), longest)
        begin = max(0, container.start_time or 0) / 1e6  # of a recorded broadcast, hours
        sparse = _sparse(container, track, begin)
        track.codec_context.skip_frame = "DEFAULT" if sparse else "NONKEY"
        container.seek(0)
        held: tuple[float, Any] | None = None
        last = 0.0
        for frame in _decoded(container, track):
            last = max(last, round(float(frame.time or begin) - begin, 6))
            _check_length(last, longest)
            if held is None or last - held[0] >= (EVERY if sparse else APART):
                if held is not None:
                    yield held[0], last, held[1]
                held = last, _pixels(frame)
        if held is None:
            raise BadInput("has no picture that can be decoded. It is damaged")
        yield held[0], max(last, _duration(container, track), held[0] + 0.04), held[1]


def _sparse(container: Any, track: Any, begin: float) -> bool:
    """Whether key frames are too far apart to stand for what is between them; no picture is decoded."""
    av: Any = need("av", extra="video")
    last = widest = time = 0.0
    with suppress(av.FFmpegError):
        for packet in container.demux(track):
            if packet.pts is None:
                continue
            time = max(time, float(packet.pts * packet.time_base) - begin)
            if packet.is_keyframe:
                widest, last = max(widest, time - last), time
            if time > PROBE:
                break
    return max(widest, time - last) > SPARSE


def _duration(container: Any, track: Any) -> float:
    if track.duration is not None and track.time_base is not None:
        return float(track.duration * track.time_base)
    return 0.0 if container.duration is None else container.duration / 1e6


def _pixels(frame: Any) -> Any:
    """Return a frame upright and small, as RGB bytes."""
    share = min(1.0, SIDE / max(frame.width, frame.height))
    width, height = (max(2, round(side * share)) for side in (frame.width, frame.height))
    pixels = frame.reformat(width=width, height=height, format="rgb24").to_ndarray()
    return np.ascontiguousarray(np.rot90(pixels, round((frame.rotation or 0) / 90)))
