"""One search over text, images and documents that hold both, ranked fairly."""

from isthmus.types import Folded, Vectors

__all__ = ["Folded", "Vectors", "__version__"]

__version__ = "0.1.0"
