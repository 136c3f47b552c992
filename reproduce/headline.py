"""The headline: every calibration beside one another on mixed corpora, overall and by modality.

    python reproduce/headline.py --data DIR        (needs flickr8k/, mix/ and docvqa/)

`mini` on Flickr8k's mixed corpus (calibrated on the dev split) and on DocVQA's pages, a third each as text, as picture
and as both (calibrated on other source documents' pages). *alone* is each modality searched by itself: what perfect
routing would give. nDCG@10; `isthmus evaluate` prints the same with 95% intervals.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tables import SINGLE, Row, arguments, compared

from isthmus import encoders
from isthmus.evaluate import compare
from isthmus.evaluate.benchmarks import load
from isthmus.evaluate.encode import encoded

BENCHMARKS = ("flickr8k-mix", "docvqa:mixed,held-out")
SPECS = (
    *SINGLE,
    "center+standardize",
    "center+nnn(k=16)",
    "nnn(k=16)+standardize",
    "center+nnn(k=16)+standardize",
    "learned",
    "center+learned",
    "auto",
    "alone",
)
SLICES = ("overall", "text", "image", "image+text")


def table(name: str, data: Path) -> list[Row]:
    """Return a row per calibration."""
    corpus = encoded(load(name, data), encoders.load("mini", batch=64))
    rows = compare(corpus, SPECS, notice=lambda spec, _: print(f"{name}: {spec}", file=sys.stderr))
    value = {(row.calibration, row.slice): row.value for row in rows}
    return [
        {"corpus": name.partition(":")[0], "calibration": spec, **{part: value[spec, part] for part in SLICES}}
        for spec in SPECS
    ]


if __name__ == "__main__":
    options = arguments(__doc__)
    raise SystemExit(
        compared("headline", [row for name in BENCHMARKS for row in table(name, options.data)], options.write)
    )
