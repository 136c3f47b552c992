"""Made speech, written down by whisper: how many words are wrong, and what that costs a search.

    python reproduce/speech.py --data DIR        (needs flickr8k/; extra ``speech``; espeak-ng, of Debian)

Caption 1 of the first 100 photos of Flickr8k's test split, read by espeak-ng in three voices, at 150 words a minute.
*WER*: words that are missing, added or others, per word said, in lower case and without punctuation. *R@1*: caption 0
of a photo, in words, finds its own among the 100, by ``mini`` and raw cosine. espeak-ng is a robot's voice; people's
were not measured.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from tables import Row, arguments, compared

from isthmus import Document, encoders
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.evaluate.benchmarks.flickr8k import HOME, split
from isthmus.sources.speech import Whisper, transcriber

SPOKEN = 100
VOICES = ("en-us", "en-gb", "en-us+f3")


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case and without punctuation."""
    return re.findall(r"[a-z0-9']+", text.lower())


def errors(said: list[str], heard: list[str]) -> int:
    """Return how many words have to be added, removed or exchanged."""
    row = list(range(len(heard) + 1))
    for at, word in enumerate(said, 1):
        before, row[0] = row[0], at
        for place, other in enumerate(heard, 1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (word != other))
    return row[-1]


def heard(texts: list[str], voice: str, whisper: Whisper) -> list[str]:
    """Speak texts, and write them down."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(texts):
            path = Path(folder, f"{number}.wav")
            command = [shutil.which("espeak-ng") or "espeak-ng", "-v", voice, "-s", "150", "-w", str(path), text]
            subprocess.run(command, check=True)  # noqa: S603 - a fixed command
            found.append(" ".join(piece.text for piece in whisper.transcribe(path)))
    return found


def rows(data: Path, whisper: Whisper) -> list[Row]:
    """Measure each voice, and the texts themselves."""
    encoder = encoders.load("mini")
    photos = split(BenchmarkFolder(data / "flickr8k", "flickr8k", HOME), "test")[:SPOKEN]
    texts = [photo.captions[1] for photo in photos]
    asked = encoder.encode_queries([photo.captions[0] for photo in photos]).parts["text"]
    out: list[Row] = []
    for voice in ("the texts themselves", *VOICES):
        given = texts if voice not in VOICES else heard(texts, voice, whisper)
        wrong = sum(errors(words(one), words(other)) for one, other in zip(texts, given, strict=True))
        made = encoder.encode_documents([Document(str(at), text or "nothing") for at, text in enumerate(given)])
        first = (asked @ made.parts["text"].T).argmax(axis=1)
        out.append(
            {
                "voice": voice,
                "WER": wrong / sum(len(words(text)) for text in texts),
                "R@1": float((first == np.arange(SPOKEN)).mean()),
            }
        )
    return out


if __name__ == "__main__":
    options = arguments(__doc__)
    scribe = transcriber()
    if scribe is None or shutil.which("espeak-ng") is None:
        print("speech.py: skipped, it needs the extra speech and espeak-ng")
        raise SystemExit(0)
    raise SystemExit(compared("speech", rows(options.data, scribe), options.write))
