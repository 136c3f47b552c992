"""Names of kinds, and of the modalities that they make up."""

from __future__ import annotations

from typing import Any

TEXT = "text"
IMAGE = "image"
AUDIO = "audio"
VIDEO = "video"


def atoms(name: str) -> list[str]:
    """Return the kinds that a part's name, a vector's name or a modality is made of.

    >>> atoms("image+text")
    ['image', 'text']
    """
    return name.split("+")


def joined(names: Any) -> str:
    """Return the modality of names: every kind once, in alphabetical order.

    >>> joined(["text", "image+text"])
    'image+text'
    """
    return "+".join(sorted({atom for name in names for atom in name.split("+")}))


def with_article(name: str) -> str:
    """Return a kind's name with its article.

    >>> with_article("image"), with_article("video")
    ('an image', 'a video')
    """
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"
