"""One job, from any place that knows it: a row, an array that contains it, or its final record."""

from __future__ import annotations

import re
from collections.abc import Callable

from bastion.client.code.stored_code import CodeView, code_view
from bastion.client.look.array_views import task_of
from bastion.client.look.find_job import find
from bastion.client.look.published import Published
from bastion.client.look.rows import job_of_result
from bastion.client.look.views import JobView
from bastion.errors import BastionError, NotFoundError, SpecError, StoreError
from bastion.job import PastAttempt
from bastion.records.coding.codec import decode_known
from bastion.records.keys import layout
from bastion.records.requests.launch_request import SpecRecord
from bastion.records.requests.result import Result
from bastion.spec.arrays.task import tasks_of_id
from bastion.store.port import ObjectStore
from bastion.value import value
from bastion.web.reading.board import Board

NAME = re.compile(r"[A-Za-z0-9][\w.@+-]{0,120}", re.ASCII)
"""The allowed form of a project, a user or a job in an address; nothing else is looked up."""


@value
class KnownJob:
    """A job, and its attempts that have ended."""

    job: JobView
    past: tuple[PastAttempt, ...] = ()


class Jobs:
    """
    The jobs of one bucket.

    Args:
        store: The bucket; called once per read, without retries.
        wall: The date by the bucket's clock, from which ages are computed.
    """

    def __init__(self, store: ObjectStore, wall: Callable[[], float]) -> None:
        self._store = store
        self._published = Published(store, wall)

    def known(self, board: Board, project: str, name: str) -> KnownJob:
        """
        Return the job with this ID in a project.

        Raises:
            NotFoundError: There is none.
            RecordError: Its final record cannot be read.
            StoreError: Unreachable.
        """
        if not NAME.fullmatch(project) or not NAME.fullmatch(name):
            raise NotFoundError(f"there is no job {name} in project {project}")
        row = board.by_id.get(name)
        if row is not None and row["project"] == project and row.get("phase") != "draining":
            return KnownJob(job=board.job(row))
        if (result := self._result(project, name)) is not None:
            return KnownJob(job=job_of_result(result), past=result.past)
        if row is not None and row["project"] == project:
            return KnownJob(job=board.job(row))
        if (task := self._task(board, project, name)) is not None:
            return KnownJob(job=task)
        raise NotFoundError(
            f"no job {name} in {project}",
            hint="it may have been submitted a moment ago, or its record was deleted",
        )

    def place_of(self, board: Board, text: str) -> tuple[str, str] | None:
        """
        Return the project and the ID of the job that `text` names; None if there is none.

        `text` is an ID, or the name of the newest ended job if it is part of no active job.

        Raises:
            StoreError: Unreachable.
        """
        if not NAME.fullmatch(text):
            return None
        if (row := board.by_id.get(text)) is not None:
            return str(row["project"]), text
        places = self._published.projects()
        for place in places:
            if self._result(place, text) is not None:
                return place, text
        if any(board.chosen(search=text)):
            return None
        try:
            found = find(self._published, text)
        except (NotFoundError, SpecError):
            return None
        return found.project, found.id

    def spec(self, job: JobView) -> SpecRecord | None:
        """
        Return what was submitted, or None if it was deleted or cannot be read.

        Raises:
            StoreError: Unreachable.
        """
        try:
            return self._published.spec(job.project, job.launch)
        except StoreError:
            raise
        except BastionError:
            return None

    def code(self, spec: SpecRecord) -> CodeView | None:
        """
        Return what code it runs and its origin, or None if that cannot be read.

        Raises:
            StoreError: Unreachable.
        """
        try:
            return code_view(self._store, spec)
        except StoreError:
            raise
        except BastionError:
            return None

    def _result(self, project: str, name: str) -> Result | None:
        key = layout.result(project, name)
        try:
            found = self._store.read(key)
        except NotFoundError:
            return None
        return None if found is None else decode_known(Result, found.data, key=key)

    def _task(self, board: Board, project: str, name: str) -> JobView | None:
        """Return a task that has neither a row nor a record of its own, from its array."""
        named = tasks_of_id(name)
        if named is None:
            return None
        row = board.by_id.get(named[0])
        if row is not None and row["project"] == project:
            return task_of(board.job(row), named[1].first)
        ended = self._result(project, named[0])
        return None if ended is None else task_of(job_of_result(ended), named[1].first)
