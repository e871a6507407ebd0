"""Machines that run and whose agents answer nothing."""

from __future__ import annotations

from tests.rigs.leader import CONFIG, Rig

TWO = CONFIG.replace("count = 2", "max_machines = 2")


def test_a_job_leaves_a_machine_whose_agent_never_answers() -> None:
    """An instruction that is unanswered for ten minutes costs the machine, and the job nothing."""
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
    """What runs on a machine is not ended because its agent leaves something else unanswered."""
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
