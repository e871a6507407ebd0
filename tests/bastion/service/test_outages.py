"""The bucket refuses, is full or fails for a while: nothing is lost, doubled or unreported."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from threading import Event

import pytest

from bastion.errors import StoreError, StoreFullError, StoreRefusedError
from bastion.job import End
from bastion.lane import ThreadLane
from bastion.lifecycle.step import DRAIN_S
from bastion.records.keys import layout
from bastion.records.reports.facts import Checkpointed, Drained, Ended
from bastion.service.draft.root_draft import Draft
from bastion.service.intake.arrivals import Intake
from bastion.service.intake.inbox import InboxReader
from bastion.spec import Array, Job, Process, Resources
from bastion.store import Entry, Object, ObjectStore, Version, Written
from bastion.store.port import READ_LIMIT_BYTES
from tests.rigs.leader import CONFIG, Agent, Rig
from tests.rigs.limits import fail_starts

TURNS = 6
"""The number of turns of an outage."""
ERRORS: dict[str, Callable[[str], StoreError]] = {
    "refused": lambda key: StoreRefusedError(f"{key}: 403 Forbidden: <html>AccessDenied</html>"),
    "full": lambda key: StoreFullError(f"{key}: no space left on device"),
    "failing": lambda key: StoreError(f"{key}: 503 \0\x1b[31mtry later"),
}
PLACES = ("", "state/root", "state/log", "launches/", "results/", "jobs/", "view/",
          "instructions/", "go/", "run/", "inbox/")  # fmt: skip


class Outage:
    """A store that raises `error` for keys below `place` during an outage."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.error: Callable[[str], StoreError] | None = None
        self.place = ""
        self.reads_too = False
        self.lands = False
        """Whether a write is done and only its answer is lost."""
        self.raised = 0
        self.is_told = False
        """Whether the operator has seen a problem."""

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        with self._told(key, is_read=True):
            return self._store.read(key, unless=unless, limit_bytes=limit_bytes)

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        with self._told(key):
            return self._store.create(key, data)

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """See the port."""
        with self._told(key):
            return self._store.swap(key, data, if_version=if_version)

    def delete(self, key: str) -> None:
        """See the port."""
        with self._told(key):
            self._store.delete(key)

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        with self._told(prefix, is_read=True):
            return self._store.list(prefix, start_after=start_after, limit=limit)

    @contextmanager
    def _told(self, key: str, *, is_read: bool = False) -> Iterator[None]:
        fails = self.error is not None and key.startswith(self.place)
        fails = fails and (self.reads_too or not is_read)
        if fails and (is_read or not self.lands):
            self._fail(key)
        yield
        if fails:
            self._fail(key)

    def _fail(self, key: str) -> None:
        self.raised += 1
        assert self.error is not None
        raise self.error(key)


def turned(rig: Rig, store: Outage) -> None:
    """Take a turn; as in `serve`, the next one continues from the same root after a failure."""
    try:
        rig.leader.turn()
    except StoreError:
        assert store.error is not None
        store.is_told = True
    store.is_told = store.is_told or bool(rig.journal.problems)
    for agent in rig.agents.values():
        agent.poll()
    rig.clock.advance(1.0)


def step(rig: Rig) -> None:
    """End running jobs."""
    for job in list(rig.root.jobs.values()):
        if job.phase.value == "running":
            for replica in range(job.replicas):
                agent = rig.agent_of(job.id, replica=replica)
                if f"{job.id}/{job.attempts}" in agent.ran:
                    agent.end(job.id, replica=replica)


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("place", PLACES)
def test_an_outage_loses_nothing_and_starts_nothing_twice(name: str, place: str) -> None:
    """Gangs, arrays and their dependents survive outages of parts and of everything."""
    random = Random(f"{name}{place}")
    outages: list[Outage] = []

    def spoiled(store: ObjectStore) -> ObjectStore:
        outages.append(Outage(store))
        return outages[0]

    rig = Rig(spoil=spoiled)
    (store,) = outages
    rig.turn(3)
    asked: list[str] = []
    for number in range(24):
        if number % 8 == 1:
            store.error, store.place = ERRORS[name], place
            # Who commits root waits until it is read, and until a write is refused or landed.
            has_root = place in ("", "state/root")
            store.lands = name == "failing" and (has_root or bool(random.getrandbits(1)))
            store.reads_too = not has_root and bool(random.getrandbits(1))
        if number % 8 == 1 + TURNS:
            store.error = None
        if number % 4 == 0:
            asked.append(rig.launch(f"gang{number}", jobs=pair(), h100=0))
            asked.append(rig.launch(f"wide{number}", replicas=3, h100=2))
            asked.append(rig.launch(f"sweep{number}", array=Array("0-4%2")))
        turned(rig, store)
        if random.getrandbits(1):
            step(rig)
    store.error = None
    for _ in range(80):
        turned(rig, store)
        step(rig)
        if not rig.root.jobs and not rig.root.arrays and not rig.keys("inbox/blue/"):
            break
    assert not rig.root.jobs
    assert not rig.root.arrays
    for each in asked:
        answer = rig.answer(each)
        assert answer.accepted
        for job in answer.jobs:
            result = rig.result(job)
            assert result is not None
            assert result.outcome == "succeeded"
    ran = Counter(f"{agent.name} {each}" for agent in rig.agents.values() for each in agent.ran)
    of_one = {each for each in ran if "wide" not in each}
    assert {each: ran[each] for each in of_one if ran[each] > 1} == {}
    events = [event.n for event in rig.history()]
    assert events == list(range(len(events)))
    assert store.is_told or not store.raised or store.lands


def test_a_refusal_of_all_final_records_is_one_problem() -> None:
    """Each job that ends meanwhile would be one more, with the same cause."""
    rig = Rig(spoil=Outage)
    store = rig.store
    assert isinstance(store, Outage)
    rig.turn(2)
    jobs = [rig.start() for _ in range(3)]
    store.error, store.place = ERRORS["refused"], "jobs/"
    for job in jobs:
        rig.agent_of(job).end(job)
    rig.turn(3)
    (problem,) = rig.journal.problems
    assert problem.startswith("final records: jobs/blue/")
    store.error = None
    rig.turn(3)
    assert rig.journal.problems == ()
    assert all(rig.result(job) is not None for job in jobs)


def ended_job(rig: Rig) -> tuple[str, Agent]:
    """Return a job that ended while its last logs are awaited, and its machine's agent."""
    rig.turn(2)
    job = rig.start()
    agent = rig.agent_of(job)
    of, end = agent.of(job), End(kind="exited", codes=(0,), sizes=(3,))
    agent.ring(Ended(of=of, end=agent.end_as(of, end, rings=False)))
    rig.turn()
    return job, agent


@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_end_of_a_log_is_awaited_anew_after_an_outage(is_restarted: bool) -> None:
    """Its agent could not save it either: no job and no machine goes in the first turn after."""
    rig = Rig(config=f"{CONFIG}idle_timeout = 0\n", spoil=Outage)
    store = rig.store
    assert isinstance(store, Outage)
    job, agent = ended_job(rig)
    assert rig.phase(job) == "draining"
    store.error, store.reads_too = ERRORS["failing"], True
    for _ in range(10):
        with pytest.raises(StoreError):
            rig.leader.turn()
        rig.clock.advance(DRAIN_S / 5)
    store.error = None
    if is_restarted:
        rig.leader = rig.take(pid=2)
    rig.turn(3)
    assert rig.phase(job) == "draining"
    assert agent.name in rig.root.machines
    agent.ring(Drained(of=agent.of(job)))
    assert rig.ended(job).text == "exited with code 0"


def test_a_log_that_never_comes_after_an_outage_is_not_awaited_for_ever() -> None:
    """Its agent's time restarts once, when commits follow each other again."""
    rig = Rig()
    job, _ = ended_job(rig)
    rig.clock.advance(2 * DRAIN_S)
    rig.turn(int(DRAIN_S) - 1)
    assert rig.phase(job) == "draining"
    rig.turn(4)
    result = rig.result(job)
    assert result is not None
    assert "the end of the log may be missing" in result.text


def pair() -> tuple[Job, ...]:
    """Return two jobs that start together."""
    process = Process(["true"], resources=Resources(h100=1))
    return tuple(Job(name=f"j{n}", processes=(process,)) for n in range(2))


def test_a_leader_without_a_thread_keeps_requests_and_bells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A machine that is short of memory harms no arrival: it is read once there is some."""
    rig = Rig()
    job = rig.start()
    lane = ThreadLane("specs", workers=2)
    rig.leader._inbox_reader = InboxReader(rig.store, lane, rig.clock)
    rig.leader._intake._lane = lane
    fail_starts(monkeypatch, after=0, count=100)
    asked, agent = rig.launch("more"), rig.agent_of(job)
    agent.ring(Checkpointed(of=agent.of(job)))
    before = rig.keys("inbox/")
    rig.turn()
    assert len(before) == 2
    assert set(before) <= set(rig.keys("inbox/"))
    (problem,) = rig.journal.problems
    assert "is not read: no thread can be started" in problem
    monkeypatch.undo()
    rig.turn(2)
    assert rig.answer(asked).accepted
    assert not set(before) & set(rig.keys("inbox/"))
    assert rig.journal.problems == ()
    lane.close()


def test_a_leader_without_a_thread_publishes_once_it_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Views whose write never began are published later: else their readers call it dead."""
    rig = Rig()
    rig.turn()
    rig.leader._lane = lane = ThreadLane("store", workers=2)
    fail_starts(monkeypatch, after=0, count=100)
    rig.turn(3)
    monkeypatch.undo()
    rig.turn(2)
    lane.settle(20.0)
    status = rig.bucket.read(layout.view("status"))
    assert status is not None
    assert json.loads(status.data)["seq"] == rig.root.seq
    lane.close()


def test_a_read_that_hangs_keeps_no_spec_waiting() -> None:
    """A turn waits for its writes, not for an object that the store never returns."""
    rig = Rig()
    lane, gate, ended = ThreadLane("specs", workers=2), Event(), list[bool]()
    lane.submit("inbox/hung", lambda: ended.append(gate.wait(20.0)))
    draft = Draft(rig.root, rig.leader.now)
    draft.write_first("launches/blue/x/spec.json", b"{}", request="")
    Intake(rig.store, lane, rig.journal).write_specs(draft, ())
    assert rig.keys("launches/")
    assert not ended
    gate.set()
    lane.close()
