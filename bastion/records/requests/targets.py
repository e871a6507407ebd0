"""Jobs and launches that have left root, looked up in the bucket as dependencies of new jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from bastion.array import ArrayRecord
from bastion.errors import NotFoundError, RecordError, SpecError
from bastion.job import JobRecord, Outcome, OutcomeKind, Phase
from bastion.lifecycle import DependenciesEnded, DependencyEnded, step
from bastion.lifecycle.dependencies import Ended, dependency_events, propagate_ends, waits_for
from bastion.records.coding.codec import decode
from bastion.records.coding.limits import RECORD_BYTES
from bastion.records.keys import layout
from bastion.records.requests.launch_request import SpecRecord
from bastion.records.requests.result import Result
from bastion.records.tasks import array_told, ended_of_arrays, unended
from bastion.spec import job_ids
from bastion.store import ObjectStore

_T = TypeVar("_T")

Targets = Mapping[str, tuple[Ended, ...]]
"""By id: how those jobs of a target ended that have a final record; unknown ids are missing."""
NO_TARGETS: Targets = {}


def look_up(store: ObjectStore, project: str, targets: Iterable[str]) -> Targets:
    """
    Look up each of `targets`, all of one project, in the bucket.

    Raises:
        RecordError: A record cannot be understood.
        StoreError: The bucket is out of reach.
    """
    found: dict[str, tuple[Ended, ...]] = {}
    for target in targets:
        end = end_of(store, project, target)
        if end is not None:
            found[target] = (end,)
            continue
        jobs = jobs_of(store, project, target)
        if jobs is not None:
            ends = (end_of(store, project, job) for job in jobs)
            found[target] = tuple(each for each in ends if each is not None)
    return found


def end_of(store: ObjectStore, project: str, job: str) -> Ended | None:
    """
    Return how `job` ended, by its final record; None if it has none.

    Raises:
        RecordError: The record cannot be understood.
        StoreError: The bucket is out of reach.
    """
    result = _record(store, layout.result(project, job), Result)
    return _ended(result) if result is not None else None


def jobs_of(store: ObjectStore, project: str, launch: str) -> tuple[str, ...] | None:
    """
    Return the jobs of `launch`, by its spec; None if it has none.

    Raises:
        RecordError: The record cannot be understood.
        StoreError: The bucket is out of reach.
    """
    spec = _record(store, layout.spec(project, launch), SpecRecord)
    return job_ids(spec.launch, spec.ulid) if spec is not None else None


def ended_of(jobs: Iterable[JobRecord]) -> Iterator[Ended]:
    """Yield the end of each of `jobs` that is done."""
    for job in jobs:
        if job.phase is Phase.DONE and job.outcome is not None:
            yield Ended(job=job.id, launch=job.launch, outcome=job.outcome)


def without_ended(
    jobs: Sequence[JobRecord],
    known: Mapping[str, JobRecord],
    targets: Targets,
    now: float,
    *,
    arrays: Collection[ArrayRecord] = (),
) -> tuple[JobRecord, ...]:
    """
    Return the new `jobs` without the dependencies that are already met.

    Args:
        jobs: The jobs of one launch, as they join the queue.
        known: Every job of their project in root.
        targets: The ends of the others, from the bucket.
        now: The store's time.
        arrays: Every array of their project in root.

    Raises:
        SpecError: A condition can never be met; every such condition is listed.
    """
    stored = (each for found in targets.values() for each in found if each.job not in known)
    ended = [*stored, *ended_of(known.values()), *ended_of_arrays(arrays)]
    events = _by_name(dependency_events(ended, unfinished=unended(known.values(), arrays)))
    made = [_told(job, _concerning(job, events), now) for job in jobs]
    never = [
        f"after: {job.outcome.text}; so {job.id} could never start; with :any behind the name it"
        " starts however that one ended"
        for job in made
        if job.outcome
    ]
    if never:
        raise SpecError(*never)
    return tuple(made)


def settled(
    jobs: Mapping[str, JobRecord],
    arrays: Mapping[str, ArrayRecord],
    ended: Iterable[Ended],
    now: float,
) -> tuple[dict[str, JobRecord], dict[str, ArrayRecord]]:
    """Apply `ended` to the dependents, and so on for each that they end; return both mappings."""
    made, many = dict(jobs), dict(arrays)

    def tell(name: str, event: DependenciesEnded) -> Ended | None:
        if name in many:
            array = many[name]
            if array.ended_at is None and waits_for(array.each.after, event):
                many[name] = array_told(array, event, now)
                return next(ended_of_arrays([many[name]]), None)
        elif made[name].phase is Phase.QUEUED:
            made[name] = _told(made[name], event.ends, now)
            return next(ended_of([made[name]]), None)
        return None

    waiting: dict[str, list[str]] = defaultdict(list)
    for job in (*made.values(), *(array.each for array in many.values())):
        for each in job.after:
            waiting[each.on].append(job.id)
    propagate_ends(
        [*ended, *ended_of(made.values()), *ended_of_arrays(many.values())],
        unfinished=unended(made.values(), many.values()),
        waiting=waiting,
        apply=tell,
    )
    return made, many


_Numbered = dict[int, DependencyEnded]
"""Events by their number, so that events found by several names keep their order."""


def _by_name(events: Iterable[DependencyEnded]) -> Mapping[str, _Numbered]:
    """Return `events` by the jobs and launches that they are about."""
    found: dict[str, _Numbered] = defaultdict(dict)
    for number, event in enumerate(events):
        found[event.job][number] = found[event.launch][number] = event
    return found


def _concerning(job: JobRecord, events: Mapping[str, _Numbered]) -> list[DependencyEnded]:
    """Return the events about what `job` waits for, in order."""
    found: _Numbered = {}
    for each in job.after:
        found |= events.get(each.on, {})
    return [found[number] for number in sorted(found)]


def _told(job: JobRecord, ends: Iterable[DependencyEnded], now: float) -> JobRecord:
    event = DependenciesEnded(ends=tuple(ends))
    return step(job, event, now) if waits_for(job.after, event) else job


def _ended(result: Result) -> Ended:
    try:
        kind = OutcomeKind(result.outcome)
    except ValueError:
        key = layout.result(result.project, result.id)
        raise RecordError(f"{key}: outcome: {result.outcome!r} is not known") from None
    outcome = Outcome(kind=kind, text=result.text, code=result.code)
    return Ended(job=result.id, launch=result.launch, outcome=outcome)


def _record(store: ObjectStore, key: str, kind: type[_T]) -> _T | None:
    try:
        found = store.read(key, limit_bytes=RECORD_BYTES)
    except NotFoundError:
        return None
    assert found is not None
    return decode(kind, found.data, key=key)
