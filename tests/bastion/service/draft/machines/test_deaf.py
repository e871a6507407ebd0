"""Machines that run while their agents answer nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from bastion.errors import StoreFullError
from bastion.records.reports.facts import Heartbeat
from bastion.service.publish.queue_view import queue_view
from bastion.store import ObjectStore
from bastion.store.memory import Fault, FaultyStore, Operation
from tests.rigs.leader import CONFIG, QUOTA, Rig

TWO = CONFIG.replace("count = 2", "max_machines = 2")


def test_a_job_leaves_a_machine_whose_agent_never_answers() -> None:
    """An instruction that is unanswered for ten minutes costs the machine, but the job nothing."""
    rig = Rig(config=TWO)
    first = rig.start("first", h100=8)
    agent = rig.agent_of(first)
    agent.end(first)
    rig.ended(first)
    agent.is_deaf = True
    job = rig.submit("second", h100=8)
    rig.turn(590)
    assert rig.agent_of(job) is agent
    rig.until(lambda: rig.phase(job) == "running", turns=60)
    assert rig.agent_of(job) is not agent
    record = rig.root.jobs[job]
    assert (record.losses_in_row, record.failures) == (0, 0)
    rig.until(lambda: agent.name not in rig.providers["gpu"].states)


def test_a_stop_that_is_never_answered_ends_with_its_machine() -> None:
    """A cancelled job whose agent does not stop it ends once its machine is confirmed gone."""
    rig = Rig(config=TWO)
    job = rig.start(h100=8)
    agent = rig.agent_of(job)
    agent.is_deaf = True
    rig.verb("cancel", job)
    rig.turn(600)
    assert rig.phase(job) == "stopping"
    rig.until(lambda: rig.phase(job) == "gone", turns=200)
    result = rig.result(job)
    assert result is not None
    assert result.outcome == "cancelled"
    assert agent.name not in rig.providers["gpu"].states


def test_a_machine_where_another_job_runs_is_kept() -> None:
    """A running job is not ended because its agent leaves something else unanswered."""
    rig = Rig(config=TWO.replace("max_machines = 2", "max_machines = 1"))
    runs = rig.start("runs", h100=4)
    agent = rig.agent_of(runs)
    agent.is_deaf = True
    rig.submit("waits", h100=4)
    rig.turn(900)
    assert rig.phase(runs) == "running"
    assert agent.name in rig.providers["gpu"].states


def test_an_outage_gives_agents_their_time_anew() -> None:
    """After turns that failed for longer than that, no machine is given up for its silence."""
    rig = Rig(config=TWO)
    first = rig.start("first", h100=8)
    agent = rig.agent_of(first)
    agent.end(first)
    rig.ended(first)
    agent.is_deaf = True
    job = rig.submit("second", h100=8)
    rig.clock.advance(3000.0)
    rig.turn(300)
    assert rig.agent_of(job) is agent
    agent.is_deaf = False
    rig.until(lambda: rig.phase(job) == "running")


BEATS = 300.0


def running(
    machines: int = 1, *, spoil: Callable[[ObjectStore], ObjectStore] = lambda store: store
) -> tuple[Rig, list[str]]:
    """Run a job on each of some machines; their agents ring every five minutes and then die."""
    config = CONFIG.replace("count = 2", f"max_machines = {machines + 1}")
    rig = Rig(config=config, quota=QUOTA.replace("h100 = 16", "h100 = 80"), spoil=spoil)
    jobs = [rig.start(f"job-{n}", h100=8) for n in range(machines)]
    for job in jobs:
        agent = rig.agent_of(job)
        agent.heartbeat_s = BEATS
        agent.ring(agent.hello())
    rig.turn(2)
    for job in jobs:
        rig.agent_of(job).is_deaf = True
    return rig, jobs


def pass_s(rig: Rig, seconds: float) -> None:
    """Let time pass in turns without a gap."""
    rig.turn(int(seconds / 30), seconds=30.0)


def told(rig: Rig, what: str) -> list[str]:
    """Return the texts of an event in the history."""
    return [event.text for event in rig.history() if event.what == what]


def test_a_dead_agent_beside_a_running_job_is_noticed() -> None:
    """No instruction is due: missing heartbeats quarantine the machine, with a message."""
    rig, (job,) = running()
    name = rig.agent_of(job).name
    pass_s(rig, 870)
    assert rig.root.machines[name].phase == "ready"
    pass_s(rig, 120)
    assert rig.root.machines[name].phase == "silent"
    assert rig.phase(job) == "running"
    (row,) = queue_view(rig.root, None)["jobs"]
    assert row["text"].startswith(f"runs on machine {name}, whose agent was last heard from 16m")
    (text,) = told(rig, "machine silent")
    assert text.startswith(f"{name}: its agent was last heard from 15m")
    rig.agents[name].ring(Heartbeat())
    rig.turn()
    assert rig.root.machines[name].phase == "ready"


def test_its_job_starts_elsewhere_once_the_machine_is_confirmed_gone() -> None:
    """After an hour the machine is deleted; the job is never in two places."""
    rig, (job,) = running()
    agent = rig.agent_of(job)
    provider = rig.providers["gpu"]
    pass_s(rig, 3500)
    assert (rig.phase(job), rig.job(job).attempts) == ("running", 1)
    for _ in range(40):
        rig.turn(seconds=10.0)
        others = {each.name for each in rig.agents.values() if f"{job}/2" in each.ran}
        assert not others or agent.name not in provider.states
    assert (rig.phase(job), rig.job(job).attempts) == ("running", 2)
    assert told(rig, "machine deaf") == [f"{agent.name}: its agent was last heard from 1h ago"]


def test_a_network_that_is_cut_ends_no_machine_for_a_day() -> None:
    """If most machines are silent at the same time, their agents are not dead."""
    rig, jobs = running(4)
    pass_s(rig, 7200)
    assert {m.phase.value for m in rig.root.machines.values()} == {"silent"}
    assert all(rig.job(job).attempts == 1 for job in jobs)
    for job in jobs[:3]:
        rig.agent_of(job).ring(Heartbeat())
    rig.turn()
    alone = rig.root.machines[rig.agent_of(jobs[3]).name]
    assert alone.phase == "deleting", "one that stays silent alone is dead"


def test_an_agent_that_promises_no_heartbeat_is_not_judged() -> None:
    """An agent of an older build rings only when there is news."""
    rig, (job,) = running()
    machine = rig.root.machines[rig.agent_of(job).name]
    rig.agent_of(job).heartbeat_s = 0.0
    rig.agent_of(job).ring(rig.agent_of(job).hello())
    rig.turn()
    pass_s(rig, 7200)
    assert rig.root.machines[machine.name].phase == "ready"


def test_an_outage_of_the_bastion_ages_no_heartbeat() -> None:
    """A bastion that was away heard no agent: the time of each starts over."""
    rig, (job,) = running()
    rig.clock.advance(7200.0)
    rig.turn(10)
    assert rig.root.machines[rig.agent_of(job).name].phase == "ready"


def test_an_outage_of_the_bucket_ages_no_heartbeat() -> None:
    """While no write lands, no bell does: refused commits make no agent silent."""
    is_full = False

    def faults(operation: Operation, key: str) -> Fault | None:
        if is_full and operation in ("create", "swap"):
            raise StoreFullError(f"{key}: no space left on device")
        return None

    rig, (job,) = running(spoil=lambda store: FaultyStore(store, faults))
    is_full = True
    for _ in range(125):
        with suppress(StoreFullError):
            rig.leader.turn()
        rig.clock.advance(30.0)
    is_full = False
    rig.turn(10)
    assert rig.root.machines[rig.agent_of(job).name].phase == "ready"
    assert rig.job(job).attempts == 1
