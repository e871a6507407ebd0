"""
A workload from the record of attempts, and the record of a simulation.

The length of a job is the time for which its attempts held their devices, minus what was lost; for
an elastic job, it is that of its device time on the devices of its last attempt. A replay therefore
does not count starts and stops twice. A job that had not ended is left out,
because its length is unknown. One that its user cancelled continues until that time, whenever it
starts. Each preemption takes and loses what it did in the record.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bastion.history import AttemptRow
from bastion.job import StopReason
from bastion.simulator.engine.result import JobResult, Result
from bastion.simulator.replay.script import Script
from bastion.simulator.workload.job import Happening, Part, Stop, TraceJob, Workload
from bastion.value import value
from quota import Quota

_CANCELLED = "cancelled"
_LOSING = ("preempted", "lost")
_OF_JOBS = ("hold", "release", "cancel")


class Decision(NamedTuple):
    """One start and its outcome."""

    job: str
    started_at: float
    freed_at: float
    machines: tuple[str, ...]
    was_preempted: bool


@value
class Recorded:
    """A recorded workload, and what the scheduler decided about it at the time."""

    workload: Workload
    decisions: tuple[Decision, ...]
    """By job and time."""
    left_out: int = 0
    """Jobs that requested no devices, or had not ended."""
    files: int = 0
    """Number of quota files that were in force, as far as the record has them."""
    first_quota: Quota | None = None
    """The file in force at the beginning; None: the record does not have it."""

    @property
    def names(self) -> tuple[str, ...]:
        """IDs of the jobs, by index."""
        return tuple(job.name for job in self.workload.jobs)


def recorded(rows: Iterable[AttemptRow], *, source: str, script: Script | None = None) -> Recorded:
    """
    Return the workload that `rows` describe, and the decisions in them.

    Args:
        rows: Attempts, in the order of their ends.
        source: Where they come from, for reports.
        script: What users and admins did in the meantime; None: only cancels.
    """
    script = script or Script()
    by_job: dict[str, list[AttemptRow]] = {}
    for row in rows:
        by_job.setdefault(row.job, []).append(row)
    jobs: list[TraceJob] = []
    decisions: list[Decision] = []
    deeds = list(script.happenings)
    for name, attempts in by_job.items():
        held = [row for row in attempts if row.admitted_at is not None and row.freed_at is not None]
        job = _job(name, attempts[-1], held, script)
        if job is None:
            continue
        jobs.append(job)
        decisions += [_decision(row) for row in held]
        last = attempts[-1]
        if last.job_outcome == _CANCELLED or last.stop_reason == StopReason.CANCEL:
            deeds.append(_cancel(name, last, script.notices.get(name, ())))
    jobs.sort(key=lambda job: (job.submit_s, job.name))
    names = {job.name for job in jobs}
    deeds = [each for each in deeds if each.what not in _OF_JOBS or each.name in names]
    deeds.sort(key=lambda each: each.at_s)
    return Recorded(
        workload=Workload(jobs=jobs, source=source, script=tuple(deeds), moments=script.moments),
        decisions=tuple(sorted(decisions)),
        left_out=len(by_job) - len(jobs),
        files=script.files,
        first_quota=script.first_quota,
    )


def _job(
    name: str, last: AttemptRow, held: Sequence[AttemptRow], script: Script
) -> TraceJob | None:
    """Return the job for a trace; None if it had not ended or requests no devices."""
    request = json.loads(last.request) if last.request else {}
    kind, devices = last.device_type or "", last.devices
    if held:
        kind, devices = held[-1].device_type or "", held[-1].devices
    elif not devices:
        kind, devices = _asked(request)
    if not last.job_outcome or not devices or last.tasks is not None:
        return None
    length, lost = _work(held, devices)
    if last.job_outcome == _CANCELLED:
        length = last.ended_at - last.submitted_at + 1.0  # it never ends on its own
    return TraceJob(
        name=name,
        submit_s=last.submitted_at,
        duration_s=max(length, 1e-3),
        devices=devices,
        replicas=last.replicas,
        type=kind,
        project=last.project,
        user=last.user,
        priority=last.priority,
        max_runtime_s=request.get("max_runtime_s"),
        grace_s=request.get("grace_s"),
        borrow=request.get("borrow", True),
        stops=_stops(held, lost, script.notices.get(name, ())),
        begins=tuple(map(_begin_s, held)),
        parts=tuple(_parts(row, script) for row in held),
        longest_s=max(map(_held_s, held), default=0.0),
    )


def _cancel(name: str, last: AttemptRow, notices: Sequence[float]) -> Happening:
    """
    Return when the user of a job cancelled it, and how long it took to end.

    If the job was being preempted, only the time of the notice is known: the user cancelled later.
    """
    if last.admitted_at is None or last.freed_at is None:
        return Happening(at_s=last.ended_at, what="cancel", name=name)
    at = _told_at(last, notices)
    if last.stop_reason == StopReason.PREEMPT:
        at = (at + last.freed_at) / 2
    return Happening(at_s=at, what="cancel", name=name, takes_s=last.freed_at - at)


def _told_at(row: AttemptRow, notices: Sequence[float]) -> float:
    """Return when an attempt got its notice; its end, if the record does not say."""
    began, freed_at = row.admitted_at or 0.0, row.freed_at or 0.0
    return max((at for at in notices if began <= at <= freed_at), default=freed_at)


def _held_s(row: AttemptRow) -> float:
    """Return how long an attempt held its devices."""
    return (row.freed_at or 0.0) - (row.admitted_at or 0.0)


def _begin_s(row: AttemptRow) -> float:
    """Return how long after its admission an attempt ran; its running time counts from then."""
    if row.started_at is None or row.admitted_at is None:
        return math.inf
    return row.started_at - row.admitted_at


def _work(held: Sequence[AttemptRow], devices: int) -> tuple[float, list[float]]:
    """
    Return how much work a job is, and what each attempt lost of it, in seconds on `devices`.

    A job that ended sooner than an earlier attempt ran must have kept its work without reporting
    it.
    """
    parts = [row.devices / devices for row in held]
    times = [_held_s(row) * part for row, part in zip(held, parts)]
    lost = [(row.lost_s or 0.0) * part if _loses(row) else 0.0 for row, part in zip(held, parts)]
    length = sum(times) - sum(lost)
    kept = 0.0
    for time, part in zip(times[:-1], lost):
        if kept + time >= length:
            return sum(times), [0.0] * len(held)
        kept += time - part
    return length, lost


def _loses(row: AttemptRow) -> bool:
    """Whether the job does again what this attempt lost."""
    return row.outcome in _LOSING or row.stop_reason == StopReason.RESIZE


def _stops(
    held: Sequence[AttemptRow], lost: Sequence[float], notices: Sequence[float]
) -> tuple[Stop, ...]:
    """Return what each preemption took: from the last notice before its end until that end."""
    found = []
    for row, lost_s in zip(held, lost):
        was_told = row.stop_reason == StopReason.PREEMPT or row.outcome == "preempted"
        if was_told and row.freed_at is not None:
            leave_s = row.freed_at - _told_at(row, notices)
            found.append(Stop(leave_s=leave_s, lost_s=lost_s))
    return tuple(found)


def _parts(row: AttemptRow, script: Script) -> tuple[Part, ...]:
    """Return when each replica of an attempt was gone; empty if all were gone at the same time."""
    each = script.replicas.get((row.job, row.attempt), ())
    last, told_s = max(each, default=0.0), 0.0
    if row.stop_reason:
        told_s = _told_at(row, script.notices.get(row.job, ())) - (row.admitted_at or 0.0)
    return tuple(Part(gone_s, last - gone_s, by_itself=gone_s <= told_s) for gone_s in each)


def _asked(request: Mapping[str, Any]) -> tuple[str, int]:
    """Return which devices, and how many, a job requests that never had any."""
    each = {
        kind: units
        for kind, units in (request.get("per_replica") or {}).items()
        if kind not in ("cpu", "memory")
    }
    kind = next(iter(each), "")
    return kind, int(each.get(kind, 0)) * int(request.get("replicas", 1))


def _decision(row: AttemptRow) -> Decision:
    return Decision(
        job=row.job,
        started_at=row.admitted_at or 0.0,
        freed_at=row.freed_at or 0.0,
        machines=tuple(sorted(row.machines)),
        was_preempted=row.outcome == "preempted",
    )


def decisions_of(result: Result) -> tuple[Decision, ...]:
    """Return what the scheduler decided in a simulation, in the format of the record."""
    return tuple(
        sorted(
            Decision(
                job=each.job.name,
                started_at=span.start,
                freed_at=span.end,
                machines=tuple(sorted(span.taken)),
                was_preempted=span.kind == "preempted",
            )
            for each in result.jobs
            for span in each.spans
        )
    )


def same_starts(then: Recorded, result: Result) -> float:
    """Return the fraction of the recorded starts that a replay makes in the same second."""
    own = {(each.job, round(each.started_at)) for each in decisions_of(result)}
    found = sum((each.job, round(each.started_at)) in own for each in then.decisions)
    return found / len(then.decisions) if then.decisions else 1.0


def by_name(result: Result) -> dict[str, JobResult]:
    """Return the results of the jobs, by name."""
    return {each.job.name: each for each in result.jobs}
