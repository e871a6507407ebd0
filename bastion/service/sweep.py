"""The sweep: a few registers read now and then, so that a lost bell costs time and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from bastion.job import JobRecord
from bastion.records.facts import HostFact
from bastion.records.root import Root
from bastion.service.act import Work, register_work
from bastion.store import ObjectStore

AT_ONCE = 8
"""Registers that one sweep reads: a constant, whatever runs."""


class Sweep:
    """Walks the hosts of all admitted jobs in a circle, `AT_ONCE` a time."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._at = ""

    def works(self, root: Root) -> Iterator[tuple[str, Work]]:
        """(key, work) for the registers that were unread the longest."""
        admitted = sorted(job.id for job in root.jobs.values() if job.is_admitted)
        after = [job_id for job_id in admitted if job_id > self._at]
        left = AT_ONCE
        for job_id in (after + [each for each in admitted if each <= self._at])[:AT_ONCE]:
            for key, work in _unended(self._store, root.jobs[job_id]):
                yield key, work
                left -= 1
                if left == 0:
                    break
            self._at = job_id
            if left == 0:
                return


def _unended(store: ObjectStore, job: JobRecord) -> Iterator[tuple[str, Work]]:
    attempt = job.attempt
    if attempt is None:
        return
    for r, h, _, state in attempt.each_host():
        if state.end is None and state.instructed:
            of = HostFact(
                project=job.project,
                job=job.id,
                attempt=attempt.number,
                nonce=attempt.nonce,
                replica=r,
                host=h,
            )
            is_claimed = state.claim is not None
            yield f"sweep/{job.id}/{r}/{h}", register_work(store, of, is_claimed=is_claimed)
