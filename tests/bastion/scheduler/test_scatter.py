"""Scattered free capacity: the reason says over what, and counts replicas correctly."""

from __future__ import annotations

from dataclasses import replace

from bastion.scheduler.plan import Refuse
from tests.bastion.scheduler.counterfactual import reasons_are_true
from tests.bastion.scheduler.world import World, machines_of, pool_of, quota_of

ONE = {"A": {"gpu": 1.0}}


def two_pools() -> World:
    """Return pools of two machines and of one, where gangs must lie in one pool."""
    machines = machines_of(2, gpu=4) | machines_of(1, "q", gpu=4)
    pools = {"p": pool_of(2, gpu=4), "q": pool_of(1, "q", gpu=4)}
    return World(quota_of({"gpu": 12}, ONE, placement="consolidated"), machines, pools)


def test_what_is_free_in_several_pools_is_scattered_over_pools() -> None:
    """A policy that keeps gangs together counts the replicas that one pool holds."""
    w = two_pools()
    w.ask("A", "runs", gpu=2)
    w.cycle()
    w.ask("A", "gang", replicas=8, gpu=1)
    w.cycle()
    assert w.why("gang") == (
        "waits for room in one pool: 10 gpu are free, but scattered over several, and 6 of 8"
        " replicas fit; starts when runs has ended"
    )
    reasons_are_true(w)


def test_a_gang_that_no_one_pool_holds_is_refused_where_gangs_lie_in_one() -> None:
    """All machines together would hold it, and waiting would not help."""
    w = two_pools()
    w.ask("A", "gang", replicas=10, gpu=1)
    assert isinstance(w.cycle().verdicts["gang"], Refuse)
    reason = w.plan.verdicts["gang"].reason
    assert reason.words(w.now) == (
        "can never run: it asks for 10 gpu in one pool, and none of those it may use (2 machines of"
        " p, 1 machine of q) holds all of it, even with all machines free; ask for less, or an"
        ' admin chooses another placement than "consolidated" in the quota file'
    )
    spread = replace(w.quota.scheduler, placement="spread")
    w.quota = replace(w.quota, scheduler=spread)
    w.ask("A", "gang", replicas=10, gpu=1)
    w.cycle()
    assert w.runs("gang")


def test_what_the_totals_of_tiers_leave_is_scattered_over_tiers() -> None:
    """Machines have room for it; the totals leave two devices in each tier."""
    machines = machines_of(2, gpu=4)
    machines |= {n: replace(each, tier=1) for n, each in machines_of(2, "q", gpu=4).items()}
    pools = {"p": pool_of(2, gpu=4), "q": pool_of(2, "q", tier=1, gpu=4)}
    w = World(quota_of([{"gpu": 6}, {"gpu": 6}], ONE), machines, pools)
    for name in ("first", "second"):
        w.ask("A", name, gpu=4)
        w.cycle()
    w.ask("A", "x", gpu=3)
    w.cycle()
    assert w.why("x") == (
        "waits for room in single tiers: 4 gpu are free, but scattered over tiers, and 0 of 1"
        " replica fit; starts when first has ended"
    )
    reasons_are_true(w)


def test_the_jobs_of_a_gang_are_counted_beside_each_other() -> None:
    """Each of two jobs fits on the machine with three free devices, but not both."""
    w = World(quota_of({"gpu": 8}, ONE, placement="spread"), machines_of(2, gpu=4))
    for name, units in (("large", 3), ("small", 1)):
        w.ask("A", name, gpu=units)
        w.cycle()
    for name in ("g1", "g2"):
        w.ask("A", name, gang=("g1", "g2"), gpu=2)
    w.cycle()
    assert w.why("g1") == (
        "waits for room on single machines: 4 gpu are free, but scattered, and 1 of 2 replicas"
        " fits; starts when large has ended"
    )
    reasons_are_true(w)
