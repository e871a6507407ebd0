"""
Promises made again with fewer victims, where what was decided after them leaves enough.

A promise is kept from pass to pass, and others stop somebody after it: what it once needed may come
free anyway, or a plan that was in its way may be gone.

It must not know what begins again with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from bastion.scheduler.phases.guarantee import keep_promise
from bastion.scheduler.phases.promises import sharing
from bastion.scheduler.preemption.victims import Found, find, yields_to
from bastion.scheduler.promise import Promise
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.reservation import Reserved
from bastion.scheduler.state.running import Running
from quota.amounts import Amounts

TRIES = 16
"""Promises that are tried in one pass; each costs a search."""


def made_leaner(draft: Draft) -> dict[str, frozenset[str]]:
    """
    Gangs whose promises of this cycle are now others, that stop fewer.

    By name, with the jobs that earlier passes stopped for them and that go on after all.
    """
    given = {each.gang: each.placements for each in draft.outset.given.promises}
    new = [each for each in draft.promises.values() if given.get(each.gang) != each.placements]
    tried = ((each.gang[0], _made_again(draft, each)) for each in new[:TRIES])
    return {name: spared for name, spared in tried if spared is not None}


def _made_again(draft: Draft, promise: Promise) -> frozenset[str] | None:
    """Make `promise` with fewer victims, and give who was stopped for it already; None as it is."""
    reserved = draft.reserved[promise.gang[0]]
    near = [r for r in reserved.victims if draft.doomed[r.name].by == reserved.name]
    told = [
        draft.of_job[job] for job, d in draft.outset.done.stopped.items() if d.by == reserved.name
    ]
    own = [*near, *told]
    if not own:
        return None
    others = sharing(draft, reserved)
    dooms = {running.name: draft.doomed.pop(running.name) for running in near}
    draft.set_apart([reserved], others)
    for within_share in _ways(draft, promise, reserved, own):
        found = _found(draft, reserved, own, within_share=within_share)
        if found is None:
            continue
        gangs = {running.gang for running in found.victims}
        spared = [running for running in own if running.gang not in gangs]
        if spared and not _are_counted_on(draft, reserved, spared):
            draft.doomed.update(dooms)
            draft.drop(reserved)
            keep_promise(draft, reserved.gang, reserved.shape, found, within_share=within_share)
            return frozenset(job for running in spared if running in told for job in running.ids)
    draft.doomed.update(dooms)
    draft.put_back([reserved], others)
    return None


def _ways(
    draft: Draft, promise: Promise, reserved: Reserved, own: Sequence[Running]
) -> Iterator[bool]:
    """As it was promised; or to borrow, where priority alone would let it stop them."""
    yield promise.within_share
    if promise.within_share and all(
        yields_to(draft, running, reserved.gang, reserved.shape) for running in own
    ):
        yield False


def _are_counted_on(draft: Draft, reserved: Reserved, spared: Collection[Running]) -> bool:
    """Whether another promise, for which somebody is stopped, waits for one of `spared`."""
    dooms = (*draft.outset.done.stopped.values(), *draft.doomed.values())
    names = {doom.by for doom in dooms} - {reserved.name}
    waiting = (draft.reserved[name] for name in sorted(names & draft.reserved.keys()))
    return any(running in spared for each in waiting for running in each.waits)


def _found(
    draft: Draft, reserved: Reserved, own: Sequence[Running], *, within_share: bool
) -> Found | None:
    """Where it fits with some of its `own` victims; they are not being stopped."""
    shares, project = draft.shares, reserved.gang[0].project

    def may_have(units: Amounts, gone: Sequence[Running]) -> bool:
        with shares.without(gone):
            if within_share:
                return shares.is_within(project, units)
            return shares.may_borrow(project, units)

    departing = [r for r in draft.departing() if r not in own]
    leaving = [r for r in departing if r.is_leaving or not within_share]
    with shares.without(leaving):
        return find(draft, reserved.shape, own, may_have, guaranteed=within_share, staying=own)
