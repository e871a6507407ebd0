"""
`QuotaWalls`: what the quota says against a gang: a ceiling, its share, or what others use.

A finding for a project and a form holds in later cycles, as long as neither what the project holds
nor what others claim changes.

This module must not know machines.
"""

from __future__ import annotations

from collections.abc import Mapping

from bastion.scheduler.explain.reach import Reach
from bastion.scheduler.phases.reservations.claims import Claims
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.reason import (
    BeyondShare,
    NeverFits,
    OverCeiling,
    ShareInUse,
    WaitingReason,
)
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.memory.known_walls import Walls
from quota.amounts import Amounts, missing

QuotaWall = NeverFits | OverCeiling | BeyondShare | ShareInUse


class QuotaWalls:
    """
    The walls of one cycle, at its end.

    Args:
        draft: Of the cycle.
        waits: What each project waits for within its share.
        is_trial: Whether something was changed on trial. Then nothing is remembered, and every
            waiting gang is known to be able to start some day.
    """

    def __init__(self, draft: Draft, waits: Mapping[str, Amounts], *, is_trial: bool) -> None:
        self.draft = draft
        self._is_trial = is_trial
        self._claims = Claims(draft, waits)
        self._lenders: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
        self._reach = Reach(draft.snapshot.quota)
        self._walls: dict[str, Walls] = {}
        if not is_trial:
            shares = draft.shares
            counted = shares.counted() if shares.is_nested else None
            draft.memory.quota_walls.begin((self._claims.own, counted))

    def find(self, project: str, shape: Shape) -> WaitingReason | None:
        """Return what the quota says against a gang of `project`; None if it lets it start."""
        if self._is_trial:
            return self._look(project, shape)
        memory, shares, walls = self.draft.memory, self.draft.shares, self._walls.get(project)
        if walls is None:
            holds = shares.held(project), shares.closes(project)
            walls = self._walls[project] = memory.quota_walls.of(project, holds)
        asked = self.draft.asks(shape), shape.borrows
        if asked not in walls:
            walls[asked] = self._look(project, shape)
        elif memory.is_check_due and walls[asked] != self._look(project, shape):
            memory.problems.append(f"what the quota has against {project} was another")
        return walls[asked]

    def _look(self, project: str, shape: Shape) -> QuotaWall | None:
        shares, asked = self.draft.shares, self.draft.asks(shape)
        if name := shares.over_ceiling(project, asked):
            over = self.never(project, shape) or self._over_ceiling(name, asked)
            if over is not None:
                return over
        if not asked:
            return self.never(project, shape)
        if shares.is_within(project, asked, own=not shape.borrows):
            return None
        return self.never(project, shape) or self._beyond_share(project, shape)

    def never(self, project: str, shape: Shape) -> NeverFits | None:
        """Return why the quota file never lets a gang of `project` start; None if it may."""
        if self._is_trial:
            return None
        if asked := self.draft.asks(shape):
            return self._reach.beyond(project, asked, borrows=shape.borrows)
        if shape.takes_whole:
            return None  # charged for whole machines, which a share may hold
        return self._reach.without_share(project, borrows=shape.borrows)

    def _over_ceiling(self, name: str, asked: Amounts) -> OverCeiling | None:
        """Return the ceiling, unless it equals the total and the total would suffice."""
        shares = self.draft.shares
        ceiling, totals = shares.quota.node(name).ceiling, shares.totals
        if all(ceiling[t] == totals[t] and units <= totals[t] for t, units in asked.items()):
            return None
        held = shares.under_ceiling(name).only(asked)
        return OverCeiling(project=name, asked=asked, held=held, ceiling=ceiling.only(asked))

    def _beyond_share(self, project: str, shape: Shape) -> BeyondShare | ShareInUse | None:
        asked, shares = self.draft.asks(shape), self.draft.shares
        held, share = shares.held(project).only(asked), shares.project(project).nominal.only(asked)
        if not shares.ever_borrows(project, shape):
            return ShareInUse(project=project, asked=asked, held=held, share=share)
        others, total = self._claims.of_others(project).only(asked), shares.totals.only(asked)
        if not others or total.holds(others + held, asked):
            return None
        key = project, asked.types()
        if key not in self._lenders:
            self._lenders[key] = self._claims.lenders(project, asked)
        return BeyondShare(
            project=project,
            asked=asked,
            share=share,
            held=held,
            others=others,
            total=total,
            lenders=self._lenders[key],
            own=missing(held + asked, self._reach.most(project)).only(asked),
        )
