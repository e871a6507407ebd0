"""Proposals: which of them are searched again for fewer victims, before any is told to stop."""

from __future__ import annotations

from random import Random

import pytest

from bastion.scheduler.phases import proposals
from bastion.scheduler.phases.planned_starts import take_over_plans
from bastion.scheduler.phases.promises import stand_by
from bastion.scheduler.phases.reservations.fulfilment import sharing
from bastion.scheduler.phases.reservations.lending import set_apart
from bastion.scheduler.phases.survey import survey
from bastion.scheduler.plan import Plan
from bastion.scheduler.preemption.lack import Lack
from bastion.scheduler.promise import Promise
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.memory.memory import Memory
from bastion.scheduler.state.memory.policy_choice import chosen
from bastion.scheduler.state.reservation import Reserved
from tests.bastion.scheduler import histories
from tests.bastion.scheduler.surveyed import surveyed


def victims_with_fewer(
    draft: Draft, promise: Promise, reserved: Reserved, own: list[Running]
) -> list[int]:
    """Return how many victims every search for fewer finds; the draft is not changed."""
    others = sharing(draft, reserved)
    stops = {running.name: draft.victims.pop(running.name) for running in own}
    with set_apart(draft, [reserved], others):
        found = [
            proposals._found(draft, reserved, own, within_share=within_share)
            for within_share in proposals._ways(draft, promise, reserved, own)
        ]
        draft.victims.update(stops)
    return [len(own) if each is None else len(each.victims) for each in found]


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 100), marks=pytest.mark.prove)])
@pytest.mark.parametrize("make", [*histories.WORLDS, histories.grouped_world_of])
def test_what_is_not_searched_again_needs_all_its_victims(
    make: histories.Make, seeds: range
) -> None:
    """In every state of random histories, a search that is left out would have spared no victim."""
    left_out = 0

    def compared(snapshot: Snapshot, now: float) -> Plan:
        nonlocal left_out
        draft = Draft(snapshot, now, chosen(snapshot.quota.scheduler), Memory())
        survey(draft)
        stand_by(draft)
        take_over_plans(draft)
        for name in draft.standing:
            reserved = draft.promised.get(name)
            if reserved is None:
                continue
            own = [r for r in reserved.victims if draft.victims[r.name].by == name]
            promise = draft.promises[name]
            may_spare = proposals._may_spare(draft, promise, reserved, own)
            needed = victims_with_fewer(draft, promise, reserved, own) if own else []
            left_out += bool(own) and not may_spare
            assert may_spare or all(each == len(own) for each in needed)
        draft.close()
        return decide(snapshot, now)

    decide = histories.remembering()
    for seed in seeds:
        histories.run(seed, (), steps=25, inner=compared, make=make)
    assert left_out, "every proposal was searched again"


@pytest.mark.parametrize("seed", range(6))
def test_what_is_put_back_counts_as_if_it_had_stayed(seed: int) -> None:
    """As many replicas find no devices as if all the others alone were removed."""
    draft = surveyed(seed)
    (part,) = draft.lines["C"][0].shape.parts
    running = list(draft.running.values())
    Random(seed).shuffle(running)
    lack = Lack(draft.capacity, part)
    for each in running:
        lack.let_go(each.footprint)
    for each in running:
        lack.put_back(each.footprint)
        fresh = Lack(draft.capacity, part)
        for other in running:
            if other is not each:
                fresh.let_go(other.footprint)
        assert lack.replicas == fresh.replicas
        lack.let_go(each.footprint)
