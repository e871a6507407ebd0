"""Copies of root: one per hour, as soon as possible."""

from __future__ import annotations

from bastion.records.keys import layout
from bastion.records.root import decode_root
from bastion.store.memory import Fault, FaultyStore
from tests.rigs.leader import Rig


def test_a_copy_is_made_at_once_and_every_hour() -> None:
    """A new leader copies root, and again an hour later; each copy equals the root of its time."""
    rig = Rig()
    rig.turn()
    (first,) = rig.keys(layout.SNAPSHOTS)
    found = rig.bucket.read(first)
    assert found is not None
    assert layout.snapshot("2023-11-14", decode_root(found.data).seq) == first
    rig.turn(59, seconds=60.0)
    assert len(rig.keys(layout.SNAPSHOTS)) == 1
    rig.turn(2, seconds=60.0)
    assert len(rig.keys(layout.SNAPSHOTS)) == 2


def test_a_copy_that_failed_is_made_soon() -> None:
    """A store that is briefly out of reach does not cost an hour's copy."""
    left = [Fault.BEFORE]

    def faults(operation: str, key: str) -> Fault | None:
        is_copy = operation == "create" and key.startswith(layout.SNAPSHOTS)
        return left.pop() if is_copy and left else None

    rig = Rig(spoil=lambda store: FaultyStore(store, faults))
    rig.turn()
    assert not rig.keys(layout.SNAPSHOTS)
    rig.turn(3, seconds=60.0)
    assert len(rig.keys(layout.SNAPSHOTS)) == 1
