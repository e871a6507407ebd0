"""
Quota arithmetic: small functions over a `Quota` and what every project holds.

Rules: only types under quota count; every other type is left out of what is returned and restricts
nobody. A project that has left the file keeps what it holds, all of it borrowed (see
`Quota.project`), so no function here fails on a name.

It must not know jobs, machines or time.

Source: Kueue, quota arithmetic of ClusterQueues in one cohort (KEP-79).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from quota.amounts import NOTHING, Amounts, missing
from quota.apportion import apportion
from quota.tree import Quota

Usage = Mapping[str, Amounts]
"""What admitted jobs hold, by project; a project that is absent holds nothing."""


def used(quota: Quota, usage: Usage, project: str) -> Amounts:
    """What `project` holds of the types under quota."""
    return usage.get(project, NOTHING).only(quota.types)


def unused(quota: Quota, usage: Usage, project: str) -> Amounts:
    """The part of its own share that `project` does not hold, never negative."""
    return missing(quota.project(project).nominal, used(quota, usage, project))


def borrowed(quota: Quota, usage: Usage, project: str) -> Amounts:
    """What `project` holds beyond its own share, never negative."""
    return missing(used(quota, usage, project), quota.project(project).nominal)


def unclaimed(quota: Quota, usage: Usage) -> Amounts:
    """
    What nobody holds and nobody keeps back: open to every project, its ceiling apart.

    Negative while more is held or kept back than there is. It costs a pass over all projects;
    what else `available` needs is of one project alone.
    """
    in_use = Amounts.sum(usage.values()).only(quota.types)
    kept = Amounts.sum(
        missing(project.kept, usage.get(project.name, NOTHING))
        for project in quota.projects.values()
        if project.kept
    )
    return quota.totals - in_use - kept


def available(quota: Quota, usage: Usage, project: str) -> Amounts:
    """
    How much `project` could still be admitted to now, without preempting anyone.

    Own unused nominal share plus what others would lend and what is nobody's share, as far as it
    is not in use, cut by the ceiling. Negative while the project is over-admitted: its quota or
    the total was cut, or lenders took theirs back.
    """
    asking, held = quota.project(project), used(quota, usage, project)
    return (unclaimed(quota, usage) + missing(asking.kept, held)) & (asking.ceiling - held)


def lent(quota: Quota, usage: Usage, project: str) -> Amounts:
    """
    How much of its own unused share others are using.

    Borrowers use what is nobody's share first; the rest is divided over all lenders in proportion
    to what each could lend, in whole units.
    """
    lendable = {name: _lendable(quota, usage, name) for name in quota.projects}
    names = [*quota.projects, *(usage.keys() - quota.projects.keys())]
    taken = Amounts.sum(borrowed(quota, usage, name) for name in names)
    from_lenders = missing(taken, quota.unassigned) & Amounts.sum(lendable.values())
    parts = {}
    for resource, units in from_lenders.items():
        weights = [Fraction(each[resource]) for each in lendable.values()]
        parts[resource] = dict(zip(lendable, apportion(units, weights))).get(project, 0)
    return Amounts(parts)


def _lendable(quota: Quota, usage: Usage, project: str) -> Amounts:
    return unused(quota, usage, project) & quota.project(project).lending_limit
