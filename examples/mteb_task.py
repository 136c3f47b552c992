"""An encoder with a calibration as a model of mteb, on a mixed task that is made here: nothing is downloaded.

    pip install 'isthmus[mteb]'
    python examples/mteb_task.py [--encoder mini] [--calibration none standardize auto]

The task is the sample folder: texts, photos and drawings, photos with captions, and questions in words.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import mteb
from datasets import Dataset, Image
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.cache import ResultCache

from isthmus import Document, encoders, samples
from isthmus.evaluate.mteb import MtebModel
from isthmus.sources import SkippedInput, open_source

CALIBRATIONS = ("none", "rrf", "standardize", "auto")


def documents() -> Iterator[Document]:
    """Read the sample folder."""
    for unit in open_source(samples.folder()).units():
        if not isinstance(unit, SkippedInput):
            yield from (found for found in unit.read() if isinstance(found, Document))


class SampleFolder(AbsTaskRetrieval):  # type: ignore[misc]
    """Questions in words about a corpus of texts, images and both."""

    metadata = TaskMetadata(
        name="IsthmusSampleFolder",
        description="Texts, photos, drawings and captioned photos, asked for in words.",
        dataset={"path": "isthmus/samples", "revision": "1"},
        type="Any2AnyRetrieval",
        category="t2it",
        modalities=["image", "text"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
    )

    def load_data(self, *_: Any, **__: Any) -> None:
        """Fill the dataset; a part that a document lacks is None."""
        held, asked = list(documents()), samples.queries()
        corpus = Dataset.from_dict(
            {
                "id": [document.id for document in held],
                "text": [document.text for document in held],
                "image": [None if document.image is None else str(document.image) for document in held],
            }
        )
        names = [f"q{number}" for number in range(len(asked))]
        self.dataset = {
            "default": {
                "test": {
                    "corpus": corpus.cast_column("image", Image()),
                    "queries": Dataset.from_dict({"id": names, "text": [one.query for one in asked]}),
                    "relevant_docs": {
                        name: dict.fromkeys(one.right, 1) for name, one in zip(names, asked, strict=True)
                    },
                    "top_ranked": None,
                }
            }
        }
        self.data_loaded = True


def measured(encoder: str, calibrations: Sequence[str]) -> Iterator[tuple[str, float, float]]:
    """Give nDCG@10 and recall@10 as mteb reports them."""
    loaded = encoders.load(encoder)
    for calibration in calibrations:
        with tempfile.TemporaryDirectory() as folder:
            model = MtebModel(loaded, calibration)
            done = mteb.evaluate(model, SampleFolder(), cache=ResultCache(folder), show_progress_bar=False)
        (found,) = done.task_results[0].scores["test"]
        yield calibration, found["ndcg_at_10"], found["recall_at_10"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="mini")
    parser.add_argument("--calibration", nargs="+", default=list(CALIBRATIONS))
    options = parser.parse_args()
    print(f"{'calibration':<32}nDCG@10   R@10")
    for calibration, ndcg, recall in measured(options.encoder, options.calibration):
        print(f"{calibration:<32}{ndcg:7.3f}{recall:7.3f}")


if __name__ == "__main__":
    main()
