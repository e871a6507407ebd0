"""If the end of a host is deleted before the bastion reads it, its job does not run forever."""

from __future__ import annotations

from bastion.clock import VirtualClock
from bastion.job import End
from bastion.lifecycle import remark
from bastion.machine import StopHost
from bastion.monitor import END_MISSING_S
from bastion.records.reports.facts import Drained, Ended
from bastion.service.intake.registers import Seat
from bastion.service.repair.fsck import audit
from bastion.value import replace
from tests.rigs.leader import PACE, Agent, Rig


def ended_unread(rig: Rig, job: str) -> Agent:
    """Let the processes of `job` exit with 0, and delete the register before a turn."""
    agent = rig.agent_of(job)
    agent.end(job, 0)
    rig.bucket.delete(Seat(of=agent.of(job), machine=agent.name).end_key)
    return agent


def test_a_job_whose_end_was_deleted_unread_is_lost_and_tried_again() -> None:
    """After ten minutes its machine is told to stop it and writes an end; the job continues."""
    rig = Rig()
    job = rig.start()
    agent = ended_unread(rig, job)
    rig.turn(int(END_MISSING_S) - 5)
    assert rig.phase(job) == "running"
    assert not agent.stops
    rig.until_attempt(job, 2)
    (stop,) = agent.stops
    assert stop.reason == "end missing"
    (past,) = rig.job(job).past
    assert past.kind == "lost"
    told = [event.text for event in rig.history() if event.job == job and event.what == "queued"]
    assert told[-1] == (
        f"how it ended is not known: replica 0 ended on {agent.name}, but its end record is"
        " missing from the bucket"
    )
    rig.agent_of(job).end(job, 0)
    assert rig.ended(job).outcome == "succeeded"


def test_why_and_fsck_tell_of_an_end_that_was_deleted_unread() -> None:
    """Both say so immediately, and fsck is silent again once the job has ended."""
    rig = Rig()
    job = rig.start()
    agent = ended_unread(rig, job)
    rig.turn(2)
    assert remark(rig.job(job)) == (
        f"it ended on machine {agent.name}, but its end record is missing from the bucket"
    )
    (finding,) = audit(rig.bucket, VirtualClock())
    assert finding.key == Seat(of=agent.of(job), machine=agent.name).end_key
    assert finding.text == (
        "its machine reported its end, but the end record is missing: it was deleted unread"
    )
    rig.turn(int(END_MISSING_S))
    rig.until_attempt(job, 2)
    assert audit(rig.bucket, VirtualClock()) == ()


def test_a_stop_whose_end_was_deleted_unread_is_sent_again() -> None:
    """A cancelled job does not stop forever either."""
    rig = Rig()
    job = rig.start()
    agent = rig.agent_of(job)
    obeyed: list[StopHost] = []

    def obey(stop: StopHost) -> None:
        obeyed.append(stop)
        of = agent.of(job)
        end = End(kind="exited", codes=(0,), notice=stop.reason)
        agent.end_as(of, end, rings=False)
        if len(obeyed) == 1:
            rig.bucket.delete(Seat(of=of, machine=agent.name).end_key)
        agent.ring(Ended(of=of, end=end), Drained(of=of))

    agent._stop = obey  # type: ignore[method-assign]
    rig.verb("cancel", job)
    rig.turn(int(END_MISSING_S) - 5)
    assert (rig.phase(job), len(obeyed)) == ("stopping", 1)
    rig.turn(10)
    assert len(obeyed) == 2
    assert rig.ended(job).outcome == "cancelled"


def test_an_end_of_another_version_is_not_missing() -> None:
    """It waits for a bastion that reads it; nothing is stopped, and no job runs again."""
    rig = Rig()
    job = rig.start()
    agent = rig.agent_of(job)
    rig.turn()
    key = Seat(of=agent.of(job), machine=agent.name).end_key
    rig.bucket.create(key, b'{"schema": 1000}')
    agent.ring(Drained(of=agent.of(job)))
    rig.turn(2 * int(END_MISSING_S))
    assert rig.phase(job) == "running"
    assert not agent.stops
    assert remark(rig.job(job)) == ""


def test_an_end_that_is_only_read_late_ends_the_job_as_it_ended() -> None:
    """The register exists but its bell was lost: the sweep reads it, and nothing is stopped."""
    rig = Rig(pace=replace(PACE, sweep_s=30.0))
    job = rig.start()
    agent = rig.agent_of(job)
    rig.turn()
    agent.end_as(agent.of(job), End(kind="exited", codes=(0,), sizes=(3,)), rings=False)
    agent.ring(Drained(of=agent.of(job)))
    rig.turn(3)
    assert rig.phase(job) == "running"
    rig.until(lambda: rig.phase(job) == "gone", turns=200)
    assert rig.ended(job).outcome == "succeeded"
    assert not agent.stops
