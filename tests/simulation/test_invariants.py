"""Each check of the simulation detects its breach: a valid state with one thing wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from bastion.job import HostPlace, JobRecord, Phase
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.root import Event, Root, RootWriter, Segment, decode_root
from bastion.store.memory import MemoryStore
from quota.amounts import Amounts
from tests.simulation import invariants as names
from tests.simulation.baton import Baton, SimClock
from tests.simulation.capacity import ALONE, CAPACITY
from tests.simulation.fates import Calm
from tests.simulation.invariants import Invariants
from tests.simulation.machines import SimProvider
from tests.simulation.scenario import calm
from tests.simulation.webhooks import SimWebhooks


@cache
def busy_root() -> Root:
    """Return a root of the scenario with at least four running jobs and one waiting job."""
    world = calm(0)
    found: list[Root] = []
    tell = world.invariants.wrote

    def wrote(operation: str, key: str, data: bytes) -> None:
        tell(operation, key, data)
        if key == layout.ROOT and not found:
            root = decode_root(data)
            phases = [job.phase for job in root.jobs.values()]
            if phases.count(Phase.RUNNING) >= 4 and Phase.QUEUED in phases:
                found.append(root)

    world.invariants.wrote = wrote  # type: ignore[method-assign]
    world.run()
    return replace(found[0], events=(), sealed=(), next_event=0)


class Eye:
    """The checks alone; `broken` has the names of the broken invariants."""

    def __init__(self) -> None:
        baton = Baton(0)
        self.broken: list[str] = []
        self.bucket = MemoryStore(lambda: 0.0)
        self._writer = RootWriter(self.bucket, SimClock(baton))
        provider = SimProvider(
            baton,
            Calm(),
            capacity=2,
            boot=lambda machine: None,
            on_start=lambda machine, attempt: None,
            on_delete=lambda name: None,
            root=lambda: None,
        )
        self.checks = Invariants(
            self.bucket,
            provider,
            [],
            SimWebhooks(baton, Calm()),
            fail=lambda name, text: self.broken.append(name),
        )

    def see(self, root: Root) -> None:
        """Commit `root`."""
        self.checks.wrote("swap", layout.ROOT, self._writer.encoded(root))


def following(root: Root, **changes: Any) -> Root:
    """Return the root of the next commit."""
    changed = replace(root, seq=root.seq + 1, write_id="next", prev_write_id=root.write_id)
    return replace(changed, **changes)


def with_job(root: Root, job: JobRecord) -> Root:
    """Return the next root, with `job` in place of its earlier state."""
    return following(root, jobs={**root.jobs, job.id: job})


def running(root: Root) -> list[JobRecord]:
    """Return running jobs."""
    return [job for job in root.jobs.values() if job.phase is Phase.RUNNING]


def placed(job: JobRecord, place: HostPlace) -> JobRecord:
    """Return `job` with its first host elsewhere."""
    assert job.attempt is not None
    first = replace(job.attempt.placement[0], hosts=(place,))
    attempt = replace(job.attempt, placement=(first, *job.attempt.placement[1:]))
    return replace(job, attempt=attempt)


def skips_a_commit(root: Root) -> Root:
    """One commit is missing between the two."""
    return following(root, seq=root.seq + 2)


def goes_back_in_time(root: Root) -> Root:
    """Time runs backwards."""
    return following(root, now=root.now - 1.0)


def loses_a_job(root: Root) -> Root:
    """A running job is dropped without a result."""
    gone = running(root)[0].id
    return following(root, jobs={name: job for name, job in root.jobs.items() if name != gone})


def shares_a_device(root: Root) -> Root:
    """Two jobs hold the same devices."""
    one, other = running(root)[:2]
    assert one.attempt is not None
    return with_job(root, placed(other, one.attempt.placement[0].hosts[0]))


def invents_a_device(root: Root) -> Root:
    """A job holds a device that its machine does not have."""
    job = running(root)[0]
    assert job.attempt is not None
    machine = job.attempt.placement[0].hosts[0].machine
    return with_job(root, placed(job, HostPlace(machine=machine, devices={"h100": (8,)})))


def ends_a_job(root: Root) -> Root:
    """A running job becomes done; that alone is no breach."""
    done = replace(running(root)[0], phase=Phase.DONE, attempt=None)
    return with_job(root, done)


def jumps_two_attempts(root: Root) -> Root:
    """Two attempts start in one commit."""
    job = running(root)[0]
    return with_job(root, replace(job, attempts=job.attempts + 2))


def stops_what_it_admits(root: Root) -> Root:
    """An attempt is stopped by the commit that starts it."""
    job = next(job for job in root.jobs.values() if job.phase is Phase.QUEUED)
    attempt = replace(running(root)[0].attempt, nonce="new")  # type: ignore[type-var]
    return with_job(
        root, replace(job, phase=Phase.STOPPING, attempts=job.attempts + 1, attempt=attempt)
    )


def overfills_a_machine(root: Root) -> Root:
    """A plan puts more on a machine than it has, although every index is free."""
    job = next(job for job in root.jobs.values() if job.phase is Phase.QUEUED)
    attempt = running(root)[0].attempt
    assert attempt is not None
    admitted = replace(
        job,
        phase=Phase.STARTING,
        attempts=job.attempts + 1,
        attempt=replace(attempt, nonce="new"),
        request=replace(job.request, per_replica=Amounts({"h100": 9})),
    )
    place = attempt.placement[0].hosts[0]
    return with_job(root, placed(admitted, HostPlace(machine=place.machine, devices={})))


def tells_the_future(root: Root) -> Root:
    """An event has a number beyond the next one."""
    return following(root, events=(Event(n=5, at=root.now, what="?"),), next_event=6)


BREACHES: dict[Callable[[Root], Root], str] = {
    skips_a_commit: names.CHAIN,
    goes_back_in_time: names.CHAIN,
    loses_a_job: names.APPLIED,
    shares_a_device: ALONE,
    invents_a_device: CAPACITY,
    jumps_two_attempts: names.TABLE,
    stops_what_it_admits: names.TABLE,
    overfills_a_machine: CAPACITY,
    tells_the_future: names.HISTORY,
}


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: breach.__name__)
def test_a_breach_is_seen_by_its_invariant(breach: Callable[[Root], Root]) -> None:
    """A commit with this one thing wrong breaks the invariant that forbids it."""
    eye, root = Eye(), busy_root()
    eye.see(root)
    assert not eye.broken
    eye.see(breach(root))
    assert BREACHES[breach] in eye.broken


def test_a_sound_commit_breaks_nothing() -> None:
    """The same state under the next number is no breach."""
    eye, root = Eye(), busy_root()
    eye.see(root)
    eye.see(following(root))
    assert not eye.broken


def test_a_placement_on_a_closed_machine_is_seen() -> None:
    """A new attempt on a machine that was already cordoned is a breach; a running one is not."""
    root = busy_root()
    job = running(root)[0]
    assert job.attempt is not None
    place = job.attempt.placement[0].hosts[0]
    shut = {name: replace(each, cordoned="care") for name, each in root.machines.items()}
    eye = Eye()
    eye.see(replace(root, machines=shut))
    eye.see(following(root, machines=shut))
    assert names.CLOSED not in eye.broken
    again = replace(placed(job, place).attempt, nonce="another")  # type: ignore[type-var]
    eye = Eye()
    eye.see(replace(root, machines=shut))
    eye.see(replace(with_job(root, replace(job, attempt=again)), machines=shut))
    assert names.CLOSED in eye.broken


def test_an_end_is_final() -> None:
    """A job that is done never changes its phase."""
    eye, root = Eye(), busy_root()
    eye.see(root)
    done = ends_a_job(root)
    eye.see(done)
    assert not eye.broken
    job = next(job for job in done.jobs.values() if job.phase is Phase.DONE)
    eye.see(replace(with_job(done, replace(job, phase=Phase.QUEUED)), write_id="third"))
    assert eye.broken == [names.TABLE]


def test_a_cancelled_job_is_never_admitted() -> None:
    """An attempt that starts after the commit of a cancel is a breach."""
    eye, root = Eye(), busy_root()
    waiting = next(job for job in root.jobs.values() if job.phase is Phase.QUEUED)
    cancelled = with_job(root, replace(waiting, cancelled_by="ann"))
    eye.see(cancelled)
    attempt = replace(running(root)[0].attempt, nonce="new")  # type: ignore[type-var]
    started = replace(
        waiting, cancelled_by="ann", phase=Phase.STARTING, attempts=1, attempt=attempt
    )
    eye.see(replace(with_job(cancelled, started), write_id="third"))
    assert names.CANCELLED in eye.broken


def test_an_event_is_never_rewritten() -> None:
    """A committed event with another text is a breach."""
    eye, root = Eye(), busy_root()
    first = following(root, events=(Event(n=0, at=root.now, what="founded"),), next_event=1)
    eye.see(first)
    assert not eye.broken
    eye.see(following(first, events=(Event(n=0, at=root.now, what="?"),), write_id="third"))
    assert names.HISTORY in eye.broken


@pytest.mark.parametrize(("stored", "broken"), [(b"", True), (b"{}\n", True), (None, False)])
def test_events_leave_root_for_a_written_segment(stored: bytes | None, broken: bool) -> None:
    """A sealed range that leaves root must be in the bucket, as it was committed."""
    eye, root = Eye(), busy_root()
    event = Event(n=0, at=root.now, what="founded")
    segment = Segment(first=0, events=(event,))
    first = following(root, sealed=(segment,), next_event=1)
    eye.see(first)
    assert not eye.broken
    eye.bucket.create(layout.events(0), encode(event) if stored is None else stored)
    eye.see(replace(following(first, sealed=()), write_id="third"))
    assert eye.broken == [names.HISTORY] * broken


def test_missing_logs_are_seen() -> None:
    """A result is a breach while bytes named in `end` are not in the bucket."""
    world = calm(0)
    world.run()
    checks, bucket = world.invariants, world.bucket
    broken: list[str] = []
    checks._fail = lambda name, text: broken.append(name)
    machine = next(iter(world.provider.machines.values()))
    machine.state = "running"
    key = next(key for key, where in checks._started.items() if where is machine)
    stored = [e.key for e in bucket.list(layout.LOGS) if e.key.split("/")[2] == key.split("/")[1]]
    project, job = key.split("/")[:2]
    found = bucket.read(layout.result(project, job))
    assert found is not None
    checks.wrote("create", layout.result(project, job), found.data)
    assert not broken
    bucket.delete(stored[0])
    checks.wrote("create", layout.result(project, job), found.data)
    assert broken == [names.LOGS]
