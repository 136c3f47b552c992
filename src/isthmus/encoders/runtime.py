"""``Runtime``: where and how models run. ``ModelPool``: models that several collections share, each loaded once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any

from isthmus import encoders
from isthmus.encoders.abilities import PairMatcher
from isthmus.encoders.base import FULL, Encoder, Settings

Stamp = tuple[tuple[str, int, int], ...]


@dataclass(slots=True, eq=False)
class ModelPool:
    """Models that are loaded once, whoever asks for them; one whose files have changed is loaded again.

    Models stay in memory as long as the pool, so that memory grows with their number and not with that of the
    collections that use them.
    """

    _kept: dict[tuple[object, ...], tuple[Stamp, Any]] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)  # a model may load another

    def once(self, key: tuple[object, ...], name: str, load: Callable[[], Any]) -> Any:
        """Return what ``load`` made for a key, as long as the files that ``name`` names are the same."""
        with self._lock:
            stamp = _stamp(name)
            if key not in self._kept or self._kept[key][0] != stamp:
                self._kept[key] = (stamp, load())
            return self._kept[key][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Where and how models run, for those who load several; with a pool, each is loaded once."""

    device: str = "cpu"
    threads: int | None = None
    precision: str = FULL
    trust_remote_code: bool = False
    pool: ModelPool | None = None

    @property
    def settings(self) -> Settings:
        """The settings of an encoder that runs so."""
        return Settings(
            device=self.device,
            threads=self.threads,
            precision=self.precision,
            trust_remote_code=self.trust_remote_code,
        )

    def encoder(self, name: str) -> Encoder:
        """Load an encoder by its name."""
        found: Encoder = self._once("encoder", name, lambda: encoders.open_named(name, self.settings))
        return found

    def reranker(self, name: str) -> PairMatcher | None:
        """Load a reranker by its name; None if the name is not one of a reranker."""
        from isthmus.encoders.rerankers import load_reranker  # late: few need it

        found: PairMatcher | None = self._once("reranker", name, lambda: load_reranker(name, self.settings))
        return found

    def _once(self, kind: str, name: str, load: Callable[[], Any]) -> Any:
        if self.pool is None or not isinstance(name, str):
            return load()
        place = encoders.located(name)
        how = (self.device, self.threads, self.precision, self.trust_remote_code)
        return self.pool.once((kind, place, *how), place, load)


def _stamp(name: str) -> Stamp:
    """Return what changes with the files of a model in a folder; nothing for a model that is not in one."""
    folder = Path(name.rpartition(":")[2])
    if not folder.is_absolute() or not folder.is_dir():
        return ()
    found = ((str(file), file.stat()) for file in sorted(folder.rglob("*")) if file.is_file())  # st: has folders in it
    return tuple((place, state.st_mtime_ns, state.st_size) for place, state in found)
