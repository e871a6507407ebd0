"""Logs of a job while it runs: read or followed, and the bastion told that someone follows."""

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
"""Tasks; each is a folder of the bucket that is listed again and again."""
_TELL_S = 45.0
"""Between two notes that someone follows: the agent flushes at once for 60 s after each."""


class Logs:
    """
    The logs of one bucket.

    Args:
        store: The bucket, to read what stands.
        hasty: The same, asked once, to look again and again.
        published: What is known of jobs.
        requests: Where to tell that someone follows; None where agents flush at once anyway.
        watch: Looks at jobs by id.
        clock: For waiting.
        poll_s: Between two looks.
        outage: Told whether the store answers.
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

    def of(self, job: JobView, wanted: Wanted, *, follow: bool) -> Iterator[Chunk]:
        """What `job` printed; with `follow` until nothing more can come."""
        if job.is_decided or not follow:
            return JobLog(self._store, job.project, job.id).read(wanted)
        log = JobLog(self._hasty, job.project, job.id)
        follower = log.followed(wanted, outage=self._outage)
        return self._followed([follower], {job.id: job.project}, _no_report)

    def of_tasks(
        self, tasks: Sequence[JobView], wanted: Wanted, *, follow: bool
    ) -> Iterator[Iterator[Chunk]]:
        """
        What `tasks` of an array printed: the log of each, one after the other.

        With `follow` that of those that have ended, and then what the others print, as it comes.

        Raises:
            SpecError: More than 100 of them go on, and are to be followed.
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
            yield self._followed(followers, places, _no_report)

    def of_new(
        self, jobs: Mapping[str, str], *, tell: Callable[[JobView], None]
    ) -> Iterator[Chunk]:
        """
        What jobs that were just submitted print, from the first byte to the last.

        Args:
            jobs: By id, what each is charged to.
            tell: Called with what is known of each at every look.
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
        """Those of `jobs` that print nothing any more; while it cannot be known, none."""
        found = set()
        try:
            for job, view in self._watch.look(jobs).items():
                if view is not None:
                    tell(view)
                # A bastion that died after the record was written never took back its view.
                is_over = view is not None and view.is_decided
                if is_over or self._published.result(jobs[job], job) is not None:
                    found.add(job)
        except StoreError as error:
            self._outage.met(error)
        else:
            self._outage.over()
        return found


def too_many(array: str, count: int) -> SpecError:
    """The error of an array of which more tasks than allowed are to be followed at once."""
    return SpecError(
        f"{array}: {count} tasks go on; at most {MOST_FOLLOWED} are followed at once",
        hint=f"bastion logs {array}.0-{MOST_FOLLOWED - 1} -f, or bastion wait",
    )


def _no_report(_: JobView) -> None:
    """Report nothing."""
