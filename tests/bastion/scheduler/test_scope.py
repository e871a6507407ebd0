"""Scopes: what a filter leaves, while machines are made on trial."""

from __future__ import annotations

from bastion.machine import Machine, MachinePhase, Pool
from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.snapshot import Snapshot
from bastion.spec.where import Where
from quota import Amounts
from tests.bastion.scheduler.world import quota_of

SIZE = Amounts({"gpu": 8})


def test_a_scope_outlives_the_machines_of_a_trial() -> None:
    """It is first asked for while a trial has made a machine; the trial is undone."""
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
