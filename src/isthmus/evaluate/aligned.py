"""A benchmark whose queries are aligned before they are searched."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from isthmus.align import Aligned, Aligner
from isthmus.evaluate.benchmarks import Benchmark


@dataclass(frozen=True, slots=True)
class AlignedBenchmark:
    """The benchmark to search, and what became of its queries."""

    benchmark: Benchmark
    several: tuple[Aligned, ...]

    @property
    def summary(self) -> str:
        """How many queries were changed, and why others were not.

        >>> from isthmus import Query
        >>> found = (Aligned(Query("a")), Aligned(Query("b"), untouched="short"))
        >>> AlignedBenchmark(Benchmark("b", [], [], {}), found).summary
        '1 of 2 queries aligned; not changed: 1 (short)'
        """
        left = Counter(one.untouched for one in self.several if one.untouched)
        fell = Counter(one.fell_back.partition(":")[0] for one in self.several if one.fell_back)
        counts = [("not changed", left), ("fell back", fell)]
        reasons = [
            f"{name}: {sum(of.values())} ({', '.join(str(reason) for reason in sorted(of))})"
            for name, of in counts
            if of
        ]
        changed = len(self.several) - sum(left.values()) - sum(fell.values())
        return "; ".join([f"{changed} of {len(self.several)} queries aligned", *reasons])


def aligned(benchmark: Benchmark, aligner: Aligner) -> AlignedBenchmark:
    """Align the queries of a benchmark, and its reference queries, so that calibrations see the same kind."""
    found = aligner.align([question.query for question in benchmark.questions])
    questions = [replace(question, query=one.query) for question, one in zip(benchmark.questions, found, strict=True)]
    known = aligner.align([query for query, _ in benchmark.references]) if benchmark.references else []
    references = [(one.query, source) for one, (_, source) in zip(known, benchmark.references, strict=True)]
    return AlignedBenchmark(replace(benchmark, questions=questions, references=references), tuple(found))
