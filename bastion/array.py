"""
What is true of an array now: one record for all its tasks, however many.

Every task is in exactly one place: it waits (`waiting`), it has ended (`ended`), or it has a job
record of its own in root, from its admission until its final record stands. A task that is tried
again keeps its record, for it has a history.

Rules: pure; these functions are the only ones that change such a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from bastion.job import FAILURES, JobRecord, Outcome, OutcomeKind
from bastion.spec.indices import NONE, Indices
from bastion.spec.task import task_id
from bastion.value import value

WORST_FIRST = (
    OutcomeKind.FAILED,
    OutcomeKind.OUT_OF_MEMORY,
    OutcomeKind.SETUP_FAILED,
    OutcomeKind.LOST,
    OutcomeKind.TIMED_OUT,
    OutcomeKind.CANCELLED,
    OutcomeKind.SUCCEEDED,
)
"""An array ends as the worst of its tasks did; of equals the one with the lowest index counts."""


@value
class ArrayRecord:
    """One active array."""

    each: JobRecord
    """What every task begins as, under the id of the array."""
    tasks: Indices
    """All of them."""
    at_once: int | None = None
    """How many may hold devices at once."""
    max_failures: int | None = None
    """Once so many have failed for good, the others are cancelled."""
    waiting: Indices = NONE
    """Those that were never admitted and may yet be."""
    held: Indices = NONE
    """Of `waiting`: those that somebody holds back."""
    held_by: str = ""
    ended: Mapping[str, Indices] = field(default_factory=dict)
    """By the kind of their outcome."""
    worst: Outcome | None = None
    """How the worst of them ended."""
    worst_task: int = 0
    cancelled_by: str = ""
    """Who ended all of it, or empty."""
    ended_at: float | None = None
    """When the last of its tasks had ended: its final record is due."""

    @property
    def id(self) -> str:
        """Its name, which is also its launch's."""
        return self.each.id

    @property
    def project(self) -> str:
        """What its tasks are charged to."""
        return self.each.project

    @property
    def ready(self) -> Indices:
        """The waiting tasks that nobody holds."""
        return self.waiting - self.held

    @property
    def failed(self) -> int:
        """How many of its tasks have failed for good and left a final record."""
        return sum(len(self.ended.get(kind.value, NONE)) for kind in FAILURES)

    @property
    def all_ended(self) -> Indices:
        """Every task that has ended."""
        return Indices(pair for some in self.ended.values() for pair in some.pairs)

    def task(self, index: int) -> JobRecord:
        """The record that a waiting task begins with; webhooks are told of the array alone."""
        held = self.held_by if index in self.held else ""
        return replace(self.each, id=task_id(self.id, index), task=index, held=held, notify=())

    @property
    def outcome(self) -> Outcome:
        """How it ended, once all its tasks have."""
        assert self.worst is not None, f"{self.id} has not ended"
        total = len(self.tasks)
        if self.worst.kind is OutcomeKind.SUCCEEDED:
            text = f"all {total} tasks succeeded" if total > 1 else "its one task succeeded"
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
    """An array whose tasks all wait; held as a whole where `each` is."""
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
    """`array` once the waiting task `index` has a record of its own."""
    one = Indices.of([index])
    assert one & array.waiting, f"task {index} of {array.id} does not wait"
    return _without(array, one)


def task_over(array: ArrayRecord, index: int, outcome: Outcome, now: float) -> ArrayRecord:
    """`array` once its task `index` has a final record, and no record in root any more."""
    one = Indices.of([index])
    return _over(_without(array, one), one, outcome, now)


def cancelled(array: ArrayRecord, indices: Indices, by: str, now: float) -> ArrayRecord:
    """
    `array` once those of `indices` that wait will never start.

    They get no final records of their own: that of the array names them.
    """
    gone = array.waiting & indices
    if indices == array.tasks:
        array = replace(array, cancelled_by=by)
    if not gone:
        return array
    outcome = Outcome(kind=OutcomeKind.CANCELLED, text=f"cancelled by {by}")
    return _over(_without(array, gone), gone, outcome, now)


def given_up(array: ArrayRecord, outcome: Outcome, now: float) -> ArrayRecord:
    """`array` once none of the tasks that wait will ever start, for the reason in `outcome`."""
    gone = array.waiting
    return _over(_without(array, gone), gone, outcome, now) if gone else array


def held_back(array: ArrayRecord, indices: Indices, by: str) -> ArrayRecord:
    """`array` once those of `indices` that wait are held."""
    return replace(array, held=array.held | (array.waiting & indices), held_by=by)


def released(array: ArrayRecord, indices: Indices) -> ArrayRecord:
    """`array` once none of `indices` is held."""
    held = array.held - indices
    return replace(array, held=held, held_by=array.held_by if held else "")


def updated(
    array: ArrayRecord, *, priority: int | None, max_runtime_s: float | None
) -> ArrayRecord:
    """`array` once what its waiting tasks ask for is changed."""
    request = array.each.request
    if priority is not None:
        request = replace(request, priority=priority)
    if max_runtime_s is not None:
        request = replace(request, max_runtime_s=max_runtime_s)
    return replace(array, each=replace(array.each, request=request))


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
    is_over = len(array.all_ended) == len(array.tasks)
    return replace(array, ended_at=now) if is_over else array


def _badness(outcome: Outcome, task: int) -> tuple[int, int]:
    return WORST_FIRST.index(outcome.kind), task
