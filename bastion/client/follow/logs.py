"""Logs of a job while it runs: read or followed, with a note to the bastion about followers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from bastion.client.change.requests import Requests
from bastion.client.follow.log_filter import Wanted
from bastion.client.follow.log_reader import Chunk, Follower, JobLog, follow
from bastion.client.look.published import Published
from bastion.client.look.views import JobView
from bastion.client.look.watch import Watch
from bastion.client.patience import Outage
from bastion.clock import Clock
from bastion.errors import SpecError, StoreError
from bastion.records.requests.job_request import MAX_TARGETS, FollowRequest
from bastion.store.port import ObjectStore

MOST_FOLLOWED = 100
"""In tasks; each is a folder of the bucket that is listed repeatedly."""
_TELL_S = 45.0
"""Between two notes that someone follows: after each, the agent flushes immediately for 60 s."""


def _no_report(_: JobView) -> None:
    """Report nothing."""


class Logs:
    """
    The logs of one bucket.

    Args:
        store: The bucket, to read what is stored.
        hasty: The same without retries, for polling.
        published: What is known of jobs.
        requests: For notes that someone follows; None if agents flush immediately anyway.
        watch: Polls jobs by id.
        clock: Used for waiting.
        poll_s: Seconds between two polls.
        outage: Records whether the store answers.
    """

    def __init__(
        self,
        store: ObjectStore,
        hasty: ObjectStore,
        published: Published,
        requests: Requests | None,
        watch: Watch,
        clock: Clock,
        *,
        poll_s: float,
        outage: Outage,
    ) -> None:
        self._store = store
        self._hasty = hasty
        self._outage = outage
        self._published = published
        self._requests = requests
        self._watch = watch
        self._clock = clock
        self._poll_s = poll_s

    def of(
        self,
        job: JobView,
        wanted: Wanted,
        *,
        follow: bool,
        tell: Callable[[JobView], None] = _no_report,
    ) -> Iterator[Chunk]:
        """
        Return the output of `job`; with `follow`, until nothing more can come.

        `tell` is called with what is known of it at every poll.
        """
        if job.is_decided or not follow:
            return JobLog(self._store, job.project, job.id).read(wanted)
        log = JobLog(self._hasty, job.project, job.id)
        follower = log.followed(wanted, outage=self._outage)
        return self._followed([follower], {job.id: job.project}, tell)

    def of_tasks(
        self,
        tasks: Sequence[JobView],
        wanted: Wanted,
        *,
        follow: bool,
        tell: Callable[[JobView], None] = _no_report,
    ) -> Iterator[Iterator[Chunk]]:
        """
        Yield the output of `tasks` of an array: each task's log, one after the other.

        With `follow`, the logs of ended tasks come first, and then the output of the others as it
        comes. `tell` is called with what is known of these at every poll.

        Raises:
            SpecError: More than 100 of them have not ended, and are to be followed.
        """
        left = [task for task in tasks if follow and not task.has_ended]
        if len(left) > MOST_FOLLOWED:
            raise too_many(left[0].launch, len(left))
        for task in tasks:
            if task not in left and (task.attempt or task.state not in ("queued", "held")):
                yield self.of(task, wanted, follow=False)
        if left:
            places = {task.id: task.project for task in left}
            logs = (JobLog(self._hasty, project, job) for job, project in places.items())
            followers = [log.followed(wanted, outage=self._outage) for log in logs]
            yield self._followed(followers, places, tell)

    def of_new(
        self, jobs: Mapping[str, str], *, tell: Callable[[JobView], None]
    ) -> Iterator[Chunk]:
        """
        Return the output of newly submitted jobs, from the first byte to the last.

        Args:
            jobs: The project that each is charged to, by id.
            tell: Called with what is known of each at every poll.
        """
        logs = (JobLog(self._hasty, project, job) for job, project in jobs.items())
        wanted = Wanted(attempt=0)
        followers = [log.followed(wanted, outage=self._outage) for log in logs]
        return self._followed(followers, jobs, tell)

    def _followed(
        self, logs: list[Follower], jobs: Mapping[str, str], tell: Callable[[JobView], None]
    ) -> Iterator[Chunk]:
        told_at = float("-inf")

        def ended() -> Collection[str]:
            nonlocal told_at
            now = self._clock.monotonic()
            if self._requests is not None and now - told_at > _TELL_S:
                told_at = now
                for project in sorted(set(jobs.values())):
                    targets = tuple(job for job in jobs if jobs[job] == project)
                    for first in range(0, len(targets), MAX_TARGETS):
                        part = FollowRequest(targets=targets[first : first + MAX_TARGETS])
                        self._requests.tell(project, "follow", part)
            return self._ended(jobs, tell)

        return follow(logs, ended, self._clock, poll_s=self._poll_s)

    def _ended(self, jobs: Mapping[str, str], tell: Callable[[JobView], None]) -> Collection[str]:
        """Return those of `jobs` that print nothing more; none while that cannot be known."""
        found = set()
        try:
            for job, view in self._watch.look(jobs).items():
                if view is not None:
                    tell(view)
                # A bastion that died after it wrote the record never removed the job from its view.
                is_over = view is not None and view.is_decided
                if is_over or self._published.result(jobs[job], job) is not None:
                    found.add(job)
        except StoreError as error:
            self._outage.met(error)
        else:
            self._outage.over()
        return found


def too_many(array: str, count: int) -> SpecError:
    """Return the error for an array with more tasks to follow than allowed."""
    return SpecError(
        f"{array}: {count} tasks are active; at most {MOST_FOLLOWED} are followed at once",
        hint=f"bastion logs {array}.0-{MOST_FOLLOWED - 1} -f, or bastion wait",
    )
