"""
Views of arrays: one view of all tasks, and from it the view of any single task.

A task that waits, or was cancelled before it started, has no row or final record of its own: its
facts are in the array's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bastion.client.look.rows import range_of, range_of_row
from bastion.client.look.views import ENDED, JobView, name_of
from bastion.spec.arrays.indices import Indices
from bastion.spec.arrays.task import task_id, tasks_of_id
from bastion.value import replace
from quota.amounts import Amounts

if TYPE_CHECKING:
    from bastion.array import ArrayRecord

_ORDER = ("running", "starting", "stopping", "draining", "preempted", "queued", "held")


def array_of_row(row: Mapping[str, Any], *, as_of: float) -> JobView:
    """Return the view of an array's row in `view/queue.json`."""
    counts = _in_order(row["counts"])
    ended_at, text = row.get("ended_at"), row.get("text", "")
    return JobView(
        id=row["id"],
        name=row.get("name") or name_of(row["id"]),
        project=row["project"],
        user=row.get("user", ""),
        launch=row["id"],
        state=row["state"],
        phase=row.get("phase", ""),
        priority=row.get("priority", 3),
        units=Amounts(row.get("units") or {}),
        replicas=row.get("replicas", 1),
        replica_range=range_of_row(row),
        submitted_at=row.get("submitted_at", 0.0),
        queued_at=row.get("queued_at") if ended_at is None else None,
        ended_at=ended_at,
        text=text if ended_at is not None else counted(counts, text),
        reason=row.get("reason") or {},
        estimated_at=row.get("estimated_at"),
        confidence=row.get("sure", ""),
        samples=row.get("rests_on", 0),
        margin_s=row.get("off_by_s", 0.0),
        confidence_text=row.get("sure_text", ""),
        outcome=row.get("outcome", ""),
        code=row.get("code"),
        counts=counts,
        ranges=_ranges(row["waiting"], row.get("held", ""), row.get("ended") or {}),
        at_once=row.get("at_once"),
        as_of=as_of,
    )


def array_of_record(array: ArrayRecord, states: Iterable[str]) -> JobView:
    """Return the view of an active array in root; `states` are those of its tasks with a record."""
    counts = Counter(states)
    counts += Counter(queued=len(array.ready), held=len(array.held))
    counts += Counter({kind: len(over) for kind, over in array.ended.items()})
    each = array.each
    state = next((state for state in _ORDER if counts[state]), "queued")
    outcome = None if array.ended_at is None else array.outcome
    return JobView(
        id=array.id,
        name=each.name,
        project=each.project,
        user=each.user,
        launch=array.id,
        state=state if outcome is None else outcome.kind.value,
        phase=state if outcome is None else "done",
        priority=each.request.priority,
        units=each.request.units,
        replicas=each.request.replicas,
        replica_range=range_of(each.request),
        submitted_at=each.submitted_at,
        queued_at=each.queued_at if array.ended_at is None else None,
        ended_at=array.ended_at,
        text=counted(_in_order(counts), "") if outcome is None else outcome.text,
        outcome="" if outcome is None else outcome.kind.value,
        code=None if outcome is None else outcome.code,
        counts=_in_order(counts),
        ranges=_ranges(
            str(array.waiting),
            str(array.held),
            {kind: str(over) for kind, over in array.ended.items()},
        ),
        at_once=array.at_once,
        as_of=each.submitted_at,
    )


def task_of(array: JobView, index: int) -> JobView | None:
    """Return a task of `array` without its own row or record; None if nothing is known of it."""
    for state, written in array.ranges.items():
        if index in Indices.known(written):
            task = _task(array, index, state)
            never = "cancelled before it started" if state == "cancelled" else task.text
            return replace(task, text=never)
    return None


def states_of(array: JobView) -> Callable[[str], JobView]:
    """Return a function from a task's id to its view; a task with its own row shows as active."""
    known = [(state, Indices.known(written)) for state, written in array.ranges.items()]

    def made(task: str) -> JobView:
        named = tasks_of_id(task)
        assert named is not None, f"{task} is not a task"
        index = named[1].first
        state = next((state for state, indices in known if index in indices), "active")
        return _task(array, index, state)

    return made


def _task(array: JobView, index: int, state: str) -> JobView:
    is_over = state in ENDED
    return replace(
        array,
        id=task_id(array.id, index),
        state=state,
        phase="done" if is_over else "queued",
        task=index,
        text="" if is_over else array.text.partition("; ")[2],
        reason={} if is_over else array.reason,
        estimated_at=None,
        confidence="",
        samples=0,
        margin_s=0.0,
        confidence_text="",
        outcome=state if is_over else "",
        code=None,
        counts={},
        ranges={},
        at_once=None,
    )


def part_of(array: JobView, tasks: Indices) -> JobView:
    """Return `array` as the target that names only these of its tasks."""
    return replace(array, id=f"{array.id}.{tasks}")


def each_of(job: JobView) -> Iterator[str]:
    """Yield the id of `job`, or of every task if it stands for a part of an array."""
    tasks = tasks_of_id(job.id)
    if tasks is None:
        yield job.id
    else:
        yield from (task_id(tasks[0], index) for index in tasks[1])


def counted(counts: Mapping[str, int], reason: str) -> str:
    """Return `3 running, 94 queued; ` and why the next one waits; `9 tasks` in one state."""
    told = ", ".join(f"{number:,} {state}" for state, number in counts.items())
    if len(counts) == 1:
        (number,) = counts.values()
        told = f"{number:,} task{'' if number == 1 else 's'}"
    return f"{told}; {reason}" if reason else told


def _in_order(counts: Mapping[str, int]) -> dict[str, int]:
    known = {state: counts[state] for state in _ORDER if counts.get(state)}
    return known | {kind: n for kind, n in sorted(counts.items()) if n and kind not in known}


def _ranges(waiting: str, held: str, ended: Mapping[str, str]) -> dict[str, str]:
    all_waiting = Indices.known(waiting)
    ready = all_waiting - Indices.known(held)
    made = {"queued": str(ready), "held": held, **ended}
    return {state: written for state, written in made.items() if written}
