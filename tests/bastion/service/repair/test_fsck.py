"""The audit: a bucket after normal work is clean, and every breakage is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any, Literal

import pytest

from bastion.clock import VirtualClock
from bastion.errors import NotFoundError, RecordError
from bastion.job import Claim, Dependency, End, Outcome, OutcomeKind, Phase, Stop, StopReason
from bastion.machine import Batch
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.registers import ClaimRegister, EndRegister, LifeRegister
from bastion.records.requests.result import Result
from bastion.records.root import Event, RootWriter
from bastion.service.intake.registers import seat_of
from bastion.service.repair.fsck import RULES, Finding, audit
from bastion.service.repair.overdue import LONG_S
from bastion.spec import Array, Indices, Job, Process, Resources
from bastion.store.memory import FaultyStore
from tests.rigs.leader import Rig


class Worked:
    """A bucket in which one job ended, one runs, one on two hosts runs, and one waits."""

    def __init__(self) -> None:
        self.rig = Rig()
        rig = self.rig
        rig.turn(3)
        self.ended = rig.start("ended")
        agent = rig.agent_of(self.ended)
        stream = layout.log("blue", self.ended, 1, replica=0, host=0, process=0)
        rig.bucket.create(f"{stream}000000000000.log", b"ab")
        rig.bucket.create(f"{stream}000000000002.log", b"c")
        agent.end(self.ended)
        rig.ended(self.ended)
        self.stream = stream
        self.runs = rig.start("runs", h100=2)
        gang = Job(name="gang", replicas=2, processes=(_process(4),))
        self.gang = rig.start("gang", jobs=(gang,))
        rig.turn(70)
        self.waits = rig.submit("waits", hold=True)
        self.array = rig.submit("array", array=Array("0-9%1"))
        rig.turn(3)

    def root(self, **changes: Any) -> None:
        """Change root."""
        found = self.rig.bucket.read(layout.ROOT)
        assert found is not None
        writer = RootWriter(self.rig.bucket, self.rig.clock)
        held = writer.read()
        assert held is not None
        data = writer.encoded(replace(held.root, **changes))
        self.rig.bucket.swap(layout.ROOT, data, if_version=found.version)

    def job(self, job: str, **changes: Any) -> None:
        """Change one job in root."""
        jobs = dict(self.rig.root.jobs)
        jobs[job] = replace(jobs[job], **changes)
        self.root(jobs=jobs)

    def tasks(self, **changes: Any) -> None:
        """Change the array in root."""
        arrays = dict(self.rig.root.arrays)
        arrays[self.array] = replace(arrays[self.array], **changes)
        self.root(arrays=arrays)

    def host(self, job: str, **changes: Any) -> None:
        """Change the first host of a job in root."""
        attempt = self.rig.job(job).attempt
        assert attempt is not None
        (first, *more), *others = attempt.hosts
        hosts = ((replace(first, **changes), *more), *others)
        self.attempt(job, hosts=hosts)

    def attempt(self, job: str, **changes: Any) -> None:
        """Change the attempt of a job in root."""
        attempt = self.rig.job(job).attempt
        assert attempt is not None
        self.job(job, attempt=replace(attempt, **changes))

    def found(self) -> list[tuple[str, str, str]]:
        """Return what the audit finds: rule, key, text."""
        return [(f.rule, f.key, f.text) for f in audit(self.rig.bucket, self.rig.clock)]

    def register(self, kind: str, job: str) -> str:
        """Return the key of a register of the first host of a job's attempt."""
        seat = seat_of(self.rig.job(job), 0, 0)
        return seat.claim_key if kind == "claim" else seat.end_key

    def put(self, key: str, data: bytes) -> None:
        """Replace an object."""
        self.rig.bucket.delete(key)
        self.rig.bucket.create(key, data)

    def result(self, job: str) -> Result:
        """Return the final record of a job."""
        found = self.rig.result(job)
        assert found is not None
        return found

    def answer_key(self, job: str) -> str:
        """Return the key of the answer to the launch of a job."""
        record = self.result(job)
        return layout.answer(record.project, record.user, record.ulid)

    def later(self) -> None:
        """Let enough time pass for anything slow to be overdue."""
        self.rig.clock.advance(2 * LONG_S)
        self.root(now=self.rig.clock.wall())

    def machine(self, job: str) -> str:
        """Return the machine of a job's first host."""
        return self.rig.agent_of(job).name


def _process(h100: int) -> Process:
    return Process(["true"], resources=Resources(h100=h100))


def test_a_bucket_that_was_worked_in_is_clean() -> None:
    """After a life of jobs no rule is broken, nor in the middle of a turn's work."""
    worked = Worked()
    assert worked.found() == []
    rig = worked.rig
    rig.launch("late")
    for _ in range(8):
        rig.leader.turn()
        assert worked.found() == []
        rig.turn()
        assert worked.found() == []


Spoil = Callable[[Worked], object]


def _two_jobs_on_a_device(worked: Worked) -> None:
    attempt = worked.rig.job(worked.runs).attempt
    assert attempt is not None
    host = attempt.placement[0].hosts[0]
    other = worked.rig.job(worked.gang).attempt
    assert other is not None
    (first,), (second,) = (replica.hosts for replica in other.placement)
    shared = replace(first, machine=host.machine, devices={"h100": (*host.devices["h100"], 6, 7)})
    one, two = other.placement
    placement = (replace(one, hosts=(shared,)), replace(two, hosts=(second,)))
    worked.job(worked.gang, attempt=replace(other, placement=placement))


def _end_register(kind: Literal["exited", "lost", "revoked"]) -> bytes:
    return encode(EndRegister(write_id="x", end=End(kind=kind)))


def _ended_otherwise(worked: Worked) -> None:
    worked.rig.bucket.create(worked.register("end", worked.runs), _end_register("lost"))
    worked.host(worked.runs, end=End(kind="exited", codes=(0,)))


def _old_request(worked: Worked) -> None:
    worked.rig.bucket.create(layout.request("blue", "ann", "0" * 26, "hold"), b"{}")
    worked.rig.clock.advance(LONG_S)
    worked.root()


def _shrunk_machine(worked: Worked) -> None:
    name = worked.machine(worked.runs)
    machines = dict(worked.rig.root.machines)
    resources = Resources(h100=1).amounts
    machines[name] = replace(machines[name], resources=resources)
    worked.root(machines=machines)


def _forgotten_machine(worked: Worked) -> None:
    machines = dict(worked.rig.root.machines)
    machines.pop(worked.machine(worked.runs))
    worked.root(machines=machines)


def _batch(worked: Worked, number: int) -> str:
    return layout.instructions(worked.machine(worked.runs), 1, number)


def _claimed_elsewhere(worked: Worked) -> None:
    other = Claim(machine="other", life=1)
    worked.put(
        worked.register("claim", worked.runs), encode(ClaimRegister(write_id="x", claim=other))
    )


def _done_otherwise(worked: Worked) -> None:
    outcome = Outcome(kind=OutcomeKind.FAILED, text="exited with code 1", code=1)
    worked.job(worked.runs, phase=Phase.DONE, outcome=outcome, attempt=None, ended_at=1.0)
    found = worked.rig.bucket.read(layout.result("blue", worked.ended))
    assert found is not None
    worked.rig.bucket.create(layout.result("blue", worked.runs), found.data)


def _task_without_record(worked: Worked) -> None:
    worked.tasks(waiting=Indices.parse("1-8"), ended={"succeeded": Indices.parse("9")})


def _finished(worked: Worked, kind: str) -> str:
    past = worked.result(worked.ended).past[0]
    of = layout.claim if kind == "claim" else layout.end
    machine = past.machines[0][0]
    return of("blue", worked.ended, past.number, past.nonce, replica=0, host=0, machine=machine)


def _printed_alone(worked: Worked) -> None:
    for kind in ("claim", "end"):
        worked.rig.bucket.delete(_finished(worked, kind))


def _never_claimed(worked: Worked) -> None:
    worked.rig.bucket.delete(worked.register("claim", worked.runs))
    worked.host(worked.runs, claim=None)
    worked.later()


def _never_stopped(worked: Worked) -> None:
    attempt = worked.rig.job(worked.runs).attempt
    assert attempt is not None
    now = worked.rig.clock.wall()
    stop = Stop(reason=StopReason.CANCEL, at=now, deadline=now + 30.0)
    worked.job(worked.runs, phase=Phase.STOPPING, attempt=replace(attempt, stop=stop))
    worked.later()


def _followed_life(worked: Worked) -> None:
    name = worked.machine(worked.runs)
    worked.rig.bucket.create(layout.life(name, 2), encode(LifeRegister(write_id="x", boot_id="b")))
    batch = Batch(number=1, life=2)
    worked.rig.bucket.create(layout.instructions(name, 2, 1), encode(batch))
    machines = dict(worked.rig.root.machines)
    machines[name] = replace(machines[name], life=2, batches=1)
    worked.root(machines=machines)
    worked.later()


BREAKS: dict[str, tuple[Spoil, str, str]] = {
    "a bad register": (
        lambda w: w.put(w.register("claim", w.runs), b"{"), "readable", "invalid JSON"),
    "a bad spec": (
        lambda w: w.put(layout.spec("blue", w.runs), b"{}"), "readable", "^id: missing; project"),
    "a bad final record": (
        lambda w: w.put(layout.result("blue", w.ended), b"{}"), "readable", "outcome: missing"),
    "a bad life": (
        lambda w: w.put(layout.life(w.machine(w.runs), 1), b""), "readable", "invalid JSON"),
    "a bad batch": (
        lambda w: w.put(_batch(w, 1), b"{}"), "readable", "number: missing"),
    "a bad copy of root": (
        lambda w: w.rig.bucket.create(layout.snapshot("9999-01-01", 1), b"{}"),
        "readable", "epoch: missing"),
    "an empty segment": (
        lambda w: w.put(layout.events(0), b""), "readable", "it holds no event"),
    "a lost segment": (
        lambda w: w.rig.bucket.delete(layout.events(0)), "history", "events 0 to .* are missing"),
    "a foreign segment": (
        lambda w: w.rig.bucket.create(layout.events(1), encode(Event(n=1, at=0.0, what="x"))),
        "history", "are stored twice"),
    "events that never were": (
        lambda w: w.root(next_event=w.rig.root.next_event + 1), "history", "the next event is"),
    "a wrong number in a segment": (
        lambda w: w.put(layout.events(0), b"\n".join(
            encode(replace(e, n=0)) for e in w.rig.history()[: _count(w)])),
        "history", "not numbered without a gap"),
    "an old request": (_old_request, "inbox", "for 15 minutes: never processed"),
    "a job that is nowhere": (
        lambda w: w.root(jobs={}), "answers", "not active and has no final record"),
    "a spec that is gone": (
        lambda w: w.rig.bucket.delete(layout.spec("blue", w.runs)), "specs", "has no spec"),
    "a result too early": (
        lambda w: w.rig.bucket.create(layout.result("blue", w.runs), b"{}"),
        "results", "the final record exists, but the job is running in root"),
    "an array's result too early": (
        lambda w: w.rig.bucket.create(layout.result("blue", w.array), b"{}"),
        "results", "the final record exists, but tasks of the array are active in root"),
    "an array's spec that is gone": (
        lambda w: w.rig.bucket.delete(layout.spec("blue", w.array)), "specs", "has no spec"),
    "a task in two places": (
        lambda w: w.tasks(waiting=Indices.parse("0-9")), "tasks", "in two places, or in none"),
    "a task that is nowhere": (
        lambda w: w.tasks(waiting=Indices.parse("1-8")), "tasks", "in two places, or in none"),
    "a task without an array": (
        lambda w: w.root(arrays={}), "tasks", "which root does not know"),
    "a task that waits and has a result": (
        lambda w: w.rig.bucket.create(layout.result("blue", f"{w.array}.5"), b"{}"),
        "tasks", "the final record exists, but the task waits in root"),
    "a shared device": (_two_jobs_on_a_device, "alone", "both hold h100"),
    "an over-full machine": (_shrunk_machine, "capacity", "h100 are in use; it has 1"),
    "a machine that is forgotten": (_forgotten_machine, "capacity", "root does not know it"),
    "a claim that is gone": (
        lambda w: w.rig.bucket.delete(w.register("claim", w.runs)),
        "registers", "claimed it, the register is missing"),
    "a claim that is revoked": (
        lambda w: w.put(w.register("claim", w.runs), encode(ClaimRegister(write_id="x"))),
        "registers", "claimed it, the register is revoked"),
    "a claim by another": (_claimed_elsewhere, "registers", "other claimed what was placed on"),
    "an end that is not there": (
        lambda w: w.host(w.runs, end=End(kind="exited", codes=(0,))),
        "registers", "root says exited, the register says nothing"),
    "an end of another kind": (
        _ended_otherwise,
        "registers", "root says exited, the register says lost"),
    "a barrier that is gone": (
        lambda w: w.rig.bucket.delete(_go(w)), "registers", "root says given, the register says"),
    "a dependency on no job": (
        lambda w: w.job(w.waits, after=(Dependency(on="gone-1"),)),
        "dependencies", "waits for gone-1, which is not active"),
    "an answer that is gone": (
        lambda w: w.rig.bucket.delete(w.answer_key(w.ended)),
        "answers", "was accepted, but its answer is missing"),
    "a final record that says otherwise": (
        _done_otherwise, "results", "it says succeeded, and root says failed"),
    "a task that ended without a record": (
        _task_without_record, "results", "its array says that it succeeded, but it has no final"),
    "an end that is gone": (
        lambda w: w.rig.bucket.delete(_finished(w, "end")),
        "ends", "claimed it, its job has ended, and there is no end record"),
    "an end that fell beside": (
        _printed_alone, "ends", "has ended and left this log, but has neither claim nor end"),
    "a claim of a life that is over": (
        _followed_life, "ends", "followed its life 1, and there is no end record"),
    "a stop that never ended it": (
        _never_stopped, "ends", "its kill was due .* minutes ago, and there is no end record"),
    "a start that no agent claimed": (
        _never_claimed, "starts", "not claimed, though .* was to start it .* minutes ago"),
    "a root that went back": (
        lambda w: w.root(seq=w.rig.root.seq - 20), "numbers", "it is commit .*, but commit .* was"),
    "an epoch that went back": (
        lambda w: w.root(epoch=0), "numbers", "it is of epoch 0, but epoch 1 was published"),
    "a gap in a log": (
        lambda w: w.rig.bucket.delete(f"{w.stream}000000000000.log"),
        "logs", "have a gap at byte 0"),
    "a log that is short": (
        lambda w: w.rig.bucket.delete(f"{w.stream}000000000002.log"),
        "logs", "2 bytes are stored; its end says that 3 were printed"),
    "a batch that is gone": (
        lambda w: w.rig.bucket.delete(_batch(w, 1)),
        "instructions", "missing, though .* were allocated"),
    "a batch that no commit allocated": (
        lambda w: w.rig.bucket.create(_batch(w, 99), b"{}"),
        "instructions", "not allocated by root"),
    "a gap between batches": (
        lambda w: [w.rig.bucket.create(layout.instructions("gone", 1, n), b"{}") for n in (4, 6)],
        "instructions", "the agent waits for it forever"),
    "a life that is gone": (
        lambda w: w.rig.bucket.delete(layout.life(w.machine(w.runs), 1)),
        "lives", "missing, though it has sent bells"),
    "a machine of the future": (
        lambda w: w.rig.bucket.create(layout.life("gpu-99999-0", 1), b"{}"),
        "future", "named by commit 99999"),
    "a slice of the future": (
        lambda w: w.rig.bucket.create(layout.life("gpu-99999-0-h1", 1), b"{}"),
        "future", "named by commit 99999"),
    "an attempt without states of its hosts": (
        lambda w: w.attempt(w.runs, hosts=()), "views", "it cannot be built from root: IndexError"),
    "a root on which no rule about hosts can be checked": (
        lambda w: w.attempt(w.runs, hosts=()), "alone", "cannot be checked on it: IndexError"),
}  # fmt: skip


def _count(worked: Worked) -> int:
    found = worked.rig.bucket.read(layout.events(0))
    assert found is not None
    return len(found.data.splitlines())


def _go(worked: Worked) -> str:
    attempt = worked.rig.job(worked.gang).attempt
    assert attempt is not None
    return layout.go("blue", worked.gang, attempt.number, attempt.nonce)


@pytest.mark.parametrize("name", BREAKS)
def test_what_is_broken_is_found(name: str) -> None:
    """Each possible breakage in a bucket is found, under its rule, in plain words."""
    spoil, rule, text = BREAKS[name]
    worked = Worked()
    spoil(worked)
    found = worked.found()
    assert any(r == rule and re.search(text, t) for r, _, t in found), found


def test_every_rule_is_broken_once() -> None:
    """Every rule is tested."""
    assert {rule for _, rule, _ in BREAKS.values()} == set(RULES)


def test_what_is_seen_only_once_is_not_reported() -> None:
    """A finding that the second look does not confirm was a bastion in the middle of its work."""
    worked = Worked()
    spec = layout.spec("blue", worked.runs)
    found = worked.rig.bucket.read(spec)
    assert found is not None
    data = found.data
    worked.rig.bucket.delete(spec)

    class Mending(VirtualClock):
        def sleep(self, seconds: float) -> None:
            worked.rig.bucket.create(spec, data)

    assert audit(worked.rig.bucket, Mending()) == ()


def test_a_bucket_without_a_root_is_an_error() -> None:
    """No rule can be checked without a root, or with one that cannot be decoded."""
    worked = Worked()
    worked.put(layout.ROOT, b"{}")
    with pytest.raises(RecordError):
        worked.found()
    worked.rig.bucket.delete(layout.ROOT)
    with pytest.raises(NotFoundError):
        worked.found()


def counted(worked: Worked, since_s: float) -> tuple[int, tuple[Finding, ...]]:
    """Return how many objects an audit with a horizon reads, and what it finds."""
    counting = FaultyStore(worked.rig.bucket, lambda *_: None)
    found = audit(counting, worked.rig.clock, since_s=since_s)
    return counting.counts["read"], found


def test_what_ended_before_the_horizon_is_not_read() -> None:
    """Old jobs are only listed; the records of active jobs are read, however old they are."""
    worked = Worked()
    worked.later()
    full, found = counted(worked, inf)
    assert found == ()
    bounded, found = counted(worked, 60.0)
    assert found == ()
    assert bounded < full / 2
    ended = layout.result("blue", worked.ended)
    worked.put(ended, b"{}")
    worked.put(layout.spec("blue", worked.runs), b"{}")
    assert {each.key for each in counted(worked, inf)[1]} >= {ended}
    worked.later()
    _, found = counted(worked, 60.0)
    assert {each.key for each in found if each.rule == "readable"} == {
        layout.spec("blue", worked.runs)
    }


def test_history_is_checked_from_the_horizon_on() -> None:
    """If older segments are not read, the numbers count from the first that is read."""
    worked = Worked()
    for _ in range(3):
        worked.rig.start(f"more{_}")
        worked.rig.turn(70)
    worked.later()
    assert len(worked.rig.keys(layout.EVENTS)) > 2
    assert counted(worked, 1.0)[1] == ()


def test_a_log_that_was_pruned_up_to_the_record_is_no_finding() -> None:
    """An admin may delete what the record has; a gap before the rest of the log is found."""
    worked = Worked()
    worked.rig.start("more")
    worked.rig.turn(70)
    oldest, second, *_ = worked.rig.keys(layout.EVENTS)
    after = layout.parse_events(second)
    assert after is not None
    worked.rig.bucket.delete(oldest)
    worked.rig.bucket.create(layout.recent_file("events", 0, after - 1), b"")
    assert [each.rule for each in counted(worked, inf)[1]] == ["history"]
    worked.rig.bucket.create(layout.recent_file("events", 0, after), b"")
    assert counted(worked, inf)[1] == ()
