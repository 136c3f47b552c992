"""Calibrations make scores comparable across modalities and documents.

    fitted = calibration.fit("center+standardize+nnn(k=16)", documents, queries)
    fitted.scores(queries, documents)                the reference path: dense, float64
    fitted.fold(documents), fitted.fold_queries(queries), fitted.finish(inner, …)      the same, on any engine

One method, one file: ``none``, ``center``, ``dn`` (shifts), ``standardize`` (a scale), ``nnn``, ``qbnorm``,
``dbnorm`` (biases), ``learned`` (a scale and a bias), ``minmax``, ``zscore``, ``rrf`` (per-query baselines).
"""

from isthmus.calibration.auto import AUTO_GRID, fit
from isthmus.calibration.bank import NeighbourSearch
from isthmus.calibration.bias import Bank, Banks, BiasMethod, Coefficients, JointMethod
from isthmus.calibration.fitted import Fitted
from isthmus.calibration.grids import DBNORM_PAPER_GRID, NNN_PAPER_GRID
from isthmus.calibration.live import Moments, Statistics, drift
from isthmus.calibration.methods import METHODS, Method, StepKind
from isthmus.calibration.pairs import Pairs
from isthmus.calibration.shards import Shard, fit_shards
from isthmus.calibration.spec import Spec
from isthmus.calibration.storage import load
from isthmus.calibration.tune import Tuned, ndcg_at_10, recall_at_1, tune

__all__ = [
    "AUTO_GRID",
    "DBNORM_PAPER_GRID",
    "METHODS",
    "NNN_PAPER_GRID",
    "Bank",
    "Banks",
    "BiasMethod",
    "Coefficients",
    "Fitted",
    "JointMethod",
    "Method",
    "Moments",
    "NeighbourSearch",
    "Pairs",
    "Shard",
    "Spec",
    "Statistics",
    "StepKind",
    "Tuned",
    "drift",
    "fit",
    "fit_shards",
    "load",
    "ndcg_at_10",
    "recall_at_1",
    "tune",
]
