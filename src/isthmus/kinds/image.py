"""Pictures: files, and pixels in memory."""

from __future__ import annotations

import io
import os
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from isthmus.errors import BadImage, BadInput
from isthmus.kinds.base import FileKind
from isthmus.kinds.names import IMAGE

if TYPE_CHECKING:
    from PIL.Image import Image as Pillow

# A path, the bytes of a file, a Pillow image, or an array (height, width[, 3 or 4]).
ImageLike: TypeAlias = "str | PathLike[str] | bytes | Pillow | np.ndarray[Any, Any]"
PNG_MODES = ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA")  # of Pillow's, those that a PNG keeps as they are


class ImageKind(FileKind):
    """A picture: a path, the bytes of a file, a Pillow image or an array."""

    name = IMAGE
    accepts = "a path, the bytes of a file, a Pillow image or an array (height, width[, 3 or 4])"

    def check(self, content: object) -> None:
        """Take pixels in memory beside files."""
        if not isinstance(content, np.ndarray) and not _is_pillow(content):
            super().check(content)

    def keep(self, content: Any) -> str | bytes:
        """Make a path absolute; encode pixels in memory as PNG."""
        if isinstance(content, str | PathLike | bytes):
            return super().keep(content)
        from isthmus.isolated.picture import from_array  # late: few need it

        out = io.BytesIO()
        try:
            picture = from_array(content) if isinstance(content, np.ndarray) else content
            if picture.mode not in PNG_MODES:
                picture = picture.convert("RGB")
            picture.save(out, "PNG")
        except (OSError, ValueError, TypeError, SyntaxError) as error:
            raise BadImage(
                f"its picture cannot be kept ({error}). Give a path, the bytes of a file, or 8-bit pixels."
            ) from None
        return out.getvalue()

    def digest(self, kept: str | bytes) -> bytes | None:
        """Hash the bytes of the file."""
        try:
            return super().digest(kept)
        except BadInput:
            shown_path = os.fsdecode(kept)
            raise BadImage(f"its picture {shown_path} is not a regular file. Give the path of a picture.") from None

    def same(self, one: Any, other: Any) -> bool:
        """Whether two arrays are equal, two paths, or two contents."""
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
            return np.array_equal(one, other)
        return super().same(one, other)

    def show(self, content: Any) -> str:
        """Write the shape of an array, the path, or how many bytes there are."""
        if isinstance(content, np.ndarray):
            return f"<array {content.shape}>"
        return "<Pillow image>" if _is_pillow(content) else super().show(content)


def _is_pillow(image: object) -> bool:
    """Tell a Pillow image without importing Pillow: whoever made one has imported it."""
    return any(base.__module__ == "PIL.Image" and base.__name__ == "Image" for base in type(image).__mro__)
