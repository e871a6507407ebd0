"""
The record of an array: one record for all its tasks, however many there are.

Every task is in exactly one place: it waits (`waiting`), it has ended (`ended`), or it has its own
job record in root, from its admission until its final record is written. A task that is retried
keeps its job record, because of its history.

These functions are pure. Nothing else changes such a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_

from bastion.job import FAILURES, JobRecord, Outcome, OutcomeKind
from bastion.spec.arrays.indices import NONE, Indices
from bastion.spec.arrays.task import task_id
from bastion.value import field, replace, value

WORST_FIRST = (
    OutcomeKind.FAILED,
    OutcomeKind.OUT_OF_MEMORY,
    OutcomeKind.SETUP_FAILED,
    OutcomeKind.LOST,
    OutcomeKind.TIMED_OUT,
    OutcomeKind.CANCELLED,
    OutcomeKind.SUCCEEDED,
)
"""The precedence of outcomes: an array gets its worst task's; the lowest index breaks a tie."""


@value
class ArrayRecord:
    """One active array."""

    each: JobRecord
    """The job record that every task starts from, under the id of the array."""
    tasks: Indices
    """Number of all tasks."""
    at_once: int | None = None
    """How many tasks can hold devices at the same time."""
    max_failures: int | None = None
    """The number of final failures at which the other tasks are cancelled."""
    waiting: Indices = NONE
    """Tasks that were never admitted but still can be."""
    held: Indices = NONE
    """The tasks in `waiting` that a user holds."""
    held_by: str = ""
    ended: Mapping[str, Indices] = field(default_factory=dict)
    """Ended tasks, by the kind of their outcome."""
    worst: Outcome | None = None
    """The worst outcome of its ended tasks."""
    worst_task: int = 0
    cancelled_by: str = ""
    """The user who cancelled the whole array, or empty."""
    ended_at: float | None = None
    """When its last task ended and its final record became due."""

    @property
    def id(self) -> str:
        """Its id, which is also the id of its launch."""
        return self.each.id

    @property
    def project(self) -> str:
        """The project that its tasks are charged to."""
        return self.each.project

    @property
    def ready(self) -> Indices:
        """The waiting tasks that are not held."""
        return self.waiting - self.held

    @property
    def failed(self) -> int:
        """How many of its tasks have failed with no retry left and have a final record."""
        return sum(len(self.ended.get(kind.value, NONE)) for kind in FAILURES)

    @property
    def all_ended(self) -> Indices:
        """All tasks that have ended."""
        return reduce(or_, self.ended.values(), NONE)

    def task(self, index: int) -> JobRecord:
        """The first job record of a waiting task; it has no notifications: only the array has."""
        held = self.held_by if index in self.held else ""
        return replace(self.each, id=task_id(self.id, index), task=index, held=held, notify=())

    @property
    def outcome(self) -> Outcome:
        """Its outcome, once all of its tasks have ended."""
        assert self.worst is not None, f"{self.id} has not ended"
        total = len(self.tasks)
        if self.worst.kind is OutcomeKind.SUCCEEDED:
            text = {1: "its one task", 2: "both tasks"}.get(
                total, f"all {total} tasks"
            ) + " succeeded"
            return replace(self.worst, text=text, replica=None)
        alike = self.ended[self.worst.kind.value]
        verb = self.worst.kind.value.replace("_", " ")
        text = f"{len(alike)} of {total} tasks {verb}; task {self.worst_task}: {self.worst.text}"
        left = len(self.ended.get(OutcomeKind.CANCELLED.value, NONE))
        if self.cancelled_by and left and self.worst.kind is not OutcomeKind.CANCELLED:
            text += f"; {left} cancelled by {self.cancelled_by}"
        return replace(self.worst, text=text, replica=None)


def new_array(
    each: JobRecord, tasks: Indices, *, at_once: int | None, max_failures: int | None = None
) -> ArrayRecord:
    """Return an array whose tasks all wait; all are held if `each` is."""
    return ArrayRecord(
        each=replace(each, held=""),
        tasks=tasks,
        at_once=at_once,
        max_failures=max_failures,
        waiting=tasks,
        held=tasks if each.held else NONE,
        held_by=each.held,
    )


def taken(array: ArrayRecord, index: int) -> ArrayRecord:
    """Return `array` after its waiting task `index` got its own job record."""
    one = Indices.of([index])
    assert one & array.waiting, f"task {index} of {array.id} does not wait"
    return _without(array, one)


def task_over(array: ArrayRecord, index: int, outcome: Outcome, now: float) -> ArrayRecord:
    """Return `array` after its task `index` got a final record and left root."""
    one = Indices.of([index])
    return _over(_without(array, one), one, outcome, now)


def cancelled(array: ArrayRecord, indices: Indices, by: str, now: float) -> ArrayRecord:
    """
    Return `array` after the waiting tasks in `indices` were cancelled.

    They get no final records of their own: the array's record names them.
    """
    gone = array.waiting & indices
    if indices == array.tasks:
        array = replace(array, cancelled_by=by)
    if not gone:
        return array
    outcome = Outcome(kind=OutcomeKind.CANCELLED, text=f"cancelled by {by}")
    return _over(_without(array, gone), gone, outcome, now)


def given_up(array: ArrayRecord, outcome: Outcome, now: float) -> ArrayRecord:
    """Return `array` after all of its waiting tasks ended with `outcome`."""
    gone = array.waiting
    return _over(_without(array, gone), gone, outcome, now) if gone else array


def held_back(array: ArrayRecord, indices: Indices, by: str) -> ArrayRecord:
    """Return `array` after the waiting tasks in `indices` were held."""
    return replace(array, held=array.held | (array.waiting & indices), held_by=by)


def released(array: ArrayRecord, indices: Indices, now: float) -> ArrayRecord:
    """
    Return `array` after the tasks in `indices` were released.

    All its tasks share one queue time: that of the first waiting task.
    """
    held = array.held - indices
    each = array.each if array.ready or held == array.held else replace(array.each, queued_at=now)
    return replace(array, each=each, held=held, held_by=array.held_by if held else "")


def updated(
    array: ArrayRecord, *, priority: int | None, max_runtime_s: float | None
) -> ArrayRecord:
    """Return `array` after the request of its waiting tasks was changed."""
    request = array.each.request
    if priority is not None:
        request = replace(request, priority=priority)
    limit_s = array.each.revised_limit_s
    if max_runtime_s is not None:
        request, limit_s = replace(request, max_runtime_s=max_runtime_s), max_runtime_s
    return replace(array, each=replace(array.each, request=request, revised_limit_s=limit_s))


def _without(array: ArrayRecord, gone: Indices) -> ArrayRecord:
    held = array.held - gone
    by = array.held_by if held else ""
    return replace(array, waiting=array.waiting - gone, held=held, held_by=by)


def _over(array: ArrayRecord, over: Indices, outcome: Outcome, now: float) -> ArrayRecord:
    kind = outcome.kind.value
    ended = {**array.ended, kind: array.ended.get(kind, NONE) | over}
    worst, worst_task = array.worst, array.worst_task
    if worst is None or _badness(outcome, over.first) < _badness(worst, worst_task):
        worst, worst_task = outcome, over.first
    array = replace(array, ended=ended, worst=worst, worst_task=worst_task)
    is_over = sum(map(len, ended.values())) == len(array.tasks)
    return replace(array, ended_at=now) if is_over else array


def _badness(outcome: Outcome, task: int) -> tuple[int, int]:
    return WORST_FIRST.index(outcome.kind), task
