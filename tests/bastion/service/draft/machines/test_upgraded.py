"""Idle machines get the bastion's build; running jobs are not disturbed."""

from __future__ import annotations

from bastion.machine import Build, Upgrade
from bastion.service.draft.machines.upgraded import AT_ONCE, PATIENCE_S
from tests.rigs.leader import CONFIG, Agent, Rig

NEW = Build(wheel="wheels/new/b.whl", digest="new")
ONE = CONFIG.replace("count = 2", "count = 1")


def begun(config: str = ONE, build: str = "old") -> tuple[Rig, list[Agent]]:
    """Return machines of one build, under a bastion of another one."""
    rig = Rig(config=config)
    rig.until(lambda: bool(rig.root.machines) and all(m.life for m in rig.root.machines.values()))
    for agent in rig.agents.values():
        agent.heartbeat_s, agent.build = 300.0, build
        agent.ring(agent.hello())
    rig.build = NEW
    return rig, list(rig.agents.values())


def upgrades(agent: Agent) -> list[Upgrade]:
    """Return the builds to which an agent was told to upgrade."""
    return [each for each in agent.told if isinstance(each, Upgrade)]


def test_an_idle_machine_is_upgraded_once() -> None:
    """It is told the build once, and its new build is in the history."""
    rig, (agent,) = begun()
    rig.turn(10)
    assert upgrades(agent) == [Upgrade(build=NEW)]
    agent.build = "new"
    agent.live_again()
    rig.turn(10, seconds=PATIENCE_S)
    assert upgrades(agent) == [Upgrade(build=NEW)]
    told = [event.text for event in rig.history() if event.what == "machine upgraded"]
    assert told == [f"{agent.name}: from build old to new"]


def test_a_machine_with_a_job_is_upgraded_after_it() -> None:
    """The upgrade waits for the job's end, and no bastion restarts a busy machine."""
    rig, (agent,) = begun()
    rig.build = None
    job = rig.start()
    rig.build = NEW
    rig.turn(20)
    assert not upgrades(agent)
    agent.end(job)
    rig.ended(job)
    rig.turn(5)
    assert upgrades(agent) == [Upgrade(build=NEW)]


def test_one_that_did_not_come_is_asked_again() -> None:
    """The instruction is repeated half an hour later: an installation may have failed."""
    rig, (agent,) = begun()
    rig.turn(5)
    rig.clock.advance(PATIENCE_S)
    rig.turn(3)
    assert len(upgrades(agent)) == 2


def test_few_machines_are_upgraded_at_a_time() -> None:
    """A build that fails must not end a whole pool."""
    rig, agents = begun(CONFIG.replace("count = 2", f"count = {AT_ONCE + 4}"))
    rig.turn(5)
    assert sum(map(len, map(upgrades, agents))) == AT_ONCE
    done = next(agent for agent in agents if upgrades(agent))
    done.build = "new"
    done.live_again()
    rig.turn(3)
    assert sum(map(len, map(upgrades, agents))) == AT_ONCE + 1


def test_agents_of_this_build_of_folders_or_too_old_are_left_alone() -> None:
    """They need no upgrade, or would not understand the instruction."""
    for build, heartbeat_s in (("new", 300.0), ("", 300.0), ("old", 0.0)):
        rig, (agent,) = begun(build=build)
        agent.heartbeat_s = heartbeat_s
        agent.ring(agent.hello())
        rig.turn(10)
        assert not upgrades(agent)
