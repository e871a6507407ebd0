"""What gangs that are assumed to be gone leave in total equals what they leave one by one."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from bastion.scheduler.phases.survey import survey
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.shares import Shares
from bastion.scheduler.state.memory.memory import Memory
from bastion.scheduler.state.memory.policy_choice import chosen
from quota import Amounts, Quota
from tests.bastion.scheduler.world import World, machines_of, quota_of

FLAT = quota_of({"gpu": 32}, {"A": {"gpu": 0.5}, "B": {"gpu": 0.25}, "C": {"gpu": 0.25}})
NESTED = quota_of(
    {"gpu": 32},
    {"A": {"gpu": 0.5}, "B": {"gpu": 0.25}, "C": {"gpu": 0.25}},
    groups={"one": 'members = ["A", "B"]'},
)

TIGHT = quota_of(
    {"gpu": 32},
    {"A": {"gpu": 0.3}, "B": {"gpu": 0.25}, "C": {"gpu": 0.25}},
    groups={"one": 'members = ["A", "B"]\nceiling = { gpu = 0.6 }'},
)


def surveyed(quota: Quota) -> Draft:
    """Return twenty running jobs of three projects."""
    world = World(quota, machines_of(4, gpu=8))
    for number in range(20):
        world.ask("ABC"[number % 3], gpu=1)
    world.cycle()
    draft = Draft(world.snapshot(), world.now, chosen(quota.scheduler), Memory())
    survey(draft)
    return draft


def told(shares: Shares) -> list[object]:
    """Return all answers about shares, for every project."""
    asked = [Amounts({"gpu": units}) for units in (1, 4, 9, 17)]
    return [
        (
            shares.held(name),
            shares.excess(name),
            *((shares.may_borrow(name, a), shares.is_within(name, a)) for a in asked),
            *(shares.available(name, a) for a in asked),
            *(shares.over_ceiling(name, a) for a in asked),
        )
        for name in "ABC"
    ]


@pytest.mark.parametrize("quota", [FLAT, NESTED, TIGHT])
def test_many_at_once_leave_what_they_leave_one_by_one(quota: Quota) -> None:
    """The order of the questions, and what is given between them, does not matter."""
    random, draft = Random(3), surveyed(quota)
    shares, running = draft.shares, list(draft.running.values())
    assert len(running) == 20
    unit, receivers = Amounts({"gpu": 1}), dict[str, str]()
    for _ in range(200):
        gone = random.sample(running, random.randrange(12))
        more = [each for each in random.sample(running, 3) if each not in gone]
        before = told(shares)
        with shares.without(gone):
            first = told(shares)
            with shares.without(more):
                both = told(shares)
            assert told(shares) == first
        assert told(shares) == before
        for each in gone:
            shares.let_end([each])
        assert told(shares) == first
        for each in more:
            shares.let_end([each])
        assert told(shares) == both
        for each in (*gone, *more):
            shares.let_end([each], sign=-1)
        shares.let_end([*gone, *more])
        assert told(shares) == both
        shares.let_end([*more, *gone], sign=-1)
        assert told(shares) == before
        giver = random.choice(running)
        sign = 1 if shares.left_of(giver) else -1  # it has one unit to give
        owner = random.choice((giver.project, "A", "C"))
        if sign > 0:
            shares.give([(giver, unit)], to=owner)
            receivers[giver.name] = owner
        else:
            shares.give([(giver, -unit)], to=receivers.pop(giver.name))


ASKED = Amounts({"gpu": 6})
QUESTIONS: list[Callable[[Shares, str], object]] = [
    lambda shares, name: shares.held(name),
    lambda shares, name: shares.excess(name),
    lambda shares, name: shares.usage_ratio(name),
    lambda shares, name: [shares.closes(each) for each in shares.quota.groups],
    lambda shares, name: [shares.under_ceiling(each) for each in shares.quota.groups],
    lambda shares, name: [shares.excess(each) for each in shares.quota.groups],
    lambda shares, name: shares.is_within(name, ASKED),
    lambda shares, name: shares.is_under_group_ceilings(name, ASKED),
    lambda shares, name: shares.holding(name, ASKED),
    lambda shares, name: shares.outgrown(name, ASKED),
    lambda shares, name: shares.over_ceiling(name, ASKED),
    lambda shares, name: shares.may_borrow(name, ASKED),
    lambda shares, name: shares.available(name, ASKED),
]


@pytest.mark.parametrize("quota", [FLAT, NESTED, TIGHT])
def test_a_question_alone_counts_what_left_in_all_projects_that_it_depends_on(quota: Quota) -> None:
    """It gives the same answer as after every other question, the project's groups included."""
    random, draft = Random(4), surveyed(quota)
    shares, running = draft.shares, list(draft.running.values())
    found: dict[Callable[[Shares, str], object], set[str]] = {ask: set() for ask in QUESTIONS}
    for _ in range(120):
        owner = random.choice("ABC")
        gifts = [(each, each.held) for each in random.sample(running, random.randrange(4))]
        shares.give(gifts, to=owner)
        gone = random.sample(running, random.randrange(20))
        for ask in QUESTIONS:
            name = random.choice("ABC")
            with shares.without(gone):
                alone = ask(shares, name)
            shares.let_end(gone)
            assert alone == ask(shares, name)
            shares.let_end(gone, sign=-1)
            found[ask].add(str(alone))
        shares.give([(each, -held) for each, held in gifts], to=owner)
    assert quota is not TIGHT or all(len(answers) > 1 for answers in found.values())
