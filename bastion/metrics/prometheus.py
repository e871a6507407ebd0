"""The meter that counts: it has its own registry, so that two in one process do not mix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

from bastion.job import JobRecord
from bastion.metrics.gauges import ViewGauges, Views, queued_at
from bastion.metrics.use_gauges import Uses
from bastion.records.reports.history import EndedAttempt
from bastion.records.root import Event
from bastion.version import VERSION

View = Mapping[str, Any]
WAITS_S = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600, 168 * 3600)
"""From zero to a week: the range of waits with a share, a borrowed start and a full pool."""
TURNS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
CALLS_S = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60)
_LATER: Mapping[str, Any] = {"namespace": "bastion", "registry": None}
"""Of a metric that is registered once it has a value."""


def _job_end(event: Event) -> str:
    """Return how a job ended in `event`; empty if none did. The end of an array does not count."""
    record = event.record
    return record.job_outcome if isinstance(record, EndedAttempt) and record.tasks is None else ""


class PrometheusMeter:
    """Counts reports, and answers with the totals."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._views: Views = {}
        self._uses: Uses = {}
        own = {"registry": self.registry, "namespace": "bastion"}
        self._turns = Histogram(
            "turn_seconds",
            "How long a turn of the leader took",
            ("moved",),
            buckets=TURNS_S,
            **own,  # type: ignore[arg-type]
        )
        # Only a leader has these two: a value of 0 from a page server would be false.
        self._commits = Counter("commits", "Commits of this process", **_LATER)
        self._strangers = Gauge(
            "stranger_machines",
            "Machines that a provider lists and the bastion's state does not have",
            **_LATER,
        )
        self._has_led = False
        self._leads = False
        self._calls = Histogram(
            "store_seconds",
            "Calls of the store, by operation and outcome",
            ("operation", "outcome"),
            buckets=CALLS_S,
            **own,  # type: ignore[arg-type]
        )
        self._waits = Histogram(
            "job_wait_seconds",
            "From joining the queue to the first start of a job, counted as it starts",
            ("project",),
            buckets=WAITS_S,
            **own,  # type: ignore[arg-type]
        )
        self._preemptions = Counter(
            "preemptions",
            "Jobs that were preempted, by project",
            ("project",),
            **own,  # type: ignore[arg-type]
        )
        self._ends = Counter(
            "job_ends",
            "Jobs that ended, by project and outcome",
            ("project", "outcome"),
            **own,  # type: ignore[arg-type]
        )
        build = Gauge("build", "1, with the version", ("version",), **own)  # type: ignore[arg-type]
        build.labels(VERSION).set(1)
        self.registry.register(ViewGauges(lambda: self._views, lambda: self._uses))
        self._seen: dict[str, tuple[int, bool]] | None = None

    def turned(self, seconds: float, *, moved: bool) -> None:
        """Count a turn."""
        self._turns.labels("yes" if moved else "no").observe(seconds)

    def committed(self, events: Sequence[Event], jobs: Mapping[str, JobRecord]) -> None:
        """Count a commit, and the starts, preemptions and ends in it."""
        if not self._has_led:
            self._has_led = True
            self.registry.register(self._commits)
        if not self._leads:
            self._leads = True
            self.registry.register(self._strangers)
        self._commits.inc()
        for event in events:
            if event.what == "running":
                job = jobs.get(event.job)
                if job is not None and job.attempts == 1 and job.attempt is not None:
                    at = job.attempt.started_at or event.at
                    self._waits.labels(job.project).observe(max(0.0, at - job.queued_at))
            elif event.what == "preempted":
                self._preemptions.labels(event.project).inc()
            elif outcome := _job_end(event):
                self._ends.labels(event.project, outcome).inc()

    def published(self, views: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep the views for the gauges; missing views remain unchanged."""
        self._views = {**self._views, **views}

    def rested(self) -> None:
        """Forget the views and the strangers: another bastion leads now and has its own."""
        self._views = {}
        if self._leads:
            self._leads = False
            self.registry.unregister(self._strangers)
            self._strangers.set(0)

    def strangers(self, number: int) -> None:
        """Keep the number of machines that root does not have."""
        self._strangers.set(number)

    def asked(self, operation: str, seconds: float, outcome: str) -> None:
        """Count a call of the store."""
        self._calls.labels(operation, outcome).observe(seconds)

    def looked(self, queue: View, pool: View, status: View, uses: Uses | None = None) -> None:
        """
        Keep views that another process published, and count the changes between two of them.

        `uses` is what machines use, for the gauges.

        A job that starts and ends between two looks is not counted.
        """
        before = self._seen
        now: dict[str, tuple[int, bool]] = {}
        for row in queue.get("jobs") or ():
            preemptions, began = row.get("preemptions", 0), row.get("started_at")
            now[row["id"]] = (preemptions, began is not None or row.get("attempt", 0) > 1)
            if before is None:
                continue
            known = before.get(row["id"], (0, False))
            if preemptions > known[0]:
                self._preemptions.labels(row["project"]).inc(preemptions - known[0])
            if began is not None and not known[1] and row.get("attempt") == 1:
                waited_s = max(0.0, began - (queued_at(row) or began))
                self._waits.labels(row["project"]).observe(waited_s)
        self._seen = now
        self._views = {"queue": queue, "pool": pool, "status": status}
        self._uses = uses or {}

    def answer(self, accept: str) -> tuple[bytes, str]:
        """Return everything in the format that `accept` requests, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type
