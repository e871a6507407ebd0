"""Every trial on a cycle's capacity returns to where it began, even with nested trials."""

from __future__ import annotations

from random import Random

import pytest

from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.state.holders.release import Release
from tests.bastion.scheduler.surveyed import surveyed


def state_of(capacity: Capacity) -> object:
    """Return everything that a trial may change."""
    rooms = [(room.keep(), dict(room.keys)) for room in capacity.rooms]
    return rooms, [dict(tier) for tier in capacity.tier_free]


@pytest.mark.parametrize("seed", range(4))
def test_a_trial_goes_back_to_where_it_began(seed: int) -> None:
    """Nested trials, kept or undone, change the same machines again and again."""
    random, draft = Random(seed), surveyed(seed)
    capacity, running = draft.capacity, list(draft.running.values())
    begun = [state_of(capacity)]
    capacity.begin()
    for _ in range(120):
        deed = random.random()
        if deed < 0.5:
            release = Release(capacity, random.choice(running))
            if random.random() < 0.5:
                release.withdraw()
        elif deed < 0.7:
            begun.append(state_of(capacity))
            capacity.begin()
        elif len(begun) > 1:
            before = begun.pop()
            if deed < 0.85:
                capacity.agree()
            else:
                capacity.undo()
                assert state_of(capacity) == before
    while begun:
        before = begun.pop()
        capacity.undo()
        assert state_of(capacity) == before


def test_a_machine_is_noted_once_in_a_trial() -> None:
    """However often a machine changes in one trial, its earlier state is kept once."""
    draft = surveyed(1)
    capacity, running = draft.capacity, list(draft.running.values())
    capacity.begin()
    before = len(capacity._journal)
    for each in (*running, *running):
        Release(capacity, each).withdraw()
    assert len(capacity._journal) - before == len(capacity.rooms)
    capacity.undo()
