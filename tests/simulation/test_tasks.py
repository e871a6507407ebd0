"""The check of arrays detects every breach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from bastion.array import ArrayRecord, new_array, taken, task_over
from bastion.job import JobRecord, Outcome, OutcomeKind, Phase
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.requests.result import Result
from bastion.records.root import Root
from bastion.spec import Indices, Request, task_id
from bastion.store.memory import MemoryStore
from tests.simulation.tasks import TASKS, Tasks

ARRAY = "a-0123456789"
DONE = Outcome(kind=OutcomeKind.SUCCEEDED, text="exited with code 0")
EACH = JobRecord(
    id=ARRAY,
    project="blue",
    user="ann",
    launch=ARRAY,
    ulid="u",
    submitted_at=0.0,
    request=Request(),
)
NEW = new_array(EACH, Indices([(0, 3)]), at_once=1)
ONE_RUNS = taken(NEW, 0)


def job(index: int, **changes: Any) -> JobRecord:
    """Return a running task."""
    one = replace(NEW.task(index), phase=Phase.RUNNING, attempts=1)
    return replace(one, **changes)


def root(array: ArrayRecord | None, *jobs: JobRecord) -> Root:
    """Return a root with these jobs."""
    arrays: Mapping[str, ArrayRecord] = {} if array is None else {ARRAY: array}
    return Root(
        epoch=1, seq=1, now=0.0, write_id="w", jobs={each.id: each for each in jobs}, arrays=arrays
    )


def record(store: MemoryStore, name: str, outcome: str, tasks: Mapping[str, Indices]) -> None:
    """Write a final record."""
    result = Result(
        id=name,
        project="blue",
        user="ann",
        launch=ARRAY,
        name="a",
        outcome=outcome,
        text="",
        submitted_at=0.0,
        ended_at=1.0,
        tasks=tasks,
    )
    store.create(layout.result("blue", name), encode(result))


def broken(*roots: Root, prepare: Callable[[MemoryStore], None] | None = None) -> list[str]:
    """Return the findings of the check on a sequence of commits."""
    found: list[str] = []
    store = MemoryStore(lambda: 0.0)
    if prepare is not None:
        prepare(store)
    tasks = Tasks(store, lambda name, text: found.append(name))
    before: Root | None = None
    for each in roots:
        tasks.check(each, before)
        before = each
    return found


def ended() -> ArrayRecord:
    """Return the array once all four tasks have succeeded."""
    array = NEW
    for index in range(4):
        array = task_over(array, index, DONE, 1.0)
    return array


def written(store: MemoryStore) -> None:
    """Write the final records of an array of which only task 0 ran."""
    record(store, ARRAY, "cancelled", _ENDED)
    record(store, task_id(ARRAY, 0), "succeeded", {})


_ENDED = {"succeeded": Indices.of([0]), "cancelled": Indices([(1, 3)])}
_OVER = replace(NEW, waiting=Indices(), ended=_ENDED, ended_at=1.0)


def test_a_sound_life_breaks_nothing() -> None:
    """One task of an array runs, the others are cancelled, all is recorded, and it leaves root."""
    lives = root(NEW), root(ONE_RUNS, job(0)), root(_OVER), root(None)
    assert broken(*lives, prepare=written) == []


@pytest.mark.parametrize(
    "roots",
    [
        (root(NEW, job(0)),),
        (root(ONE_RUNS),),
        (root(None, job(0)),),
        (root(taken(ONE_RUNS, 1), job(0), job(1)),),
        (root(ONE_RUNS, job(0)), root(NEW)),
        (root(replace(ended(), ended_at=None)),),
        (root(replace(NEW, cancelled_by="ann")), root(replace(NEW, cancelled_by="ann"))),
        (root(_OVER), root(replace(_OVER, ended={"failed": NEW.tasks}))),
        (root(ended()), root(None)),
    ],
    ids=[
        "in two places",
        "nowhere",
        "without its array",
        "more at once than may",
        "waits again",
        "ended and not known",
        "waits after a cancel",
        "ended twice",
        "left without a record",
    ],
)
def test_a_breach_is_seen(roots: tuple[Root, ...]) -> None:
    """Each way to lose, double or miscount a task is detected at the commit that does it."""
    assert TASKS in broken(*roots)


def test_a_record_that_says_otherwise_is_seen() -> None:
    """The records of a task and of its array agree, and a task that never ran was cancelled."""

    def lies(store: MemoryStore) -> None:
        record(store, ARRAY, "cancelled", _ENDED)
        record(store, task_id(ARRAY, 0), "failed", {})

    assert broken(root(ONE_RUNS, job(0)), root(_OVER), root(None), prepare=lies) == [TASKS]

    def forgets(store: MemoryStore) -> None:
        record(store, ARRAY, "succeeded", ended().ended)

    assert broken(root(ended()), root(None), prepare=forgets) == [TASKS]
