"""
Whom a reserved start waits for: holders of its devices, of its amounts, of its room in the quota.

Rules: nobody is waited for without whom it has room too. What one gang gives back is counted for
one start only.

It must not know how the start was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bastion.scheduler.placement.place import Placed
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.footprint import Footprint
from bastion.scheduler.state.running import Running
from quota.amounts import Amounts


def by_end(draft: Draft, ending: Iterable[Running]) -> Iterator[Running]:
    """`ending`, the first to end first; not sorted before somebody asks."""
    ends = [(draft.ends_at(running), running.name, running) for running in ending]
    yield from (running for _, _, running in sorted(ends, key=lambda each: each[:2]))


def awaited(
    draft: Draft,
    project: str,
    wanted: Footprint,
    placed: Placed,
    sure: Iterable[Running],
    ending: Iterable[Running],
    *,
    within_share: bool,
) -> list[Running] | None:
    """
    `sure`, and those of `ending` without whom there is no room; None when there is none even so.

    The last to end come first: what they give back is counted on before what others could use too.

    Args:
        draft: Unchanged when this returns.
        project: Whose gang is to start.
        wanted: What it takes.
        placed: At what charge; neither is closed or counted yet.
        sure: Those who have ended by then in any case, all holders of its devices among them.
        ending: Others who will have ended by then, in the order in which to count on them.
        within_share: Whether the room in the quota is its project's own, so that only the tiers
            have to have some.
    """
    lacking = wanted.lacking(draft.capacity)
    certain = {running.name: running for running in sure}

    def has_room(more: Sequence[Running]) -> bool:
        gone = [*certain.values(), *more]
        if any(_freed(gone, *where) < units for where, units in lacking.items()):
            return False
        if not _tiers_have_room(draft, placed, gone):
            return False
        if within_share:
            return True
        with draft.shares.without(gone):
            return draft.shares.may_borrow(project, placed.total)

    others = (running for running in ending if running.name not in certain)
    needed: list[Running] = []
    while not has_room(needed):
        running = next(others, None)
        if running is None:
            return None
        needed.append(running)
    for running in reversed(needed[:-1]):
        fewer = [each for each in needed if each is not running]
        if has_room(fewer):
            needed = fewer
    return sorted([*certain.values(), *needed], key=draft.ends_at, reverse=True)


def _freed(gone: Iterable[Running], machine: str, resource: str) -> float:
    return sum(running.footprint.frees(machine, resource) for running in gone)


def _tiers_have_room(draft: Draft, placed: Placed, gone: Iterable[Running]) -> bool:
    left = [running.left for running in gone]
    for tier, (free, asked) in enumerate(zip(draft.capacity.tier_free, placed.charge)):
        back = Amounts.sum(charge[tier] for charge in left)
        if any(units > free[resource] + back[resource] for resource, units in asked.items()):
            return False
    return True
