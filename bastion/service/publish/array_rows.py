"""
The rows of arrays in the view of the queue: one row for all tasks of an array.

The reason of an array is that of its next task.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from bastion.array import ArrayRecord, task_over
from bastion.job import JobRecord
from bastion.lifecycle import kept_outcome, remark
from bastion.records.coding.codec import plain
from bastion.records.root import Root
from bastion.scheduler.forecast.confidence import NO_START, Start, start_of
from bastion.scheduler.plan import Plan, Verdict, Wait
from bastion.scheduler.reasons.reason import AtOnce, Backoff, Held, text
from bastion.spec import Request, task_id

_STATES = ("running", "starting", "stopping", "draining", "preempted", "queued", "held")
"""The state of an array is the first of these that one of its tasks is in."""
_HOLD_DEVICES = ("running", "starting", "stopping")
_START = tuple(field.name for field in fields(Start))

Row = dict[str, Any]


def array_rows(root: Root, plan: Plan | None, rows: Iterable[Row]) -> list[Row]:
    """
    Return the rows of all active arrays, oldest first.

    `rows` are the rows of jobs. A task among them without a verdict of the scheduler gets its
    reason here.
    """
    tasks: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["task"] is not None:
            tasks[row["launch"]].append(row)
    arrays = sorted(root.arrays.values(), key=lambda array: (array.each.submitted_at, array.id))
    verdicts = plan.verdicts if plan is not None else {}
    made = []
    for array in arrays:
        row = _row(array, tasks[array.id], verdicts, root.now)
        jobs = [root.jobs[task["id"]] for task in tasks[array.id]]
        made.append(row | _expected_outcome(array, jobs, root.now))
    return made


def _expected_outcome(array: ArrayRecord, jobs: Sequence[JobRecord], now: float) -> Row:
    """
    Return the outcome of `array` if all of its tasks have ended or are held for inspection.

    So a user who waits for it need not wait until the held tasks are released.
    """
    if array.waiting or not any(job.is_kept for job in jobs):
        return {}
    for job in jobs:
        outcome = job.outcome or kept_outcome(job)
        if outcome is None or job.task is None:
            return {}
        expected = replace(outcome, text=remark(job) or outcome.text)
        array = task_over(array, job.task, expected, now)
    outcome = array.outcome
    return {"outcome": outcome.kind.value, "code": outcome.code, "text": outcome.text}


def _row(array: ArrayRecord, tasks: list[Row], verdicts: Mapping[str, Verdict], now: float) -> Row:
    each = array.each
    counts = Counter(row["state"] for row in tasks)
    counts += Counter(queued=len(array.ready), held=len(array.held))
    counts += Counter({kind: len(over) for kind, over in array.ended.items()})
    wait = _wait(array, tasks, verdicts, counts)
    reason = wait.reason if wait is not None else None
    if isinstance(reason, AtOnce):
        for row in tasks:
            if row["phase"] == "queued" and row["reason"] is None:
                row |= {"reason": plain(reason), "text": text(reason, now)}
    state = next((state for state in _STATES if counts[state]), "draining")
    return {
        "id": array.id,
        "name": each.name,
        "project": array.project,
        "user": each.user,
        "launch": array.id,
        "state": state,
        "phase": state,
        "priority": each.request.priority,
        "units": dict(each.request.units.items()),
        "replicas": each.request.replicas,
        **range_fields(each.request),
        "submitted_at": each.submitted_at,
        "queued_at": each.queued_at,
        "counts": dict(counts),
        "at_once": array.at_once,
        "tasks": str(array.tasks),
        "waiting": str(array.waiting),
        "held": str(array.held),
        "ended": {kind: str(over) for kind, over in array.ended.items()},
        "reason": plain(reason) if reason is not None else None,
        "text": text(reason, now) if reason is not None else "",
        **plain_start(wait),
        **_end(array),
    }


def _end(array: ArrayRecord) -> Row:
    """
    Return the fields of a row about the end of an array; none while a task has not ended.

    Its final record is written after this commit, so a waiting user may see this row first.
    """
    if array.ended_at is None:
        return {}
    outcome = array.outcome
    kind = outcome.kind.value
    return {
        "state": kind,
        "phase": "done",
        "outcome": kind,
        "code": outcome.code,
        "text": outcome.text,
        "ended_at": array.ended_at,
    }


def range_fields(request: Request) -> Row:
    """Return the field of a row about the range of a job that can grow and shrink."""
    return {"replica_range": [request.replicas, request.most]} if request.is_elastic else {}


def plain_start(verdict: Verdict | None) -> Row:
    """Return the fields of a row about the estimated start of a waiting job, and its confidence."""
    start = start_of(verdict) if isinstance(verdict, Wait) else NO_START
    return {name: getattr(start, name) for name in _START}


def _wait(
    array: ArrayRecord, tasks: list[Row], verdicts: Mapping[str, Verdict], counts: Counter[str]
) -> Wait | None:
    """Return why its next task waits and when it will probably start; None if no task waits."""
    requeued = sorted(row["task"] for row in tasks if row["phase"] == "queued")
    ready = array.ready
    waits = [
        verdict
        for index in (*requeued, *ready.lowest(1))
        if isinstance(verdict := verdicts.get(task_id(array.id, index)), Wait)
    ]
    for verdict in waits:
        if not isinstance(verdict.reason, (Backoff, Held)):
            return verdict
    holding = sum(counts[state] for state in _HOLD_DEVICES)
    if (requeued or ready) and array.at_once is not None and holding >= array.at_once:
        return Wait(reason=AtOnce(limit=array.at_once))
    if waits:
        return waits[0]
    return Wait(reason=Held(by=array.held_by)) if array.held and not ready else None
