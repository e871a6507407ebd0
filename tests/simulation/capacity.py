"""What jobs hold: single devices, and amounts of everything that a machine has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from bastion.job import HostPlace, JobRecord
from bastion.records.root import Root
from bastion.scheduler.charge import held_by
from quota.amounts import NOTHING, Amounts
from quota.file.config import parse

ALONE = "3: attempts of a job never overlap, jobs never share a device"
CAPACITY = "4: no plan raises usage above capacity"


class Capacity:
    """
    The checks of one run.

    Args:
        fail: Called with the name of a broken invariant and what was seen.
    """

    def __init__(self, fail: Callable[[str, str], None]) -> None:
        self._fail = fail

    def committed(self, before: Root | None, root: Root) -> None:
        """Check `root`, which was committed over `before`."""
        self._check_devices(root)
        if before is not None:
            self._check_capacity(before, root)

    def _check_devices(self, root: Root) -> None:
        """A job that has not ended holds its devices as long as their machine exists."""
        used: dict[tuple[str, str, int], str] = {}
        for job, place in _held(root):
            machine = root.machines.get(place.machine)
            if machine is None:
                continue
            for kind, indices in place.devices.items():
                if max(indices, default=0) >= machine.resources[kind]:
                    self._fail(CAPACITY, f"{job.id}: {machine.name} has no {kind} {indices}")
                for index in indices:
                    other = used.setdefault((machine.name, kind, index), job.id)
                    if other != job.id:
                        self._fail(ALONE, f"{machine.name} {kind} {index}: {other}, {job.id}")

    def _check_capacity(self, before: Root, root: Root) -> None:
        """What a commit admits fits on each of its machines, and in the quota file's totals."""
        new = [job for job in root.jobs.values() if job.attempts > _attempts(before, job)]
        if not new:
            return
        fuller = {place.machine for job, place in _held(root) if job in new}
        used: dict[str, Amounts] = dict.fromkeys(fuller, NOTHING)
        for job, place in _held(root):
            if place.machine in fuller:
                used[place.machine] += _on_one_host(job)
        for name, amounts in used.items():
            has = root.machines[name].resources
            if not amounts.only(has) <= has:
                self._fail(CAPACITY, f"a plan puts {amounts} on {name}, which has {has}")
        totals = _totals(root.quota_text)
        # What lay on a machine that is gone holds nothing: its devices are not there to be used.
        standing = [job for job, place in _held(root) if place.machine in root.machines]
        usage = Amounts.sum(_on_one_host(job) for job in standing)
        grown = Amounts.sum(held_by(job, root.machines) for job in new).only(totals)
        if not usage.only(grown) <= totals:
            self._fail(CAPACITY, f"a plan raises usage to {usage}, the totals are {totals}")


@lru_cache(maxsize=64)
def _totals(quota_text: str) -> Amounts:
    return parse(quota_text).totals


def _attempts(root: Root, job: JobRecord) -> int:
    known = root.jobs.get(job.id)
    return known.attempts if known is not None else 0


def _held(root: Root) -> Iterator[tuple[JobRecord, HostPlace]]:
    """Yield every host of an admitted job that has not ended."""
    for job in root.jobs.values():
        if job.attempt is not None and job.is_admitted:
            for _, _, place, state in job.attempt.each_host():
                if state.end is None:
                    yield job, place


def _on_one_host(job: JobRecord) -> Amounts:
    request = job.request
    return Amounts({kind: units // request.hosts for kind, units in request.per_replica.items()})
