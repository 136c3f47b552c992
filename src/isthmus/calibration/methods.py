"""The table of calibrations: what each name in a spec stands for."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from isthmus.calibration.center import Center
from isthmus.calibration.dbnorm import DualBankNormalization
from isthmus.calibration.dn import DistributionNormalization
from isthmus.calibration.learned import Learned
from isthmus.calibration.minmax import MinMax
from isthmus.calibration.nnn import NearestNeighbourNormalization
from isthmus.calibration.none import NoShift
from isthmus.calibration.qbnorm import QuerybankNormalization
from isthmus.calibration.rrf import ReciprocalRankFusion
from isthmus.calibration.standardize import Standardize
from isthmus.calibration.zscore import ZScore


class Kind(Enum):
    """What a step acts on, and so what it composes with."""

    SHIFT = "shift"
    SCALE = "scale"
    BIAS = "bias"
    LEARNED = "learned"  # a scale and a bias at once
    PER_QUERY = "per-query baseline"


@dataclass(frozen=True, slots=True)
class Method:
    """A calibration step: its kind and the class of its settings."""

    kind: Kind
    settings: type[Any]

    @property
    def has_alpha(self) -> bool:
        """Whether it is a bias of which a share ``alpha`` is subtracted."""
        return self.kind is Kind.BIAS and any(field.name == "alpha" for field in fields(self.settings))


METHODS: dict[str, Method] = {
    "none": Method(Kind.SHIFT, NoShift),
    "center": Method(Kind.SHIFT, Center),
    "dn": Method(Kind.SHIFT, DistributionNormalization),
    "standardize": Method(Kind.SCALE, Standardize),
    "nnn": Method(Kind.BIAS, NearestNeighbourNormalization),
    "qbnorm": Method(Kind.BIAS, QuerybankNormalization),
    "dbnorm": Method(Kind.BIAS, DualBankNormalization),
    "learned": Method(Kind.LEARNED, Learned),
    "minmax": Method(Kind.PER_QUERY, MinMax),
    "zscore": Method(Kind.PER_QUERY, ZScore),
    "rrf": Method(Kind.PER_QUERY, ReciprocalRankFusion),
}
