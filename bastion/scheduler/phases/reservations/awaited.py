"""
The gangs that a reserved start waits for: holders of its devices, amounts and quota.

A start waits for no gang beside which it has room. What one gang gives back is counted for one
start only.

This module must not know how the start was found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from bastion.scheduler.phases.reservations.starts import starting
from bastion.scheduler.placement.place import Placed
from bastion.scheduler.preemption.spared import spared
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.footprint import Footprint, Located
from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.reservation import Reserved

EndOrder = Callable[[Running], tuple[Any, ...]]
"""The lowest goes first."""


def awaited(
    draft: Draft,
    project: str,
    at: Located,
    sure: Iterable[Running],
    ending: Iterable[Running],
    *,
    within_share: bool,
    borrows: bool = True,
    has_ended: Callable[[Running], bool] | None = None,
    order: EndOrder | None = None,
) -> list[Running] | None:
    """
    Return `sure` and those of `ending` that must end first; None if there is no room even then.

    The last to end are counted first: what they give back is used before what others could use too.

    Args:
        draft: Unchanged when this returns.
        project: That of the gang to start.
        at: What it asks for, and where it will lie; that is not closed or counted yet.
        sure: Gangs that have ended by then in any case, including all holders of its devices.
        ending: Others that will have ended by then, if `has_ended` says so.
        within_share: Whether a share has the room: then only tiers, and groups' ceilings, count.
        borrows: Whether it may start beyond the share, if the share has no room yet.
        has_ended: By default all have.
        order: The first in this order is counted first; by default the first to end.
    """
    (shape, placed, wanted), certain = at, {running.name: running for running in sure}
    counts_quota = draft.shares.is_nested or not (within_share or (placed.total and not borrows))
    owner = "" if counts_quota or within_share else project
    gone = _Gone(draft, wanted, placed, certain.values(), owner)
    kin = {project, *draft.snapshot.quota.kin(project)}

    def has_room() -> bool:
        shares, total = draft.shares, placed.total
        if within_share or owner:
            return gone.leaves_enough() and shares.is_under_group_ceilings(project, total)
        return gone.leaves_enough() and shares.has_room(project, shape, total, borrows=borrows)

    if not counts_quota and has_room():
        return _last_first(draft, certain.values())

    def matters(running: Running) -> bool:
        """Whether it gives anything: all that it leaves may be promised to others."""
        if counts_quota and (running.project in kin or draft.shares.left_of(running)):
            return True
        return gone.is_less_with(running)

    some = filter(has_ended, ending if counts_quota else gone.givers(ending))
    able = (each for each in some if each.name not in certain)

    def go(some: Sequence[Running], sign: int) -> None:
        gone.count(some, sign=sign)
        if counts_quota:
            draft.shares.let_end(some, sign=sign)

    needed: dict[str, Running] = {}
    with draft.shares.without(certain.values() if counts_quota else ()):
        try:
            if not _add_until(needed, _in_order(draft, filter(matters, able), order), go, has_room):
                return None
            for running in spared([*reversed(needed.values())], go, has_room):
                del needed[running.name]
        finally:
            if counts_quota:
                draft.shares.let_end(needed.values(), sign=-1)
    return _last_first(draft, [*certain.values(), *needed.values()])


def _add_until(
    needed: dict[str, Running],
    others: Iterator[Running],
    go: Callable[[Sequence[Running], int], None],
    has_room: Callable[[], bool],
) -> bool:
    """Add as many of `others` to `needed` as give enough room; return whether there is enough."""
    while not has_room():
        more = list(islice(others, len(needed) + 1))
        if not more:
            return False
        needed.update((running.name, running) for running in more)
        go(more, 1)
    return True


def _last_first(draft: Draft, some: Iterable[Running]) -> list[Running]:
    return sorted(some, key=draft.ends_at, reverse=True)


def holders_of(draft: Draft, reserved: Reserved) -> list[Running]:
    """Return the running gangs on its place: they stay the same in a cycle."""
    if reserved.holders is None:
        reserved.holders = draft.holders(reserved.footprint)
    return reserved.holders


def is_covered(draft: Draft, reserved: Reserved) -> bool:
    """Whether nothing of it was promised to, or taken by, another gang in this cycle."""
    assert reserved.hold is not None
    holders = {*holders_of(draft, reserved), *reserved.waits}
    kept = [running.footprint for running in holders]
    for room, resource, wanted, free, later in reserved.hold.masks:
        held = 0
        for each in kept:
            taken = each.masks.get(room.name, {}).get(resource, 0)
            held |= -1 if room.name in each.whole else taken
        if wanted & ~(free | (later & held)):
            return False
    short: Counter[tuple[str, str]] = Counter()
    for room, resource, _, later in reserved.hold.counts:
        short[room.name, resource] += later
    is_freed = all(units <= _freed(reserved.waits, *where) for where, units in short.items())
    return is_freed and _is_paid(draft, reserved)


def _is_paid(draft: Draft, reserved: Reserved) -> bool:
    """Whether the tiers have what it costs, once all that ends by then has ended."""
    assert reserved.hold is not None
    for tier, (free, charge) in enumerate(zip(draft.capacity.tier_free, reserved.hold.charge)):
        for resource, units in charge.items():
            if units and free[resource] < 0:
                running = chain(draft.running.values(), starting(draft))
                ending = (
                    each
                    for each in running
                    if draft.is_departing(each) or draft.ends_at(each) <= reserved.until
                )
                if free[resource] + sum(each.left[tier][resource] for each in ending) < 0:
                    return False
    return True


def _in_order(draft: Draft, some: Iterable[Running], order: EndOrder | None) -> Iterator[Running]:
    """Yield `some`, iterated and sorted when the first is needed."""
    yield from sorted(some, key=order or (lambda each: (draft.ends_at(each), each.name)))


def has_room_then(draft: Draft, reserved: Reserved, ended: Iterable[Running]) -> bool:
    """Whether `reserved`, which is lent, has room once `ended` and all departing have ended."""
    departing = draft.departing()
    ended = set(ended).difference(departing)
    placed = reserved.placed
    gone = _Gone(draft, reserved.footprint, placed, chain(departing, ended))
    if not gone.leaves_enough():
        return False
    with draft.shares.without(ended, standing=departing.sums):
        project = reserved.project
        return draft.shares.has_room(project, reserved.shape, placed.total)


class _Gone:
    """
    What ended gangs leave, kept up to date while more of them end.

    Args:
        draft: Unchanged.
        wanted: What must be free.
        placed: At what charge.
        gone: They have ended.
        owner: The project whose own share must hold it, if any.
    """

    def __init__(
        self,
        draft: Draft,
        wanted: Footprint,
        placed: Placed,
        gone: Iterable[Running],
        owner: str = "",
    ) -> None:
        self.lacking = wanted.lacking(draft.capacity)
        self.short = [
            (tier, short)
            for tier, (free, asked) in enumerate(zip(draft.capacity.tier_free, placed.charge))
            if (short := {t: n - free[t] for t, n in asked.items() if n > free[t]})
        ]
        """(tier, type -> units) of which its total has too few."""
        self._shares, self._owner = draft.shares, owner
        self.beyond = draft.shares.lacks(owner, placed.total) if owner else {}
        """Type -> how far it is above the share."""
        self.gone: dict[str, Running] = {}
        self.count(gone, sign=1)

    def count(self, some: Iterable[Running], *, sign: int) -> None:
        """Count more gangs as ended, or with `sign=-1` as not ended after all."""
        for running in some:
            if sign > 0:
                self.gone[running.name] = running
            else:
                del self.gone[running.name]
            for tier, short in self.short if not running.is_spent else ():
                left = running.left[tier]
                for resource in short:
                    short[resource] -= sign * left[resource]
            if self.beyond and running.project == self._owner:
                frees = self._shares.frees(running)
                for resource in self.beyond:
                    self.beyond[resource] -= sign * frees[resource]

    def is_less_with(self, running: Running) -> bool:
        """Whether it gives any of what is lacking."""
        if not running.is_spent:
            for tier, short in self.short:
                left = running.left[tier]
                for resource in short:  # called thousands of times: a generator costs twice as much
                    if left[resource]:
                        return True
        if running.project == self._owner:
            return True
        return any(running.footprint.frees(*where) for where in self.lacking)

    def givers(self, some: Iterable[Running]) -> Iterable[Running]:
        """Return those of `some` that may give anything, examining each once."""
        if self.lacking:
            return some
        return (each for each in some if each.project == self._owner or not each.is_spent)

    def leaves_enough(self) -> bool:
        """Whether the tiers have room, and the machines the lacking amounts."""
        if any(units > 0 for _, short in self.short for units in short.values()):
            return False
        if self.beyond and max(self.beyond.values()) > 0:
            return False
        return all(
            _freed(self.gone.values(), *where) >= units for where, units in self.lacking.items()
        )


def _freed(gone: Iterable[Running], machine: str, resource: str) -> float:
    return sum(running.footprint.frees(machine, resource) for running in gone)
