"""A cache of captions: one file each, by the hash of captioner and picture."""

from __future__ import annotations

import json
from contextlib import suppress
from os import PathLike
from pathlib import Path

from isthmus.atomic import replacing
from isthmus.documents import ImageLike
from isthmus.encoders.cache import key
from isthmus.encoders.images import file_bytes, whole
from isthmus.encoders.locations import user_cache

FOLDER = "captions"


class CaptionCache:
    """Captions in a folder; default: in the user's cache folder. Unreadable files are ignored."""

    def __init__(self, folder: str | PathLike[str] | None = None) -> None:
        self.folder = user_cache() / FOLDER if folder is None else Path(folder).expanduser()

    def get(self, name: str) -> str | None:
        """Return a caption; None if it is missing or damaged."""
        try:
            read = json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        caption = read.get("caption") if isinstance(read, dict) else None
        return caption if isinstance(caption, str) else None

    def put(self, name: str, caption: str, captioner: str) -> None:
        """Store a caption atomically, if the folder can be written."""
        path = self.folder / f"{name}.json"
        said = json.dumps({"captioner": captioner, "caption": caption}, ensure_ascii=False)
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(path) as draft:
                draft.write_text(said, encoding="utf-8", errors="replace")


def caption_key(identity: str, image: ImageLike) -> str:
    """Return the key of a caption: captioner, and the bytes of a file or the pixels of a picture in memory."""
    data = file_bytes(image)
    if data is not None:
        return key(identity, "caption", data).hex()
    pixels = whole(image)
    return key(identity, f"caption of pixels\0{pixels.size}", pixels.tobytes()).hex()
