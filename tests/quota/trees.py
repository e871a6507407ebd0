"""Random quotas with groups, and the meaning of their arithmetic, as plainly as possible."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from quota import NOTHING, Amounts, Group, Project, Quota, Tier
from quota.tree import Node

TYPES = ("h100", "v4")
PROJECTS = ("p", "q", "r", "s")
GROUPS = ("inner", "outer", "other")
GONE = "gone"
"""A project that holds something but is not in the file."""

amounts = st.fixed_dictionaries({r: st.integers(0, 4) for r in TYPES}).map(Amounts)
usages = st.dictionaries(st.sampled_from((*PROJECTS, GONE)), amounts)
claims = st.lists(st.tuples(st.sampled_from((*PROJECTS, GONE)), amounts), max_size=12)


@st.composite
def quotas(draw: st.DrawFn) -> Quota:
    """Return four projects, most of them in one of three groups, one of which may be nested."""
    inside = {
        name: draw(st.sampled_from(("", "other", "inner", "inner", "outer"))) for name in PROJECTS
    }
    inside["inner"] = draw(st.sampled_from(("outer", "outer", "")))
    members = {g: tuple(sorted(n for n, of in inside.items() if of == g)) for g in GROUPS}
    projects: dict[str, Project] = {}
    groups: dict[str, Group] = {}
    for name in PROJECTS:
        own = draw(amounts)
        projects[name] = Project(
            name=name,
            group=inside[name],
            nominal=own,
            ceiling=own + draw(amounts),
            kept=own & draw(st.sampled_from([NOTHING, own, draw(amounts)])),
        )
    for name in GROUPS:
        own_members = [each for each in members[name] if each in projects or each in groups]
        if own_members:
            parts = [(groups.get(each) or projects[each]).nominal for each in own_members]
            own = Amounts.sum(parts) + draw(amounts)
            groups[name] = Group(
                name=name,
                members=tuple(own_members),
                group=inside.get(name, ""),
                nominal=own,
                ceiling=own + draw(amounts),
                kept=own & draw(st.sampled_from([NOTHING, own, draw(amounts)])),
            )
    nodes: list[Node] = [*projects.values(), *groups.values()]
    top = [node.nominal for node in nodes if not node.group]
    totals = Amounts.sum(top) + draw(amounts)
    return Quota(
        tiers=(Tier(name="0", units=totals),),
        types=frozenset(TYPES),
        projects=projects,
        groups=dict(sorted(groups.items())),
    )


def names(quota: Quota) -> list[str]:
    """Return every project and group, and a project that is not in the file."""
    return [*quota.projects, *quota.groups, GONE]


def held(quota: Quota, usage: Mapping[str, Amounts], name: str, resource: str) -> int:
    """Return what a project or a group holds."""
    if name in quota.groups:
        return sum(held(quota, usage, each, resource) for each in quota.groups[name].members)
    return usage.get(name, NOTHING)[resource]


def takes(quota: Quota, usage: Mapping[str, Amounts], name: str, resource: str) -> int:
    """Return what its siblings cannot have: what it holds or keeps, whichever is more."""
    inside = taken(quota, usage, name, resource)
    return max(inside, quota.node(name).kept[resource])


def taken(quota: Quota, usage: Mapping[str, Amounts], name: str, resource: str) -> int:
    """Return the part of a project or a group that its own members cannot have."""
    if name in quota.groups:
        return sum(takes(quota, usage, each, resource) for each in quota.groups[name].members)
    return held(quota, usage, name, resource)


def beside(quota: Quota, name: str) -> list[str]:
    """Return what is in the same group, or in none."""
    group = quota.node(name).group
    if group:
        return [each for each in quota.groups[group].members if each != name]
    return [each for each in names(quota) if each != name and not quota.node(each).group]


def may_hold(
    quota: Quota, usage: Mapping[str, Amounts], project: str, resource: str, units: int
) -> bool:
    """Whether `project` could hold this much: below every ceiling, beside what others take."""
    for node in quota.chain(project):
        if units > node.ceiling[resource]:
            return False
        units += sum(takes(quota, usage, each, resource) for each in beside(quota, node.name))
    return units <= quota.totals[resource]
