"""A calibration as a value: ``center+standardize+nnn(k=16,alpha=0.75)``.

A shift first, then a scale and a bias in the order written, at most one of each. ``learned`` is a scale and a
bias in one step; a per-query baseline replaces them too.

>>> spec = Spec.parse("center + nnn(alpha=0.5, k=16)")
>>> str(spec)
'center+nnn(k=16,alpha=0.5)'
>>> spec.bias
NearestNeighbourNormalization(k=16, alpha=0.5)
>>> Spec.parse("nnn(alhpa=1)")
Traceback (most recent call last):
isthmus.errors.UnknownName: No setting of nnn is called 'alhpa'. Did you mean 'alpha'?
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Any, get_args, get_type_hints

import numpy as np

from isthmus.calibration.bias import BiasMethod, JointMethod
from isthmus.calibration.methods import METHODS, StepKind
from isthmus.calibration.none import NoShift
from isthmus.calibration.perquery import PerQuery
from isthmus.calibration.shift import ShiftMethod
from isthmus.calibration.standardize import Standardize
from isthmus.errors import BadSpec
from isthmus.registry import lookup

STEP = re.compile(r"\s*(?P<name>[^\s+()]+)\s*(?:\((?P<settings>[^()]*)\)\s*)?(?P<end>\+|$)")
WORDS = {"true": True, "false": False, "none": None}
NO_SETS = np.zeros((1, 0), dtype=bool)  # for a bias that is always on


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a spec: the method's name and its settings."""

    name: str
    settings: Any

    @property
    def kind(self) -> StepKind:
        """What the step acts on."""
        return METHODS[self.name].kind

    def __str__(self) -> str:
        return self._written([f.name for f in fields(self.settings) if getattr(self.settings, f.name) != f.default])

    @property
    def in_full(self) -> str:
        """The step with all settings."""
        return self._written([f.name for f in fields(self.settings)])

    def _written(self, names: list[str]) -> str:
        written = ",".join(f"{name}={_written(getattr(self.settings, name))}" for name in names)
        return f"{self.name}({written})" if written else self.name


@dataclass(frozen=True, slots=True)
class Spec:
    """The steps of a calibration, in order."""

    steps: tuple[Step, ...]

    @classmethod
    def parse(cls, text: str | Spec) -> Spec:
        """Parse a spec, or raise an error that shows what to write instead."""
        if isinstance(text, Spec):
            return text
        if not isinstance(text, str):
            raise BadSpec(
                f"A calibration is written as text, for instance 'center+nnn(k=16)', not {type(text).__name__}."
            )
        steps: list[Step] = []
        position = 0
        while True:
            match = STEP.match(text, position)
            if match is None:
                raise BadSpec(
                    f"{text!r} cannot be read as a calibration at {text[position:]!r}. "
                    "Write names joined by '+', settings in brackets: center+nnn(k=16,alpha=0.75)."
                )
            steps.append(_step(match["name"], match["settings"] or ""))
            position = match.end()
            if not match["end"]:
                return _composed(cls(tuple(steps)))

    def __str__(self) -> str:
        return "+".join(map(str, self.steps))

    @property
    def in_full(self) -> str:
        """The spec with all settings, including defaults: files store it, so that defaults may change."""
        return "+".join(step.in_full for step in self.steps)

    def _first(self, *kinds: StepKind) -> Any:
        return next((step.settings for step in self.steps if step.kind in kinds), None)

    @property
    def shift(self) -> ShiftMethod:
        """The shift's settings; ``none``'s when the spec has no shift."""
        found: ShiftMethod | None = self._first(StepKind.SHIFT)
        return found or NoShift()

    @property
    def scale(self) -> Standardize | None:
        """The scale's settings."""
        found: Standardize | None = self._first(StepKind.SCALE)
        return found

    @property
    def bias(self) -> BiasMethod | None:
        """The bias's settings."""
        found: BiasMethod | None = self._first(StepKind.BIAS)
        return found

    @property
    def learned(self) -> JointMethod | None:
        """The settings of a scale and a bias in one step."""
        found: JointMethod | None = self._first(StepKind.LEARNED)
        return found

    @property
    def correction(self) -> BiasMethod | None:
        """The settings of the step that gives documents columns: a bias, or a scale and a bias in one step."""
        found: BiasMethod | None = self._first(StepKind.BIAS, StepKind.LEARNED)
        return found

    @property
    def per_query(self) -> PerQuery | None:
        """The settings of a per-query baseline."""
        found: PerQuery | None = self._first(StepKind.PER_QUERY)
        return found

    @property
    def scales_first(self) -> bool:
        """Whether the scale comes before the bias."""
        kinds = [step.kind for step in self.steps]
        return StepKind.SCALE in kinds and (
            StepKind.BIAS not in kinds or kinds.index(StepKind.SCALE) < kinds.index(StepKind.BIAS)
        )

    @property
    def alpha(self) -> float:
        """The share of the bias that every query subtracts; 1 if it is switched on by query."""
        if self.bias is None or self.bias.sets:
            return 1.0
        return float(self.bias.coefficients(NO_SETS).sum())

    @property
    def dynamic(self) -> bool:
        """Whether the bias is switched on query by query."""
        return self.bias is not None and self.bias.sets > 0

    def with_settings(self, name: str, **changes: Any) -> Spec:
        """Return the spec with some settings of the step ``name`` changed."""
        return Spec(tuple(Step(s.name, replace(s.settings, **changes)) if s.name == name else s for s in self.steps))


def _step(name: str, written: str) -> Step:
    if name == "auto":
        raise BadSpec("'auto' chooses a whole calibration, so it must be the only name: fit('auto', …).")
    settings = lookup(METHODS, name, "calibration").settings
    if written.strip() and not fields(settings):
        raise BadSpec(f"{name} has no settings, so write it without {written.strip()!r}.")
    hints = get_type_hints(settings)
    given: dict[str, Any] = {}
    for item in filter(None, map(str.strip, written.split(","))):
        key, equals, value = (word.strip() for word in item.partition("="))
        if not equals:
            raise BadSpec(f"{name}({written}): write settings as name=value, for instance {_example(name)}.")
        hint = lookup({f.name: hints[f.name] for f in fields(settings)}, key, f"setting of {name}")
        if key in given:
            raise BadSpec(f"{name} got {key} twice.")
        given[key] = _read(name, key, value, hint)
    return Step(name, settings(**given))


def _read(name: str, key: str, value: str, hint: Any) -> Any:
    wanted = set(get_args(hint)) or {hint}
    read = WORDS[value.lower()] if value.lower() in WORDS else _number(value)
    if isinstance(read, int) and not isinstance(read, bool) and float in wanted:
        read = float(read)
    if type(read) not in wanted:
        names = " or ".join(sorted(t.__name__.replace("NoneType", "none") for t in wanted))
        raise BadSpec(f"{name} needs {key} as {names}, not {value!r}.")
    return read


def _number(value: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool | None) else repr(value)


def _example(name: str) -> str:
    settings = METHODS[name].settings
    return f"{name}({', '.join(f'{f.name}={_written(f.default or 16)}' for f in fields(settings))})"


def _composed(spec: Spec) -> Spec:
    text = "+".join(step.name for step in spec.steps)
    kinds = [step.kind for step in spec.steps]
    for kind in StepKind:
        if kinds.count(kind) > 1:
            raise BadSpec(f"{text!r} has more than one {kind.value}; a calibration has at most one.")
    if StepKind.SHIFT in kinds[1:]:
        raise BadSpec(f"{text!r}: the shift moves vectors, so it comes first.")
    rest = set(kinds) - {StepKind.SHIFT}
    for alone in (StepKind.LEARNED, StepKind.PER_QUERY):
        if alone in rest and len(rest) > 1:
            raise BadSpec(f"{text!r}: a {alone.value} step replaces scale and bias; only a shift may come before it.")
    if kinds[-1] is StepKind.SCALE and spec.dynamic:
        raise BadSpec(
            f"{text!r}: reference queries always have their bias on, so a scale fitted after a dynamic bias would not "
            "hold for queries that have it off. Put standardize before it."
        )
    return spec
