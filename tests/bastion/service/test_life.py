"""The whole life of a job, with a real leader and scripted agents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bastion.job import End
from bastion.machine import Start
from bastion.records.keys import layout
from bastion.records.outlook import snapshot_of
from bastion.records.register import look
from bastion.records.reports.facts import Ended, Unkept
from bastion.records.reports.registers import ClaimRegister, GoRegister
from bastion.records.requests.job_request import UpdateRequest
from bastion.records.requests.launch_request import SpecRecord
from bastion.service.intake.registers import Seat
from bastion.spec import Job, Process, Resources
from quota import parse
from tests.rigs.leader import PACE, QUOTA, Rig


def one(name: str, *, h100: int = 1, **more: Any) -> Job:
    """Return a job of one process."""
    process = Process(["true"], resources=Resources(h100=h100))
    return Job(name=name, processes=(process,), **more)


def test_a_job_runs_and_leaves_a_result() -> None:
    """A successful job is answered, started, recorded, and leaves root and inbox empty."""
    rig = Rig()
    job = rig.start("train")
    spec = rig.read(layout.spec("blue", job), SpecRecord)
    assert spec is not None
    assert (spec.user, spec.launch.project) == ("ann", "blue")
    rig.agent_of(job).end(job)
    result = rig.ended(job)
    assert (result.outcome, result.code, result.attempts) == ("succeeded", 0, 1)
    rig.turn(3)
    assert not rig.root.answers
    assert not rig.keys(layout.INBOX)


def test_a_result_stands_before_its_job_leaves_root() -> None:
    """A finished job leaves root in a later commit than the one that requests its result."""
    rig = Rig()
    job = rig.start()
    rig.agent_of(job).end(job)
    while rig.phase(job) != "gone":
        done_before = rig.phase(job) == "done"
        result_before = rig.result(job) is not None
        rig.turn()
    assert done_before
    assert result_before


def test_a_failure_is_final_without_retries() -> None:
    """A failed job is not restarted unless its user asked for retries."""
    rig = Rig()
    job = rig.start()
    rig.agent_of(job).end(job, 3, detail="Traceback\nValueError: no\n")
    result = rig.ended(job)
    assert (result.outcome, result.code, result.attempts) == ("failed", 3, 1)
    assert result.text == "exited with code 3: ValueError: no"


def test_retries_count_failures_and_wait_longer_each_time() -> None:
    """`retries` restarts a failed job after a backoff that doubles, and then gives up."""
    rig = Rig()
    job = rig.start(retries=2, retry_backoff=4.0)
    backoffs = []
    for attempt in (1, 2, 3):
        rig.until(lambda: rig.phase(job) == "running")
        assert rig.job(job).attempts == attempt
        rig.agent_of(job).end(job, 1)
        rig.until(lambda: rig.phase(job) in ("queued", "done"))
        if attempt < 3:
            backoffs.append(rig.job(job).not_before - rig.job(job).queued_at)
    assert backoffs == [4.0, 8.0]
    result = rig.ended(job)
    assert (result.outcome, result.attempts, result.failures) == ("failed", 3, 2)
    assert [past.kind.value for past in result.past] == ["failed"] * 3


def test_a_borrower_is_preempted_and_resumes() -> None:
    """A borrower whose devices are reclaimed is told so, queued again, and runs later."""
    rig = Rig()
    borrower = rig.start("borrower", h100=8, replicas=2)
    owner = rig.submit("owner", user="cat", project="red", h100=8)
    rig.until(lambda: rig.phase(owner) == "running")
    assert rig.phase(borrower) == "queued"
    job = rig.job(borrower)
    assert (job.preemptions, job.failures) == (1, 0)
    agent = next(agent for agent in rig.agents.values() if agent.stops)
    assert agent.stops[0].reason == "preempt"
    assert agent.stops[0].by == owner
    rig.agent_of(owner).end(owner)
    rig.until(lambda: rig.phase(borrower) == "running")
    assert rig.job(borrower).attempts == 2


def test_finished_work_is_not_preempted() -> None:
    """A job that was preempted but had marked itself finished has succeeded."""
    rig = Rig()
    borrower = rig.start("borrower", h100=8, replicas=2)
    for agent in rig.agents.values():
        agent.is_deaf = True
    owner = rig.submit("owner", user="cat", project="red", h100=8)
    rig.until(lambda: rig.phase(borrower) == "stopping")
    for agent in rig.agents.values():
        agent.is_deaf = False
        agent.end(borrower, 143, notice="preempt", finished=True)
    assert rig.ended(borrower).outcome == "succeeded"
    rig.until(lambda: rig.phase(owner) == "running")


@pytest.mark.parametrize("phase", ["queued", "starting", "running", "stopping", "draining"])
def test_a_cancel_ends_a_job_in_every_phase(phase: str) -> None:
    """A cancelled job ends cancelled in any phase, unless it had already ended."""
    rig = Rig()
    rig.turn(2)
    if phase == "queued":
        rig.start("owner", h100=8, replicas=2)
    if phase == "starting":
        rig.agents["gpu-2-1"].is_deaf = True
    job = rig.submit("mine", h100=8, replicas=2, retries=5)
    if phase in ("running", "stopping", "draining"):
        rig.until(lambda: rig.phase(job) == "running")
    if phase == "stopping":
        for agent in rig.agents.values():
            agent.is_deaf = True
        rig.submit("owner", user="cat", project="red", h100=8)
        rig.until(lambda: rig.phase(job) == "stopping")
    if phase == "draining":
        for n, agent in enumerate(rig.agents.values()):
            end = End(kind="exited", codes=(1 - n,), first_failed=None if n else 0)
            agent.end_as(agent.of(job), end, rings=False)
            agent.ring(Ended(of=agent.of(job), end=end))
        rig.turn()
    assert rig.phase(job) == phase
    asked = rig.verb("cancel", job)
    rig.turn()
    assert rig.answer(asked).accepted
    if phase == "starting":
        rig.agents["gpu-2-1"].is_deaf = False
    if phase == "stopping":
        for agent in rig.agents.values():
            agent.is_deaf = False
    rig.until(lambda: rig.phase(job) == "gone", turns=200)
    result = rig.result(job)
    assert result is not None
    assert (result.outcome, result.text) == ("cancelled", "cancelled by ann")


def test_a_cancel_before_the_claim_takes_the_right_to_start() -> None:
    """A job cancelled before any agent claimed it is revoked by register and never runs."""
    rig = Rig()
    rig.turn(2)
    for agent in rig.agents.values():
        agent.is_deaf = True
    job = rig.submit()
    rig.verb("cancel", job)
    assert rig.ended(job).outcome == "cancelled"
    for agent in rig.agents.values():
        agent.is_deaf = False
    rig.turn(3)
    assert not any(agent.ran for agent in rig.agents.values())
    claims = [key for key in rig.keys(layout.RUNS) if key.endswith("/claim") and job in key]
    (register,) = [rig.read(key, ClaimRegister) for key in claims]
    assert register is not None
    assert register.claim is None


def test_no_job_of_a_gang_runs_before_all_are_claimed() -> None:
    """The barrier of a gang on two hosts opens only after the commit that saw both claims."""
    rig = Rig()
    rig.turn(2)
    slow = rig.agents["gpu-2-1"]
    slow.is_deaf = True
    job = rig.submit(h100=8, replicas=2)
    rig.turn(5)
    attempt = rig.job(job).attempt
    assert attempt is not None
    assert attempt.go == "awaited"
    assert not any(agent.ran for agent in rig.agents.values())
    slow.is_deaf = False
    rig.until(lambda: rig.phase(job) == "running")
    go = look(rig.bucket, layout.go("blue", job, 1, attempt.nonce), GoRegister)
    assert go is not None
    assert (go.addresses, go.port) == (("10.0.0.1", "10.0.0.1"), 29500)


def test_a_gang_that_never_started_is_revoked_with_one_write() -> None:
    """A gang cancelled behind its barrier never opens it, though one host had claimed."""
    rig = Rig()
    rig.turn(2)
    rig.agents["gpu-2-1"].is_deaf = True
    job = rig.submit(h100=8, replicas=2)
    rig.turn(3)
    attempt = rig.job(job).attempt
    assert attempt is not None
    rig.verb("cancel", job)
    assert rig.ended(job).outcome == "cancelled"
    go = look(rig.bucket, layout.go("blue", job, 1, attempt.nonce), GoRegister)
    assert go is not None
    assert go.addresses == ()
    assert not any(agent.ran for agent in rig.agents.values())


def test_one_failed_replica_stops_its_siblings() -> None:
    """With `stop_others`, the siblings are stopped, and the failure is the job's only reason."""
    rig = Rig()
    job = rig.start(h100=8, replicas=2)
    rig.agent_of(job, replica=1).end(job, -9)
    result = rig.ended(job)
    assert (result.outcome, result.code) == ("failed", -9)
    assert result.text == "replica 1: was killed by SIGKILL"
    sibling = next(agent for agent in rig.agents.values() if agent.stops)
    assert (sibling.stops[0].reason, sibling.stops[0].by) == ("sibling failed", "replica 1")


def test_devices_are_free_the_moment_a_replica_has_ended() -> None:
    """With `continue`, the devices of an ended replica are given away while others run."""
    rig = Rig()
    gang = rig.start("gang", h100=8, replicas=2, on_failure="continue")
    rig.agent_of(gang, replica=0).end(gang, 1)
    rig.turn()
    assert rig.phase(gang) == "running"
    assert len(rig.job(gang).alive) == 1
    rig.start("next", user="cat", project="red", h100=8)
    rig.agent_of(gang, replica=1).end(gang, 0)
    assert rig.ended(gang).outcome == "failed"


def lose_machine_of(rig: Rig, job: str) -> None:
    """Lose the machine of `job`: its agent is silent, and its provider no longer lists it."""
    agent = rig.agent_of(job)
    agent.is_deaf = True
    del rig.providers["gpu"].states[agent.name]


def test_the_loss_of_a_machine_starts_the_next_attempt_elsewhere() -> None:
    """A machine missing from two lists is gone; its job restarts on another."""
    rig = Rig()
    job = rig.start()
    rig.turn(20)
    agent = rig.agent_of(job)
    lose_machine_of(rig, job)
    rig.until_attempt(job, 2)
    assert rig.agent_of(job) is not agent
    assert agent.name not in rig.root.machines
    assert rig.job(job).failures == 0
    assert rig.providers["gpu"].creates.count(agent.name) == 1, "a name is for one create"


def test_one_listing_is_not_believed() -> None:
    """A machine missing from one list is neither lost nor created again."""
    rig = Rig()
    job = rig.start()
    rig.turn(20)
    name = rig.agent_of(job).name
    provider = rig.providers["gpu"]
    state = provider.states.pop(name)
    rig.turn()
    provider.states[name] = state
    rig.turn(4)
    assert rig.phase(job) == "running"
    assert rig.job(job).attempts == 1
    assert provider.creates.count(name) == 1


def test_a_job_that_loses_machine_after_machine_is_lost() -> None:
    """After three consecutive losses without a good run, the outcome is `lost`."""
    rig = Rig()
    job = rig.start()
    for attempt in (1, 2, 3):
        rig.until_attempt(job, attempt)
        lose_machine_of(rig, job)
    result = rig.ended(job)
    assert result.outcome == "lost"
    assert result.attempts == 3
    assert "lost 3 times in a row" in result.text


def test_reported_numbers_reach_the_scheduler() -> None:
    """The last report of a job is in root, and in what the scheduler sees."""
    rig = Rig()
    job = rig.start()
    rig.agent_of(job).report(job, loss=0.5)
    rig.agent_of(job).report(job, loss=0.25, remaining_s=60)
    rig.turn()
    root = rig.root
    assert root.jobs[job].report == {"loss": 0.25, "remaining_s": 60}
    seen = snapshot_of(root, parse(QUOTA), now=root.now, pools={})
    assert seen.reports == {job: {"loss": 0.25, "remaining_s": 60}}


def test_a_checkpoint_makes_a_loss_harmless() -> None:
    """A loss after a checkpoint restarts the count of losses."""
    rig = Rig()
    job = rig.start()
    for attempt in (1, 2, 3, 4):
        rig.until_attempt(job, attempt)
        rig.agent_of(job).checkpoint(job)
        rig.turn()
        lose_machine_of(rig, job)
    rig.until(lambda: rig.job(job).attempts == 5)
    assert rig.job(job).losses_in_row == 1


def test_a_new_keeper_life_means_the_old_processes_are_dead() -> None:
    """An attempt whose claim is of an older keeper life is stopped, ended and restarted."""
    rig = Rig()
    job = rig.start()
    agent = rig.agent_of(job)
    of = agent.of(job)
    agent.live_again()
    agent.is_deaf = True
    rig.until(lambda: rig.phase(job) == "stopping")
    agent.end_as(of, End(kind="lost", detail="its keeper died"))
    agent.is_deaf = False
    rig.until_attempt(job, 2)


def test_a_lost_bell_is_found_by_the_sweep() -> None:
    """An end without a bell is found by reading its register."""
    rig = Rig(pace=replace(PACE, sweep_s=5.0))
    job = rig.start()
    agent = rig.agent_of(job)
    agent.end_as(agent.of(job), End(kind="exited", codes=(0,)), rings=False)
    rig.until(lambda: rig.phase(job) == "draining", turns=20)


@pytest.mark.parametrize(("why", "told"), [("", ""), ("403 Forbidden", " (403 Forbidden)")])
def test_logs_are_waited_for_but_not_for_ever(why: str, told: str) -> None:
    """A job whose agent falls silent after its end is recorded when the time for logs is over."""
    rig = Rig()
    job = rig.start()
    agent = rig.agent_of(job)
    of = agent.of(job)
    end = agent.end_as(of, End(kind="exited", codes=(0,)), rings=False)
    agent.ring(Ended(of=of, end=end))
    if why:
        agent.ring(Unkept(of=of, text=why, is_log=True))
    rig.turn(2)
    assert rig.phase(job) == "draining"
    assert rig.result(job) is None
    rig.turn(118)
    assert rig.phase(job) == "draining"
    rig.until(lambda: rig.phase(job) == "gone", turns=10)
    result = rig.result(job)
    assert result is not None
    late = f"the end of the log may be missing: not all of it arrived in time{told}"
    assert (result.outcome, result.text) == ("succeeded", f"exited with code 0; {late}")


def test_a_time_limit_that_the_keeper_missed_is_enforced() -> None:
    """The bastion stops a job that exceeds its time limit, the grace period and a margin."""
    rig = Rig()
    job = rig.start(max_runtime=20.0)
    rig.turn(50)
    assert rig.phase(job) == "running", "20 s + 5 s grace + 30 s slack are not over"
    result = rig.ended(job)
    assert result.outcome == "timed_out"
    assert result.text == "reached its max_runtime of 20s"


def test_a_store_whose_clock_is_set_forward_ends_no_job_early() -> None:
    """Its keeper knows how long a job has run; the bastion's own limit counts again from then."""
    rig = Rig()
    ahead_s = [0.0]
    rig.bucket._now = lambda: rig.clock.wall() + ahead_s[0]
    job = rig.start(max_runtime=100.0)
    ahead_s[0] = 7200.0
    rig.turn(90)
    assert rig.phase(job) == "running"
    assert rig.ended(job).outcome == "timed_out"


def test_a_held_job_waits_until_it_is_released() -> None:
    """A job submitted with `hold` starts only once it is released."""
    rig = Rig()
    rig.turn(2)
    job = rig.submit(hold=True)
    rig.turn(5)
    assert rig.phase(job) == "queued"
    asked = rig.verb("release", job)
    rig.until(lambda: rig.phase(job) == "running")
    assert rig.answer(asked).jobs == (job,)
    again = rig.verb("release", job)
    rig.turn()
    assert not rig.answer(again).accepted


def test_an_update_changes_what_waits() -> None:
    """The owner of a job can change its priority and time limit; another user cannot."""
    rig = Rig()
    rig.start("first", h100=8, replicas=2)
    job = rig.submit("second", h100=8)
    body = UpdateRequest(targets=(job,), priority=1, max_runtime_s=60.0)
    mine, theirs = rig.ask("ann", "blue", "update", body), rig.ask("ben", "blue", "update", body)
    rig.turn()
    assert rig.answer(mine).accepted
    assert (rig.job(job).request.priority, rig.job(job).request.max_runtime_s) == (1, 60.0)
    refused = rig.answer(theirs, user="ben")
    assert refused.problems == (
        f"{job}: is ann's; ann or an admin of blue (none is named) may update it",
    )


def test_jobs_of_a_launch_share_a_machine_and_know_it() -> None:
    """Instructions of one commit to one machine are in one batch, in replica order."""
    rig = Rig()
    rig.turn(2)
    job = rig.submit(h100=2, replicas=3)
    rig.turn(3)
    (agent,) = [agent for agent in rig.agents.values() if agent.starts]
    starts = [told for told in agent.told if isinstance(told, Start)]
    assert [start.replica for start in starts] == [0, 1, 2]
    assert [start.replicas_here for start in starts] == [0, 1, 2]
    assert len({start.devices["h100"] for start in starts}) == 3
    assert len(rig.keys(layout.folder_of(layout.instructions(agent.name, 1, 1)))) == 1
    assert rig.phase(job) == "running"


def test_an_unreadable_end_frees_its_devices() -> None:
    """A malformed `end` means that the attempt is lost, not that its job hangs forever."""
    rig = Rig(pace=replace(PACE, sweep_s=2.0))
    job = rig.start()
    agent = rig.agent_of(job)
    of = agent.of(job)
    key = Seat(of=of, machine=agent.name).end_key
    rig.bucket.create(key, b'{"schema":1,"write_id":"x","end":{"kind":"exited","first_failed":7}}')
    rig.until_attempt(job, 2)
    assert rig.job(job).past[0].kind.value == "lost"


def test_every_host_of_a_wide_job_is_swept() -> None:
    """The sweep finds the lost bell of every replica, however many one job has."""
    rig = Rig(pace=replace(PACE, sweep_s=1.0))
    job = rig.start(replicas=12, on_failure="continue")
    for agent in rig.agents.values():
        for start in agent.starts.values():
            of = agent.of(job, replica=start.replica)
            agent.end_as(of, End(kind="exited", codes=(0,)), rings=False)
    rig.until(lambda: rig.phase(job) in ("draining", "done", "gone"), turns=10)
