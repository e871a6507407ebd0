"""Rejoining: a job that is lost starts again beside the rest of its gang, which runs on."""

from __future__ import annotations

from dataclasses import replace

from tests.bastion.scheduler import histories
from tests.bastion.scheduler.laws import LAWS
from tests.bastion.scheduler.world import World, machines_of, quota_of


def _world(shares: dict[str, dict[str, float]]) -> World:
    """Two machines of 4, every plan held against the laws."""
    quota = quota_of({"gpu": 8}, shares, min_runtime_s=100, grace_s=10)
    return World(quota, machines_of(2, gpu=4), decide=histories.watched(LAWS))


def _gang_of(world: World, gang: tuple[str, ...], **units: int) -> None:
    """Ask for a gang of project B, of low priority."""
    for name in gang:
        world.ask("B", name, priority=5, gang=gang, **units)


def test_a_gang_has_its_least_running_time_from_when_it_is_whole_again() -> None:
    """`b0` starts again beyond the share: else all of the gang would be stopped for `a` at once."""
    w = _world({"A": {"gpu": 0.75}, "B": {"gpu": 0.25}})
    _gang_of(w, ("b0", "b1"), gpu=2)
    w.cycle()
    w.machines["p-001"] = replace(w.machines["p-001"], cordoned="away")
    w.pass_time(150)
    w.ask("A", "a", gpu=3)
    w.requeue("b0")
    w.cycle()
    assert w.runs("b0")
    assert w.reason("a") == "Promised"
    w.run(90)
    assert w.runs("b0")
    assert w.runs("b1")
    w.run(30)
    assert w.runs("a")
