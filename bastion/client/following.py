"""Logs of a job while it runs: read or followed, and the bastion told that someone follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bastion.client.log import Chunk, JobLog
from bastion.client.published import Published
from bastion.client.requests import Requests
from bastion.client.views import JobView
from bastion.client.wanted import Wanted
from bastion.client.watch import Watch
from bastion.clock import Clock
from bastion.errors import StoreError
from bastion.records.request import FollowRequest
from bastion.store.port import ObjectStore

_TELL_S = 45.0
"""Between two notes that someone follows: the agent flushes at once for 60 s after each."""


class Logs:
    """
    The logs of one bucket.

    Args:
        store: The bucket.
        published: What is known of jobs.
        requests: Where to tell that someone follows; None where agents flush at once anyway.
        watch: Looks at jobs by id.
        clock: For waiting.
        poll_s: Between two looks.
    """

    def __init__(
        self,
        store: ObjectStore,
        published: Published,
        requests: Requests | None,
        watch: Watch,
        clock: Clock,
        *,
        poll_s: float,
    ) -> None:
        self._store = store
        self._published = published
        self._requests = requests
        self._watch = watch
        self._clock = clock
        self._poll_s = poll_s

    def of(self, job: JobView, wanted: Wanted, *, follow: bool) -> Iterator[Chunk]:
        """What `job` printed; with `follow` until it has ended."""
        log = JobLog(self._store, job.project, job.id)
        if job.has_ended or not follow:
            return log.read(wanted)
        return log.follow(
            wanted, self._clock, poll_s=self._poll_s, has_ended=self._ending(job.id, job.project)
        )

    def of_new(self, job: str, project: str, *, tell: Callable[[JobView], None]) -> Iterator[Chunk]:
        """
        What a job that was just submitted prints, from its first byte to its last.

        Args:
            job: Its id.
            project: What it is charged to.
            tell: Called with what is known of it at every look.
        """
        is_over = self._ending(job, project)

        def has_ended() -> bool:
            view = self._watch.look({job: project})[job]
            if view is not None:
                tell(view)
            return is_over()

        log = JobLog(self._store, project, job)
        return log.follow(Wanted(attempt=0), self._clock, poll_s=self._poll_s, has_ended=has_ended)

    def _ending(self, job: str, project: str) -> Callable[[], bool]:
        """Whether the job's final record is written; while it cannot be known, no."""
        told_at = float("-inf")

        def has_ended() -> bool:
            nonlocal told_at
            now = self._clock.monotonic()
            if self._requests is not None and now - told_at > _TELL_S:
                told_at = now
                self._requests.tell(project, "follow", FollowRequest(targets=(job,)))
            try:
                return self._published.result(project, job) is not None
            except StoreError:
                return False

        return has_ended
