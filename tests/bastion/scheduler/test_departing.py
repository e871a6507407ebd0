"""A search among departing gangs that is updated step by step equals one built from scratch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from bastion.scheduler.preemption.borrowers import borrowers_for
from bastion.scheduler.preemption.victims import find, is_legal
from bastion.scheduler.queue.order import Line
from bastion.scheduler.reasons.reason import Yielded
from bastion.scheduler.state.decisions import PlannedStop
from bastion.scheduler.state.departing import Departing
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.running import Running
from quota import Amounts
from tests.bastion.scheduler.surveyed import surveyed

Allows = Callable[[Running], bool]


def stop(*, is_firm: bool) -> PlannedStop:
    """Return the end decided for a victim."""
    return PlannedStop(
        by="c", stop_at=0.0, end_at=0.0, reason=Yielded(by="c", order="fair"), is_firm=is_firm
    )


def test_what_departs_is_kept_up_to_date() -> None:
    """Victims may be named, renamed and spared in any order; none is missed or counted twice."""
    random, draft = Random(1), surveyed(1)
    names = sorted(draft.running)
    for _ in range(150):
        name = random.choice(names)
        if name in draft.victims and random.random() < 0.5:
            del draft.victims[name]
        else:
            draft.victims[name] = stop(is_firm=random.random() < 0.5)
        for firm in (False, True):
            wanted = [n for n in names if (d := draft.victims.get(n)) and (d.is_firm or not firm)]
            departing = draft.departing(firm=firm)
            assert [running.name for running in departing] == wanted
            fresh = Departing([draft.running[n] for n in wanted], draft.shares)
            assert departing.sums.held == fresh.sums.held
            asked = Amounts({"gpu": 9})
            with draft.shares.without(standing=departing.sums):
                kept = [draft.shares.may_borrow(each, asked) for each in "ABC"]
            with draft.shares.without([draft.running[n] for n in wanted]):
                assert kept == [draft.shares.may_borrow(each, asked) for each in "ABC"]


def test_a_gang_that_stays_is_not_counted_as_gone() -> None:
    """A departing gang that is left out counts as if it had never been named."""
    draft = surveyed(2)
    named, staying = list(draft.running.values())[:6], list(draft.running.values())[:2]
    sums = draft.shares.standing(named)
    with draft.shares.without(standing=sums, staying=staying):
        left = [draft.shares.held(name) for name in "AB"]
    with draft.shares.without(named[2:]):
        assert left == [draft.shares.held(name) for name in "AB"]


def searched(draft: Draft, line: Line, may_stop: Allows | None) -> tuple[object, int]:
    """Return what is found for the head of `line`, and in how many steps."""
    before = draft.search.effort.left
    legal = borrowers_for(draft, line.project, line.shape.asked)
    found = find(
        draft, line.shape, legal, lambda units, gone: True, guaranteed=True, may_stop=may_stop
    )
    told = found and (found.victims, found.placed, found.ending)
    return told, before - draft.search.effort.left


def test_a_search_that_passes_over_the_useless_finds_the_same() -> None:
    """A job is only removed if its machine may then hold one more replica: same victims."""
    fewer = 0
    for seed in range(12):
        draft = surveyed(seed)
        for line in draft.lines["C"]:
            may_stop = partial(is_legal, draft, gang=line.head, shape=line.shape, within_share=True)
            of_all, steps = searched(draft, line, None)
            of_some, steps_then = searched(draft, line, may_stop)
            assert of_all == of_some
            fewer += steps_then < steps
    assert fewer, "no search was shorter"
