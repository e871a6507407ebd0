"""Gangs that a search only counts: those on machines where no replica can be placed yet."""

from __future__ import annotations

from random import Random

import pytest

from bastion.scheduler.preemption.lack import Lack
from bastion.scheduler.preemption.pending import Pending
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.running import Running
from tests.bastion.scheduler.surveyed import surveyed


def open_to(draft: Draft, gone: list[Running], units: int) -> set[str]:
    """Return the machines with that many devices free, or held by `gone`."""
    left = {room.name: room.masks["gpu"] for room in draft.capacity.rooms}
    for running in gone:
        for machine, masks in running.footprint.masks.items():
            left[machine] |= masks["gpu"]
    return {machine for machine, mask in left.items() if mask.bit_count() >= units}


@pytest.mark.parametrize("seed", range(6))
def test_gangs_are_let_go_once_a_replica_may_lie_on_their_machine(seed: int) -> None:
    """After every step, exactly the gangs that make a difference have been returned, once each."""
    random, draft = Random(seed), surveyed(seed)
    (part,) = draft.lines["C"][0].shape.parts
    running = list(draft.running.values())
    random.shuffle(running)
    pending = Pending(Lack(draft.capacity, part))
    gone: list[Running] = []
    returned: list[Running] = []
    for each in running:
        gone.append(each)
        found = pending.let_go(each)
        assert list(found) == sorted(found, key=gone.index)
        returned += found
        machines = open_to(draft, gone, part.leading[1])
        matter = [one for one in gone if not machines.isdisjoint(one.footprint.masks)]
        assert sorted(returned, key=gone.index) == matter
    assert returned
