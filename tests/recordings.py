"""Small sounds and videos, made on the spot."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

RATE = 16_000
Samples = NDArray[np.float32]


def noise(seconds: float, seed: int = 0) -> Samples:
    """White noise."""
    return (np.random.default_rng(seed).normal(size=int(seconds * RATE)) * 0.1).astype(np.float32)


def silence(seconds: float) -> Samples:
    return np.zeros(int(seconds * RATE), np.float32)


def siren(seconds: float) -> Samples:
    """A tone with overtones that rises and falls every four seconds."""
    time = np.arange(int(seconds * RATE)) / RATE
    phase = 2 * np.pi * np.cumsum(900 + 500 * np.sin(np.pi * time / 2)) / RATE
    return (0.2 * (np.sin(phase) + np.sin(2 * phase) / 2 + np.sin(3 * phase) / 3)).astype(np.float32)


def telephone(seconds: float) -> Samples:
    """Two tones in turn, twice a second."""
    time = np.arange(int(seconds * RATE)) / RATE
    return (0.4 * np.sin(2 * np.pi * np.cumsum(np.where(time % 1 < 0.5, 960, 770)) / RATE)).astype(np.float32)


def write(path: Path, samples: Samples, rate: int = RATE) -> Path:
    soundfile.write(path, samples, rate)
    return path


def video(
    path: Path, colours: list[tuple[float, tuple[int, int, int]]], samples: Samples | None = None, **settings: Any
) -> Path:
    """Write a video that shows each colour for some seconds; ``steps``: seconds between frames, in turn.

    ``begin``: the time of the first frame, in seconds; ``format``: of the file, if its name does not tell.
    """
    import av

    options = {"g": str(settings.get("gop", 25)), "sc_threshold": "0", "x264-params": "scenecut=0"}
    steps: tuple[float, ...] = settings.get("steps", (0.1,))
    with av.open(str(path), "w", format=settings.get("format")) as file:
        track = file.add_stream("libx264", rate=25, options=options)
        track.width, track.height, track.pix_fmt = 64, 48, "yuv420p"
        track.codec_context.time_base = Fraction(1, 1000)
        heard = None if samples is None else file.add_stream("aac", rate=RATE, layout="mono")
        time, count, ends = 0, 0, np.cumsum([1000 * seconds for seconds, _ in colours])  # in milliseconds
        while time < ends[-1]:
            colour = colours[int(np.searchsorted(ends, time, side="right"))][1]
            pixels = np.broadcast_to(np.array(colour, np.uint8), (48, 64, 3))
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            frame.pts, frame.time_base = time + round(1000 * settings.get("begin", 0)), Fraction(1, 1000)
            file.mux(track.encode(frame))
            time += round(1000 * steps[count % len(steps)])
            count += 1
        file.mux(track.encode(None))
        if heard is not None and samples is not None:
            _mux(file, heard, samples)
    return path


def voice(path: Path, samples: Samples) -> Path:
    """Write a video file that has a sound track alone."""
    import av

    with av.open(str(path), "w") as file:
        _mux(file, file.add_stream("aac", rate=RATE, layout="mono"), samples)
    return path


def _mux(file: Any, heard: Any, samples: Samples) -> None:
    import av

    for start in range(0, len(samples) - 1023, 1024):
        block = av.AudioFrame.from_ndarray(samples[None, start : start + 1024], format="fltp", layout="mono")
        block.sample_rate, block.pts = RATE, start
        file.mux(heard.encode(block))
    file.mux(heard.encode(None))
