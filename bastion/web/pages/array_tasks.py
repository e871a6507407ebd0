"""The tasks of an array by state, unsuccessful ones first, each with its own address."""

from __future__ import annotations

from collections import defaultdict

from bastion.client.look.views import JobView
from bastion.spec.arrays.indices import Indices
from bastion.spec.arrays.task import task_id
from bastion.value import value
from bastion.web.reading.board import Board

MOST_LINKS = 30
"""Of one state; all tasks are listed as ranges."""
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
