"""What searches skip or compute for many gangs together does not change their results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from random import Random
from typing import Any, cast

import pytest

from bastion.scheduler.cycle import decide
from bastion.scheduler.effort import STEPS, left_for_searches
from bastion.scheduler.phases import entitlement, guarantee, planned_starts
from bastion.scheduler.phases.proposals import spare_victims
from bastion.scheduler.phases.reservations.awaited import awaited
from bastion.scheduler.plan import Plan
from bastion.scheduler.preemption.harm import excess_of
from bastion.scheduler.preemption.need import Need
from bastion.scheduler.preemption.spared import spared
from bastion.scheduler.preemption.victims import _Search
from bastion.scheduler.queue.order import Line
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.ledger import Ledger
from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.upper_bound import MACHINES_SEEN_A_STEP
from tests.bastion.scheduler import histories
from tests.bastion.scheduler.surveyed import surveyed
from tests.bastion.scheduler.world import Decide, World, machines_of, quota_of


@pytest.mark.parametrize("seed", range(200))
def test_many_spared_at_once_are_those_spared_one_by_one(seed: int) -> None:
    """Weights are removed, and there is room as long as enough is gone."""
    random = Random(seed)
    weights = [random.choice((0, 1, 1, 2, 5)) for _ in range(random.randrange(12))]
    wanted = random.randint(0, sum(weights))
    gone = set(range(len(weights)))

    def has_room() -> bool:
        return sum(weights[each] for each in gone) >= wanted

    def go(some: Sequence[int], sign: int) -> None:
        gone.update(some) if sign > 0 else gone.difference_update(some)

    found = list(spared([*range(len(weights))], go, has_room))
    assert gone == set(range(len(weights))) - set(found)
    alone, left = [], sum(weights)
    for number, weight in enumerate(weights):
        if left - weight >= wanted:
            alone.append(number)
            left -= weight
    assert found == alone


@pytest.mark.parametrize("seed", range(6))
def test_what_is_known_of_an_excess_is_what_is_counted_anew(seed: int) -> None:
    """It is compared with every number of borrowers gone, and again after usage changes."""
    draft = surveyed(seed)
    shares = draft.shares
    for _ in range(2):
        for project in draft.borrowers:
            excess = excess_of(draft, project)
            assert excess_of(draft, project) is excess
            for count in (len(excess.running), *range(len(excess.running))):
                gone = list(excess.running[:count])
                with shares.without(gone):
                    assert excess.after(count) == pytest.approx(shares.excess(project))
            shares.add(project, excess.running[0].held)
            assert excess_of(draft, project) is not excess


def test_a_search_that_ends_early_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """At every cycle of random histories, it equals removing all and sparing some after."""
    whole, gives, early = Need.__init__, _Search._gives, _Search.let_named_go
    kept = 0

    def thorough(self: Need, draft: Draft, shape: Shape, *, guaranteed: bool) -> None:
        whole(self, draft, shape, guaranteed=guaranteed)
        self.is_told_by_slots = False

    def counted(self: _Search, named: Sequence[object]) -> object:
        nonlocal kept
        released = early(self, named)  # type: ignore[arg-type]
        kept += len(named) - len(released)
        return released

    def both(snapshot: Snapshot, now: float) -> Plan:
        monkeypatch.setattr(Need, "__init__", whole)
        monkeypatch.setattr(_Search, "_gives", gives)
        monkeypatch.setattr(_Search, "let_named_go", counted)
        plan = decide(snapshot, now)
        monkeypatch.setattr(Need, "__init__", thorough)
        monkeypatch.setattr(_Search, "_gives", lambda self, running: True)
        monkeypatch.setattr(_Search, "let_named_go", early)
        assert decide(snapshot, now).promises == plan.promises
        return plan

    for seed in range(12):
        world = returning(Random(seed), both)
        for _ in range(4):
            world.cycle()
            world.pass_time(200)
    assert kept, "no search ended early"


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 60), marks=pytest.mark.prove)])
def test_what_is_out_of_reach_is_not_found(monkeypatch: pytest.MonkeyPatch, seeds: range) -> None:
    """In every state of random histories, the plan equals that of a search that skips nothing."""
    whole = entitlement.is_out_of_reach
    left_out = 0

    def counted(draft: Draft, line: Line, going: Iterable[Running] = ()) -> bool:
        nonlocal left_out
        is_out = whole(draft, line, going)
        left_out += is_out
        return is_out

    def both(snapshot: Snapshot, now: float) -> Plan:
        for part in (entitlement, guarantee):
            monkeypatch.setattr(part, "is_out_of_reach", counted)
        plan = decide(snapshot, now)
        for part in (entitlement, guarantee):
            monkeypatch.setattr(part, "is_out_of_reach", lambda *_: False)
        again = decide(snapshot, now)
        assert (again.promises, again.planned) == (plan.promises, plan.planned)
        assert moves(again) == moves(plan)
        return plan

    for seed, make in product(seeds, histories.WORLDS):
        histories.run(seed, (), steps=25, inner=both, make=make)
    assert left_out, "every gang was searched for"


def test_a_bound_that_is_asked_often_takes_steps() -> None:
    """A cycle's steps are limited, even if many gangs with their own filters are out of reach."""
    draft = surveyed(1)
    spare_victims(draft)  # from here on a cycle has the steps that standing promises leave
    (shape, *_) = draft.backlogs["C"].shapes
    before = draft.search.effort.left
    for _ in range(10 * MACHINES_SEEN_A_STEP):
        draft.upper_bound.may_fit(shape)
    assert before - 12 <= draft.search.effort.left <= before - 10


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 60), marks=pytest.mark.prove)])
def test_a_share_counted_alone_waits_for_the_same(
    monkeypatch: pytest.MonkeyPatch, seeds: range
) -> None:
    """In every state of random histories, a drain waits for the same as with the whole quota."""
    compared, search = 0, cast(Any, awaited)

    def both(draft: Draft, *args: Any, **options: Any) -> Any:
        nonlocal compared
        *most, ending = args
        every = list(ending)
        found = search(draft, *most, every, **options)
        if not options["borrows"]:
            with monkeypatch.context() as patch:
                patch.setattr(Ledger, "is_nested", property(lambda _: True))
                assert search(draft, *most, every, **options) == found
            compared += bool(found)
        return found

    monkeypatch.setattr(planned_starts, "awaited", both)
    for seed, make in product(seeds, (*histories.WORLDS, histories.stream_world_of)):
        histories.run(seed, (), steps=25, make=make)
    assert compared, "no gang drained"


def moves(plan: Plan) -> dict[str, type]:
    """Return what happens to each job."""
    return {name: type(verdict) for name, verdict in plan.verdicts.items()}


def returning(random: Random, inner: Decide) -> World:
    """Return A and B on eight machines of eight; C comes back to its half with jobs of any size."""
    totals = {"gpu": 64, "cpu": 512} if random.random() < 0.5 else {"gpu": 64}
    share = {"A": {"gpu": 0.25}, "B": {"gpu": 0.25}, "C": {"gpu": 0.5}}
    world = World(quota_of(totals, share), machines_of(8, gpu=8, cpu=64), decide=inner)
    for number in range(40):
        size = random.choice((1, 1, 2, 3))
        world.ask("AB"[number % 2], gpu=size, cpu=random.choice((0, size, 8 * size)))
    world.cycle()
    world.pass_time(3_600)
    for _ in range(16):
        size = random.choice((1, 1, 2, 4, 8))
        replicas = random.choice((1, 1, 2))
        world.ask("C", gpu=size, cpu=random.choice((0, size, 8 * size)), replicas=replicas)
    return world


def test_standing_promises_take_of_the_steps() -> None:
    """The more promises stand, the fewer steps are left for searches, but never none."""
    assert left_for_searches(STEPS, 0) == STEPS
    left = [left_for_searches(STEPS, standing) for standing in range(0, 10_000, 100)]
    assert left == sorted(left, reverse=True)
    assert left[1] < STEPS
    assert left[-1] == STEPS // 4
    assert left_for_searches(1, 500) == 1


def test_however_many_promises_stand_new_ones_are_made() -> None:
    """Eighty one-device jobs come back with six steps per cycle: all of them get a promise."""
    quota = quota_of({"gpu": 80}, {"A": {"gpu": 0.0}, "B": {"gpu": 1.0}})
    world = World(quota, machines_of(10, gpu=8))
    world.extra["steps"] = 6
    for _ in range(80):
        world.ask("A", gpu=1)
    world.cycle()
    world.pass_time(3_600)
    for _ in range(80):
        world.ask("B", gpu=1)
    made = []
    for _ in range(80):
        world.turn()
        made.append(len(world.plan.promises))
    assert made[0] < 10
    assert made == sorted(made)
    assert made[-1] == 80
