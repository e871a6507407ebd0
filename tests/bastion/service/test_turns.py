"""Promises of a leader's turns besides the life of a job: fences, crashes, bad objects."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import TypeVar

import pytest

from bastion.errors import FencedError, LeaseHeldError, StoreError, StoreRefusedError
from bastion.records.keys import layout
from bastion.records.reports.facts import Drained, Heartbeat, HostFact
from bastion.records.root import Root, RootWriter, decode_root
from bastion.service.intake.proofs import NEW_LIVES
from bastion.service.publish.views import Publisher
from bastion.service.run.election import Candidate, Election
from bastion.spec import Job, Process, Resources
from bastion.spec.where import Where
from bastion.store import ObjectStore
from bastion.store.memory import Fault, FaultyStore
from bastion.store.port import READ_LIMIT_BYTES, Object, Version, Written
from tests.rigs.leader import CONFIG, PACE, QUOTA, Agent, Rig
from tests.rigs.wrapped import Wrapped

_T = TypeVar("_T")


def jobs(*h100: int) -> tuple[Job, ...]:
    """Return jobs that ask for that many devices each."""
    return tuple(
        Job(name=f"j{i}", processes=(Process(["true"], resources=Resources(h100=n)),))
        for i, n in enumerate(h100)
    )


# Crashes


class Crashed(BaseException):
    """The process is gone: nothing catches this."""


class Breaker:
    """Makes the `n`-th write, and everything after it, fail: before it is done or after."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.before = False
        self.writes = 0

    def wrap(self, store: ObjectStore) -> ObjectStore:
        """`store`, breaking when told to."""
        return _Breaking(store, self)

    def hit(self, work: Callable[[], _T]) -> _T:
        """Do a write, unless the process is dead by then."""
        self.writes += 1
        if self.left is None:
            return work()
        self.left -= 1
        if self.left > 0:
            return work()
        if self.left == 0 and not self.before:
            work()
        raise Crashed


class _Breaking(Wrapped):
    def __init__(self, store: ObjectStore, breaker: Breaker) -> None:
        super().__init__(store)
        self._breaker = breaker

    def create(self, key: str, data: bytes) -> Written:
        return self._breaker.hit(lambda: self._store.create(key, data))

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        return self._breaker.hit(lambda: self._store.swap(key, data, if_version=if_version))

    def delete(self, key: str) -> None:
        self._breaker.hit(lambda: self._store.delete(key))


def life_with_crash(at: int | None, *, before: bool) -> tuple[Rig, Breaker]:
    """Run a gang's whole life with a bastion that dies at its `at`-th write, and a successor."""
    breaker = Breaker()
    rig = Rig(spoil=breaker.wrap)
    rig.turn(2)
    breaker.writes, breaker.left, breaker.before = 0, at, before
    asked = rig.launch("gang", h100=8, replicas=2)
    cancelled = rig.launch("other", h100=1)
    ended = False
    for turn in range(60):
        try:
            rig.turn()
        except Crashed:
            breaker.left = None
            rig.leader = rig.take()
            rig.turn()
        if turn == 1:
            for record in rig.root.jobs.values():
                if record.launch.startswith("other"):
                    rig.verb("cancel", record.launch)
        gang = [j for j in rig.root.jobs.values() if j.launch.startswith("gang")]
        if gang and gang[0].phase.value == "running" and not ended:
            ended = True
            for agent in rig.agents.values():
                agent.end(gang[0].id)
        if ended and not rig.root.jobs and not rig.keys(layout.INBOX):
            break
    assert rig.answer(asked).accepted
    assert rig.answer(cancelled).accepted
    return rig, breaker


def test_a_crash_at_any_write_loses_nothing_and_repeats_nothing() -> None:
    """Whichever write a leader dies at, every request is applied and every job ends once."""
    _, breaker = life_with_crash(None, before=False)
    assert breaker.writes > 20
    for at in range(1, breaker.writes + 1):
        for before in (True, False):
            rig, _ = life_with_crash(at, before=before)
            results = sorted(rig.keys("jobs/"))
            assert len(results) == 2, (at, before, results)
            outcomes = [json.loads(rig.bucket.read(key).data)["outcome"] for key in results]  # type: ignore[union-attr]
            assert outcomes == ["succeeded", "cancelled"], (at, before)
            assert not rig.keys(layout.INBOX), (at, before)
            ran = [run for agent in rig.agents.values() for run in agent.ran if "gang" in run]
            assert len(ran) == len(set(rig.agents)), (at, before, ran)
            submitted = [event for event in rig.history() if event.what == "submitted"]
            assert len(submitted) == 2, (at, before)


@pytest.mark.parametrize("seed", range(6))
def test_a_store_that_stutters_loses_nothing(seed: int) -> None:
    """Whichever calls of the leader fail or lose their answer, every job runs and ends once."""
    chance = Random(seed)
    share = [0.0]

    def faults(operation: str, key: str) -> Fault | None:
        hit = chance.random() < share[0]
        return chance.choice([Fault.BEFORE, Fault.AFTER]) if hit else None

    rig = Rig(spoil=lambda store: FaultyStore(store, faults))
    rig.turn(2)
    share[0] = 0.3
    asked = [rig.launch(f"job-{n}", h100=4, replicas=1 + n % 2, retries=n) for n in range(4)]
    failures = [1, 0, 2, 0]
    for turn in range(400):
        share[0] = 0.3 if turn < 150 else 0.0
        try:
            rig.turn()
        except StoreError:
            rig.clock.advance(1.0)
        for job in list(rig.root.jobs.values()):
            n = int(job.launch.split("-")[1])
            attempt = job.attempt
            if job.phase.value != "running" or attempt is None or not attempt.started_at:
                continue
            for r, _, place, state in attempt.each_host():
                agent = rig.agents[place.machine]
                started = f"{job.id}/{attempt.number}/{r}/0" in agent.starts
                if state.end is None and started and f"{job.id}/{attempt.number}" in agent.ran:
                    code = 1 if job.failures < min(failures[n], job.retries) else 0
                    agent.end(job.id, code, replica=r)
        if turn > 150 and not rig.root.jobs and not rig.keys(layout.INBOX):
            break
    for n, each in enumerate(asked):
        (job_id,) = rig.answer(each).jobs
        result = rig.result(job_id)
        assert result is not None
        assert result.outcome == "succeeded"
        assert result.failures == min(failures[n], n)
    ran = [(agent.name, run) for agent in rig.agents.values() for run in agent.ran]
    events = rig.history()
    assert [event.n for event in events] == list(range(len(events)))
    assert [event.what for event in events].count("submitted") == 4
    assert ran


# Leads and fences


def test_a_second_leader_fences_the_first() -> None:
    """A leader whose root was taken learns that at its next commit, and changes nothing."""
    rig = Rig()
    rig.turn(2)
    old = rig.leader
    rig.leader = rig.take("other")
    assert rig.root.epoch == 2
    job = rig.submit()
    before = rig.bucket.read(layout.ROOT)
    with pytest.raises(FencedError, match="epoch"):
        for _ in range(3):
            rig.clock.advance(20.0)
            old.turn()
    assert rig.bucket.read(layout.ROOT) == before
    rig.until(lambda: rig.phase(job) == "running")


def test_commits_chain_and_time_never_goes_back() -> None:
    """Each commit follows the last and names it; epochs and time only grow."""
    rig = Rig()
    seen: list[Root] = []
    for n in range(30):
        if n == 5:
            rig.launch()
        if n == 12:
            rig.leader = rig.take("next")
        if n == 20:
            rig.clock._wall -= 3600.0
        rig.turn()
        found = rig.bucket.read(layout.ROOT)
        assert found is not None
        root = decode_root(found.data)
        if not seen or root.seq != seen[-1].seq:
            seen.append(root)
    assert len(seen) > 5
    for last, this in pairwise(seen):
        assert this.now >= last.now
        assert this.epoch >= last.epoch
        if this.seq == last.seq + 1:
            assert this.prev_write_id == last.write_id


def test_time_goes_on_while_the_stores_clock_catches_up() -> None:
    """A clock that is set back extends no backoff, and is followed once it is ahead."""
    rig = Rig()
    set_back_s = [0.0]
    rig.bucket._now = lambda: rig.clock.wall() - set_back_s[0]
    rig.turn(2)
    job = rig.start(retries=1, retry_backoff="30s")
    set_back_s[0] = 60.0
    rig.agent_of(job).end(job, 1)
    rig.turn(60)
    assert rig.phase(job) == "running"
    rig.turn(600)
    assert rig.leader.now == pytest.approx(rig.clock.wall() - set_back_s[0], abs=1.5)


def test_a_graceful_stop_lets_another_lead_at_once() -> None:
    """After `give_up` nothing leads, readers see it immediately, and a successor need not wait."""
    rig = Rig()

    def holder() -> str | None:
        leader = rig.root.leader
        return leader.holder if leader else None

    rig.leader.give_up()
    assert holder() is None
    status = rig.bucket.read(layout.view("status"))
    assert status is not None
    assert json.loads(status.data)["leader"] is None
    rig.leader = rig.take("other")
    assert holder() == "other"


def test_an_idle_leader_renews_its_lease() -> None:
    """An idle leader does not fall silent: root changes every third of the lease."""
    rig = Rig(pace=replace(PACE, ttl_s=30.0))
    rig.turn(90)
    seq = rig.root.seq
    rig.turn(33)
    assert 2 <= rig.root.seq - seq <= 4


def test_time_stands_on_the_store() -> None:
    """The time of a turn is the store's at our last write plus elapsed time, without retries."""
    fails = {"left": 0}

    def faults(operation: str, key: str) -> Fault | None:
        if operation == "swap" and key == layout.ROOT and fails["left"]:
            fails["left"] -= 1
            return Fault.BEFORE
        return None

    rig = Rig(spoil=lambda store: FaultyStore(store, faults))
    rig.turn(3)
    fails["left"] = 100
    rig.launch()
    rig.turn()
    assert fails["left"] == 0
    assert rig.leader.now == pytest.approx(rig.clock.wall(), abs=1.0)


# Refusals and the scheduler


def test_a_refused_launch_changes_no_other_job() -> None:
    """It is refused whole: nothing of it starts, no job is preempted, and no spec is left."""
    rig = Rig()
    borrower = rig.start("borrower", user="cat", project="red", h100=8, replicas=2)
    asked = rig.launch("both", jobs=jobs(4, 9), together=False)
    rig.turn(2)
    answer = rig.answer(asked)
    assert not answer.accepted
    assert len(answer.problems) == 1
    assert "j1" in answer.problems[0]
    assert set(rig.root.jobs) == {borrower}
    assert [entry.key for entry in rig.bucket.list("launches/")] == [layout.spec("red", borrower)]
    assert rig.phase(borrower) == "running"
    assert not any(event.what == "submitted" and "both" in event.job for event in rig.history())


def test_many_jobs_refused_for_one_reason_are_told_in_one_sentence() -> None:
    """They have their names in the launch: their ids will never exist."""
    rig = Rig()
    asked = rig.launch("many", jobs=jobs(9, 9, 9, 9, 9), together=False)
    rig.turn(2)
    (problem,) = rig.answer(asked).problems
    assert problem.startswith("j0, j1, j2 and 2 more: can never run: ")


def test_fail_when_busy_is_answered_in_the_same_turn() -> None:
    """`when_busy="fail"` is refused if it cannot start now, and accepted if it can."""
    rig = Rig()
    rig.turn(2)
    fits = rig.launch("fits", h100=8, when_busy="fail")
    rig.turn()
    busy = rig.launch("busy", h100=8, replicas=2, when_busy="fail")
    rig.turn()
    assert rig.answer(fits).accepted
    answer = rig.answer(busy)
    assert not answer.accepted
    assert len(rig.root.jobs) == 1
    told = [(each.machine, each.asked["h100"], each.free["h100"]) for each in answer.machines]
    (held,) = (machine for machine, _, free in told if not free)
    (empty,) = (machine for machine, _, free in told if free)
    assert sorted(told) == sorted([(held, 8, 0), (empty, 8, 8)])
    assert [each.why_not for each in answer.machines] == ["", "short by 8 h100"]
    kept = [entry.key for entry in rig.store.list("launches/") if "busy" in entry.key]
    assert not kept, "a refused launch leaves nothing in the bucket"


def test_an_accepted_launch_is_never_taken_back() -> None:
    """A launch committed before a crash stays accepted, though the next leader could not run it."""
    rig = Rig()
    rig.turn(2)
    job = rig.submit("mine", h100=8, replicas=2)
    assert rig.root.answers
    rig.put(layout.CONFIG, CONFIG.replace("count = 2", "count = 1"))
    rig.agents.clear()
    rig.providers["gpu"].states.clear()
    rig.leader = rig.take()
    rig.turn(20)
    assert job in rig.root.jobs
    assert rig.keys("results/")


def test_a_promise_is_committed_in_the_turn_that_makes_it() -> None:
    """A promise that only a new quota file made possible is immediately in root."""
    rig = Rig(quota=QUOTA.replace("min_runtime_s = 0", "min_runtime_s = 500"))
    rig.turn(2)
    everything = QUOTA.replace("min_runtime_s = 0", "min_runtime_s = 500")
    rig.put(layout.QUOTA, everything.replace("[project_resources.red]\nh100 = 0.5", ""))
    rig.start("borrower", h100=8, replicas=2)
    waits = rig.submit("owner", user="cat", project="red", h100=8)
    rig.turn(3)
    assert not rig.root.promises
    rig.put(layout.QUOTA, everything)
    rig.turn()
    (promise,) = rig.root.promises
    assert promise.gang == (waits,)
    deadline = promise.deadline
    rig.turn(5)
    assert [each.deadline for each in rig.root.promises] == [deadline]


def test_usage_is_charged_for_the_time_it_was_held() -> None:
    """A job is charged from its start to its end, and not for the time before."""
    rig = Rig()
    rig.turn(100)
    job = rig.start("half", h100=8)
    started = rig.leader.now
    assert rig.root.decayed_by_user.get("blue/ann", 0.0) <= 0.5 * 5
    rig.turn(100)
    rig.agent_of(job).end(job)
    rig.ended(job)
    held_s = rig.leader.now - started
    assert rig.root.decayed_by_user["blue/ann"] == pytest.approx(0.5 * held_s, rel=0.1)
    assert "blue" not in rig.root.decayed, "its own share is not borrowed"


def test_what_was_held_since_the_last_commit_counts_in_a_cycle() -> None:
    """A user who keeps holding devices falls behind another, even while nothing changes."""
    rig = Rig()
    rig.turn(2)
    short = rig.start("short", user="ben", h100=8, replicas=2)
    rig.turn(4)
    for agent in rig.agents.values():
        agent.end(short)
    rig.ended(short)
    long = rig.start("long", user="ann", h100=8, replicas=2)
    again = rig.submit("again", user="ann", h100=8, replicas=2)
    other = rig.submit("other", user="ben", h100=8, replicas=2)
    rig.turn(6)
    used = rig.root.decayed_by_user
    assert used["blue/ann"] < used["blue/ben"], "so it was at the last commit"
    for agent in rig.agents.values():
        agent.end(long)
    rig.until(lambda: "running" in (rig.phase(again), rig.phase(other)))
    assert (rig.phase(again), rig.phase(other)) == ("queued", "running")


def test_what_was_held_is_charged_by_the_file_of_that_time() -> None:
    """New totals count from the commit that puts them in force, not from the one before."""
    rig = Rig()
    job = rig.start("half", h100=8)
    rig.turn(8)
    rig.put(layout.QUOTA, QUOTA.replace("h100 = 16", "h100 = 8"))
    rig.turn()
    held_s = rig.root.now - rig.job(job).attempt.admitted_at  # type: ignore[union-attr]
    assert rig.root.decayed_by_user["blue/ann"] == pytest.approx(0.5 * held_s, rel=1e-3)


def test_the_history_has_the_times_of_cycles_that_told_nothing() -> None:
    """The next event includes them, each once, in order."""
    rig = Rig(quota=f"{QUOTA}plan_after_s = 40\n")
    rig.start("runs", h100=8, replicas=2)
    rig.submit("waits", h100=8, replicas=2)
    rig.turn(60)
    assert rig.root.planned, "which is told nowhere"
    rig.submit("also", h100=8)
    events = rig.history()
    silent = [at for event in events for at in event.cycles]
    assert silent
    assert silent == sorted({*silent} - {event.at for event in events})
    for before, event in pairwise(events):
        assert all(before.at < at < event.at for at in event.cycles)


def test_a_bug_in_the_scheduler_stops_no_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    """When `decide` raises, running jobs are still handled, and the log says so."""
    rig = Rig()
    job = rig.start()

    def decide(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("bastion.service.decide.cycles.decide", decide)
    rig.verb("cancel", job)
    assert rig.ended(job).outcome == "cancelled"
    assert any("a bug" in problem for problem in rig.journal.problems)


# Broken files


def test_a_broken_quota_file_changes_nothing() -> None:
    """A bad quota file is reported and not used; the last good one applies, even after restarts."""
    rig = Rig()
    rig.turn(2)
    said: list[str] = []
    rig.journal.note = lambda line, **_: said.append(line)  # type: ignore[method-assign]
    rig.put(layout.QUOTA, "this is not TOML")
    job = rig.start()
    assert rig.phase(job) == "running"
    rig.leader = rig.take("other")
    rig.submit("second")
    status = json.loads(rig.bucket.read(layout.view("status")).data)  # type: ignore[union-attr]
    assert status["quota"]["in_force"]
    assert status["quota"]["problem"]
    assert any(line.startswith("quota file not in force: line 1") for line in said)
    rig.put(layout.QUOTA, QUOTA)
    rig.turn(2)
    status = json.loads(rig.bucket.read(layout.view("status")).data)  # type: ignore[union-attr]
    assert status["quota"]["problem"] == ""


def test_a_bell_of_a_newer_agent_counts_and_is_set_aside() -> None:
    """The bastion may have gone back to an older version; what both know is not lost."""
    rig = Rig()
    job = rig.start()
    agent = rig.agent_of(job)
    number = layout.bell(agent.name, agent.life, 10**6)
    facts = b'[{"kind":"newer"},{"kind":"health","unwell":"its disk is full"}]'
    rig.bucket.create(number, b'{"schema":1,"facts":%s}' % facts)
    rig.turn(3)
    assert rig.root.machines[agent.name].unwell == "its disk is full"
    assert [entry.key for entry in rig.bucket.list(layout.ASIDE)] == [layout.aside(number)]
    assert not rig.bucket.list(number)


def test_files_that_another_version_had_in_force_stay_in_root() -> None:
    """A version that refuses them says so in its log; that one has them in force again."""
    rig = Rig()
    rig.turn(2)
    said: list[str] = []
    rig.journal.note = lambda line, **_: said.append(line)  # type: ignore[method-assign]
    newer = f"newer = 1\n{QUOTA}", f"newer = 1\n{CONFIG}"
    rig.put(layout.QUOTA, newer[0])
    rig.put(layout.CONFIG, newer[1])
    held = json.loads(rig.bucket.read(layout.ROOT).data)  # type: ignore[union-attr]
    rig.put(layout.ROOT, json.dumps(held | {"quota_text": newer[0], "config_text": newer[1]}))
    rig.leader = rig.take("other")
    rig.turn(2)
    assert (rig.root.quota_text, rig.root.config_text) == newer
    assert [line.partition(": ")[0] for line in said if "not in force" in line] == [
        "quota file not in force",
        "configuration not in force",
    ]


def test_a_broken_config_keeps_the_pools() -> None:
    """A bad `config/bastion.toml` is reported and not used; machines stay as they are."""
    rig = Rig()
    rig.turn(2)
    rig.put(layout.CONFIG, CONFIG + "\nnonsense = 1\n[pools.x]\nprovider = 1\n")
    rig.start()
    rig.turn(3)
    assert len(rig.root.machines) == 2
    status = json.loads(rig.bucket.read(layout.view("status")).data)  # type: ignore[union-attr]
    assert "nonsense" in status["config"]["problem"]
    assert status["config"]["pools"] == ["gpu"]


def test_an_unreadable_quota_bucket_stops_nothing() -> None:
    """A quota file that is out of reach is a problem to report, not the end of the turn."""
    down = {"is": False}

    def faults(operation: str, key: str) -> Fault | None:
        return Fault.BEFORE if down["is"] and key == layout.QUOTA else None

    rig = Rig(spoil=lambda store: FaultyStore(store, faults))
    rig.turn(2)
    down["is"] = True
    rig.start()
    rig.turn()
    status = json.loads(rig.bucket.read(layout.view("status")).data)  # type: ignore[union-attr]
    assert not status["quota"]["problem"], "the last good file is in force"
    assert any("cannot be checked now" in problem for problem in status["problems"])
    down["is"] = False
    rig.clock.advance(PACE.files_s)
    rig.turn()
    assert rig.journal.problems == ()


def test_without_a_quota_file_requests_are_refused() -> None:
    """Before the first good quota file, the answer to a request says what is missing."""
    rig = Rig(quota=None)
    asked = rig.launch()
    rig.turn(2)
    assert rig.answer(asked).problems == (
        "no quota file is in force: there is none at project-quotas/project-quotas.config",
    )


# Bad objects


@pytest.mark.parametrize(
    "key",
    [
        "inbox/nonsense",
        "inbox/blue/ann/short.launch.json",
        "inbox/_bell/gpu/gpu-2-0/x-y.json",
        "inbox/" + "/".join(["d" * 200] * 4),
    ],
)
def test_a_misplaced_object_is_set_aside(key: str) -> None:
    """An object in the inbox that is neither request nor bell is set aside and affects no other."""
    rig = Rig()
    rig.bucket.create(key, b"\xffnonsense")
    rig.start()
    rig.turn(2)
    assert not rig.keys(layout.INBOX)
    (aside,) = rig.keys("state/aside/")
    found = rig.bucket.read(aside)
    assert found is not None
    assert found.data == b"\xffnonsense"


def test_an_unreadable_object_is_deleted_only_once_its_copy_stands() -> None:
    """A bad object is deleted only once its copy exists, even if the store fails at first."""
    fails = {"left": 3}

    def faults(operation: str, key: str) -> Fault | None:
        if operation == "create" and key.startswith("state/aside/") and fails["left"]:
            fails["left"] -= 1
            return Fault.BEFORE
        return None

    rig = Rig(spoil=lambda store: FaultyStore(store, faults))
    rig.bucket.create("inbox/nonsense", b"poison")
    rig.turn(10)
    assert fails["left"] == 0
    assert not rig.keys("inbox/nonsense")
    assert len(rig.keys("state/aside/")) == 1


def test_what_is_refused_unread_and_cannot_be_read_is_set_aside() -> None:
    """A stranger's request that the store lists but does not return leaves the inbox, noted."""
    strange = layout.request("nowhere", "eve", "01HF7YAT00" + "0" * 16, "cancel")

    class Refusing(Wrapped):
        def read(
            self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
        ) -> Object | None:
            if key == strange:
                raise StoreRefusedError("the store does not give it")
            return super().read(key, unless=unless, limit_bytes=limit_bytes)

    rig = Rig(spoil=Refusing)
    rig.bucket.create(strange, b"{}")
    rig.turn(20)
    assert not rig.keys(layout.INBOX)
    (aside,) = rig.keys(layout.ASIDE)
    found = rig.bucket.read(aside)
    assert found is not None
    assert b"does not give it" in found.data


def test_what_may_not_be_deleted_costs_little() -> None:
    """An object under a hold is deleted once the hold is off, and tried rarely until then."""
    deleted: list[str] = []
    held = {"inbox/nonsense"}

    def faults(operation: str, key: str) -> Fault | None:
        if operation == "delete" and key == "inbox/nonsense":
            deleted.append(key)
            return Fault.BEFORE if key in held else None
        return None

    rig = Rig(spoil=lambda store: FaultyStore(store, faults))
    rig.bucket.create("inbox/nonsense", b"poison")
    rig.turn(200)
    assert 2 < len(deleted) < 13
    held.clear()
    rig.turn(70)
    assert not rig.keys("inbox/nonsense")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b'{"schema": 2, "launch": {}}',
        b'{"schema": 1, "launch": {"name": "x", "jobs": []}}',
        b'{"schema": 1, "launch": {"name": "x", "jobs": [{"processes": [], "colour": 1}]}}',
        b"[" * 100_000,
    ],
)
def test_a_malformed_launch_is_answered_and_set_aside(body: bytes) -> None:
    """A launch that cannot be read is answered with its problems, and set aside."""
    rig = Rig()
    asked = rig.ask("ann", "blue", "launch", body)
    rig.turn(3)
    answer = rig.answer(asked)
    assert not answer.accepted
    assert answer.problems
    assert not rig.keys(layout.INBOX)
    assert len(rig.keys("state/aside/")) == 1


def test_a_request_too_large_is_answered_unread() -> None:
    """A request above the size limit is refused by its size, and never read."""
    reads: list[str] = []

    def faults(operation: str, key: str) -> Fault | None:
        if operation == "read":
            reads.append(key)
        return None

    rig = Rig(spoil=lambda store: FaultyStore(store, faults))
    asked = rig.ask("ann", "blue", "launch", b" " * (4 * 1024 * 1024 + 1))
    rig.turn(3)
    assert "is too large" in rig.answer(asked).problems[0]
    assert not [key for key in reads if key.startswith(layout.user_inbox("blue", "ann"))]
    assert not rig.keys(layout.INBOX)


def test_a_poisoned_bell_is_set_aside_and_the_next_is_heard() -> None:
    """A bell that cannot be read is set aside; later bells of its machine count."""
    rig = Rig()
    job = rig.start()
    agent = rig.agent_of(job)
    rig.bucket.create(layout.bell(agent.name, agent.life, agent._bell), b"{}{")
    agent._bell += 1
    agent.end(job)
    assert rig.ended(job).outcome == "succeeded"
    assert len(rig.keys("state/aside/")) == 1


def test_a_takeover_is_told_at_the_stores_time_of_it() -> None:
    """A bastion that starts half a minute after another stopped leads from then on."""
    rig = Rig()
    rig.turn(2)
    rig.leader.give_up()
    rig.clock.advance(30)
    rig.leader = rig.take(pid=2)
    rig.turn(2)
    rests, leads = (
        max(event.at for event in rig.history() if event.what == what)
        for what in ("rests", "leads")
    )
    assert leads - rests >= 30


def test_an_agent_on_a_machine_that_no_pool_made_is_told_to_admins() -> None:
    """It gets no jobs, and `status` says so; the end of a deleted machine is not reported."""
    rig = Rig()
    rig.turn(2)
    agent = Agent(rig.bucket, "host1")
    rig.turn(2)
    (problem,) = (each for each in rig.journal.problems if "host1" in each)
    assert problem.startswith("machine host1: its agent reports, but no pool made this machine")
    rig.clock.advance(120)
    agent.ring(
        Drained(of=HostFact(project="blue", job="gone-1", attempt=1, nonce="n", replica=0, host=0))
    )
    rig.turn(2)
    assert not any("host1" in each for each in rig.journal.problems)


@pytest.mark.parametrize("tells", [None, Heartbeat()], ids=["hello", "heartbeat"])
def test_a_machine_whose_new_life_is_not_in_the_bucket_is_told_to_admins(
    tells: Heartbeat | None,
) -> None:
    """If a bucket is older than its machines or was edited, the machine is not believed."""
    rig = Rig()
    job = rig.start()
    agent = rig.agent_of(job)
    agent.life += 1
    agent.ring(tells or agent.hello())
    rig.turn(2)
    (problem,) = (each for each in rig.journal.problems if agent.name in each)
    register = layout.life(agent.name, agent.life)
    assert problem.startswith(
        f"machine {agent.name}: its agent reports life 2, of which {register}"
    )
    rig.clock.advance(120)
    agent.live_again()
    rig.turn(2)
    assert rig.root.machines[agent.name].life == agent.life
    assert not any(agent.name in each for each in rig.journal.problems)


def test_a_life_far_ahead_of_the_last_known_one_is_told_as_such() -> None:
    """Its register is not looked up, so none is said to be gone."""
    rig = Rig()
    agent = rig.agent_of(rig.start())
    agent.life += NEW_LIVES + 1
    agent.ring(agent.hello())
    rig.turn(2)
    (problem,) = (each for each in rig.journal.problems if agent.name in each)
    assert "reports life 1002, so the bastion ignores it: the last known life is 1, and" in problem
    assert "gone" not in problem


def test_a_machine_that_is_odd_and_not_believed_is_two_problems() -> None:
    """Each is reported until it is fixed, whatever happens to the other."""
    rig = Rig()
    agent = rig.agent_of(rig.start())
    odd = rig.providers["gpu"].odd
    odd[agent.name] = "2 instances carry its tags: i-1, i-2; terminate the copies"
    agent.life += 1
    agent.ring(agent.hello())
    rig.turn(5)
    assert len([each for each in rig.journal.problems if agent.name in each]) == 2
    odd.clear()
    rig.turn(3)
    (problem,) = (each for each in rig.journal.problems if agent.name in each)
    assert "the bastion ignores it" in problem


def test_an_asked_number_no_computer_can_count_harms_no_other_job() -> None:
    """A request for an absurd amount is refused, and other jobs continue."""
    rig = Rig()
    absurd = b'{"name":"x","jobs":[{"processes":[{"command":["x"],"resources":{"h100":1%s}}]}]}'
    body = b'{"schema":1,"launch":%s}' % (absurd % (b"0" * 400))
    asked = rig.ask("ann", "blue", "launch", body)
    job = rig.start("mine")
    assert not rig.answer(asked).accepted
    assert rig.phase(job) == "running"


# The record


def test_history_has_neither_gap_nor_repeat() -> None:
    """Sealed segments and root together hold every event once, in order, across leaders."""
    rig = Rig()
    for n in range(4):
        job = rig.start(f"job-{n}")
        rig.agent_of(job).end(job)
        rig.ended(job)
        rig.turn(30)
        if n == 2:
            rig.leader = rig.take("next")
    events = rig.history()
    assert len(rig.keys(layout.EVENTS)) >= 2
    assert [event.n for event in events] == list(range(len(events)))
    assert len(events) == rig.root.next_event
    told = [event.what for event in events if "job-0" in event.job]
    assert told == ["submitted", "starting", "running", "draining", "succeeded"]


def test_views_tell_what_runs_where() -> None:
    """The views name every job and its place, every machine and its use, and the leader."""
    rig = Rig()
    job = rig.start("mine", h100=3)
    rig.start("full", user="cat", project="red", h100=1, where=Where(exclusive=True))
    waits = rig.submit("waits", user="ben", h100=8)
    rig.turn(2)
    queue, pool, status = (
        json.loads(rig.bucket.read(layout.view(name)).data)  # type: ignore[union-attr]
        for name in ("queue", "pool", "status")
    )
    rows = {row["id"]: row for row in queue["jobs"]}
    assert rows[job]["state"] == "running"
    assert rows[job]["machines"] == [rig.agent_of(job).name]
    assert rows[job]["class"] == "guaranteed"
    assert rows[waits]["state"] == "queued"
    assert rows[waits]["text"]
    used = {machine["name"]: machine["used"].get("h100", 0) for machine in pool["machines"]}
    assert used[rig.agent_of(job).name] == 3
    assert sorted(used.values()) == [3, 8]
    assert status["leader"] == "bastion"
    assert status["counts"] == {"running": 2, "queued": 1}
    assert status["projects"]["blue"]["usage"] == {"h100": 3}
    assert status["projects"]["red"]["usage"]["h100"] == 8  # charged as it blocks
    named = (status["views_seq"], status["pool_seq"])
    assert (queue["seq"], pool["seq"]) == named


def test_a_fenced_leaders_view_never_replaces_a_newer_one() -> None:
    """A late view of an older commit does not replace a newer one."""
    rig = Rig()
    rig.turn(2)
    old = rig.leader
    rig.leader = rig.take("other")
    rig.submit()
    rig.turn(2)
    newer = json.loads(rig.bucket.read(layout.view("queue")).data)["seq"]  # type: ignore[union-attr]
    publisher = Publisher(rig.bucket, rig.clock, every_s=0.0)
    late = publisher.works(old.held.root, None, old._files, ())
    assert late is not None
    late()
    stands = json.loads(rig.bucket.read(layout.view("queue")).data)["seq"]  # type: ignore[union-attr]
    assert stands == newer


def test_root_is_copied_once_an_hour() -> None:
    """A copy of root is written once per hour, under its date and number, and never changed."""
    rig = Rig()
    rig.turn(3)
    first = rig.keys(layout.SNAPSHOTS)
    assert len(first) == 1
    rig.turn(3, seconds=1000.0)
    assert rig.keys(layout.SNAPSHOTS) == first
    rig.turn(2, seconds=1000.0)
    both = rig.keys(layout.SNAPSHOTS)
    assert len(both) == 2
    found = rig.bucket.read(both[1])
    assert found is not None
    assert layout.snapshot("2023-11-14", decode_root(found.data).seq) in both


def test_what_waits_is_no_reason_to_hurry() -> None:
    """A turn that changed nothing says so, whatever waits in the inbox or cannot be read."""
    bad: set[str] = set()

    def faults(operation: str, key: str) -> Fault | None:
        return Fault.BEFORE if operation == "read" and key in bad else None

    rig = Rig(spoil=lambda store: FaultyStore(store, faults))
    rig.turn(5)
    for n in range(1100):
        rig.verb("cancel", f"nobody-{n:010}")
    bad.add(rig.keys(layout.user_inbox("blue", "ann"))[0])
    assert not rig.leader.turn()
    assert rig.leader.wait_s(moved=False, busy=False) > 0.0


def test_a_leader_that_news_wakes_polls_only_for_what_is_under_way() -> None:
    """Between two bursts, a watched inbox is read as rarely as at rest."""
    rig = Rig()
    rig.turn(5)
    assert not rig.leader.turn()
    busy_s = rig.leader.wait_s(moved=False, busy=True)
    rest_s = rig.leader.wait_s(moved=False, busy=False)
    assert busy_s < rest_s == rig.leader.wait_s(moved=False, busy=True, is_told=True)
    rig.launch()
    assert rig.leader.turn()
    assert rig.leader.wait_s(moved=False, busy=True, is_told=True) == busy_s


# Waiting for the lead


def test_a_live_leader_is_not_replaced() -> None:
    """A leader whose process lives on this host keeps the lead while it commits."""
    rig = Rig()
    mine = Candidate(holder="b", host="vm", boot="b", pid=2, pid_started=0.0, ttl_s=30.0)
    election = Election(
        RootWriter(rig.bucket, rig.clock),
        rig.clock,
        mine,
        is_alive=lambda pid, started: True,
        nonce=rig.nonce,
    )
    for _ in range(60):
        rig.turn()
        with pytest.raises(LeaseHeldError, match="bastion on vm"):
            election.try_once()
    rig.launch()
    rig.turn()
    with pytest.raises(LeaseHeldError):
        election.try_once()
    taken = None
    waited = 0
    while taken is None:
        rig.clock.advance(1.0)
        waited += 1
        try:
            taken = election.try_once()
        except LeaseHeldError:
            assert waited < 60
    assert waited >= 37, "a lease of 30 s is over after 37.5 s of silence"
    assert taken.root.epoch == 2


def test_a_turn_whose_commit_was_refused_is_decided_anew() -> None:
    """After a refused commit the turn is repeated: everything is decided again."""
    refuse = {"is": False}
    rig = Rig()
    rig.turn(2)

    class Refusing(Wrapped):
        def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
            if refuse["is"]:
                raise StoreRefusedError("the disk is full")
            return super().swap(key, data, if_version=if_version)

    rig.leader._writer._store = Refusing(rig.leader._writer._store)
    job_asked = rig.launch()
    refuse["is"] = True
    with pytest.raises(StoreError, match="the disk is full"):
        rig.turn()
    refuse["is"] = False
    rig.turn(4)
    (job,) = rig.answer(job_asked).jobs
    assert rig.phase(job) == "running"
