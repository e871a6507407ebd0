"""Scopes hold what a filter leaves, while machines are created on trial."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.machine import Machine, MachinePhase, Pool
from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.placement.scope import passes
from bastion.scheduler.snapshot import Snapshot
from bastion.spec.where import Where
from quota import Amounts
from tests.bastion.scheduler.world import quota_of

SIZE = Amounts({"gpu": 8})


def test_a_scope_outlives_the_machines_of_a_trial() -> None:
    """It is first requested while a trial has created a machine; then the trial is undone."""
    stands = Machine(name="p-1", pool="p", phase=MachinePhase.READY, resources=SIZE)
    pool = Pool(name="p", provider="fake", resources=SIZE, max_machines=4)
    snapshot = Snapshot(
        quota=quota_of({"gpu": 32}, {"A": {"gpu": 1.0}}),
        jobs={},
        machines={"p-1": stands},
        pools={"p": pool},
    )
    capacity = Capacity(snapshot, 0.0)
    capacity.begin()
    made = capacity.make_room(capacity.shelves["p"])
    scope = capacity.scope(Where(pool="p"))
    assert [room.name for room in scope.all()] == ["p-1", made.name]
    capacity.undo()
    assert [room.name for room in scope.all()] == ["p-1"]


MANY = {
    f"{pool}-{n:02}": Machine(
        name=f"{pool}-{n:02}",
        pool=pool,
        phase=MachinePhase.READY,
        resources=SIZE,
        bad_devices={"gpu": tuple(range(n % 4))},
        cordoned="admin" if n == 7 else "",
        labels={"net": "fast" if n % 2 else "slow"},
    )
    for pool, count in (("p", 32), ("q", 3))
    for n in range(count)
}


@pytest.mark.parametrize(
    ("where", "is_narrow"),
    [
        (Where(), False),
        (Where(pool="p"), False),
        (Where(labels={"net": "fast"}), False),
        (Where(hostnames=("p-00", "p-01", "p-04")), True),
        (Where(pool="q"), True),
    ],
    ids=["all", "a pool", "half of each", "three by name", "a small pool"],
)
def test_what_a_filter_leaves_is_in_order_however_few_it_leaves(
    where: Where, *, is_narrow: bool
) -> None:
    """The machines are the same, and in the same order, as when each of them is checked."""
    plain = Pool(name="q", provider="fake", resources=SIZE, max_machines=40)
    pools = {"p": replace(plain, name="p", labels={"net": "fast"}), "q": plain}
    quota = quota_of({"gpu": 640}, {"A": {"gpu": 1.0}})
    capacity = Capacity(Snapshot(quota=quota, jobs={}, machines=MANY, pools=pools), 0.0)
    scope = capacity.scope(where)
    assert scope.is_narrow is is_narrow
    capacity.begin()
    for shelf in capacity.shelves.values():
        capacity.make_room(shelf)
        left = [r for r in shelf.rooms if passes(where, r.machine, r.shelf.pool)]
        free = [(room.free("gpu"), room.ordinal) for room in left if room.opened]
        assert scope.on(shelf) == left
        assert [*scope.ascending(shelf, "gpu", 6)] == sorted(pair for pair in free if pair[0] >= 6)
        by_most = sorted(free, key=lambda pair: (-pair[0], pair[1]))
        assert [*scope.descending(shelf, "gpu")] == by_most
