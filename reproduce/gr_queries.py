"""A mean of queries apart from that of texts, or one for both: what GR-CLIP's Appendix C calls crucial.

    python reproduce/gr_queries.py --data DIR        (needs flickr8k/, mix/ and docvqa/)

``mini`` on Flickr8k's mixed corpus, where queries and texts are both captions, and on DocVQA's pages, where queries are
questions and texts are whole pages; calibrated on the other split. *one mean of texts*: queries are centred by the mean
of texts, as in I0T without training (An et al., 2025). nDCG@10 with 95% intervals, and by the modality of the document.
*distance* is that of the two means.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from paired import ONE, TEXT
from tables import Row, arguments, compared

from isthmus import calibration, encoders
from isthmus.evaluate import Corpus, compare
from isthmus.evaluate.benchmarks import load
from isthmus.evaluate.encode import encoded
from isthmus.types import Vectors

BENCHMARKS = {"flickr8k-mix": "flickr8k-mix", "docvqa": "docvqa:mixed,held-out"}
SLICES = ("text", "image", "image+text")


def one_mean(corpus: Corpus) -> Corpus:
    """Return the corpus with the mean of the other split's texts for queries, too."""
    seen = corpus.references.documents
    if seen is None:
        return corpus
    texts = Vectors.of(seen.parts[TEXT][seen.present[TEXT]], TEXT)
    return corpus.with_means(calibration.fit("center", seen, texts, owner=corpus.references.owner))


def distance(corpus: Corpus) -> float:
    """Return the distance between the mean of the reference queries and that of the other split's texts."""
    of_queries, of_texts = (
        calibration.Statistics.of(vectors).means[TEXT]
        for vectors in (corpus.references.queries, corpus.references.documents)
        if vectors is not None
    )
    return float(np.linalg.norm(of_queries - of_texts))


def table(name: str, corpus: Corpus) -> Iterator[Row]:
    """Yield a row for each way to centre queries."""
    apart = distance(corpus)
    for label, of in (("none", corpus), ("center", corpus), (ONE, one_mean(corpus))):
        found = {row.slice: row for row in compare(of, [label.partition(",")[0]])}
        overall = found["overall"]
        start: Row = {"corpus": name, "calibration": label, "distance": apart, "overall": overall.value}
        yield {**start, "from": overall.low, "to": overall.high, **{part: found[part].value for part in SLICES}}


def main(data: Path) -> list[Row]:
    """Return the rows of both corpora."""
    mini = encoders.load("mini", batch=64)
    return [row for name, which in BENCHMARKS.items() for row in table(name, encoded(load(which, data), mini))]


if __name__ == "__main__":
    options = arguments(__doc__)
    raise SystemExit(compared("gr_queries", main(options.data), options.write))
