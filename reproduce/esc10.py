"""The sounds of ESC-10, their YAMNet outputs, and phrases that ask for each class."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isthmus.encoders import Encoder
from isthmus.encoders.media import MediaEncoder
from isthmus.encoders.sounds import SoundTower, segments, windows
from isthmus.encoders.yamnet import magnitudes
from isthmus.isolated import recordings
from isthmus.types import Matrix, Rows

# Two phrases for each class, which name it as a person would who wants to hear it.
PHRASES = {
    "dog": ("a dog barking", "a dog barks twice"),
    "rain": ("rain falling", "heavy rain on a roof"),
    "sea_waves": ("waves of the sea", "the surf at the beach"),
    "crying_baby": ("a baby crying", "an infant cries loudly"),
    "clock_tick": ("a clock ticking", "the tick of an old clock"),
    "sneezing": ("a person sneezing", "somebody sneezes"),
    "helicopter": ("a helicopter flying", "the rotor of a helicopter"),
    "chainsaw": ("a chainsaw running", "somebody cuts wood with a chainsaw"),
    "rooster": ("a rooster crowing", "a cock crows in the morning"),
    "crackling_fire": ("a fire crackling", "wood burns in a fireplace"),
}


@dataclass(frozen=True)
class Clip:
    """A sound, its class and its fold."""

    path: Path
    label: str
    fold: int


def clips(data: Path) -> list[Clip]:
    """Return the 400 clips, in the order of their names."""
    folder = data / "esc10"
    with (folder / "esc50.csv").open() as file:
        rows = {Path(row["filename"]).stem: row for row in csv.DictReader(file)}
    found = sorted(folder.glob("*.ogg"))
    return [Clip(path, rows[path.stem]["category"], int(rows[path.stem]["fold"])) for path in found]


def classes(several: list[Clip]) -> tuple[list[str], Rows]:
    """Return the names of the classes, and the number of each clip's class."""
    names = sorted({clip.label for clip in several})
    return names, np.array([names.index(clip.label) for clip in several])


def outputs(encoder: Encoder, several: list[Clip]) -> tuple[Matrix, Matrix]:
    """Return YAMNet's scores (n, 521) and embeddings (n, 1024), means over the windows of each clip."""
    both = [_output(encoder, clip) for clip in several]
    return np.stack([scores for scores, _ in both]), np.stack([states for _, states in both])


def _output(encoder: Encoder, clip: Clip) -> tuple[Matrix, Matrix]:
    assert isinstance(encoder, MediaEncoder) and isinstance(encoder.sound, SoundTower)  # noqa: S101 - for mypy
    heard = np.concatenate([*_windows(clip)])
    scores, states = encoder.sound.model.several({"magnitudes": magnitudes(heard)}, ["scores", "embeddings"])
    return scores.mean(axis=0), states.mean(axis=0)


def _windows(clip: Clip) -> Iterator[Matrix]:
    for samples in segments(recordings.sound(clip.path)):
        yield windows(samples)
