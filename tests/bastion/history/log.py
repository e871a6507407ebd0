"""A bucket with a log that a test writes, and its clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bastion.history import AttemptRow, Record
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.history import EndedAttempt, HistoryRecord
from bastion.records.root import Event
from bastion.spec.request import Request
from bastion.store.memory import MemoryStore
from quota.amounts import Amounts

DAY_S = 86400.0
T0 = 20_000 * DAY_S
"""The beginning of 2024-10-04."""


class Bucket:
    """A bucket with a log, and its clock."""

    def __init__(self) -> None:
        self.now = T0
        self.store = MemoryStore(lambda: self.now)
        self.n = 0

    def end(self, at: float, **fields: object) -> Event:
        """Return the event of the end of one attempt, the next of the log."""
        project = str(fields.pop("project", "blue"))
        job = str(fields.pop("job", f"train-{self.n}"))
        return self.told(at, ended(at, job, **fields), project=project, job=job)

    def told(self, at: float, record: HistoryRecord, *, project: str = "", job: str = "") -> Event:
        """Return the next event of the log, with `record`."""
        what = record.outcome if isinstance(record, EndedAttempt) else "shares"
        event = Event(n=self.n, at=at, job=job, project=project, what=what, record=record)
        self.n += 1
        return event

    def seal(self, *events: Event) -> None:
        """Write a segment."""
        self.now = max(self.now, events[-1].at)
        lines = b"".join(encode(event) + b"\n" for event in events)
        self.store.create(layout.events(events[0].n), lines)

    def rows(self) -> list[AttemptRow]:
        """Return every row, as a reader finds it now."""
        return list(Record(self.store).attempts())

    def keys(self, prefix: str) -> list[str]:
        """Return the keys below `prefix`."""
        return [entry.key for entry in self.store.list(prefix, limit=10_000)]


def ended(at: float, job: str, **fields: Any) -> EndedAttempt:
    """Return the row of an attempt with eight devices for a minute, with changed `fields`."""
    row = EndedAttempt(
        user="ann",
        launch=job,
        name="train",
        attempt=1,
        request=Request(per_replica=Amounts({"h100": 8})),
        submitted_at=at - 90,
        queued_at=at - 90,
        admitted_at=at - 60,
        started_at=at - 60,
        freed_at=at,
        outcome="succeeded",
        job_outcome="succeeded",
        job_class="guaranteed",
        guaranteed_s=60.0,
        device_type="h100",
        devices=8,
        guaranteed_device_s=480.0,
    )
    return replace(row, **fields)
