"""One search over text, images and documents that hold both, ranked fairly."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isthmus import calibration, encoders
    from isthmus.client import connect, connect_async
    from isthmus.documents import Document, Query
    from isthmus.kinds import Audio, Image, Part, Text, Video
    from isthmus.search import Collection, SearchRequest
    from isthmus.types import Folded, Vectors

__all__ = [
    "Audio",
    "Collection",
    "Document",
    "Folded",
    "Image",
    "Part",
    "Query",
    "SearchRequest",
    "Text",
    "Vectors",
    "Video",
    "__version__",
    "calibration",
    "connect",
    "connect_async",
    "encoders",
    "kinds",
]

__version__ = "0.1.0"

# onnxruntime reads this when it is first imported. Without it, onnxruntime writes an identifier of the machine into the
# home directory and sends events. An existing value is kept.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

MODULES = ("calibration", "encoders", "errors", "kinds", "types")
LATE = {
    "Audio": "isthmus.kinds",
    "Collection": "isthmus.search",
    "Document": "isthmus.documents",
    "Folded": "isthmus.types",
    "Image": "isthmus.kinds",
    "Part": "isthmus.kinds",
    "Query": "isthmus.documents",
    "SearchRequest": "isthmus.search",
    "Text": "isthmus.kinds",
    "Vectors": "isthmus.types",
    "Video": "isthmus.kinds",
    "connect": "isthmus.client",
    "connect_async": "isthmus.client",
}


def __dir__() -> list[str]:
    """List all names, imported or not."""
    return __all__


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that ``import isthmus`` stays light."""
    if name in MODULES:
        return import_module(f"isthmus.{name}")
    if name in LATE:
        return getattr(import_module(LATE[name]), name)
    raise AttributeError(f"module 'isthmus' has no attribute {name!r}")
