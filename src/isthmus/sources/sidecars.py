"""Pictures, sounds and videos and their sidecars: files with captions and metadata.

``photo.jpg`` goes with ``photo.jpg.txt``, ``photo.txt``, ``photo.caption``, ``photo.jpg.json`` and ``photo.json``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from isthmus.documents import Audio, Document, Image, Part, Text, Video
from isthmus.errors import BadInput
from isthmus.isolated.recordings import tracks
from isthmus.kinds import AUDIO, KINDS, VIDEO
from isthmus.sources.base import Found, SkippedInput
from isthmus.sources.files import File
from isthmus.sources.jsonl import loads
from isthmus.sources.names import extension
from isthmus.sources.rows import fields, storable
from isthmus.sources.text import read_text

PICTURES = frozenset(["png", "jpg", "jpeg", "webp", "gif", "bmp", "tif", "tiff", "heic", "heif", "avif"])
MEDIA = {suffix.removeprefix("."): kind for kind in (AUDIO, VIDEO) for suffix in KINDS[kind].suffixes}
ENDINGS = (".txt", ".caption", ".json")
CAPTIONS = ("caption", "text", "title", "description", "alt")


def is_picture(name: str) -> bool:
    """Return whether a file is a picture, by its extension."""
    return extension(name) in PICTURES


def takes_sidecars(name: str) -> bool:
    """Return whether a file is a picture, a sound or a video, by its extension."""
    return extension(name) in PICTURES or extension(name) in MEDIA


def candidates(picture: str) -> list[str]:
    """Return the possible names of a picture's (sound's, video's) sidecars, those of this one alone first.

    >>> candidates("a.jpg")[:3]
    ['a.jpg.txt', 'a.jpg.TXT', 'a.jpg.caption']
    """
    stems = (picture, picture.rpartition(".")[0])
    return [f"{stem}{variant}" for stem in stems for ending in ENDINGS for variant in (ending, ending.upper())]


def by_picture(files: Sequence[str]) -> dict[str, list[str]]:
    """Return the sidecars of every picture, sound and video among the files of one folder.

    >>> by_picture(["a.jpg", "a.png", "a.txt", "b.txt"])
    {'a.jpg': ['a.txt'], 'a.png': ['a.txt']}
    """
    known = set(files)
    some = [name for name in files if takes_sidecars(name)]
    return {name: [sidecar for sidecar in candidates(name) if sidecar in known] for name in some}


def read_picture(file: File, sidecars: Collection[File]) -> Iterator[Found]:
    """Yield a picture, a sound or a video with its sidecars as one document.

    Pictures and sounds are not opened; a video is, to see which tracks it has: its sound becomes an audio part.
    """
    texts: list[str] = []
    said: dict[str, Any] = {}
    for sidecar in sorted(sidecars, key=_is_json):  # a text file takes precedence over JSON
        try:
            if _is_json(sidecar):
                captions, more = caption_of(loads(read_text(sidecar)))
                said = more | said
                texts = texts or captions
            else:
                texts.append(storable(read_text(sidecar).strip(), "text"))
        except BadInput as error:
            yield SkippedInput(sidecar.name, str(error))
        except OSError as error:
            yield SkippedInput(sidecar.name, f"cannot be read: {error.strerror}", unreachable=True)
    text = "\n".join(dict.fromkeys(texts))
    parts = [*([Text(text)] if text else []), *_parts(file)]
    yield Document(id=file.name, parts=parts, metadata=file.facts | said)


def _parts(file: File) -> list[Part]:
    kind = MEDIA.get(extension(file.name))
    if kind is None:
        return [Image(file.path)]
    if kind == AUDIO:
        return [Audio(file.path)]
    found = tracks(file.path)  # a voice recorder may write a video file without pictures
    parts: list[Part] = [part(file.path) for kind, part in ((VIDEO, Video), (AUDIO, Audio)) if found[kind]]
    return parts or [Video(file.path)]


def _is_json(file: File) -> bool:
    return extension(file.name) == "json"


def caption_of(row: object) -> tuple[list[str], dict[str, Any]]:
    """Return the caption in a JSON object, if any, and its other fields.

    >>> caption_of({"caption": "a cat", "width": 640})
    (['a cat'], {'width': 640})
    """
    if not isinstance(row, Mapping):
        raise BadInput("is JSON but not an object, so it does not describe its picture")
    left = dict(row)
    name = next((name for name in CAPTIONS if isinstance(left.get(name), str) and left[name].strip()), None)
    return ([storable(left.pop(name), "caption")] if name else []), fields(left)
