"""One search over text, images and documents that hold both, ranked fairly."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isthmus import calibration, encoders
    from isthmus.documents import Document, Query
    from isthmus.kinds import Image, Part, Text
    from isthmus.search import Collection, SearchRequest
    from isthmus.types import Folded, Vectors

__all__ = [
    "Collection",
    "Document",
    "Folded",
    "Image",
    "Part",
    "Query",
    "SearchRequest",
    "Text",
    "Vectors",
    "__version__",
    "calibration",
    "encoders",
    "kinds",
]

__version__ = "0.1.0"

# onnxruntime reads this when it is first imported. Without it, onnxruntime writes an identifier of the machine into the
# home directory and sends events. An existing value is kept.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

MODULES = ("calibration", "encoders", "errors", "kinds", "types")
CLASSES = {
    "Collection": "isthmus.search",
    "Document": "isthmus.documents",
    "Folded": "isthmus.types",
    "Image": "isthmus.kinds",
    "Part": "isthmus.kinds",
    "Query": "isthmus.documents",
    "SearchRequest": "isthmus.search",
    "Text": "isthmus.kinds",
    "Vectors": "isthmus.types",
}


def __dir__() -> list[str]:
    """List all names, imported or not."""
    return __all__


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that ``import isthmus`` stays light."""
    if name in MODULES:
        return import_module(f"isthmus.{name}")
    if name in CLASSES:
        return getattr(import_module(CLASSES[name]), name)
    raise AttributeError(f"module 'isthmus' has no attribute {name!r}")
