"""The table of calibrations: the method behind each name in a spec."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from isthmus.calibration.blend import Blend
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


class StepKind(Enum):
    """What a step acts on, and so what it composes with."""

    SHIFT = "shift"
    SCALE = "scale"
    BIAS = "bias"
    LEARNED = "learned"  # a scale and a bias in one step
    PER_QUERY = "per-query baseline"


@dataclass(frozen=True, slots=True)
class Method:
    """A calibration step: its kind and the class of its settings."""

    kind: StepKind
    settings: type[Any]

    @property
    def has_alpha(self) -> bool:
        """Whether it is a bias of which a share ``alpha`` is subtracted."""
        return self.kind is StepKind.BIAS and any(field.name == "alpha" for field in fields(self.settings))


METHODS: dict[str, Method] = {
    "none": Method(StepKind.SHIFT, NoShift),
    "center": Method(StepKind.SHIFT, Center),
    "dn": Method(StepKind.SHIFT, DistributionNormalization),
    "standardize": Method(StepKind.SCALE, Standardize),
    "nnn": Method(StepKind.BIAS, NearestNeighbourNormalization),
    "qbnorm": Method(StepKind.BIAS, QuerybankNormalization),
    "dbnorm": Method(StepKind.BIAS, DualBankNormalization),
    "learned": Method(StepKind.LEARNED, Learned),
    "blend": Method(StepKind.LEARNED, Blend),
    "minmax": Method(StepKind.PER_QUERY, MinMax),
    "zscore": Method(StepKind.PER_QUERY, ZScore),
    "rrf": Method(StepKind.PER_QUERY, ReciprocalRankFusion),
}
