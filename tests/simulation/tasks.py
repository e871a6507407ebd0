"""
What must hold for arrays: every task is in one place at every commit, and ends exactly once.

It reads committed roots and final records, and does not know how the leader moves a task.
"""

from __future__ import annotations

from collections.abc import Callable

from bastion.array import ArrayRecord
from bastion.errors import NotFoundError
from bastion.records.coding.codec import decode
from bastion.records.keys import layout
from bastion.records.requests.result import Result
from bastion.records.root import Root
from bastion.spec import Indices, task_id
from bastion.store.memory import MemoryStore

TASKS = "tasks: every task of an array is in one place, and ends exactly once"


class Tasks:
    """
    The check of one run.

    Args:
        store: The bucket, read without the actors' knowledge.
        fail: Called with the name of the broken invariant and what was seen.
    """

    def __init__(self, store: MemoryStore, fail: Callable[[str, str], None]) -> None:
        self._store = store
        self._fail = fail
        self._ran: dict[str, set[int]] = {}
        """By array: the tasks that ever had a record."""

    def check(self, root: Root, before: Root | None) -> None:
        """Check a commit that follows `before`."""
        for job in root.jobs.values():
            if job.task is None:
                continue
            self._ran.setdefault(job.launch, set()).add(job.task)
            if job.launch not in root.arrays:
                self._fail(TASKS, f"{job.id} is in root without its array")
        for array in root.arrays.values():
            self._in_one_place(root, array)
            was = before.arrays.get(array.id) if before is not None else None
            if was is not None:
                self._only_forward(was, array)
        for gone in before.arrays.keys() - root.arrays.keys() if before is not None else ():
            assert before is not None
            self._has_ended(before.arrays[gone])

    def _in_one_place(self, root: Root, array: ArrayRecord) -> None:
        jobs = [job for job in root.jobs.values() if job.launch == array.id]
        own = Indices.of(job.task for job in jobs if job.task is not None)
        places = [array.waiting, own, *array.ended.values()]
        together = Indices(pair for place in places for pair in place.pairs)
        if together != array.tasks or sum(map(len, places)) != len(array.tasks):
            self._fail(TASKS, f"{array.id}: {array.tasks} is not one each of {places}")
        holding = sum(job.is_admitted for job in jobs)
        if array.at_once is not None and holding > array.at_once:
            self._fail(TASKS, f"{array.id}: {holding} hold devices, {array.at_once} may")
        if (array.ended_at is not None) != (array.all_ended == array.tasks):
            self._fail(TASKS, f"{array.id} has ended at {array.ended_at} with {array.ended}")

    def _only_forward(self, was: ArrayRecord, array: ArrayRecord) -> None:
        if array.waiting - was.waiting:
            self._fail(TASKS, f"{array.id}: {array.waiting - was.waiting} wait again")
        if was.cancelled_by and array.waiting:
            self._fail(TASKS, f"{array.id} is cancelled, and {array.waiting} wait")
        for kind, over in was.ended.items():
            if over - array.ended.get(kind, Indices()):
                self._fail(TASKS, f"{array.id}: of {over} that {kind} some are elsewhere")

    def _has_ended(self, array: ArrayRecord) -> None:
        result = self._result(array, array.id)
        if result is None or dict(result.tasks) != dict(array.ended):
            self._fail(TASKS, f"{array.id} left root as {array.ended}; its record says {result}")
            return
        for index in self._ran.get(array.id, ()):
            own = self._result(array, task_id(array.id, index))
            if own is None or index not in array.ended.get(own.outcome, Indices()):
                self._fail(TASKS, f"{array.id}.{index} ended as {own}, its array says otherwise")
        never = array.tasks - Indices.of(self._ran.get(array.id, ()))
        if never - array.ended.get("cancelled", Indices()):
            self._fail(TASKS, f"{array.id}: {never} never ran, and were not cancelled")

    def _result(self, array: ArrayRecord, job: str) -> Result | None:
        key = layout.result(array.project, job)
        try:
            found = self._store.read(key)
        except NotFoundError:
            return None
        assert found is not None
        return decode(Result, found.data, key=key)
