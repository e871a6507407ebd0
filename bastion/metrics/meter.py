"""What a loop reports about itself; if metrics are not enabled, it has no effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from bastion.job import JobRecord
from bastion.records.root import Event


class Meter(Protocol):
    """Receives reports; none of its methods fails or waits."""

    def turned(self, seconds: float, *, moved: bool) -> None:
        """Report that a turn took `seconds`, and whether it moved anything."""
        ...

    def committed(self, events: Sequence[Event], jobs: Mapping[str, JobRecord]) -> None:
        """Report the events of a commit, and the jobs in it."""
        ...

    def published(self, views: Mapping[str, Mapping[str, Any]]) -> None:
        """Report views as they are published, by name."""
        ...

    def rested(self) -> None:
        """Report that this process no longer leads."""
        ...

    def strangers(self, number: int) -> None:
        """Report how many machines a provider lists that root does not have."""
        ...

    def asked(self, operation: str, seconds: float, outcome: str) -> None:
        """Report one call of the store: `ok`, or its error."""
        ...


class NoMeter:
    """A meter that discards everything."""

    def turned(self, seconds: float, *, moved: bool) -> None:
        """Discard it."""

    def committed(self, events: Sequence[Event], jobs: Mapping[str, JobRecord]) -> None:
        """Discard it."""

    def published(self, views: Mapping[str, Mapping[str, Any]]) -> None:
        """Discard it."""

    def rested(self) -> None:
        """Discard it."""

    def strangers(self, number: int) -> None:
        """Discard it."""

    def asked(self, operation: str, seconds: float, outcome: str) -> None:
        """Discard it."""


NO_METER = NoMeter()
