"""All small worlds: preemption comes to an end in every order of arrival."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest

from bastion.job import Phase
from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Admit, Preempt
from tests.bastion.scheduler.histories import watched
from tests.bastion.scheduler.laws import LAWS
from tests.bastion.scheduler.mutants import thrashes
from tests.bastion.scheduler.world import Decide, World, machines_of, quota_of

Ask = tuple[str, int, int]
"""(project, units, priority)"""


def kinds(sizes: Sequence[int], priorities: Sequence[int]) -> list[Ask]:
    """Return every gang that can arrive."""
    return list(product("ABC", sizes, priorities))


def explore(asks: Sequence[Ask], gangs: int, *, pace: int = 2, inner: Decide = decide) -> int:
    """
    Try every order in which up to `gangs` gangs of the kinds `asks` can arrive, as a tree.

    Orders with the same beginning share its steps. After every arrival, a copy is left alone until
    nothing moves; from then on nothing ever would, because time does not matter here.

    Args:
        asks: The kinds; each may arrive many times.
        gangs: The most gangs that arrive.
        pace: Cycles between two arrivals.
        inner: The scheduler; every plan of it is checked against all laws.

    Returns:
        The number of orders.
    """
    shares = {"A": {"gpu": 0.5}, "B": {"gpu": 0.25}, "C": {"gpu": 0.25}}
    quota = quota_of({"gpu": 4}, shares, min_runtime_s=0, grace_s=10, plan_after_s=1e9)
    return _explore(World(quota, machines_of(2, gpu=2), decide=inner), asks, gangs, pace)


def _explore(world: World, asks: Sequence[Ask], gangs: int, pace: int) -> int:
    orders = 0
    for project, units, priority in asks:
        whole = min(units, 2)
        child = world.copy()
        child.ask(project, replicas=units // whole, gpu=whole, priority=priority)
        for _ in range(pace):
            child.cycle()
            child.pass_time(10)
        comes_to_rest(child.copy())
        orders += 1
        if gangs > 1:
            orders += _explore(child, asks, gangs - 1, pace)
    return orders


def comes_to_rest(world: World) -> None:
    """Left alone, it moves nothing after a bounded number of cycles."""
    gangs = len(world.jobs)
    for _ in range(4 * gangs + 4):
        plan = world.cycle()
        moves = any(isinstance(v, Admit | Preempt) for v in plan.verdicts.values())
        is_stopping = any(job.phase is Phase.STOPPING for job in world.jobs.values())
        if not (moves or is_stopping or plan.promises):
            assert len(world.preemptions) <= gangs**2
            return
        world.pass_time(10)
    arrived = [
        (job.project, job.request.units, job.request.priority) for job in world.jobs.values()
    ]
    raise AssertionError(f"no end to preemption: {arrived}")


def test_no_cycle_of_preemption_in_small_worlds() -> None:
    """Three gangs of one priority, two of two, and two that arrive together, in every order."""
    assert explore(kinds((1, 4), (3,)), 3, inner=watched(LAWS)) == 6 + 6**2 + 6**3
    assert explore(kinds((1, 4), (1, 5)), 2, inner=watched(LAWS)) == 12 + 12**2
    assert explore(kinds((1, 2, 4), (3,)), 2, pace=0, inner=watched(LAWS)) == 9 + 9**2


def test_a_scheduler_without_rest_is_noticed() -> None:
    """A scheduler that preempts whenever it can never comes to rest."""
    with pytest.raises(AssertionError, match="no end to preemption"):
        explore(kinds((1, 2), (3,)), 2, inner=thrashes)


@pytest.mark.prove
@pytest.mark.parametrize(
    ("gangs", "sizes", "priorities", "pace"),
    [
        (5, (1, 2, 4), (3,), 2),
        (4, (1, 2, 4), (3,), 2),
        (4, (1, 2, 4), (3,), 0),
        (3, (1, 2, 4), (1, 5), 1),
        (4, (1, 4), (1, 5), 2),
    ],
)
def test_no_cycle_of_preemption_at_length(
    gangs: int, sizes: tuple[int, ...], priorities: tuple[int, ...], pace: int
) -> None:
    """Up to five gangs of three projects arrive in every order, one by one or together."""
    explore(kinds(sizes, priorities), gangs, pace=pace, inner=watched(LAWS))
