"""Why a gang waits."""

from __future__ import annotations

from collections.abc import Iterator

from bastion.scheduler.draft import Draft
from bastion.scheduler.order import Gang, Line
from bastion.scheduler.reason import WaitingForCapacity, WaitingReason


class Diagnosis:
    """Finds the dominant reason."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft

    def of(self, line: Line) -> Iterator[tuple[Gang, WaitingReason, float | None]]:
        """Every gang of `line`, with its reason and its estimated start."""
        reason = WaitingForCapacity(asked=line.shape.units, short=line.shape.units)
        for entry in line.waiting:
            yield entry[3], reason, None
