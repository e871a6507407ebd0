"""The final records of a world, and how many seeds the scenarios run."""

from __future__ import annotations

from bastion.records.coding.codec import decode
from bastion.records.keys import layout
from bastion.records.requests.result import Result
from tests.rigs.length import at_length
from tests.simulation.world import World

STORMS, OTHERS = 8, 2
PROVE, PORTION = at_length(1_200), at_length(100)


def results(world: World) -> dict[str, Result]:
    """Return final records by the name of their launch."""
    found = {}
    for entry in world.bucket.list(layout.RESULTS):
        stored = world.bucket.read(entry.key)
        assert stored is not None
        result = decode(Result, stored.data, key=entry.key)
        found[result.id.rpartition("-")[0]] = result
    return found
