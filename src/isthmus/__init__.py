"""One search over text, images and documents that hold both, ranked fairly."""

from importlib import import_module
from types import ModuleType

from isthmus.types import Folded, Vectors

__all__ = ["Folded", "Vectors", "__version__", "calibration"]

__version__ = "0.1.0"


def __getattr__(name: str) -> ModuleType:
    """Import ``isthmus.calibration`` when it is first used: ``import isthmus`` stays light."""
    if name == "calibration":
        return import_module("isthmus.calibration")
    raise AttributeError(f"module 'isthmus' has no attribute {name!r}")
