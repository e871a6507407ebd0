"""Small worlds, all of them: whatever the order of arrival, preemption comes to an end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, permutations, product

import pytest

from tests.bastion.scheduler.histories import watched
from tests.bastion.scheduler.laws import LAWS
from tests.bastion.scheduler.world import World, machines_of, quota_of

Ask = tuple[str, int, int]
"""(project, units, priority)"""


def arrivals(gangs: int, sizes: Sequence[int], priorities: Sequence[int]) -> Iterator[list[Ask]]:
    """Every order in which `gangs` gangs of three projects can arrive."""
    kinds = list(product("ABC", sizes, priorities))
    for chosen in combinations_with_replacement(kinds, gangs):
        yield from map(list, sorted(set(permutations(chosen))))


def settles(asks: list[Ask]) -> None:
    """Two machines of two devices; each arrival gets three cycles, then all is left alone."""
    shares = {"A": {"gpu": 0.5}, "B": {"gpu": 0.25}, "C": {"gpu": 0.25}}
    quota = quota_of({"gpu": 4}, shares, min_runtime_s=0, grace_s=10, plan_after_s=1e9)
    world = World(quota, machines_of(2, gpu=2), decide=watched(LAWS))
    for project, units, priority in asks:
        whole = units if units <= 2 else units // 2
        world.ask(project, replicas=units // whole, gpu=whole, priority=priority)
        for _ in range(2):
            world.cycle()
            world.pass_time(10)
    for _ in range(len(asks) + 2):
        world.cycle()
        world.pass_time(10)
    before = len(world.preemptions)
    for _ in range(4):
        world.cycle()
        world.pass_time(10)
    assert len(world.preemptions) == before, f"no end to preemption: {asks}"
    assert before <= len(asks) ** 2


def test_no_cycle_of_preemption_in_small_worlds() -> None:
    """Two gangs of every kind, and every sixth set of three, in every order."""
    for asks in arrivals(2, (1, 2, 4), (1, 5)):
        settles(asks)
    for number, asks in enumerate(arrivals(3, (1, 2, 4), (3,))):
        if number % 6 == 0:
            settles(asks)


@pytest.mark.prove
@pytest.mark.parametrize("gangs", [3, 4, 5])
def test_no_cycle_of_preemption_at_length(gangs: int) -> None:
    """Up to five gangs of three projects in every order."""
    priorities = (1, 5) if gangs == 3 else (3,)
    for asks in arrivals(gangs, (1, 2) if gangs == 5 else (1, 2, 4), priorities):
        settles(asks)
