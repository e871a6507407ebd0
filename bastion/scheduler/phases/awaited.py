"""
The gangs that a reserved start waits for: holders of its devices, its amounts, its quota.

Rules: a start waits for no gang that it has room beside. What one gang gives back is counted for
one start only.

It must not know how the start was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from bastion.scheduler.placement.place import Placed
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.footprint import Footprint
from bastion.scheduler.state.reservation import Reserved
from bastion.scheduler.state.running import Running

Order = Callable[[Running], tuple[Any, ...]]
"""The lowest comes first."""


def awaited(
    draft: Draft,
    project: str,
    shape: Shape,
    wanted: Footprint,
    placed: Placed,
    sure: Iterable[Running],
    ending: Iterable[Running],
    *,
    within_share: bool,
    order: Order | None = None,
) -> list[Running] | None:
    """
    Return `sure` and those of `ending` that must end first; None where there is no room even then.

    The last to end come first: what they give back is counted on before what others could use too.

    Args:
        draft: Unchanged when this returns.
        project: That of the gang to start.
        shape: What it asks for.
        wanted: What it takes.
        placed: At what charge; neither is closed or counted yet.
        sure: Gangs that have ended by then in any case, all holders of its devices among them.
        ending: Others that will have ended by then.
        within_share: Whether the room in the quota is within a share, so that only the tiers, and
            the ceilings of groups, have to have some.
        order: The first in this order is counted on first; by default the first to end.
    """
    certain = {running.name: running for running in sure}
    counts_quota = draft.shares.is_nested or not within_share
    gone = _Gone(draft, wanted, placed, certain.values())

    def has_room() -> bool:
        if not gone.leaves_enough():
            return False
        if within_share:
            return draft.shares.is_under_group_ceilings(project, placed.total)
        return draft.shares.has_room(project, shape, placed.total)

    def matters(running: Running) -> bool:
        """Whether it gives anything: all that it leaves may be promised to others."""
        if counts_quota and (running.project == project or draft.shares.left_of(running)):
            return True
        return gone.is_less_with(running)

    able = (each for each in ending if each.name not in certain and matters(each))
    others = _in_order(draft, able, order)

    def go(some: Sequence[Running], sign: int) -> None:
        gone.count(some, sign=sign)
        if counts_quota:
            draft.shares.move(some, sign=-sign)

    needed: dict[str, Running] = {}
    with draft.shares.without(certain.values() if counts_quota else ()):
        try:
            while not has_room():
                more = list(islice(others, len(needed) + 1))
                if not more:
                    return None
                needed.update((running.name, running) for running in more)
                go(more, 1)
            for running in _spared([*reversed(needed.values())], go, has_room):
                del needed[running.name]
        finally:
            if counts_quota:
                draft.shares.stay(*needed.values())
    return sorted([*certain.values(), *needed.values()], key=draft.ends_at, reverse=True)


def holders_of(draft: Draft, reserved: Reserved) -> list[Running]:
    """The gangs that run where it lies: they stay the same in a cycle."""
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
    for room, resource, _, short in reserved.hold.counts:
        if short > sum(each.footprint.frees(room.name, resource) for each in reserved.waits):
            return False
    return True


def _in_order(draft: Draft, some: Iterable[Running], order: Order | None) -> Iterator[Running]:
    """`some`, gone through and sorted when the first is asked for."""
    yield from sorted(some, key=order or (lambda each: (draft.ends_at(each), each.name)))


def _spared(
    some: Sequence[Running],
    go: Callable[[Sequence[Running], int], None],
    has_room: Callable[[], bool],
) -> Iterator[Running]:
    """
    Let go on, one after the other, each of `some` without which there is room all the same.

    Many are tried at once, and halves of them where that fails: room only grows as more of them go,
    so that the outcome is that of trying each alone.
    """
    parts = [some] if some else []
    while parts:
        part = parts.pop()
        go(part, -1)
        if has_room():
            yield from part
            continue
        go(part, 1)
        half = len(part) // 2
        if half:
            parts += part[half:], part[:half]


def has_room_then(draft: Draft, reserved: Reserved, ended: Iterable[Running]) -> bool:
    """Whether `reserved`, which is lent, has room once `ended` and all that depart have ended."""
    departing = draft.departing()
    ended = set(ended).difference(departing)
    placed = reserved.placed
    gone = _Gone(draft, reserved.footprint, placed, chain(departing, ended))
    if not gone.leaves_enough():
        return False
    with draft.shares.without(ended, standing=departing.sums):
        project = reserved.gang[0].project
        return draft.shares.has_room(project, reserved.shape, placed.total)


class _Gone:
    """What is left by those that have ended: kept up to date while more of them end."""

    def __init__(
        self, draft: Draft, wanted: Footprint, placed: Placed, gone: Iterable[Running]
    ) -> None:
        self.lacking = wanted.lacking(draft.capacity)
        self.short = [
            (tier, short)
            for tier, (free, asked) in enumerate(zip(draft.capacity.tier_free, placed.charge))
            if (short := {t: n - free[t] for t, n in asked.items() if n > free[t]})
        ]
        """(tier, type -> units) that its total has too few of."""
        self.gone: dict[str, Running] = {}
        self.count(gone, sign=1)

    def count(self, some: Iterable[Running], *, sign: int) -> None:
        """Let some more end, or with `sign=-1` not have ended after all."""
        for running in some:
            if sign > 0:
                self.gone[running.name] = running
            else:
                del self.gone[running.name]
            for tier, short in self.short if not running.is_spent else ():
                left = running.left[tier]
                for resource in short:
                    short[resource] -= sign * left[resource]

    def is_less_with(self, running: Running) -> bool:
        """Whether it gives anything of what is lacking."""
        return (
            not running.is_spent
            and any(
                running.left[tier][resource] for tier, short in self.short for resource in short
            )
        ) or any(running.footprint.frees(*where) for where in self.lacking)

    def leaves_enough(self) -> bool:
        """Whether the tiers have room, and the machines the amounts that are lacking."""
        if any(units > 0 for _, short in self.short for units in short.values()):
            return False
        return all(
            _freed(self.gone.values(), *where) >= units for where, units in self.lacking.items()
        )


def _freed(gone: Iterable[Running], machine: str, resource: str) -> float:
    return sum(running.footprint.frees(machine, resource) for running in gone)
