"""Unreadable registers: one bad object harms only itself."""

from __future__ import annotations

from dataclasses import replace

from bastion.job import OutcomeKind
from bastion.machine import Start
from bastion.records.keys import layout
from bastion.service.intake.registers import seat_of
from tests.rigs.leader import PACE, Rig


def spoil_claim(rig: Rig, job: str) -> None:
    """Put an empty object in the place of the claim of `job`, before an agent writes it."""
    rig.until(lambda: rig.job(job).attempt is not None)
    key = seat_of(rig.job(job), 0, 0).claim_key
    rig.bucket.create(key, b"")


def with_deaf_agents() -> Rig:
    """Return a rig whose machines are ready but whose agents do nothing yet."""
    rig = Rig(pace=replace(PACE, sweep_s=2.0))
    rig.turn(3)
    for agent in rig.agents.values():
        agent.is_deaf = True
    return rig


def test_an_unreadable_claim_frees_its_devices() -> None:
    """No agent has won a malformed `claim`: the attempt is lost, and the next one starts."""
    rig = with_deaf_agents()
    job = rig.submit()
    spoil_claim(rig, job)
    rig.until(lambda: rig.job(job).attempts == 2)


def test_an_unreadable_claim_does_not_prevent_a_cancel() -> None:
    """A job under a malformed `claim` can be cancelled."""
    rig = with_deaf_agents()
    job = rig.submit()
    spoil_claim(rig, job)
    rig.verb("cancel", job)
    assert rig.ended(job).outcome == "cancelled"


def spoilt_gang(rig: Rig) -> str:
    """Return a gang over both machines, with an empty object in the place of its `go`."""
    rig.turn(3)
    job = rig.submit(h100=5, replicas=2)
    attempt = rig.job(job).attempt
    assert attempt is not None
    rig.bucket.create(layout.go("blue", job, attempt.number, attempt.nonce), b"")
    return job


def test_an_unreadable_barrier_never_opens() -> None:
    """A malformed `go` lets no agent run or poll on: the next attempt has its own."""
    rig = Rig()
    job = spoilt_gang(rig)
    rig.until_attempt(job, 2)
    assert [ran for agent in rig.agents.values() for ran in agent.ran] == [f"{job}/2"] * 2
    last = rig.job(job).past[-1]
    assert last.kind is OutcomeKind.LOST
    assert layout.BARRIERS in next(event.text for event in rig.history() if event.what == "queued")
    assert rig.journal.problems == ()


def test_an_unreadable_barrier_does_not_prevent_a_cancel() -> None:
    """A gang under a malformed `go` can be cancelled while its agents do nothing."""
    rig = Rig()
    job = spoilt_gang(rig)
    for agent in rig.agents.values():
        agent.is_deaf = True
    rig.verb("cancel", job)
    rig.turn(3)
    attempt = rig.job(job).attempt
    assert attempt is not None
    assert attempt.go == "revoked"
    for agent in rig.agents.values():
        agent.is_deaf = False
    assert rig.ended(job).outcome == "cancelled"
    assert rig.journal.problems == ()


def test_unreadable_instructions_are_given_again() -> None:
    """A batch that is blocked by an object is skipped: its instructions come with the next."""
    rig = Rig()
    rig.turn(3)
    for name in rig.agents:
        rig.bucket.create(layout.instructions(name, 1, rig.root.machines[name].batches + 1), b"")
    job = rig.start()
    assert rig.job(job).attempts == 1
    told = [each for agent in rig.agents.values() for each in agent.told]
    assert [each.job for each in told if isinstance(each, Start)] == [job]
    assert rig.journal.problems == ()


NEWER = b'{"schema":2,"write_id":"w","of":"a newer version"}'


def test_an_end_of_another_version_is_waited_for() -> None:
    """The job does not run again before its end can be read; the key is a problem."""
    rig = Rig(pace=replace(PACE, sweep_s=2.0))
    job = rig.start()
    for agent in rig.agents.values():
        agent.is_deaf = True
    attempt = rig.job(job).attempt
    assert attempt is not None
    key = seat_of(rig.job(job), 0, 0).end_key
    rig.bucket.create(key, NEWER)
    rig.until(lambda: any(key in problem for problem in rig.journal.problems))
    rig.turn(10)
    assert rig.job(job).attempt == attempt
    assert any("2 is not known, Bastion" in problem for problem in rig.journal.problems)


def test_a_barrier_of_another_version_is_not_taken_for_shut() -> None:
    """Its writer may have opened it: the gang is left as it is, and keeps its devices."""
    rig = Rig()
    rig.turn(3)
    job = rig.submit(h100=5, replicas=2)
    attempt = rig.job(job).attempt
    assert attempt is not None
    key = layout.go("blue", job, attempt.number, attempt.nonce)
    rig.bucket.create(key, NEWER)
    for agent in rig.agents.values():
        agent.is_deaf = True
    rig.verb("cancel", job)
    rig.until(lambda: any(key in problem for problem in rig.journal.problems))
    rig.turn(10)
    after = rig.job(job).attempt
    assert after is not None
    assert (after.nonce, after.go) == (attempt.nonce, "wanted")
    assert rig.job(job).is_admitted
