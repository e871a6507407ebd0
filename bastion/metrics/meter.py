"""What a loop reports of itself; where no metrics are asked for, nothing happens with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from bastion.job import JobRecord
from bastion.records.root import Event


class Meter(Protocol):
    """Takes reports; none of its methods fails, or waits."""

    def turned(self, seconds: float, *, moved: bool) -> None:
        """Report that a turn took `seconds`, and whether it moved anything."""
        ...

    def committed(self, events: Sequence[Event], jobs: Mapping[str, JobRecord]) -> None:
        """Report the events of a commit, and the jobs that stand in it."""
        ...

    def published(self, views: Mapping[str, Mapping[str, Any]]) -> None:
        """Report views as they are published, by name."""
        ...

    def rested(self) -> None:
        """Report that this process leads no more."""
        ...

    def strangers(self, number: int) -> None:
        """Report how many machines a provider lists that root does not have."""
        ...

    def asked(self, operation: str, seconds: float, outcome: str) -> None:
        """Report one call of the store: `ok`, or what became of it."""
        ...


class NoMeter:
    """A meter that keeps nothing."""

    def turned(self, seconds: float, *, moved: bool) -> None:
        """Keep nothing."""

    def committed(self, events: Sequence[Event], jobs: Mapping[str, JobRecord]) -> None:
        """Keep nothing."""

    def published(self, views: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep nothing."""

    def rested(self) -> None:
        """Keep nothing."""

    def strangers(self, number: int) -> None:
        """Keep nothing."""

    def asked(self, operation: str, seconds: float, outcome: str) -> None:
        """Keep nothing."""


NO_METER = NoMeter()
