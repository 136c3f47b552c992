"""Evaluate rankings: measures as values, intervals, significance tests, slices, and comparisons of calibrations.

    values("nDCG@10", run, qrels)              a number for each judged query
    interval(values(…)), paired(a, b)          its confidence interval; whether two runs differ
    compare(corpus, specs, measures)           rows for a table: calibration × measure × slice

It takes arrays, runs and judgements, never a model.
"""

from isthmus.evaluate.compare import ALONE, Corpus, References, alone, check_means, compare, fit, ranked
from isthmus.evaluate.groups import max_skew, ndkl, retrieval_bias, skews
from isthmus.evaluate.intervals import Interval, Paired, interval, macro, paired
from isthmus.evaluate.measures import MEASURES, Measure, left_out, values
from isthmus.evaluate.runs import Qrels, Run, read_qrels, read_run, run_of, write_qrels, write_run
from isthmus.evaluate.slices import OVERALL, slices
from isthmus.evaluate.table import FORMS, Row, from_csv, from_json, render

__all__ = [
    "ALONE",
    "FORMS",
    "MEASURES",
    "OVERALL",
    "Corpus",
    "Interval",
    "Measure",
    "Paired",
    "Qrels",
    "References",
    "Row",
    "Run",
    "alone",
    "check_means",
    "compare",
    "fit",
    "from_csv",
    "from_json",
    "interval",
    "left_out",
    "macro",
    "max_skew",
    "ndkl",
    "paired",
    "ranked",
    "read_qrels",
    "read_run",
    "render",
    "retrieval_bias",
    "run_of",
    "skews",
    "slices",
    "values",
    "write_qrels",
    "write_run",
]
