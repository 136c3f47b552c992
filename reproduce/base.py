"""The quality of ``base``: photos by captions and captions by photos. Its texts have the vectors of ``mini``'s.

    python reproduce/base.py --data DIR        (needs flickr8k/ and CLIP's image tower; a quarter of an hour on 2 cores)

``isthmus doctor`` says how to get the tower.
"""

from __future__ import annotations

import flickr8k
from tables import Row, arguments, compared

from isthmus import encoders

if __name__ == "__main__":
    options = arguments(__doc__, {"cache": "folder that keeps vectors for other runs"})
    encoder = encoders.load("base", batch=16, cache=options.cache)
    found = flickr8k.recall(flickr8k.split(encoder, options.data / "flickr8k", "test"))
    rows: list[Row] = [{"measure": f"Flickr8k test, {measure}", "value": value} for measure, value in found.items()]
    raise SystemExit(compared("base", rows, options.write))
