"""
The gangs that a reserved start waits for: holders of its devices, its amounts, its quota.

Rules: a start waits for no gang that it has room beside. What one gang gives back is counted for
one start only.

It must not know how the start was found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from bastion.scheduler.placement.place import Placed
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.footprint import Footprint
from bastion.scheduler.state.running import Running


def by_end(draft: Draft, ending: Iterable[Running]) -> Iterator[Running]:
    """`ending`, the first to end first; sorted when the first is asked for."""
    ends = [(draft.ends_at(running), running.name, running) for running in ending]
    yield from (running for _, _, running in sorted(ends, key=lambda each: each[:2]))


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
        ending: Others that will have ended by then, in the order in which to count on them.
        within_share: Whether the room in the quota is within a share, so that only the tiers, and
            the ceilings of groups, have to have some.
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

    others = (
        running
        for running in ending
        if running.name not in certain and (counts_quota or gone.is_less_with(running))
    )
    needed: list[Running] = []
    with draft.shares.without(certain.values() if counts_quota else ()):
        try:
            while not has_room():
                running = next(others, None)
                if running is None:
                    return None
                needed.append(running)
                gone.add(running, counts_quota=counts_quota)
            for running in reversed(needed[:-1]):
                gone.remove(running, counts_quota=counts_quota)
                if has_room():
                    needed.remove(running)
                else:
                    gone.add(running, counts_quota=counts_quota)
        finally:
            if counts_quota:
                draft.shares.stay(*needed)
    return sorted([*certain.values(), *needed], key=draft.ends_at, reverse=True)


def has_room_then(
    draft: Draft,
    project: str,
    shape: Shape,
    wanted: Footprint,
    placed: Placed,
    gone: Collection[Running],
) -> bool:
    """Whether a gang of `project` may have what it wants once all of `gone` have ended."""
    if not _Gone(draft, wanted, placed, gone).leaves_enough():
        return False
    with draft.shares.without(gone):
        return draft.shares.has_room(project, shape, placed.total)


class _Gone:
    """What is left by those that have ended: kept up to date while more of them end."""

    def __init__(
        self, draft: Draft, wanted: Footprint, placed: Placed, gone: Iterable[Running]
    ) -> None:
        self.draft = draft
        self.lacking = wanted.lacking(draft.capacity)
        self.short = [
            {t: n - free[t] for t, n in asked.items() if n > free[t]}
            for free, asked in zip(draft.capacity.tier_free, placed.charge)
        ]
        """Tier -> type -> units that its total has too few of."""
        self.gone: dict[str, Running] = {}
        for running in gone:
            self._count(running, sign=1)

    def add(self, running: Running, *, counts_quota: bool) -> None:
        """Let one more end."""
        self._count(running, sign=1)
        if counts_quota:
            self.draft.shares.leave(running)

    def remove(self, running: Running, *, counts_quota: bool) -> None:
        """Let it not have ended after all."""
        self._count(running, sign=-1)
        if counts_quota:
            self.draft.shares.stay(running)

    def is_less_with(self, running: Running) -> bool:
        """Whether it gives anything of what is lacking."""
        pairs = zip(self.short, running.left)
        if any(left[resource] for short, left in pairs for resource in short):
            return True
        return any(running.footprint.frees(*where) for where in self.lacking)

    def _count(self, running: Running, *, sign: int) -> None:
        if sign > 0:
            self.gone[running.name] = running
        else:
            del self.gone[running.name]
        for short, left in zip(self.short, running.left):
            for resource in short:
                short[resource] -= sign * left[resource]

    def leaves_enough(self) -> bool:
        """Whether the tiers have room, and the machines the amounts that are lacking."""
        if any(units > 0 for short in self.short for units in short.values()):
            return False
        return all(
            _freed(self.gone.values(), *where) >= units for where, units in self.lacking.items()
        )


def _freed(gone: Iterable[Running], machine: str, resource: str) -> float:
    return sum(running.footprint.frees(machine, resource) for running in gone)
