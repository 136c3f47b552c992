"""A heat map of shares: a smooth, half transparent layer over a picture."""

from __future__ import annotations

from io import BytesIO

import numpy as np

from isthmus.types import Matrix

SIDE = 224  # pixels of the layer; it is stretched over the picture as the encoder squeezed the picture into a square
RAMP = np.array(  # from the most against a match, through none, to the most for it
    [[24, 60, 150], [70, 130, 215], [176, 208, 240], [255, 236, 128], [255, 160, 40], [226, 50, 24], [150, 8, 40]],
    dtype=np.float64,
)
OPAQUE = 0.8  # of the strongest


def layer(patches: Matrix, most: float) -> bytes:
    r"""Return a PNG with an alpha channel: red for the match, blue against it, fading with the share.

    ``most`` is the share of the deepest colour. Shares are interpolated by cubics between the centres of patches.

    >>> layer(np.eye(8), 1.0)[:4]
    b'\x89PNG'
    """
    from PIL import Image

    rough = Image.fromarray(np.asarray(patches, dtype=np.float32))
    smooth = np.asarray(rough.resize((SIDE, SIDE), Image.Resampling.BICUBIC), dtype=np.float64)
    heat = np.clip(smooth / max(most, 1e-12), -1, 1)  # (SIDE, SIDE)
    colour = np.stack([np.interp(heat, np.linspace(-1, 1, len(RAMP)), channel) for channel in RAMP.T], axis=-1)
    alpha = 255 * OPAQUE * np.abs(heat) ** 0.85
    file = BytesIO()
    Image.fromarray(np.rint(np.dstack([colour, alpha])).astype(np.uint8)).save(file, "PNG", optimize=True)
    return file.getvalue()


def where(patches: Matrix) -> str:
    """Return in words where a map is hottest.

    >>> where(np.eye(8)[::-1] * np.arange(8))
    'at the top right'
    >>> where(np.pad([[1.0]], ((4, 3), (3, 4))))
    'in the middle'
    """
    row, column = np.unravel_index(int(np.argmax(patches)), patches.shape)
    high = ("top", "", "bottom")[_third(int(row), patches.shape[0])]
    wide = ("left", "", "right")[_third(int(column), patches.shape[1])]
    said = " ".join(word for word in (high, wide) if word)
    return f"at the {said}" if said else "in the middle"


def _third(at: int, count: int) -> int:
    return min(2, int(3 * (at + 0.5) / count))
