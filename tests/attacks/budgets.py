"""Index hostile files in a process that is killed when one of them exceeds the limits of a document.

The process indexes one folder after another with the tiny encoder. From the first one on it may take 1 GiB of memory
more than it had; each folder may take so many seconds of processor time, and the system ends the process past them. A
file that only waits is ended by the clock of the process that started it.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from isthmus.search import Collection

MEMORY = 2**30  # bytes
PROCESSOR = 10  # seconds of processor time for a folder, besides those of workers
WAITING = 90  # seconds for a folder by the clock; a machine may be busy
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}  # addresses that are only reserved count as memory


class Outcome(NamedTuple):
    """What came of one folder: its documents, why things were skipped, and what ended the process, if something did."""

    documents: int
    reasons: list[str]
    failure: str = ""


def outcomes(folders: Mapping[str, Path], encoder: str, into: Path, seconds: float) -> Iterator[tuple[str, Outcome]]:
    """Yield what comes of each folder; one that ends the process is followed by the next in a new process."""
    left = dict(folders)
    while left:
        numbers = (str(seconds), str(MEMORY))
        command = [sys.executable, "-P", __file__, encoder, *numbers, str(into), *map(str, left.values())]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **ENVIRONMENT}
        ) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            for name in list(left):
                line = child.stdout.readline() if select.select([child.stdout], [], [], WAITING)[0] else b""
                del left[name]
                if not line:
                    child.kill()
                    child.wait()
                    said = child.stderr.read().decode(errors="replace")[-500:]
                    yield name, Outcome(0, [], f"ended with status {child.returncode}: {said}")
                    break
                yield name, Outcome(*json.loads(line))


def main(encoder: str, seconds: str, memory: str, into: str, *folders: str) -> None:
    """Index each folder, and print what came of it."""
    import resource

    from isthmus import budget
    from isthmus.search import Collection

    budget.SECONDS = float(seconds)
    with Collection.open(Path(into, f"{os.getpid()}.isthmus"), encoder) as things:
        _warm_up(things, Path(into, str(os.getpid())))
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + int(memory),) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        before = len(things)
        for folder in folders:
            used = resource.getrusage(resource.RUSAGE_SELF)
            allowed = int(used.ru_utime + used.ru_stime) + 1 + PROCESSOR
            resource.setrlimit(resource.RLIMIT_CPU, (allowed, resource.RLIM_INFINITY))
            report = things.index(folder)
            line = json.dumps([len(things) - before, [skipped.why for skipped in report.skipped]])
            os.write(1, f"{line}\n".encode())
            before = len(things)


def _warm_up(things: Collection, folder: Path) -> None:
    """Index something of each kind, so that what libraries take for themselves is not counted."""
    from PIL import Image

    folder.mkdir()
    Image.init()
    Image.new("RGB", (64, 64)).save(folder / "a.png")
    for name in ("a.txt", "a.html", "a.csv", "a.jsonl"):
        text = {"a.csv": "text\ncat\n", "a.jsonl": '{"text": "cat"}\n'}.get(name, "cat")
        (folder / name).write_text(text)
    assert not things.index(folder).skipped


def made(names: Sequence[str], root: Path) -> dict[str, Path]:
    """Write hostile files, each into a folder of its own."""
    import hostile

    folders = {name: root / name for name in names}
    for name, folder in folders.items():
        folder.mkdir(parents=True)
        hostile.FILES[name](folder)
    return folders


if __name__ == "__main__":
    main(*sys.argv[1:])
