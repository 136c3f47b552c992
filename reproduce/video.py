"""Made videos: a photo every four seconds and a sound; found by a caption of a photo, or by the name of the sound.

    python reproduce/video.py --data DIR        (needs flickr8k/, esc10/; extra ``video``)

100 videos of 12 seconds: three photos of Flickr8k's test split each, and a clip of ESC-10 played twice and a half, as
MPEG-4 with a key frame every second. Documents have the frames and the sound track of their file. *Captions*: caption 0
of each of the 300 photos finds its video (R@1, R@5); *moment*: of those whose video is first, the share for which the
hit names a time of the right photo. *Sounds*: two phrases for each class; P@10 of videos with that sound. The frames
are still pictures: what moves was not measured.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
from esc10 import PHRASES, Clip, clips
from PIL import Image
from tables import Row, arguments, compared

from isthmus import Collection, Document, encoders
from isthmus.encoders.base import Encoder
from isthmus.evaluate.benchmarks.captions import Captioned
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.evaluate.benchmarks.flickr8k import HOME, split
from isthmus.isolated import recordings
from isthmus.search import Hit

VIDEOS, PHOTOS, SECONDS, FPS, SIDE, RATE = 100, 3, 4, 5, 224, 16_000


def made(path: Path, photos: Sequence[Captioned], clip: Clip) -> Path:
    """Write a video."""
    import av

    samples = np.resize(np.concatenate(list(recordings.sound(clip.path))), PHOTOS * SECONDS * RATE)
    with av.open(str(path), "w") as file:
        track = file.add_stream("mpeg4", rate=FPS, options={"g": str(FPS)}, bit_rate=2_000_000)
        track.width = track.height = SIDE
        track.pix_fmt = "yuv420p"
        heard = file.add_stream("aac", rate=RATE, layout="mono")
        for number in range(PHOTOS * SECONDS * FPS):
            with Image.open(photos[number // (SECONDS * FPS)].image) as opened:
                pixels = np.asarray(opened.convert("RGB").resize((SIDE, SIDE)))
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, FPS)
            file.mux(track.encode(frame))
        file.mux(track.encode(None))
        for start in range(0, len(samples) - 1023, 1024):
            block = av.AudioFrame.from_ndarray(samples[None, start : start + 1024], format="fltp", layout="mono")
            block.sample_rate, block.pts = RATE, start
            file.mux(heard.encode(block))
        file.mux(heard.encode(None))
    return path


def middle(hit: Hit) -> float:
    """Return the middle of the time of the frame that matched."""
    frame = next(one for one in hit.segments if one.name == "video")
    return ((frame.start or 0.0) + (frame.stop or 0.0)) / 2


def ranked(shown: Sequence[Sequence[Hit]]) -> list[int]:
    """Return the rank of the video of each photo; 99 where it is not among the hits."""
    names = [[hit.id for hit in hits] for hits in shown]
    return [
        several.index(str(at // PHOTOS)) + 1 if str(at // PHOTOS) in several else 99 for at, several in enumerate(names)
    ]


def measured(things: Collection, photos: Sequence[Captioned], sounds: Sequence[Clip]) -> dict[str, float]:
    """Search by captions and by phrases for sounds."""
    shown = things.search_many([photo.captions[0] for photo in photos], k=5)
    ranks = ranked(shown)
    first = [at for at, rank in enumerate(ranks) if rank == 1]
    phrases = [(label, phrase) for label, several in PHRASES.items() for phrase in several]
    heard = things.search_many([phrase for _, phrase in phrases], k=10)
    found = [
        np.mean([sounds[int(hit.id)].label == label for hit in hits])
        for (label, _), hits in zip(phrases, heard, strict=True)
    ]
    return {
        "R@1": len(first) / len(ranks),
        "R@5": float(np.mean(np.array(ranks) <= 5)),
        "moment": float(np.mean([int(middle(shown[at][0]) // SECONDS) == at % PHOTOS for at in first])),
        "P@10, sounds": float(np.mean(found)),
    }


def rows(encoder: Encoder, data: Path, folder: Path) -> list[Row]:
    """Make the videos and search them."""
    photos = split(BenchmarkFolder(data / "flickr8k", "flickr8k", HOME), "test")[: VIDEOS * PHOTOS]
    several = clips(data)
    sounds = [several[at] for at in np.random.default_rng(0).permutation(len(several))[:VIDEOS].tolist()]
    files = [
        made(folder / f"{at}.mp4", photos[PHOTOS * at : PHOTOS * (at + 1)], clip) for at, clip in enumerate(sounds)
    ]
    out: list[Row] = []
    with Collection.open(":memory:", encoder, follow=False) as things:
        things.add([Document(str(at), video=path, audio=path) for at, path in enumerate(files)])
        for spec in ("none", "center", "auto"):
            things.calibrate(spec)
            out.append({"calibration": spec, **measured(things, photos, sounds)})
    return out


if __name__ == "__main__":
    options = arguments(__doc__)
    with tempfile.TemporaryDirectory() as place:
        found = rows(encoders.load("mini"), options.data, Path(place))
    raise SystemExit(compared("video", found, options.write))
