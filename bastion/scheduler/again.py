"""
Begin again: what a cycle knows late, and begins once more with.

It must not know how it was found out.
"""

from __future__ import annotations

from dataclasses import replace

from bastion.scheduler.draft import Draft
from bastion.scheduler.outset import Outset
from bastion.scheduler.promise import Promise


def outset_after(draft: Draft) -> Outset:
    """What to begin again with."""
    outset, snapshot = draft.outset, draft.snapshot
    new: dict[str, Promise] = {}
    for gang in draft.instead:
        _resting_on(draft, gang[0], new)
    gone = draft.void.union(*draft.instead.values(), (each.gang for each in new.values()))
    kept = [_as_started(draft, each) for each in snapshot.promises if each.gang not in gone]
    planned = tuple(each for each in snapshot.planned if each.gang not in gone)
    late = [outset.before[gang] for gang in draft.void if gang in outset.before]
    return Outset(
        snapshot=replace(snapshot, promises=(*kept, *new.values()), planned=planned),
        before={**outset.before, **draft.instead},
        new=outset.new.union(each.gang for each in new.values()),
        late=outset.late.union(*late),
        unplanned=outset.unplanned | draft.unplanned,
        passes=outset.passes + 1,
    )


def _resting_on(draft: Draft, name: str, found: dict[str, Promise]) -> None:
    """Add the promise to gang `name`, and those that stop whom it waits for."""
    found[name] = draft.promises[name]
    for running in draft.reserved[name].waits:
        doom = draft.doomed.get(running.name)
        if doom is not None and doom.by in draft.reserved and doom.by not in found:
            _resting_on(draft, doom.by, found)


def _as_started(draft: Draft, promise: Promise) -> Promise:
    """`promise`, its devices those that its gang found elsewhere."""
    for each in draft.admitted:
        if each.gang[0].id == promise.gang[0]:
            return replace(promise, placements=each.placed.placements)
    return promise
