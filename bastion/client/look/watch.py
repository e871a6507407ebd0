"""
Polling of jobs until they end.

One read of the queue's view serves all jobs that are in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from bastion.client.look.array_views import task_of
from bastion.client.look.published import Published
from bastion.client.look.views import JobView
from bastion.client.patience import Outage
from bastion.clock import Clock
from bastion.errors import NotFoundError, SpecError, StoreError, TimedOutError
from bastion.spec.arrays.task import tasks_of_id
from bastion.spec.values.quantity import seconds_of

_SHOWN = 5
"""Jobs that an error lists."""

WaitReport: TypeAlias = Callable[[int, int], None]
"""Called with the number of ended jobs, and the number of all."""


def no_report(ended: int, total: int) -> None:
    """Report nothing."""


def one_timeout(timeout: float | str | None, timeout_s: float | None) -> float | None:
    """
    Return the timeout in seconds, given by either name; text such as `90s` or `2h`. None if absent.

    Raises:
        SpecError: Both were given, or it is not a duration.
    """
    if timeout is not None and timeout_s is not None:
        raise SpecError("timeout: it is the same as timeout_s; give one of them")
    given = timeout_s if timeout is None else timeout
    return None if given in (None, float("inf")) else seconds_of("timeout", given)


class Watch:
    """
    Reads the state of jobs, and waits until they end.

    Args:
        published: The published views, read without retries, since waiting polls anyway.
        patient: The same, with retries while the store does not answer.
        clock: Used for waiting.
        poll_s: Seconds between two polls.
        outage: Records whether the store answers.
        on_look: Called at every poll.
    """

    def __init__(
        self,
        published: Published,
        clock: Clock,
        *,
        patient: Published,
        poll_s: float,
        outage: Outage,
        on_look: Callable[[], None] = lambda: None,
    ) -> None:
        self._published = published
        self._patient = patient
        self._on_look = on_look
        self._clock = clock
        self._poll_s = poll_s
        self._outage = outage

    def look(self, jobs: Mapping[str, str]) -> dict[str, JobView | None]:
        """
        Return the view of each job now; None while nothing is published of it.

        `jobs` maps ids to projects.

        Raises:
            StoreError: The bucket is unreachable.
        """
        return self._views(self._published, jobs)

    def now(self, jobs: Mapping[str, str]) -> dict[str, JobView | None]:
        """
        Return what `look` returns, for callers that do not poll: retries while the store does not
        answer.

        Raises:
            StoreError: The bucket is unreachable for too long.
        """
        return self._views(self._patient, jobs)

    def _views(self, published: Published, jobs: Mapping[str, str]) -> dict[str, JobView | None]:
        self._on_look()
        tasks = {job: named for job in jobs if (named := tasks_of_id(job)) is not None}
        wanted = jobs.keys() | {array for array, _ in tasks.values()}
        try:
            rows = published.queued(wanted)
        except NotFoundError:
            rows = {}
        for job, (array, indices) in tasks.items():
            if job not in rows and array in rows:
                waiting = task_of(rows[array], indices.first)
                rows |= {} if waiting is None else {job: waiting}
        return {job: _latest(published, job, place, rows.get(job)) for job, place in jobs.items()}

    def wait(
        self,
        jobs: Mapping[str, str],
        *,
        timeout_s: float | None = None,
        report: WaitReport = no_report,
    ) -> tuple[JobView, ...]:
        """
        Wait until the outcome of every job is certain, and return the jobs in the order given.

        `jobs` maps ids to projects. An outcome is certain once the job has ended, or is held
        because it failed for good. A store that is unreachable or refuses only prolongs the wait,
        and is reported.

        Raises:
            TimedOutError: A job has not ended after `timeout_s`.
        """
        until = float("inf") if timeout_s is None else self._clock.monotonic() + timeout_s
        ended: dict[str, JobView] = {}
        pause_s = min(self._poll_s, 0.005)
        while True:
            left = {job: place for job, place in jobs.items() if job not in ended}
            ended |= self._ended(left)
            report(len(ended), len(jobs))
            if len(ended) == len(jobs):
                return tuple(ended[job] for job in jobs)
            if self._clock.monotonic() >= until:
                names = [job for job in left if job not in ended]
                more = ", ..." if len(names) > _SHOWN else ""
                shown = f"{', '.join(names[:_SHOWN])}{more}"
                many = (
                    f"{len(names)} of {len(jobs)} jobs have not ended after {timeout_s:g}s: {shown}"
                )
                one = f"{shown} has not ended after {timeout_s:g}s"
                raise TimedOutError(
                    one if len(jobs) == 1 else many,
                    hint="nothing was stopped; wait again, or bastion why JOB",
                )
            self._clock.sleep(pause_s)
            pause_s = min(self._poll_s, pause_s * 1.5)

    def _ended(self, jobs: Mapping[str, str]) -> dict[str, JobView]:
        try:
            found = self.look(jobs)
        except StoreError as error:
            self._outage.met(error)
            return {}
        self._outage.over()
        return {job: view for job, view in found.items() if view is not None and view.is_decided}


def _latest(published: Published, job: str, project: str, row: JobView | None) -> JobView | None:
    """Return the row of the queue, or the result of a job that may have left the queue."""
    if row is not None and row.phase not in ("draining", "done"):
        return row
    found = published.result(project, job) or row
    tasks = tasks_of_id(job)
    if found is not None or tasks is None:
        return found
    array = published.result(project, tasks[0])
    return None if array is None else task_of(array, tasks[1].first)
