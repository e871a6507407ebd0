"""
Earliest start: the first time at which a waiting gang has room, and where.

Running gangs end by their limit. A borrower is gone after its slice, because it is rotated for a
planned gang, or after its minimum running time for a gang that will be within its share by then.
Jobs of the gang's own project that have no limit end at an unknown time: if the gang needs them
gone, the start time is infinite, and what the gang could use is drained.

This module must not change anything: whatever it tries, it undoes.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby, takewhile
from operator import itemgetter

from bastion.scheduler.phases.reservations.claims import Claims
from bastion.scheduler.phases.reservations.starts import starting
from bastion.scheduler.placement.place import Placed
from bastion.scheduler.preemption.lack import Lack
from bastion.scheduler.preemption.need import Need
from bastion.scheduler.preemption.stop_times import stop_at
from bastion.scheduler.queue.order import Line
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.ends import End, Ends
from bastion.scheduler.state.holders.release import Release
from bastion.scheduler.state.holders.running import Running
from quota.amounts import Amounts

Fit = tuple[float, Placed]
"""(when, where)"""
Step = tuple[float, Sequence[Running]]
"""(when, what ends then)"""
HasRoom = Callable[[Amounts], bool]
"""Whether the quota has room for such a charge."""
GANGS_PASSED_A_STEP = 8
"""Gangs known to leave too little: this many take one step of a search."""


def fits_share(draft: Draft, project: str, shape: Shape) -> bool:
    """Whether the share of `project` holds a gang of `shape`, if nothing else uses it."""
    asked = draft.asks(shape)
    return bool(asked) and asked <= draft.shares.project(project).nominal


def earliest_start(draft: Draft, line: Line, claims: Claims) -> Fit | None:
    """
    Return the first time at which the head of `line` fits, and where; None if it never does.

    Beyond its share it leaves room for the `claims` of other projects, which reclaim what they
    leave idle.
    """
    project, shape = line.project, line.shape
    own = fits_share(draft, project, shape)

    def has_room(units: Amounts) -> bool:
        borrows = claims.leave(project, units)
        return draft.shares.has_room(project, shape, units, borrows=borrows)

    def is_within(units: Amounts) -> bool:
        return draft.shares.may_start(project, units, own=not shape.borrows)

    found = _search(draft, line, has_room, reclaims=False, drains=own)
    if not own or (found is not None and found[0] <= draft.now) or not _may_reclaim(draft, line):
        return found
    before = math.inf if found is None else found[0]
    drains = found is None
    within = _search(draft, line, is_within, reclaims=True, drains=drains, before=before)
    return min((f for f in (found, within) if f is not None), key=lambda f: f[0], default=None)


def _may_reclaim(draft: Draft, line: Line) -> bool:
    others = (r for name, those in draft.borrowers.items() if name != line.project for r in those)
    return any(is_reclaimable(draft, running, line.project) for running in others)


def _search(
    draft: Draft,
    line: Line,
    allows: HasRoom,
    *,
    reclaims: bool,
    drains: bool,
    before: float = math.inf,
) -> Fit | None:
    """
    End running gangs, one after the other, until the head of `line` fits.

    Args:
        draft: Unchanged when this returns.
        line: Its head is to start.
        allows: Whether the quota has room.
        reclaims: Whether borrowers of others may be stopped for it.
        drains: Whether to continue with gangs that have no known end.
        before: A start at or after this time is of no use.
    """
    ends, lacks = known_ends(draft), _lacks_of(draft, line.shape)
    for lack in lacks:
        lack.let_go(ends.footprint)
    is_near = all(lack.replicas <= 0 for lack in lacks)
    if not (is_near or drains):
        draft.search.effort.spend(1 + len(ends.bounded) // GANGS_PASSED_A_STEP)
        return None
    ending, endless = _ends(draft, line, reclaims=reclaims, drains=drains)
    timed = takewhile(lambda step: step[0] < before, _together(draft, ending) if is_near else ())
    steps = [*timed]
    vain = _in_vain(draft, line.shape, allows, steps)
    trial = _Trial(draft, line.shape, _lacks_of(draft, line.shape) if is_near else lacks)
    if not is_near:
        trial.pass_over([running for *_, running in ending])
    try:
        for at, (end, running) in enumerate(chain(steps, endless)):
            trial.let_go(running)
            placed = trial.placed(allows) if at >= vain else None
            if placed is not None:
                told = _told_by(draft, line.project, trial.gone) if reclaims else 0.0
                return max(end, draft.now, told), placed
        return None
    finally:
        trial.undo()


def _in_vain(draft: Draft, shape: Shape, allows: HasRoom, steps: Sequence[Step]) -> int:
    """Return how many of `steps` pass before the quota has room for a gang of `shape`."""

    def has_room(last: int) -> bool:
        gone = chain.from_iterable(running for _, running in steps[: last + 1])
        with draft.shares.without(gone):
            return allows(shape.asked)

    if not steps or has_room(0):
        return 0
    return bisect_left(range(len(steps)), True, lo=1, key=has_room)


def _ends(
    draft: Draft, line: Line, *, reclaims: bool, drains: bool
) -> tuple[list[End], Iterator[Step]]:
    """Return what has ended at some time, unordered; and what has no known end, if it counts."""
    ends, shape, project = known_ends(draft), line.shape, line.project
    ending, endless = [*ends.known], [*ends.endless.get(project, ())] if drains else []
    for running in ends.borrowed:
        end = gone_at(draft, running, shape, project, reclaims=reclaims)
        if end < math.inf:
            ending.append((end, running.name, running))
        elif drains and running.project == project:
            endless.append(running)
    last = sorted(endless, key=ends.crowd)
    return ending, ((math.inf, [running]) for running in last)


def _together(draft: Draft, ending: list[End]) -> Iterator[Step]:
    """Yield what is free now; then what ends at the same time, the first to end first."""
    ending.sort(key=itemgetter(0, 1))
    if not ending or ending[0][0] != draft.now:
        yield draft.now, []
    for end, together in groupby(ending, key=itemgetter(0)):
        yield end, [running for *_, running in together]


def known_ends(draft: Draft) -> Ends:
    """Return when running gangs end, for any gang; renewed after a start or a change of victims."""
    new, version = starting(draft), draft.victims.version
    ends = draft.search.ends
    if ends is None or not ends.stands(new, version):
        running = list(draft.running.values())
        ends = draft.search.ends = Ends(running, new, draft.ends_at, draft.on, version)
    return ends


def _lacks_of(draft: Draft, shape: Shape) -> list[Lack]:
    return [Lack(draft.capacity, part) for part in shape.parts if part.is_plain]


class _Trial:
    """
    Running gangs that have ended on trial.

    What they leave is computed once it may suffice, since most searches never come that far, and
    then only where a replica could lie.
    """

    def __init__(self, draft: Draft, shape: Shape, lacks: Sequence[Lack]) -> None:
        self.draft, self.shape = draft, shape
        self.gone: list[Running] = []
        """All that have ended."""
        self._lacks = lacks
        self._is_bounded = len(lacks) == len(shape.parts)
        """Whether a possible place is known for each part."""
        self._need: Need | None = None
        self._charged = 0
        """How many of them were deducted from the tiers' totals."""
        self._there: list[Running] = []
        """Those of them that still hold machines on which no part could lie."""
        draft.capacity.begin()

    def pass_over(self, running: Sequence[Running]) -> None:
        """End these, which are known to leave too little."""
        self.gone += running
        self.draft.search.effort.spend(len(running) // GANGS_PASSED_A_STEP)

    def let_go(self, running: Sequence[Running]) -> None:
        """End these as well."""
        self.gone += running
        self.draft.search.effort.spend(len(running))
        for each in running:
            for lack in self._lacks:
                lack.let_go(each.footprint)

    def placed(self, allows: HasRoom) -> Placed | None:
        """Return where it fits now; None if it does not, or the quota has no room."""
        if any(lack.replicas > 0 for lack in self._lacks) or not self._frees_enough():
            return None
        with self.draft.shares.without(self.gone):
            if not allows(self.shape.asked):
                return None
            return self.draft.would_place(self.shape, allows, guaranteed=False)

    def _frees_enough(self) -> bool:
        capacity = self.draft.capacity
        for running in self.gone[self._charged :]:
            capacity.charge(running.left, sign=-1)
            self._there.append(running)
        self._charged = len(self.gone)
        there, self._there = self._there, []
        releases = []
        for running in there:
            if self._may_matter(running):
                capacity.charge(running.left)
                releases.append(Release(capacity, running))
            else:
                self._there.append(running)
        if self._need is None:
            self._need = Need(self.draft, self.shape, guaranteed=False)
        else:
            for release in releases:
                self._need.refresh(release)
        return self._need.may_fit()

    def _may_matter(self, running: Running) -> bool:
        """Whether any part of it could lie on a machine of `running`."""
        if not self._is_bounded:
            return True
        machines = running.footprint.masks
        return any(lack.may_hold(machine) for lack in self._lacks for machine in machines)

    def undo(self) -> None:
        """Put everything back."""
        self.draft.capacity.undo()


def _told_by(draft: Draft, project: str, gone: Sequence[Running]) -> float:
    """Return when borrowers among `gone` ended that are stopped after those of `project` ended."""
    own = max((draft.ends_at(r) for r in gone if r.project == project), default=draft.now)
    others = [r.grace_s for r in gone if is_reclaimable(draft, r, project)]
    return own + max(others, default=0.0)


def gone_at(
    draft: Draft, running: Running, shape: Shape, project: str, *, reclaims: bool = False
) -> float:
    """
    Return when `running` is gone at the latest, if rotated in time for a gang of `project`.

    It is gone sooner if the project `reclaims`, and may have it stopped for its share.
    """
    end = draft.ends_at(running)
    if not is_reclaimable(draft, running, project):
        return end
    if running.priority >= shape.priority:
        rotated = max(draft.now, running.started_at + draft.options.borrow_slice_s)
        end = min(end, rotated + running.grace_s)
    if reclaims and running.project != project:
        end = min(end, stop_at(draft, running) + running.grace_s)
    return end


def is_reclaimable(draft: Draft, running: Running, project: str) -> bool:
    """Whether a gang of `project` could have it stopped for a share."""
    if running.is_leaving or not running.is_borrowed:
        return False
    return draft.parts.preemption.reclaims and draft.is_open_to(running, project)
