"""The register sweep: reads a few registers at intervals, so that a lost bell only costs time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from bastion.job import JobRecord
from bastion.records.root import Root
from bastion.service.act.actions import Work, register_work
from bastion.service.intake.registers import seat_of
from bastion.store import ObjectStore

BATCH = 8
"""Registers that one sweep reads, independent of the number of running jobs."""


class RegisterSweep:
    """Reads the registers of all admitted jobs in turn, `BATCH` at a time."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._last: tuple[str, int, int] = ("", 0, 0)
        """(job, replica, host) of the register that was read last."""

    def works(self, root: Root) -> Iterator[tuple[str, Work]]:
        """Yield (key, work) for the registers that have been unread the longest."""
        every = sorted(_unended(root))
        begin = bisect_right(every, self._last)
        for each in (every[begin:] + every[:begin])[:BATCH]:
            self._last = each
            yield self._work(root.jobs[each[0]], *each[1:])

    def _work(self, job: JobRecord, replica: int, host: int) -> tuple[str, Work]:
        assert job.attempt is not None
        is_claimed = job.attempt.hosts[replica][host].claim is not None
        seat = seat_of(job, replica, host)
        work = register_work(self._store, seat, is_claimed=is_claimed)
        return f"sweep/{job.id}/{replica}/{host}", work


def _unended(root: Root) -> Iterator[tuple[str, int, int]]:
    """Yield (job, replica, host) of every host that has a start instruction and has not ended."""
    for job in root.jobs.values():
        if job.attempt is None or not job.is_admitted:
            continue
        for r, h, _, state in job.attempt.each_host():
            if state.end is None and state.instructed:
                yield job.id, r, h
