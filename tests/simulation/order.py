"""
Jobs that start before what they wait for has come true, or end while it may yet come true.

It reads the stored specs and the outcome of each job, never what the bastion derived from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bastion.errors import NotFoundError
from bastion.job import JobRecord, OutcomeKind
from bastion.records.coding.codec import decode
from bastion.records.keys import layout
from bastion.records.requests.launch_request import SpecRecord
from bastion.records.root import Root
from bastion.spec import Job, job_ids
from bastion.spec.after import When
from bastion.store.memory import MemoryStore

AFTER = "after: no job starts, or is given up, before what it waits for has ended so"


class Order:
    """
    The check of one run.

    Args:
        store: The bucket, read without the actors' knowledge.
        fail: Called with the name of the broken invariant and what was seen.
    """

    def __init__(self, store: MemoryStore, fail: Callable[[str, str], None]) -> None:
        self._store = store
        self._fail = fail
        self._specs: dict[tuple[str, str], SpecRecord] = {}

    def check(self, root: Root, before: Root | None, ever: Mapping[str, JobRecord]) -> None:
        """Compare what is new in `root` with `ever`, the latest state of every job."""
        for job in root.jobs.values():
            known = before.jobs.get(job.id) if before is not None else None
            has_started = job.attempts == 1 and (known is None or known.attempts == 0)
            was_given_up = job.outcome is not None and "its dependency" in job.outcome.text
            if not has_started and not (was_given_up and job.attempts == 0):
                continue
            states = [self._state(asked, on, ever) for asked, on in self._awaited(job)]
            if has_started and any(state != "met" for state in states):
                self._fail(AFTER, f"{job.id} starts: {states}")
            if was_given_up and "never" not in states:
                self._fail(AFTER, f"{job.id} is given up: {states}")

    def _awaited(self, job: JobRecord) -> list[tuple[When, str]]:
        key = job.project, job.launch
        if key not in self._specs:
            try:
                found = self._store.read(layout.spec(*key))
            except NotFoundError:
                return []  # only in tests of this check: an invented root in an empty bucket
            assert found is not None
            self._specs[key] = decode(SpecRecord, found.data, key="spec")
        spec = self._specs[key]
        launch = spec.launch
        ids = dict(zip((each.name for each in launch.jobs), job_ids(launch, spec.ulid)))
        own: Sequence[Job] = launch.jobs if launch.together else [launch.jobs[job.index]]
        asked = [*launch.waits_for, *(after for each in own for after in each.waits_for)]
        return [(each.when, ids.get(each.job, each.job)) for each in asked]

    def _state(self, when: When, on: str, ever: Mapping[str, JobRecord]) -> str:
        jobs = [job for job in ever.values() if on in (job.id, job.launch)]
        over = [job.outcome.kind is OutcomeKind.SUCCEEDED for job in jobs if job.outcome]
        is_over = len(over) == len(jobs) and bool(jobs)
        if when == "ok":
            return "never" if not all(over) else "met" if is_over else "waits"
        if when == "failed" and is_over:
            return "never" if all(over) else "met"
        return "met" if is_over else "waits"
