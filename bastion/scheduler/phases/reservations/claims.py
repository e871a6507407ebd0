"""
Claims: what every project uses, waits for or keeps of its own share, so that it will not idle.

A gang that cannot start beside them has no planned start: nothing idles for it.

This module must not know when anything ends.
"""

from __future__ import annotations

from collections.abc import Mapping

from bastion.scheduler.queue.forms import Forms
from bastion.scheduler.queue.order import Line
from bastion.scheduler.state.blocked import moved
from bastion.scheduler.state.draft import Draft
from quota.amounts import NOTHING, Amounts
from quota.tree import Group


class Claims:
    """What every project uses, waits for or keeps of its own share, so that it will not idle."""

    def __init__(self, draft: Draft, waits: Mapping[str, Amounts] | None = None) -> None:
        self.draft = draft
        self.shares = draft.shares
        self.version = draft.shares.version
        if waits is None:
            waits = _waits(draft)
        wanted = {}
        self.own: dict[str, Amounts] = {}
        """What each project and group claims."""
        for name in draft.shares.names():
            owner = draft.shares.project(name)
            wanted[name] = draft.shares.held(name) + waits.get(name, NOTHING)
            self.own[name] = (wanted[name] & owner.nominal) | owner.kept
        self._add_groups(wanted)
        groups_of = draft.snapshot.quota.groups_of
        self._all = Amounts.sum(self.own[name] for name in sorted(self.own) if not groups_of(name))
        self._others: dict[str, Amounts] = {}
        self._claiming: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Types -> the projects that claim any of them, most first."""

    def _add_groups(self, wanted: dict[str, Amounts]) -> None:
        """Add the claims of every group: those of its members, and more up to its own share."""
        quota = self.draft.snapshot.quota
        for name in sorted(quota.groups, key=lambda name: -len(quota.groups_of(name))):
            group = quota.groups[name]
            wanted[name] = Amounts.sum(wanted.get(each, NOTHING) for each in group.members)
            own = Amounts.sum(self.own.get(each, NOTHING) for each in group.members)
            self.own[name] = own | (wanted[name] & group.nominal) | group.kept

    def of_others(self, project: str) -> Amounts:
        """Return the claims of all projects except `project`, and of the groups it is not in."""
        known = self._others.get(project)
        if known is None:
            inside, claims = project, NOTHING
            for group in self.draft.snapshot.quota.groups_of(project):
                claims += self._beside(inside, group)
                inside = group.name
            known = self._others[project] = claims + self._all - self.own.get(inside, NOTHING)
        return known

    def _beside(self, name: str, group: Group) -> Amounts:
        """Return the claims of the members of `group` except `name`."""
        return Amounts.sum(self.own.get(e, NOTHING) for e in group.members if e != name)

    def lenders(self, project: str, asked: Amounts) -> tuple[str, ...]:
        """Return the projects, except `project`, that claim any types in `asked`, most first."""
        types = asked.types()
        claiming = self._claiming.get(types)
        if claiming is None:
            claims = {name: own.only(types) for name, own in self.own.items()}
            share_of = self.shares.dominant_share
            shares = {name: share_of(units) for name, units in claims.items() if units}
            claiming = tuple(sorted(shares, key=lambda name: (-shares[name], name)))
            self._claiming[types] = claiming
        quota = self.draft.snapshot.quota
        if not quota.groups:
            return tuple(name for name in claiming if name != project)
        own = {project, *(group.name for group in quota.groups_of(project))}
        around = {"", *own} - {project}
        beside = (name for name in claiming if quota.node(name).group in around)
        return tuple(name for name in beside if name not in own)

    def leave(self, project: str, units: Amounts) -> bool:
        """Whether they leave room for `units` beside all that `project` holds."""
        return self.shares.totals.holds(self.of_others(project) + self.shares.held(project), units)

    def leave_room(self, line: Line) -> bool:
        """Whether the head of `line` could ever start beside them."""
        asked = self.draft.asks(line.shape)
        if not asked <= self.shares.project(line.project).ceiling:
            return False
        claims, inside = asked, line.project
        for group in self.draft.snapshot.quota.groups_of(line.project):
            claims += self._beside(inside, group)
            if not group.ceiling.holds(claims - asked, asked):
                return False
            inside = group.name
        return self.shares.totals.holds(self.of_others(line.project), asked)


def _waits(draft: Draft) -> Mapping[str, Amounts]:
    """Return what each project waits for; if nothing is done for it yet, as in the last cycle."""
    touched, found = moved(draft), {}
    lines = draft.rest or draft.lines  # before phase 3 nothing is passed on
    for name, waiting in lines.items():
        known = None if name in touched else draft.memory.forms.get(name)
        if known is None or known.lines is not draft.lines.get(name):
            known = Forms(waiting)
        found[name] = known.waited_for(draft.shares.project(name).nominal, draft.asks)
    return found
