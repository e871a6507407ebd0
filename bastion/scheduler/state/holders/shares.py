"""
Shares: what a project may still get, beside what all hold in this cycle.

This module must not know machines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.state.holders.ledger import Ledger
from quota.amounts import NOTHING, Amounts
from quota.ledger import Usage, apart, room_under, taken
from quota.tree import Group


class Shares(Ledger):
    """The questions that a cycle asks of its ledger."""

    def is_own(self, project: str, asked: Amounts) -> bool:
        """
        Whether `asked` fits in the project's own share beside everything it holds.

        False for a request without any type under quota: it has no share to use, so it borrows.
        Otherwise many such jobs could permanently fill every machine's CPUs and leave no guarantee
        that machines could hold.
        """
        return bool(asked) and self.project(project).nominal.holds(self._counted(project), asked)

    def lacks(self, project: str, asked: Amounts) -> dict[str, int]:
        """Return type -> how far `asked` would be above the project's own share; negative below."""
        counted, nominal = self._counted(project), self.project(project).nominal
        return {
            resource: counted[resource] + n - nominal[resource] for resource, n in asked.items()
        }

    def stands(self, project: str, asked: Amounts, swapped: Amounts) -> bool:
        """Return `is_own` for what is already counted, with `swapped` of it replacing what ends."""
        rest = self._counted(project) - asked + swapped
        return bool(asked) and self.project(project).nominal.holds(rest, asked)

    def is_within(self, project: str, asked: Amounts, *, own: bool = False) -> bool:
        """Whether `asked` fits in a share: the project's, or if not `own` that of a group of it."""
        if self.is_own(project, asked):
            return True
        limits = self.project(project)
        if own or self._nesting is None or not asked or not limits.borrow:
            return False
        if not limits.ceiling.holds(self._counted(project), asked):
            return False
        groups = self._groups(project)
        return groups is not None and bool(groups.covering(project, self._rises(project, asked)))

    def may_start(self, project: str, asked: Amounts, *, own: bool = False) -> bool:
        """Whether `asked` is within a share, and nothing of its groups must end first."""
        is_within = self.is_within(project, asked, own=own)
        return is_within and self.is_under_group_ceilings(project, asked)

    def is_under_group_ceilings(self, project: str, asked: Amounts) -> bool:
        """Whether the groups of `project` may hold `asked` more."""
        return not self._over_ceilings(project, asked)

    def _over_ceilings(self, project: str, asked: Amounts) -> list[str]:
        """Return the groups of `project` that may not hold `asked` more, the nearest first."""
        groups = self._groups(project)
        if groups is None:
            return []
        over = groups.over_ceilings(project, self._rises(project, asked))
        return [
            group.name
            for group in self.quota.groups_of(project)
            if group.name in over or not self._leaves_room(group, project, asked)
        ]

    def _leaves_room(self, group: Group, project: str, asked: Amounts) -> bool:
        """Whether `project` may hold `asked` more beside what members give to starts outside."""
        usage = self._usage_inside(group.name)
        if usage is None:
            return True
        room = room_under(self.quota, usage, project, group)
        return all(units <= room[resource] for resource, units in asked.items())

    def _usage_inside(self, group: str) -> Usage | None:
        """
        Return what counts against the ceiling of `group`, by project; None if it equals the sums.

        What members give to starts outside the group, they hold until then. What they give to each
        other, they never hold at the same time.
        """
        outside = self._given_outside(group)
        if not outside:
            return None
        return {
            name: self._stays(name) + outside.get(name, NOTHING) for name in self.quota.kin(group)
        }

    def holding(self, project: str, asked: Amounts) -> frozenset[str]:
        """Return the project and its groups, as far as their share holds `asked`."""
        found = [project] if self.is_own(project, asked) else []
        groups = self._groups(project)
        if groups is not None and asked:
            found += groups.holding(project, self._rises(project, asked))
        return frozenset(found)

    def cover(self, project: str, asked: Amounts) -> str:
        """Return the nearest share that holds `asked`: the project's, a group's, or none."""
        holding = self.holding(project, asked)
        return next((n.name for n in self.quota.chain(project) if n.name in holding), "")

    def may_reclaim(self, project: str, asked: Amounts, others: Iterable[str]) -> bool:
        """
        Whether `asked` may start once victims of `others`, no longer counted, are gone.

        Where it meets a project of these, it must be within the share: that of the outermost group
        that contains only `project`.
        """
        if self._nesting is None:
            return True
        if not self.is_under_group_ceilings(project, asked):
            return False
        meets = {apart(self.quota, project, other)[-1].name for other in {*others} - {project}}
        return meets <= self.holding(project, asked)

    def outgrown(self, project: str, asked: Amounts) -> frozenset[str]:
        """Return the groups of `project` that `asked` would push beyond their share."""
        groups = self._groups(project)
        return frozenset(groups.outgrown(project, self._rises(project, asked)) if groups else ())

    def over_ceiling(self, project: str, asked: Amounts) -> str:
        """Return the project, or its nearest group, that may not hold `asked` more at all."""
        if not self.project(project).ceiling.holds(self._counted(project), asked):
            return project
        return next(iter(self._over_ceilings(project, asked)), "")

    def may_borrow(self, project: str, asked: Amounts) -> bool:
        """Whether it borrows, and `asked` fits under its ceiling and into what is idle and lent."""
        self._settle_all()
        limits = self.project(project)
        if not limits.borrow or not limits.ceiling.holds(self._counted(project), asked):
            return False
        rises = self._rises(project, asked).items()
        if not all(more <= self._room(project, resource) for resource, more in rises):
            return False
        return self.is_under_group_ceilings(project, asked)

    def _room(self, project: str, resource: str) -> int:
        """Return what is idle and lent, as far as the groups of `project` let it have that."""
        free = self.totals[resource] - self._reserved.get(resource, 0)
        return free if self._nesting is None else self._nesting.room(project, resource, free)

    def ever_borrows(self, project: str, shape: Shape) -> bool:
        """Whether a gang of `shape` may start beyond the share of `project`."""
        return shape.borrows and self.project(project).borrow

    def lets_borrow(self, project: str, shape: Shape, units: Amounts) -> bool:
        """Whether a gang of `shape`, charged `units`, may start on what is idle and lent."""
        return shape.borrows and self.may_borrow(project, units)

    def has_room(self, project: str, shape: Shape, units: Amounts, *, borrows: bool = True) -> bool:
        """Whether a charge of `units` fits in a share, or beyond it if the gang `borrows`."""
        is_within = self.may_start(project, units, own=not shape.borrows)
        return is_within or (borrows and self.lets_borrow(project, shape, units))

    def available(self, project: str, asked: Amounts) -> Amounts:
        """Return how much of the types in `asked` it could borrow now, never negative."""
        self._settle_all()
        limits = self.project(project)
        kept = (limits.kept - self._stays(project)).positive()
        free = Amounts({resource: self._room(project, resource) for resource in asked})
        free = (free + kept) & (limits.ceiling - self._counted(project))
        for group in self.quota.groups_of(project):
            usage = self._usage_inside(group.name)
            if usage is not None:
                free &= room_under(self.quota, usage, project, group)
        return free.only(asked).positive()

    def usage_ratio(self, project: str) -> float:
        """Return the largest fraction of its share that `project` holds; infinite without one."""
        nominal, most = self.project(project).nominal, 0.0
        for resource, units in self.held(project).items():
            share = nominal[resource]
            most = max(most, units / share if share > 0 else math.inf)
        return most

    def dominant_share(self, amounts: Amounts) -> float:
        """Return the largest fraction of a total that `amounts` is."""
        if len(amounts) == 1:  # nearly always
            ((resource, units),) = amounts.items()
            return units / max(1, self.totals[resource])
        return max((n / max(1, self.totals[t]) for t, n in amounts.items()), default=0.0)

    def excess(self, name: str) -> float:
        """Return how far above its share a project or a group is, as a fraction of the total."""
        if name in self.quota.groups:
            return self.dominant_share(self.above_share(name))
        if self._asked:
            self._settle(name)
        known = self._excess.get(name)
        if known is None:
            known = self._excess[name] = self.dominant_share(self.above_share(name))
        return known

    def above_share(self, name: str) -> Amounts:
        """Return what a project or group holds above its share and does not give back; or below."""
        held = self.closes(name) if name in self.quota.groups else self._stays(name)
        return held - self.quota.node(name).nominal

    def closes(self, name: str) -> Amounts:
        """Return what counts against the limits of a project or a group."""
        groups = self._groups(name) if name in self.quota.groups else None
        if groups is None:
            return self._counted(name)
        return Amounts({t: groups.taken(name, t) for t in self.quota.types})

    def under_ceiling(self, name: str) -> Amounts:
        """Return what counts against the ceiling of a project or a group."""
        closes = self.closes(name)
        usage = self._usage_inside(name) if name in self.quota.groups else None
        return closes if usage is None else taken(self.quota, usage, name)

    def borrowed(self, name: str) -> float:
        """Return the fraction of the total that a project or a group holds above its share."""
        if name in self.quota.groups:
            return max(0.0, self.excess(name))
        return max(0.0, self.dominant_share(self.held(name) - self.project(name).nominal))
