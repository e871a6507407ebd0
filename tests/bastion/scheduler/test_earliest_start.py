"""The earliest start takes few steps, and equals the one found by removing gangs one by one."""

from __future__ import annotations

import math
from functools import partial

import pytest

from bastion.scheduler.phases.planned_starts import plan_ahead
from bastion.scheduler.phases.reservations import earliest_start as searches
from bastion.scheduler.phases.reservations.awaited import is_covered
from bastion.scheduler.phases.reservations.backfill import backfill
from bastion.scheduler.phases.reservations.claims import Claims
from bastion.scheduler.phases.reservations.earliest_start import (
    Fit,
    earliest_start,
    fits_share,
    gone_at,
)
from bastion.scheduler.phases.reservations.lending import closed
from bastion.scheduler.phases.reservations.starts import starting
from bastion.scheduler.phases.survey import survey
from bastion.scheduler.placement.room import Room
from bastion.scheduler.plan import Plan
from bastion.scheduler.preemption.need import Need
from bastion.scheduler.queue.order import Line
from bastion.scheduler.reasons.reason import Yielded
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.decisions import PlannedStop
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.footprint import located
from bastion.scheduler.state.holders.release import Release
from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.memory.memory import Memory
from bastion.scheduler.state.memory.policy_choice import chosen
from bastion.scheduler.state.reservation import Reserved
from bastion.spec.where import Where
from quota import Amounts
from tests.bastion.scheduler import histories
from tests.bastion.scheduler.world import World, machines_of, quota_of


def surveyed(snapshot: Snapshot, now: float) -> Draft:
    """Return the draft of a cycle before it decides anything."""
    draft = Draft(snapshot, now, chosen(snapshot.quota.scheduler), Memory())
    survey(draft)
    return draft


def crowd(draft: Draft, running: Running) -> tuple[int, str, str]:
    """Return the crowd, with machines that have few other jobs first."""
    machines = sorted(running.footprint.masks)
    return max(len(draft.on(machine)) for machine in machines), machines[0], running.name


def watched(draft: Draft) -> set[str]:
    """Return the machines that are changed on trial from now on."""
    changed: set[str] = set()
    note = draft.capacity.note

    def noting(room: Room) -> None:
        changed.add(room.name)
        note(room)

    draft.capacity.note = noting  # type: ignore[method-assign]
    return changed


def in_turn(draft: Draft, line: Line, claims: Claims, *, reclaims: bool) -> Fit | None:
    """Remove all running gangs one by one, and compute everything from scratch after each."""
    project, shape = line.project, line.shape
    own = fits_share(draft, project, shape)
    ends = []
    for running in (*draft.running.values(), *starting(draft)):
        end = gone_at(draft, running, shape, project, reclaims=reclaims)
        if not math.isinf(end):
            ends.append((end, (0, "", running.name), running))
        elif own and running.project == project:
            ends.append((end, crowd(draft, running), running))
    ends.sort(key=lambda each: each[:2])
    gone: list[Running] = []
    draft.capacity.begin()
    found = None
    for at in range(len(ends) + 1):
        end = ends[at - 1][0] if at else draft.now
        if at:
            gone.append(ends[at - 1][2])
            Release(draft.capacity, gone[-1])
            draft.shares.let_end(gone[-1:])
        if at < len(ends) and ends[at][0] == end < math.inf:
            continue

        def allows(units: Amounts) -> bool:
            shares = draft.shares
            if shares.may_start(project, units, own=not shape.borrows):
                return True
            may_borrow = not reclaims and shares.lets_borrow(project, shape, units)
            return may_borrow and claims.leave(project, units)

        if not (Need(draft, shape, guaranteed=False).may_fit() and allows(shape.asked)):
            continue
        placed = draft.would_place(shape, allows, guaranteed=False)
        if placed is not None:
            told = searches._told_by(draft, project, gone) if reclaims else 0.0
            found = max(end, draft.now, told), placed
            break
    draft.capacity.undo()
    for running in gone:
        draft.shares.let_end([running], sign=-1)
    return found


def plainly(draft: Draft, line: Line, claims: Claims) -> Fit | None:
    """Return the earlier of the two fits, each searched to its end."""
    found = in_turn(draft, line, claims, reclaims=False)
    if not fits_share(draft, line.project, line.shape):
        return found
    others = [r for name, those in draft.borrowers.items() if name != line.project for r in those]
    if found is not None and found[0] <= draft.now:
        return found
    if not any(searches.is_reclaimable(draft, each, line.project) for each in others):
        return found
    both = (found, in_turn(draft, line, claims, reclaims=True))
    return min((each for each in both if each is not None), key=lambda f: f[0], default=None)


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 60), marks=pytest.mark.prove)])
@pytest.mark.parametrize("make", [*histories.WORLDS, histories.grouped_world_of])
def test_a_start_is_the_first_that_is_found_one_gang_after_the_other(
    make: histories.Make, seeds: range
) -> None:
    """It holds in every state of random histories for the first of every line."""
    found = set()

    def compared(snapshot: Snapshot, now: float) -> Plan:
        draft = surveyed(snapshot, now)
        for line in (line for lines in draft.lines.values() for line in lines):
            if draft.beyond(line.shape) is None:
                before = draft.shares.counted(), [room.keep() for room in draft.capacity.rooms]
                claims = Claims(draft)
                fit = earliest_start(draft, line, claims)
                after = draft.shares.counted(), [room.keep() for room in draft.capacity.rooms]
                assert after == before
                assert fit == plainly(draft, line, claims)
                found.add(fit is not None and math.isinf(fit[0]))
        draft.close()
        return decide(snapshot, now)

    decide = histories.remembering()
    for seed in seeds:
        histories.run(seed, (), steps=10, inner=compared, make=make)
    assert found, "no gang was searched for"


def test_a_search_that_finds_no_devices_lets_nothing_go() -> None:
    """If all that end leave too few devices, none of them is removed from its machine on trial."""
    quota = quota_of({"gpu": 32}, {"A": {"gpu": 0.75}, "B": {"gpu": 0.25}})
    world = World(quota, machines_of(4, gpu=8))
    for name in sorted(world.machines):
        for project in "AAAAAABB":
            world.ask(project, where=Where(hostnames=(name,)), gpu=1)
    world.cycle()
    world.ask("A", gpu=8, replicas=3)
    draft = surveyed(world.snapshot(), world.now)
    (line,) = draft.lines["A"]
    changed, steps = watched(draft), draft.search.effort.left
    assert earliest_start(draft, line, Claims(draft)) is None
    assert steps - draft.search.effort.left == 24, "all jobs of A are looked at, a step each"
    assert not changed, "a job of A left its machine on trial"


def test_what_a_share_takes_back_is_not_looked_for_beyond_the_first_start() -> None:
    """Once a start is found, gangs that end later are not searched for an earlier one."""
    quota = quota_of({"gpu": 16}, {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}})
    world = World(quota, machines_of(2, gpu=8))
    for _ in range(8):
        world.ask("B", gpu=1, max_runtime_s=100.0)
    for _ in range(8):
        world.ask("B", gpu=1, max_runtime_s=5_000.0)
    world.cycle()
    world.ask("A", gpu=8)
    draft = surveyed(world.snapshot(), world.now)
    (line,) = draft.lines["A"]
    steps = draft.search.effort.left
    found = earliest_start(draft, line, Claims(draft))
    assert found is not None
    assert found[0] == draft.now + 130.0
    assert steps - draft.search.effort.left == 8, "what ends later was looked at"


def test_what_runs_is_divided_by_its_end_once() -> None:
    """Searches of one cycle share what they know of ends until a victim is named."""
    quota = quota_of({"gpu": 16}, {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}})
    world = World(quota, machines_of(2, gpu=8))
    for project in "AB" * 8:
        world.ask(project, gpu=1)
    world.cycle()
    for project in "AB":
        world.ask(project, gpu=4)
    draft = surveyed(world.snapshot(), world.now)
    (first,), (second,) = draft.lines["A"], draft.lines["B"]
    assert earliest_start(draft, first, Claims(draft)) is not None
    known = draft.search.ends
    assert earliest_start(draft, second, Claims(draft)) is not None
    assert draft.search.ends is known
    victim = draft.running[world.running("B")[0]]
    end = draft.now + 30.0
    draft.victims[victim.name] = PlannedStop(
        by="a", stop_at=draft.now, end_at=end, reason=Yielded(by="a", order="fair")
    )
    assert earliest_start(draft, first, Claims(draft)) is not None
    assert draft.search.ends is not known
    assert draft.search.ends is not None
    assert draft.search.ends.known == [(end, victim.name, victim)]


def test_borrowers_that_leave_too_little_are_passed_over() -> None:
    """If all eight leave too few devices together, each costs one step and none is removed."""
    quota = quota_of({"gpu": 32}, {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}})
    world = World(quota, machines_of(4, gpu=8))
    for name in sorted(world.machines):
        for _ in range(4):
            world.ask("A", where=Where(hostnames=(name,)), gpu=1)
    world.cycle()
    for _ in range(16):
        world.ask("A", gpu=1)
    world.cycle()
    assert len(world.running("A")) == 32, "half of them borrow"
    world.ask("B", gpu=8, replicas=3)
    draft = surveyed(world.snapshot(), world.now)
    (line,) = draft.lines["B"]
    steps = draft.search.effort.left
    assert earliest_start(draft, line, Claims(draft)) is None
    assert steps - draft.search.effort.left == 1 + 16 // 8


def test_what_ends_where_the_gang_cannot_lie_keeps_its_machine_on_trial() -> None:
    """A search changes only machines on which a replica could be placed."""
    quota = quota_of({"gpu": 16}, {"A": {"gpu": 0.75}, "B": {"gpu": 0.25}})
    world = World(quota, machines_of(2, gpu=8))
    for name, projects in (("p-000", "A" * 8), ("p-001", "AAAABBBB")):
        for project in projects:
            world.ask(project, where=Where(hostnames=(name,)), gpu=1)
    world.cycle()
    world.ask("A", gpu=8)
    draft = surveyed(world.snapshot(), world.now)
    changed = watched(draft)
    (line,) = draft.lines["A"]
    found = earliest_start(draft, line, Claims(draft))
    assert found is not None
    assert math.isinf(found[0])
    assert changed == {"p-000"}


def test_what_is_planned_is_not_opened_where_its_machines_have_too_few_devices() -> None:
    """A gang that needs two devices is not tried beside a plan with one free device per machine."""
    quota = quota_of({"gpu": 16}, {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}, plan_after_s=60)
    world = World(quota, machines_of(2, gpu=8))
    for project in "AB" * 8:
        world.ask(project, gpu=1, max_runtime_s=36_000)
    world.cycle()
    world.ask("A", gpu=4)
    world.pass_time(3_600)
    world.ask("B", gpu=2)
    for machine, is_enough in (("p-000", False), ("p-001", False), ("p-000", True)):
        world.end(_one_on(world, machine))
        draft = surveyed(world.snapshot(), world.now)
        plan_ahead(draft)
        (plan,) = draft.plans.values()
        assert not plan.drains
        tried: list[int] = []
        shape = draft.lines["B"][0].shape
        assert not backfill(draft, shape, [plan], partial(_note, tried))
        assert bool(tried) is is_enough


def _one_on(world: World, machine: str) -> str:
    """Return a job of A that runs on `machine`."""
    for name in world.running("A"):
        attempt = world.jobs[name].attempt
        if attempt is not None and attempt.placement[0].hosts[0].machine == machine:
            return name
    raise AssertionError(machine)


def _note(tried: list[int]) -> bool:
    """Note that a start was tried, and fail it."""
    tried.append(1)
    return False


def test_what_one_gang_frees_covers_one_replica_on_its_machine() -> None:
    """Two replicas are placed there, and each takes what another gang has."""
    world = World(quota_of({"gpu": 8}, {"A": {"gpu": 1.0}}), machines_of(1, gpu=8, cpu=16))
    for _ in range(2):
        world.ask("A", gpu=1, cpu=8)
    world.cycle()
    world.ask("A", replicas=2, gpu=1, cpu=8)
    draft = surveyed(world.snapshot(), world.now)
    (line,), running = draft.lines["A"], tuple(draft.running.values())
    draft.capacity.begin()
    for each in running:
        Release(draft.capacity, each)
    placed = draft.try_place(line.shape, guaranteed=True)
    draft.capacity.undo()
    assert placed is not None
    for waits, is_enough in ((running, True), (running[:1], False)):
        at = located(line.shape, placed)
        reserved = Reserved(gang=line.head, at=at, until=draft.now, is_promise=True, waits=waits)
        with closed(draft, [reserved]):
            assert is_covered(draft, reserved) is is_enough
