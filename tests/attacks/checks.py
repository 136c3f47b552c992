"""What must hold of a collection whose process was ended in the middle of a verb, and after the verb is run again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from attacks import verbs, world
from attacks.workers import Request, Say
from attacks.world import QUERIES, SPEC, Content
from isthmus import Collection
from stock import dense, looked_at

CLOSE = 1e-3  # scores in single precision, of vectors encoded in other batches


def main(request: Request, say: Say) -> None:
    """Check a collection; say each problem, and in the end what it holds."""
    world.small_batches()
    folder, verb, heard = Path(request["folder"]), str(request["verb"]), list(request["heard"])
    if verb == "create":
        return _tell(say, _created(folder.with_name(f"{folder.name}.new"), request, heard))
    problems = [f"the store: {found}" for found in looked_at(folder)]
    with Collection.open(folder, follow=False, threads=1) as things:
        problems += [f"verify: {found}" for found in things.verify()]
        held = world.content(things)
        problems += changes(held, request["before"], request["goal"], verb, heard)
        problems += particular(things, verb, request, heard)
        problems += answers(things)
    problems += [f"after the next open: {found}" for found in world.litter(folder)]
    problems += again(folder, request)
    return _tell(say, problems)


def _tell(say: Say, problems: Sequence[str]) -> None:
    for problem in problems:
        say(f"problem {problem}")


def changes(held: Content, before: Content, goal: Content, verb: str, heard: Sequence[str]) -> list[str]:
    """Return what is neither as it was nor as it was to become, or is not as was acknowledged."""
    found = [f"{name} is neither old nor new" for name in held if held[name] not in (before.get(name), goal.get(name))]
    found += [f"{name} is lost" for name in before if name in goal and name not in held]
    planned = verbs.steps(verb)
    acknowledged = max((int(line.split()[1]) for line in heard if line.startswith("did ")), default=-1)
    for number, names in enumerate(planned):
        new = [held.get(name) == goal.get(name) for name in names]
        if number <= acknowledged and not all(new):
            found.append(f"step {number} was acknowledged, and {names[new.index(False)]} is not as it left it")
        if len(set(new)) > 1:
            found.append(f"step {number} was done by half")
        if number > acknowledged + 1 and any(new):
            found.append(f"step {number} was done before its turn")
    if verb == "index":
        found += _indexed(held, before, goal, heard)
    return found


def _indexed(held: Content, before: Content, goal: Content, heard: Sequence[str]) -> list[str]:
    """Return whether fewer documents are new, or gone, than were acknowledged."""
    told = [line.split()[1:] for line in heard if line.startswith("indexed ")]
    if not told:
        return []
    written, removed = map(int, told[-1])
    new = sum(held.get(name) == goal[name] for name in goal if before.get(name) != goal[name])
    new += sum(name.endswith(".png") and before.get(name) == goal[name] for name in goal)  # pixels alone have changed
    gone = sum(name not in held for name in before if name not in goal)
    return [f"acknowledged {written} and {removed}, found {new} and {gone}"] * (new < written or gone < removed)


def particular(things: Collection, verb: str, request: Request, heard: Sequence[str]) -> list[str]:
    """Return what is wrong with what only this verb does."""
    if verb == "calibrate":
        return _served(things, heard)
    if verb == "export":
        return exported(Path(request["folder"] + ".npz"))
    if verb == "reencode":
        wanted = {request["other"]} if "reencoded" in heard else {request["other"], request["encoder"]}
        name = things.stats().encoder["encoder"]
        return [f"the encoder is {name}"] * (name not in wanted)
    if verb == "log":
        told = [int(line.split()[1]) for line in heard if line.startswith("logged ")]
        logged, least = things.stats().logged or 0, [verbs.LOGGED, *told][-1]
        return [f"{logged} queries are logged, {least} were acknowledged"] * (logged < least)
    return []


def _served(things: Collection, heard: Sequence[str]) -> list[str]:
    """Return whether another calibration is served than the last acknowledged, or the one that was being made."""
    done = [line.split()[2] for line in heard if line.startswith("calibrated ")]
    allowed = {[SPEC, *done][-1], [*verbs.SPECS, ""][len(done)]}
    now = things.calibration
    spec = str(now.fitted.spec) if now else "none at all"
    return [f"{spec} is served, not {allowed}"] * (spec not in allowed)


def exported(file: Path) -> list[str]:
    """Return whether an exported file cannot be read to its end."""
    try:
        with np.load(file) as arrays:
            rows = {len(arrays[name]) for name in arrays.files}
    except (OSError, ValueError, EOFError, KeyError) as error:
        return [f"the exported file is damaged: {error}"]
    except Exception as error:  # noqa: BLE001 - zipfile and zlib have errors of their own
        return [f"the exported file is damaged: {error}"]
    return ["the exported arrays differ in length"] * (len(rows) > 1)


def answers(things: Collection) -> list[str]:
    """Return where searches find other documents than are there, or score them other than the equations do."""
    ids, encoder = sorted(things.ids()), things.encoder
    assert encoder is not None
    kept = [one for one in things if not isinstance(one.image, str)]  # files may have changed since
    found: list[str] = []
    for name, query in QUERIES.items():
        hits = things.search(query, k=10_000)
        if sorted(hit.id for hit in hits) != ids:
            found.append(f"search by {name} finds {len(hits)} of {len(ids)} documents")
        if any(hit.document != things.get(hit.id) for hit in hits):
            found.append(f"search by {name} shows documents that are not there")
        right = dense(things, encoder, kept, query)
        scores = {hit.id: hit.score for hit in hits if hit.id in right}
        if any(abs(right[at] - score) > CLOSE for at, score in scores.items()):
            found.append(f"scores by {name} are not those of the documents")
    return found


def again(folder: Path, request: Request) -> list[str]:
    """Run the verb to its end; return where that differs from a run that was never interrupted."""
    verbs.perform(folder, str(request["verb"]), request, lambda _: None)
    found: list[str] = []
    with Collection.open(folder, follow=False, threads=1) as things:
        if world.content(things) != request["goal"]:
            found.append("run again, it does not hold what an uninterrupted run holds")
        found += [f"run again, {problem}" for problem in things.verify()]
        if {hit.id for hit in things.search("dog", k=10_000)} != set(things.ids()):
            found.append("run again, searches do not find all documents")
    found += [f"run again, {problem}" for problem in world.litter(folder)]
    if request["verb"] == "reencode" and (folder / "reencode").exists():
        found.append("run again, the vectors of the re-encoding are still there")
    return found


def _created(folder: Path, request: Request, heard: Sequence[str]) -> list[str]:
    """Return what is wrong with a collection that was ended while it was made."""
    with Collection.open(folder, request["encoder"], calibration=SPEC, follow=False, threads=1) as things:
        count = len(things)
        if count not in ({world.BATCH} if "filled" in heard else {0, world.BATCH}):
            return [f"a new collection holds {count} documents"]
        things.add([world.document(number) for number in range(10)])
        found = [] if len(things.search("dog", k=100)) == 10 else ["a new collection cannot be searched"]
        found += things.verify()
    return [*found, *looked_at(folder), *world.litter(folder)]
