"""
Proposals: promises of the last cycle whose victims are not being stopped yet.

A preemption takes two cycles. The first names the victims. The second tries fewer, on the state
that the first has left, and stops those that it still needs. So nothing is stopped for capacity
that becomes free anyway.

This module must not know how a promise was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bastion.scheduler.effort import left_for_searches
from bastion.scheduler.phases.promises import is_still_within
from bastion.scheduler.phases.reservations.fulfilment import sharing
from bastion.scheduler.phases.reservations.lending import lend, reopened, set_apart
from bastion.scheduler.phases.reservations.new_promise import make_promise
from bastion.scheduler.phases.reservations.reserving import drop, reserve
from bastion.scheduler.preemption.lack import Lack
from bastion.scheduler.preemption.victims import Found, find, yields_to
from bastion.scheduler.promise import Promise
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.reservation import Reserved
from quota.amounts import Amounts


def spare_victims(draft: Draft) -> None:
    """Remake every proposal that is due now and needs fewer victims."""
    _spare_each(draft)
    standing = len(draft.promised)
    draft.search.effort.left = left_for_searches(draft.snapshot.steps, standing)


def spare_victims_again(draft: Draft) -> None:
    """Remake them once more if reserved capacity was opened, or a start was taken back."""
    if draft.taken_back or draft.search.has_opened:
        _spare_each(draft)


def _spare_each(draft: Draft) -> None:
    for name in draft.standing:
        if name in draft.promised:
            _spare(draft, draft.promises[name])


def _spare(draft: Draft, promise: Promise) -> None:
    reserved = draft.promised[promise.gang[0]]
    own = [r for r in reserved.victims if draft.victims[r.name].by == reserved.name]
    if not any(draft.victims[running.name].stop_at <= draft.now for running in own):
        return
    if not _may_spare(draft, promise, reserved, own):
        return
    stops = {running.name: draft.victims.pop(running.name) for running in own}
    with set_apart(draft, [reserved], sharing(draft, reserved)):
        fewest = _fewest(draft, promise, reserved, own)
        draft.victims.update(stops)
        if fewest is not None:
            drop(draft, reserved)
    if fewest is None:
        return
    found, within_share = fewest
    resting, promises = _on_shares_of_groups(draft), dict(draft.promises)
    anew = make_promise(draft, reserved.gang, reserved.shape, found, within_share=within_share)
    if not all(is_still_within(draft, each) for each in resting):
        lend(draft, anew)
        drop(draft, anew)  # it may count on the victims of a promise that loses its share by it
        reserved.is_dropped = False
        draft.promises.clear()
        draft.promises.update(promises)
        draft.victims.update(stops)
        reserve(draft, reserved)


def _on_shares_of_groups(draft: Draft) -> list[Reserved]:
    """Return promises with victims that rest on the share of a group, and may lose it to others."""
    if not draft.shares.is_nested:
        return []
    with_victims = [each for each in draft.promised.values() if each.victims]
    within = [each for each in with_victims if draft.promises[each.name].within_share]
    return [each for each in within if is_still_within(draft, each)]


def _fewest(
    draft: Draft, promise: Promise, reserved: Reserved, own: Sequence[Running]
) -> tuple[Found, bool] | None:
    """Return the fewest of its `own` victims, and whether within a share; None if it needs all."""
    is_begun = any(draft.of_job[n].is_leaving for n, _ in promise.victims if n in draft.of_job)
    fewest: tuple[Found, bool] | None = None
    for within_share in _ways(draft, promise, reserved, own):
        found = _found(draft, reserved, own, within_share=within_share)
        if found is None:
            continue
        if is_begun and any(draft.ends_at(running) > reserved.until for running in found.ending):
            continue  # it would be later than announced
        if not found.victims and draft.capacity.is_free(reserved.shape.parts, *found.placed):
            draft.needless.add(reserved.name)
            return None
        kept = [r for r in own if r in found.victims or _is_counted_on(draft, reserved, r)]
        if len(kept) < len(own if fewest is None else fewest[0].victims):
            fewest = replace(found, victims=tuple(kept)), within_share
    return fewest


def _may_spare(draft: Draft, promise: Promise, reserved: Reserved, own: Sequence[Running]) -> bool:
    """Whether there may be enough devices for it with one of its `own` victims still running."""
    part, *others = reserved.shape.parts
    if others or not part.is_plain or len([*_ways(draft, promise, reserved, own)]) > 1:
        return True
    with reopened(draft, [reserved]):
        lack = Lack(draft.capacity, part)
        departing = draft.departing(firm=promise.within_share)
        for running in {*departing.leaving_devices(draft.capacity), *own}:
            lack.let_go(running.footprint)
        return any(_is_enough_with(lack, running) for running in own)


def _is_enough_with(lack: Lack, running: Running) -> bool:
    """Whether there are enough devices with `running`, which was removed, still there."""
    lack.put_back(running.footprint)
    is_enough = lack.replicas <= 0
    lack.let_go(running.footprint)
    return is_enough


def _ways(
    draft: Draft, promise: Promise, reserved: Reserved, own: Sequence[Running]
) -> Iterator[bool]:
    """Yield how it was promised; then borrowing, if priority alone would let it stop them."""
    yield promise.within_share
    if promise.within_share and all(
        yields_to(draft, running, reserved.gang, reserved.shape) for running in own
    ):
        yield False


def _is_counted_on(draft: Draft, reserved: Reserved, running: Running) -> bool:
    """Whether another promise with victims waits for `running`, and none names it as a victim."""
    waiting = draft.reservations.waiting_for([running.name])
    others = [each for each in waiting if each.is_promise and each is not reserved]
    if any(running in each.victims for each in others):
        return False
    return any(each.victims for each in others)


def _found(
    draft: Draft, reserved: Reserved, own: Sequence[Running], *, within_share: bool
) -> Found | None:
    """Return where it fits with some of its `own` victims, which are not being stopped."""
    shares, project = draft.shares, reserved.project
    # What never borrows has its class whatever its project holds: only usage decides.
    counts_all = shares.is_nested or not shares.ever_borrows(project, reserved.shape)
    is_sure = within_share and draft.has_own_place(reserved.name) and not counts_all

    def may_have(units: Amounts, gone: Sequence[Running]) -> bool:
        if is_sure and not gone and units <= reserved.placed.total:
            return True  # what its project borrowed since then does not void its place
        if not within_share:
            with shares.without(gone):
                return shares.lets_borrow(project, reserved.shape, units)
        with shares.without([*gone, *going]):
            is_within = shares.is_within(project, units, own=not reserved.shape.borrows)
            return is_within and shares.may_reclaim(project, units, {each.project for each in gone})

    departing = draft.departing()
    leaving = draft.departures.stopping(draft.shares) if within_share else departing
    mine = [running for running in own if running in leaving]
    going = [r for r in draft.departing(firm=True) if r not in leaving] if counts_all else []
    with shares.without(standing=leaving.sums, staying=mine):
        return find(draft, reserved.shape, own, may_have, guaranteed=within_share, staying=own)
