"""Machines that cannot start anything fail no job of a queue, and recover."""

from __future__ import annotations

import json

from bastion.job import End
from bastion.lifecycle.remark import SILENT_S
from bastion.records.keys import layout
from bastion.records.reports.facts import Health, Interruption
from bastion.service.draft.machines.health import MAX_FAILED_STARTS, MAX_PAUSE_S, PAUSE_S
from bastion.service.publish.queue_view import queue_view
from bastion.service.publish.views import pool_view
from tests.rigs.leader import QUOTA, Rig

TWO = """
[pools.gpu]
provider = "fake"
resources = { h100 = 8 }
max_machines = 2
min_machines = 2
"""
ONE = TWO.replace("= 2", "= 1")
FULL = End(
    kind="lost",
    by_machine=True,
    detail="its machine could not start it: No space left on device",
)


def test_a_machine_that_starts_nothing_fails_no_job() -> None:
    """One of two machines has a full disk: every job of a queue succeeds on the other."""
    rig = Rig(config=TWO)
    rig.turn(10)
    bad, good = sorted(rig.agents)
    rig.agents[bad].fails_with = FULL
    jobs = [rig.submit(f"job-{n}", h100=4) for n in range(20)]
    for _ in range(400):
        rig.turn()
        for job in list(rig.root.jobs.values()):
            if job.phase == "running":
                rig.agents[good].end(job.id)
        if not rig.root.jobs:
            break
    assert {rig.result(job).outcome for job in jobs} == {"succeeded"}  # type: ignore[union-attr]
    assert rig.agents[bad].failed
    assert all(rig.result(job).failures == 0 for job in jobs)  # type: ignore[union-attr]


def test_a_machine_takes_nothing_after_failed_starts_and_is_tried_again() -> None:
    """After three failed starts it is unwell and says why; after a pause one more is tried."""
    rig = Rig(config=ONE)
    rig.turn(10)
    (name,) = rig.agents
    agent = rig.agents[name]
    agent.fails_with = FULL
    job = rig.submit("train")
    rig.until(lambda: rig.root.machines[name].unwell)
    machine = rig.root.machines[name]
    assert machine.unwell == (
        f"could not start {MAX_FAILED_STARTS} jobs in a row: No space left on device"
    )
    assert not machine.accepts
    assert len(agent.failed) == MAX_FAILED_STARTS
    assert any("unwell" in event.text or event.what == "machine unwell" for event in rig.history())
    rig.clock.advance(PAUSE_S / 2)  # beyond the job's own wait after a loss
    rig.turn(3)
    (row,) = queue_view(rig.root, rig.leader._plan)["jobs"]
    assert f"{name} (unwell: {machine.unwell})" in row["text"]
    agent.fails_with = None
    rig.clock.advance(PAUSE_S + 1)
    rig.until(lambda: rig.phase(job) == "running")
    assert not rig.root.machines[name].unwell
    agent.end(job)
    rig.ended(job)
    assert not rig.root.machines[name].failed_starts


def test_an_agent_says_that_its_machine_is_unwell_and_well_again() -> None:
    """While an agent reports a full disk, its machine gets no job; the waiting job says so."""
    rig = Rig(config=ONE)
    rig.turn(10)
    (name,) = rig.agents
    rig.agents[name].ring(Health(unwell="its disk is full"))
    rig.turn(2)
    job = rig.submit("train")
    rig.turn(3)
    assert rig.phase(job) == "queued"
    rig.agents[name].ring(Health())
    rig.until(lambda: rig.phase(job) == "running")


def test_what_programs_print_is_one_line_of_a_table() -> None:
    """A reason of several lines would break the table of machines and the log."""
    rig = Rig(config=ONE)
    rig.turn(10)
    (name,) = rig.agents
    rig.agents[name].ring(Health(unwell="its burn failed: usage: burn\n  [-h]\nno such flag"))
    rig.turn(2)
    assert rig.root.machines[name].unwell == "its burn failed: usage: burn [-h] no such flag"


def test_no_job_lands_on_a_device_that_others_hold() -> None:
    """Jobs get the other devices; the holder of the one is shown; once free, it is used again."""
    rig = Rig(config=ONE)
    rig.turn(10)
    (name,) = rig.agents
    why = "process 7 (python3) of user eve, which is not of this bastion, holds h100 3"
    rig.agents[name].ring(Health(bad_devices={"h100": (3,)}, text=why))
    rig.turn(2)
    jobs = [rig.submit(f"job-{n}", h100=1) for n in range(8)]
    rig.turn(20)
    placed = [rig.job(job).attempt for job in jobs if rig.phase(job) != "queued"]
    assert all(placed)
    held = {
        index
        for attempt in placed
        for replica in (attempt.placement if attempt else ())
        for host in replica.hosts
        for index in host.devices["h100"]
    }
    assert held == {0, 1, 2, 4, 5, 6, 7}
    (row,) = pool_view(rig.root, rig.leader._files.config.pools, ())["machines"]
    assert (row["bad_devices"], row["bad_text"]) == ({"h100": [3]}, why)
    view = rig.bucket.read(layout.view("queue"))
    assert view is not None
    reasons = [row["text"] for row in json.loads(view.data)["jobs"] if row["phase"] == "queued"]
    assert any(f"{name} (1 h100: {why})" in reason for reason in reasons), reasons
    assert any(event.what == "machine health" and why in event.text for event in rig.history())
    rig.agents[name].ring(Health())
    rig.turn(20)
    assert all(rig.phase(job) == "running" for job in jobs)
    assert rig.root.machines[name].bad_text == ""


def test_a_start_that_its_machine_does_not_answer_names_the_machine() -> None:
    """A job that is starting on a machine without an agent says for which machine it waits."""
    rig = Rig(config=ONE)
    rig.turn(10)
    (name,) = rig.agents
    rig.agents[name].is_deaf = True
    job = rig.submit("train")
    rig.until(lambda: rig.phase(job) == "starting")
    rig.turn(3)
    rig.clock.advance(2 * SILENT_S)
    rig.turn(2)
    (row,) = queue_view(rig.root, rig.leader._plan)["jobs"]
    assert f"waits for machine {name}, which has not answered for" in row["text"]


def test_a_machine_that_alone_fails_a_job_is_cordoned() -> None:
    """Two equal failures on one machine and none elsewhere cordon it, with a reason."""
    rig = Rig(config=TWO)
    rig.turn(3)
    job = rig.start(h100=8, retries=5, retry_backoff="1s")
    bad = rig.agent_of(job)
    bad.end(job, 7)
    rig.until_attempt(job, 2)
    assert rig.agent_of(job) is bad
    bad.ring(Health(unwell="too hot"))
    bad.end(job, 7)
    rig.until_attempt(job, 3)
    bad.ring(Health())
    assert not rig.root.machines[bad.name].cordoned, "it was tried nowhere else yet"
    rig.agent_of(job).end(job, 0)
    rig.ended(job)
    assert rig.root.machines[bad.name].cordoned == (
        f"{job} failed with code 7 2 times here and in none of 1 attempt elsewhere"
    )


def test_a_gang_leaves_a_machine_that_its_cloud_takes_back() -> None:
    """A certain notice preempts the whole gang at no cost; a merely likely one does not."""
    rig = Rig(
        config=TWO.replace("min_machines = 2", ""),
        quota=QUOTA.replace("0.5", "1.0", 1).replace("h100 = 0.5", "h100 = 0.0"),
    )
    gang = rig.start("gang", h100=8, replicas=2)
    taken, left = rig.agent_of(gang), rig.agent_of(gang, replica=1)
    taken.ring(Interruption(in_s=120.0, is_certain=False, text="rebalance"))
    rig.turn(2)
    assert rig.phase(gang) == "running"
    assert not rig.root.machines[taken.name].accepts
    taken.ring(Interruption(in_s=30.0, text="spot"))
    rig.until(lambda: rig.phase(gang) != "running")
    rig.turn(3)
    assert [stop.reason for stop in left.stops] == ["preempt"]
    job = rig.root.jobs[gang]
    assert (job.preemptions, job.failures, job.losses_in_row) == (1, 0, 0)
    assert job.past[0].kind.value == "preempted"


def test_a_machine_that_its_cloud_takes_back_stays_closed_whatever_its_agent_tells() -> None:
    """A device that breaks, or a disk with room again, does not open it in its last minutes."""
    rig = Rig(config=ONE)
    rig.turn(10)
    (name,) = rig.agents
    rig.agents[name].ring(Interruption(in_s=3600.0, text="its host is under maintenance"))
    for told in (Health(bad_devices={"h100": (3,)}), Health(unwell="its disk is full"), Health()):
        rig.agents[name].ring(told)
        rig.turn(2)
        assert rig.root.machines[name].unwell.startswith("its cloud reclaims it in 3600 s")
    job = rig.submit("train")
    rig.turn(5)
    assert rig.phase(job) == "queued"


def test_the_notice_of_a_machine_that_the_bastion_deletes_is_no_news() -> None:
    """Its agent is told to end, as by a cloud that reclaims it; the history has its deletion."""
    rig = Rig(config=ONE.replace("min_machines = 1", 'idle_timeout = "5s"'))
    job = rig.start("train")
    agent = rig.agent_of(job)
    agent.end(job)
    rig.until(lambda: rig.root.machines[agent.name].phase == "deleting")
    agent.ring(Interruption(in_s=120.0, text="its pod is ended"))
    rig.until(lambda: agent.name not in rig.root.machines)
    told = [event.what for event in rig.history()]
    assert "machine deleted" in told
    assert "machine unwell" not in told


def test_a_pause_after_failed_starts_is_not_ended_by_news_of_a_device() -> None:
    """Its agent has not reported the start, so nothing that it reports undoes the pause."""
    rig = Rig(config=ONE)
    rig.turn(10)
    (name,) = rig.agents
    rig.agents[name].fails_with = FULL
    rig.submit("train")
    rig.until(lambda: rig.root.machines[name].unwell)
    rig.agents[name].ring(Health(bad_devices={"h100": (3,)}))
    rig.turn()
    machine = rig.root.machines[name]
    assert machine.bad_devices
    assert (machine.unwell != "", machine.failed_starts) == (True, MAX_FAILED_STARTS)


def test_failed_starts_do_not_open_a_machine_that_its_agent_calls_unwell() -> None:
    """A pause ends automatically; a full disk only ends when the agent says so."""
    rig = Rig(config=ONE)
    rig.turn(10)
    (name,) = rig.agents
    agent = rig.agents[name]
    jobs = [rig.start(f"job-{n}", h100=1) for n in range(MAX_FAILED_STARTS + 1)]
    agent.ring(Health(unwell="its disk is full"))
    for job in jobs:
        agent.end_as(agent.of(job), FULL)
    rig.turn(2)
    rig.turn(3, seconds=MAX_PAUSE_S)
    assert rig.root.machines[name].unwell == "its disk is full"
    agent.ring(Health())
    rig.until(lambda: all(rig.phase(job) == "running" for job in jobs))
