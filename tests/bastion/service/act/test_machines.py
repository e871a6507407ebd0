"""Providers: one call at a time, backoff after a stock-out, and no turn that waits for a call."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.errors import OutdatedError, ProviderUnavailableError
from bastion.job import End
from bastion.machine import MachinePhase
from bastion.records import layout
from bastion.records.facts import Ended
from tests.rigs.leader import CONFIG, PACE, QUOTA, Rig

ON_DEMAND = CONFIG.replace("count = 2", 'max_machines = 2\nidle_timeout = "30s"')


def test_machines_are_made_for_jobs_and_deleted_after() -> None:
    """A pool without least machines has none until a job needs one, and none some time after."""
    rig = Rig(config=ON_DEMAND)
    rig.turn(3)
    assert not rig.root.machines
    job = rig.start()
    provider = rig.providers["gpu"]
    (name,) = provider.states
    rig.agent_of(job).end(job)
    rig.ended(job)
    assert list(provider.states) == [name], "it is kept warm for a while"
    rig.until(lambda: not rig.root.machines)
    assert provider.creates == [name]
    assert not provider.states


def test_a_warm_machine_is_used_again() -> None:
    """The next job gets the machine that is there."""
    rig = Rig(config=ON_DEMAND)
    for n in range(3):
        job = rig.start(f"job-{n}")
        rig.agent_of(job).end(job)
        rig.ended(job)
    assert len(rig.providers["gpu"].creates) == 1


def test_a_create_is_not_repeated_every_turn() -> None:
    """The create of a machine that boots for a minute is retried now and then, by its name."""
    rig = Rig()
    rig.are_agents_up = False
    rig.turn()
    provider = rig.providers["gpu"]
    rig.turn(5)
    assert len(provider.creates) == 2
    assert len(set(provider.creates)) == 2


def test_a_pool_without_capacity_is_not_tried_for_a_minute() -> None:
    """After a stock-out no create is tried for a minute, and the view of the queue says why."""
    rig = Rig(config=ON_DEMAND)
    rig.turn()
    rig.providers["gpu"].stock = 0
    job = rig.submit()
    rig.turn(30)
    asked = len(rig.providers["gpu"].creates)
    assert asked == 1
    assert rig.leader._machines.stockouts(rig.leader.now)
    rig.turn(40)
    assert len(rig.providers["gpu"].creates) == asked + 1
    rig.providers["gpu"].stock = 10
    rig.until(lambda: rig.phase(job) == "running", turns=150)


def test_new_machines_are_made_in_zones_with_capacity() -> None:
    """Zones are tried in order; one without capacity comes last for a while, and then first."""
    config = ON_DEMAND.replace("max_machines = 2", 'max_machines = 4\nzones = ["a", "b"]')
    rig = Rig(quota=QUOTA.replace("h100 = 16", "h100 = 64"), config=config)
    rig.turn()
    provider = rig.providers["gpu"]
    rig.start("first", h100=8)
    provider.sold_out = {"a"}
    waits = rig.submit("waits", h100=8)
    rig.turn(3)
    assert not rig.leader._machines.stockouts(rig.leader.now), "there are some in b"
    rig.start("next", h100=8)
    assert [machine.zone for _, machine in sorted(rig.root.machines.items())] == ["a", "a", "b"]
    assert rig.phase(waits) == "starting"
    provider.sold_out = {"a", "b"}
    rig.submit("late", h100=8)
    rig.turn(3)
    assert rig.leader._machines.stockouts(rig.leader.now)
    provider.sold_out = set()
    rig.until(lambda: rig.phase(waits) == "running", turns=150)


def test_a_provider_out_of_reach_delays_no_job() -> None:
    """While a provider does not answer, jobs on its machines continue; status has the problem."""
    rig = Rig()
    first = rig.start()
    rig.providers["gpu"].error = ProviderUnavailableError("no route to the API")
    rig.turn(30)
    assert rig.phase(first) == "running"
    assert any("no route to the API" in problem for problem in rig.journal.problems)
    second = rig.start("second")
    rig.agent_of(second).end(second)
    assert rig.ended(second).outcome == "succeeded"


def test_an_orphan_is_deleted() -> None:
    """A machine of ours that no record knows is deleted when its name is of an older commit."""
    rig = Rig()
    rig.turn(3)
    rig.providers["gpu"].states["gpu-1-9"] = "running"
    rig.turn(4)
    assert "gpu-1-9" not in rig.providers["gpu"].states


def test_a_machine_of_a_newer_commit_stops_the_leader() -> None:
    """A machine that only a newer commit can have allocated is not touched; root is too old."""
    rig = Rig()
    rig.turn(3)
    rig.providers["gpu"].states["gpu-999-0"] = "running"
    with pytest.raises(OutdatedError, match="is older than machine gpu-999-0"):
        rig.turn(4)
    assert "gpu-999-0" in rig.providers["gpu"].states
    assert rig.root == rig.leader.held.root


def test_a_dead_agent_is_started_again() -> None:
    """The create of a machine whose agent is not running is repeated, which starts the agent."""
    rig = Rig()
    rig.turn(20)
    provider = rig.providers["gpu"]
    name = next(iter(provider.states))
    provider.states[name] = "stopped"
    rig.turn(5)
    assert provider.creates.count(name) == 2
    assert provider.states[name] == "running"


def test_an_attempts_machine_is_kept_until_its_logs_are_shipped() -> None:
    """A machine is not deleted while a job that ended on it still ships its logs."""
    rig = Rig(config=ON_DEMAND.replace("30s", "1s"))
    job = rig.start()
    agent = rig.agent_of(job)
    of = agent.of(job)
    end = agent.end_as(of, End(kind="exited", codes=(0,)), rings=False)
    agent.ring(Ended(of=of, end=end))
    rig.turn(60)
    assert rig.phase(job) == "draining"
    assert rig.root.machines[agent.name].phase is MachinePhase.READY
    rig.until(lambda: not rig.root.machines, turns=120)


def test_a_pool_is_changed_while_jobs_run() -> None:
    """A new configuration applies on the next turn; running jobs continue."""
    rig = Rig()
    job = rig.start()
    rig.put(layout.CONFIG, CONFIG.replace("count = 2", "count = 3"))
    rig.until(lambda: len(rig.root.machines) == 3)
    assert rig.phase(job) == "running"


def test_the_pace_of_listings_is_kept() -> None:
    """A provider is listed no more often than the pace allows."""
    rig = Rig(pace=replace(PACE, listing_s=10.0))
    calls: list[float] = []
    rig.turn()
    provider = rig.providers["gpu"]
    real = provider.list
    provider.list = lambda: (calls.append(rig.clock.monotonic()), real())[1]  # type: ignore[method-assign]
    rig.turn(60)
    assert 5 <= len(calls) <= 7


def test_a_promised_machine_is_not_idle() -> None:
    """A machine kept for a promised gang is kept, though nothing runs on it for long."""
    quota = QUOTA.replace("min_runtime_s = 0", "min_runtime_s = 300")
    quota = quota.replace("blue]\nh100 = 0.5", "blue]\nh100 = 1.0")
    quota = quota.replace("red]\nh100 = 0.5", "red]\nh100 = 0.0")
    rig = Rig(config=ON_DEMAND, quota=quota)
    both = [rig.start(name, user="cat", project="red", h100=8) for name in ("one", "two")]
    rig.agent_of(both[0]).end(both[0])
    rig.ended(both[0], "red")
    made = list(rig.providers["gpu"].creates)
    gang = rig.submit("gang", h100=8, replicas=2)
    (promise,) = rig.root.promises
    rig.turn(100)
    assert rig.root.promises == (promise,)
    assert all(m.phase is MachinePhase.READY for m in rig.root.machines.values())
    rig.until(lambda: rig.phase(gang) == "running", turns=300)
    assert rig.leader.now <= promise.deadline + 10
    assert rig.providers["gpu"].creates == made
