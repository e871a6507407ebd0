"""A lost job starts again beside the rest of its gang, which continues."""

from __future__ import annotations

from dataclasses import replace

from bastion.scheduler.plan import Admit, Wait
from bastion.scheduler.reasons.reason import Dependency
from bastion.spec.where import Where
from tests.bastion.scheduler import histories
from tests.bastion.scheduler.byhand import placed
from tests.bastion.scheduler.laws import LAWS, hosts
from tests.bastion.scheduler.world import World, machines_of, quota_of


def _world(shares: dict[str, dict[str, float]]) -> World:
    """Return two machines of 4, with every plan checked against the laws."""
    quota = quota_of({"gpu": 8}, shares, min_runtime_s=100, grace_s=10)
    return World(quota, machines_of(2, gpu=4), decide=histories.watched(LAWS))


def _gang_of(world: World, gang: tuple[str, ...], *, gpu: int) -> None:
    """Submit a gang of project B, of low priority."""
    for name in gang:
        world.ask("B", name, priority=5, gang=gang, gpu=gpu)


def test_a_gang_has_its_least_running_time_from_when_it_is_whole_again() -> None:
    """`b0` restarts beyond the share: otherwise the whole gang would be stopped for `a`."""
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


def test_a_lost_job_does_not_start_while_the_rest_of_its_gang_is_told_to_stop() -> None:
    """`high` needs the machine of `b1`: `b0` would be stopped with it in the next cycle."""
    w = _world({"B": {"gpu": 1.0}})
    _gang_of(w, ("b0", "b1"), gpu=2)
    w.cycle()
    (host,) = hosts([placed(w.jobs["b1"])])
    w.requeue("b0")
    w.ask("B", "high", priority=1, where=Where(hostnames=(host,)), gpu=4)
    w.cycle()
    first, *_ = w.turns
    told = first.verdicts["b0"]
    assert isinstance(told, Wait)
    assert told.reason == Dependency(on=("b1",), state="being preempted")
    assert not any(isinstance(plan.verdicts.get("b0"), Admit) for plan in w.turns)
    assert w.reason("b0") == "Dependency"
    w.run(30)
    assert w.runs("high")
    assert w.runs("b0")
    assert w.runs("b1")
