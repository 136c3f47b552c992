"""The kinds of parts that documents and queries are made of: one table.

A kind says how content is checked, stored, hashed, compared and shown, and what the span of a segment measures. Nothing
else in isthmus lists kinds: a kind that is registered here can be indexed, searched, calibrated and exported, given an
encoder that reads it.

>>> class Tone(Kind):
...     name = "tone"
...     span = "seconds"
>>> register(Tone())
>>> Part("tone", b"...")
Part('tone', <3 bytes>)
>>> unregister("tone")

Packages register theirs by an entry point of the group ``isthmus.kinds`` that names an instance of ``Kind``.
"""

from isthmus.kinds.base import FileKind, FileLike, Kind
from isthmus.kinds.image import ImageLike
from isthmus.kinds.names import AUDIO, IMAGE, TEXT, VIDEO, atoms, joined, with_article
from isthmus.kinds.parts import Audio, Image, Part, Text, Video, from_uri
from isthmus.kinds.recordings import SECONDS, clock, moment
from isthmus.kinds.table import BUILT_IN, GROUP, KINDS, by_suffix, get, register, stored, unregister

__all__ = [
    "AUDIO",
    "BUILT_IN",
    "GROUP",
    "IMAGE",
    "KINDS",
    "SECONDS",
    "TEXT",
    "VIDEO",
    "Audio",
    "FileKind",
    "FileLike",
    "Image",
    "ImageLike",
    "Kind",
    "Part",
    "Text",
    "Video",
    "atoms",
    "by_suffix",
    "clock",
    "from_uri",
    "get",
    "joined",
    "moment",
    "register",
    "stored",
    "unregister",
    "with_article",
]
