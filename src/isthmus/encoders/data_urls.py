"""Pictures as data URLs, for services that take them inline."""

from __future__ import annotations

import base64
from io import BytesIO

from isthmus.documents import ImageLike
from isthmus.encoders.images import file_bytes, whole

LARGEST = 4 * 2**20  # maximum bytes of a picture that is sent unchanged
SIDE = 2048  # pixels of a larger one's longer side
KINDS = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}


def data_url(image: ImageLike) -> str:
    """Return a picture as a data URL: the unchanged file if it is small and in a common format.

    >>> data_url(b"GIF89a" + bytes(20))[:22]
    'data:image/gif;base64,'
    """
    data = file_bytes(image)
    kind = next((kind for start, kind in KINDS.items() if data is not None and data.startswith(start)), None)
    if data is None or kind is None or len(data) > LARGEST:
        picture = whole(image)
        picture.thumbnail((SIDE, SIDE))
        written = BytesIO()
        picture.save(written, "JPEG", quality=90)
        data, kind = written.getvalue(), "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
