"""Every operation of a collection, and whether its result is right, refused, or wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from attacks import world
from attacks.workers import Request
from attacks.world import QUERIES, digest
from isthmus import Collection, Document, Query
from isthmus.errors import IsthmusError
from isthmus.search import Hit

Ask: TypeAlias = Callable[[Collection], object]
ALL = 10_000
STATISTICS = ("documents", "encoder", "schema", "changes", "calibration", "sources", "skipped", "logged", "drift")


@dataclass(slots=True)
class Answers:
    """What was answered, refused with an error for users, or broken by any other error; by the name of the question."""

    given: dict[str, object] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    verified: list[str] = field(default_factory=list)

    def ask(self, name: str, run: Callable[[], object]) -> None:
        """Ask one question."""
        try:
            self.given[name] = run()
        except IsthmusError as error:
            self.refused[name] = str(error)
        except Exception as error:  # noqa: BLE001 - any other is what this looks for
            self.broken[name] = f"{type(error).__name__}: {error}"

    def wrong(self, right: Answers) -> list[str]:
        """Return the questions whose answers differ from the right ones."""
        return [name for name, answer in self.given.items() if answer != right.given.get(name)]


def _shown(hit: Hit) -> tuple[object, ...]:
    probability = None if hit.probability is None else round(hit.probability, 4)
    told = "" if hit.explanation is None else str(hit.explanation)
    numbers = (round(hit.score, 4), round(hit.similarity, 4), probability)
    return (hit.id, *numbers, hit.modality, hit.passage, hit.duplicates, digest(hit.document), told)


def _search(things: Collection, query: Query, options: Mapping[str, Any]) -> list[tuple[object, ...]]:
    return [_shown(hit) for hit in things.search(query, **{"k": ALL, **options})]


def _statistics(things: Collection) -> dict[str, str]:
    found = things.stats()
    return {name: str(getattr(found, name)) for name in STATISTICS}


def _get(things: Collection) -> list[str]:
    return [digest(things.get(name)) for name in ("d0", "d1", "d2", "note2.txt")]


def _searching(name: str, **options: Any) -> Ask:
    return lambda things: _search(things, QUERIES[name], options)


READS: Mapping[str, Ask] = {
    "list": world.content,
    "count": len,
    "get": _get,
    "ids": lambda things: things.ids(),
    "fields": lambda things: things.fields(),
    "filtered ids": lambda things: things.ids({"number": {"gte": 10}}),
    "text": _searching("text"),
    "image": _searching("image"),
    "both": _searching("both"),
    "first ten": _searching("text", k=10, offset=5),
    "hybrid": _searching("text", hybrid=True),
    "where": _searching("text", where={"number": {"gte": 10}}),
    "hybrid where": _searching("text", hybrid=True, where={"version": 0}),
    "modality": _searching("text", modalities="image"),
    "explain": _searching("both", k=10, explain=True),
    "group": _searching("image", group=True),
    "raw": _searching("both", calibration="none"),
    "stats": _statistics,
}


def _add(things: Collection) -> tuple[object, ...]:
    """Add a document and change another; return what is held and what is found."""
    things.add([Document("new", "a cat on a sofa"), world.document(7, version=9)])
    return world.content(things), sorted(hit.id for hit in things.search("cat", k=ALL))


def _calibrate(things: Collection) -> object:
    things.calibrate("center")
    return _search(things, QUERIES["text"], {})


def _index(source: str, things: Collection) -> object:
    things.index(source, ocr="never")
    return world.content(things)


def _reencode(other: str, things: Collection) -> object:
    things.reencode(other, drop=True, force=True)
    return {name: world.similarities(things, query) for name, query in QUERIES.items()}


def writes(request: Request, *, reencode: bool) -> Mapping[str, Ask]:
    """Return what changes a collection, and is asked last; a re-encoding where one was begun."""
    if reencode:
        return {"add": _add, "reencode": partial(_reencode, request["other"])}
    return {"add": _add, "calibrate": _calibrate, "index": partial(_index, request["source"])}


def asked(open_: Callable[[], Collection], changing: Mapping[str, Ask], *, verify: bool = True) -> Answers:
    """Open a collection and ask everything; verify comes before anything is changed, and at the end."""
    answers = Answers()
    opened: list[Collection] = []
    answers.ask("open", lambda: opened.append(open_()))
    if not opened:
        return answers
    things = opened[0]
    for name, ask in READS.items():
        answers.ask(name, partial(ask, things))
    _verify(answers, things)
    for name, ask in changing.items():
        answers.ask(name, partial(ask, things))
    if verify:
        _verify(answers, things)
    answers.ask("close", things.close)
    return answers


def _verify(answers: Answers, things: Collection) -> None:
    try:
        answers.verified += things.verify()
    except IsthmusError as error:
        answers.verified.append(str(error))
    except Exception as error:  # noqa: BLE001 - any other is what this looks for
        answers.broken["verify"] = f"{type(error).__name__}: {error}"


def judged(answers: Answers, rights: Sequence[Answers], *, repaired: bool) -> tuple[str, list[str], list[str]]:
    """Return the outcome, the questions that were answered wrongly, and the problems.

    ``rights``: the answers of every state that may be served. ``repaired``: whether what was damaged is whole again.
    """
    problems = [f"{name}: {why}" for name, why in answers.broken.items()]
    wrong = min((answers.wrong(right) for right in rights), key=len)
    if wrong and not answers.verified:
        problems.append(f"wrong answers that verify does not report: {', '.join(wrong)}")
    if wrong:
        return "reported", wrong, problems
    if answers.refused:
        return "refused", wrong, problems
    return ("healed" if repaired else "right"), wrong, problems
