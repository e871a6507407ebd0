"""
What users and admins did, from the events of a bucket: files, holds, cancels, cordons.

It also says how long each preemption took: from its notice, which is an event, to the attempt's
end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from bastion.records.reports.history import EndedAttempt, Shares
from bastion.records.root import Event
from bastion.simulator.workload.job import Deed, Happening
from bastion.value import value
from quota import Quota, parse
from quota.file.errors import QuotaError

_RELEASED = ("queued", "preempted", "ready")
_OF_MACHINES: Mapping[str, Deed] = {
    "machine cordoned": "cordon",
    "machine draining": "cordon",
    "machine unwell": "cordon",
    "machine uncordoned": "uncordon",
    "machine well": "uncordon",
}
_RESTARTED = "machine ready"
"""A restarted agent no longer reports what made its machine unhealthy."""


@value
class Script:
    """Events that no scheduler decides."""

    happenings: tuple[Happening, ...] = ()
    """In order of time; cancels are in the rows of their jobs."""
    first_quota: Quota | None = None
    """The file in force at the beginning; None: the record does not have it."""
    files: int = 0
    """Number of quota files that were in force, one after the other."""
    moments: tuple[float, ...] = ()
    """When the scheduler decided, and when anything else was recorded."""
    replicas: Mapping[tuple[str, int], tuple[float, ...]] = field(default_factory=dict)
    """
    (job, attempt) -> seconds until each replica was gone, unless all were gone at the same time.
    """
    notices: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """All times at which each job was told to stop, by ID."""


def script_of(events: Iterable[Event], *, since: float) -> Script:
    """
    Return what `events`, in their order, describe.

    Args:
        events: From before `since` on, so that they show what was in force then.
        since: When the replay begins.
    """
    happenings: list[Happening] = []
    files: list[tuple[float, Quota]] = []
    jobs = _Jobs()
    text = ""
    unwell: set[str] = set()
    moments: dict[float, None] = {}
    replicas: dict[tuple[str, int], tuple[float, ...]] = {}
    for event in events:
        if isinstance(event.record, EndedAttempt) and event.record.replica_s:
            replicas[event.job, event.record.attempt] = event.record.replica_s
        moments.update(dict.fromkeys((*event.cycles, event.at)))
        if isinstance(event.record, Shares):
            if event.record.file and event.record.file != text:
                text = event.record.file
                files += _file(event.at, text)
        elif event.job:
            happenings += jobs.told(event)
        elif event.what == _RESTARTED:
            if (machine := event.text.partition(" ")[0]) in unwell:
                unwell.remove(machine)
                happenings.append(Happening(at_s=event.at, what="uncordon", name=machine))
        elif deed := _OF_MACHINES.get(event.what):
            machine = event.text.partition(":")[0].removesuffix(" may start jobs again")
            happenings.append(Happening(at_s=event.at, what=deed, name=machine))
            if event.what == "machine unwell":
                unwell.add(machine)
            else:
                unwell.discard(machine)
    before = [quota for at, quota in files if at <= since]
    later = [(at, quota) for at, quota in files if at > since]
    happenings += [Happening(at_s=at, what="quota", quota=quota) for at, quota in later]
    return Script(
        happenings=tuple(sorted(happenings, key=lambda each: each.at_s)),
        first_quota=before[-1] if before else None,
        files=len(later) + bool(before),
        moments=tuple(sorted(moments)),
        replicas=replicas,
        notices={job: tuple(times) for job, times in jobs.notices.items()},
    )


class _Jobs:
    """Holds and notices, while the events are read."""

    def __init__(self) -> None:
        self.notices: dict[str, list[float]] = {}
        self._submitted: dict[str, float] = {}
        """
        Jobs without other events so far: one that is released now was held from its submission on.
        """
        self._held: set[str] = set()

    def told(self, event: Event) -> list[Happening]:
        job, at = event.job, event.at
        began = self._submitted.pop(job, None)
        if event.what == "submitted":
            self._submitted[job] = at
        elif event.what == "stopping":
            self.notices.setdefault(job, []).append(at)
        elif event.what == "held":
            self._held.add(job)
            return [Happening(at_s=at, what="hold", name=job)]
        elif event.what in _RELEASED and event.record is None:
            found = [Happening(at_s=at, what="release", name=job)]
            if job not in self._held and began is not None:
                found.insert(0, Happening(at_s=began, what="hold", name=job))
            self._held.discard(job)
            return found
        return []


def _file(at: float, text: str) -> list[tuple[float, Quota]]:
    try:
        return [(at, parse(text))]
    except QuotaError:
        return []  # from a version whose files this one cannot read
