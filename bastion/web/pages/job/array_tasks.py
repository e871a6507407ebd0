"""The tasks of an array: by state, unsuccessful ones first, and by the reason of a failure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from bastion.client.look.views import JobView
from bastion.history.attempt_row import AttemptRow
from bastion.job import FAILURES, OutcomeKind
from bastion.spec.arrays.indices import Indices
from bastion.spec.arrays.task import task_id
from bastion.value import value
from bastion.web.reading.board import Board

MOST_LINKS = 30
"""Of one state; all tasks are listed as ranges."""
MOST_REASONS = 12
MOST_TEXT = 500
"""Characters of a reason: the page of the task has all of it."""
_FAILED = {kind.value for kind in (*FAILURES, OutcomeKind.TIMED_OUT, OutcomeKind.LOST)}
_WRONG = ("failed", "out_of_memory", "setup_failed", "timed_out", "lost", "preempted")


@value
class TaskGroup:
    """The tasks in one state."""

    state: str
    number: int
    links: tuple[tuple[int, str], ...]
    """(index, ID) of the first of them."""
    ranges: str
    """All of them, in the format of `--array`."""

    @property
    def has_more(self) -> bool:
        """Whether some have no link."""
        return self.number > len(self.links)


@value
class FailedTasks:
    """The tasks that failed for one reason."""

    state: str
    text: str
    tasks: tuple[tuple[int, str, int], ...]
    """(index, ID, attempt) of each."""

    @property
    def links(self) -> tuple[tuple[int, str, int], ...]:
        """The first of them."""
        return self.tasks[:MOST_LINKS]


def failed_tasks(job: JobView, ended: Sequence[AttemptRow]) -> tuple[FailedTasks, ...]:
    """Return the failed tasks of the array `job` by reason, the most frequent reasons first."""
    found: defaultdict[tuple[str, str], dict[int, tuple[str, int]]] = defaultdict(dict)
    for row in ended:
        if row.launch == job.id and row.task is not None and row.job_outcome in _FAILED:
            found[row.outcome, row.text[:MOST_TEXT]][row.task] = (row.job, row.attempt)
    groups = [
        FailedTasks(state=state, text=text, tasks=tuple((n, *tasks[n]) for n in sorted(tasks)))
        for (state, text), tasks in found.items()
    ]
    return tuple(sorted(groups, key=lambda group: (-len(group.tasks), group.tasks)))


def task_groups(job: JobView, board: Board) -> tuple[TaskGroup, ...]:
    """Return the tasks of the array `job`; none for any other job."""
    if not job.counts:
        return ()
    active: defaultdict[str, list[int]] = defaultdict(list)
    for row in board.rows:
        if row.get("launch") == job.id and row.get("task") is not None:
            active[row["state"]].append(row["task"])
    known = {state: Indices.known(written) for state, written in job.ranges.items()}
    states = sorted({*active, *known}, key=lambda state: (_place(state, job), state))
    return tuple(
        _group(job, state, Indices.of(active[state]) | known.get(state, Indices()))
        for state in states
    )


def _place(state: str, job: JobView) -> int:
    if state in _WRONG:
        return _WRONG.index(state)
    counted = [*job.counts, state]
    return len(_WRONG) + counted.index(state)


def _group(job: JobView, state: str, tasks: Indices) -> TaskGroup:
    return TaskGroup(
        state=state,
        number=len(tasks),
        links=tuple((index, task_id(job.id, index)) for index in tasks.lowest(MOST_LINKS)),
        ranges=str(tasks),
    )
