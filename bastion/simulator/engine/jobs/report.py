"""`Report`: the facts about one job that policies get, computed on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bastion.simulator.engine.jobs.life import Life

_NAMES = ("attained_s", "remaining_s", "progress")


class Moment:
    """The time that all reports of a simulation refer to."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0.0


class Report(Mapping[str, float]):
    """
    What a job has had and what is left of it, at the time of `moment`.

    Numbers are computed only on request, because policies read few of them.

        attained_s    how long it has held its devices, if its record does not say it
        remaining_s   work that is left
        progress      the fraction of its work that is done
    """

    __slots__ = ("_life", "_moment")

    def __init__(self, life: Life, moment: Moment) -> None:
        self._life, self._moment = life, moment

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return a number of the report."""
        life = self._life
        if name == "attained_s":
            if life.began_at < 0.0 or life.record.attempt is not None:
                return life.attained_s
            return life.attained_s + self._moment.now - life.began_at
        if name not in _NAMES:
            return default
        left = life.left_by(self._moment.now)
        return left if name == "remaining_s" else 1.0 - left / life.job.duration_s

    def __getitem__(self, name: str) -> float:
        """Return a number of the report."""
        if name not in _NAMES:
            raise KeyError(name)
        return float(self.get(name))

    def __iter__(self) -> Iterator[str]:
        """Yield the names of its numbers."""
        return iter(_NAMES)

    def __len__(self) -> int:
        """Return how many numbers it has."""
        return len(_NAMES)
