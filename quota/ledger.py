"""
Quota arithmetic: small functions over a `Quota` and what every project holds.

Only types under quota count; every other type is left out of results and restricts no project. A
project that has left the file keeps what it holds, all of it borrowed (see `Quota.project`), so no
function here fails on a name. Unless a parameter is named `project`, a name may also be that of a
group; a group holds what its members hold.

This module must not know jobs, machines or time. `quota.nesting` keeps sums that take a pass here.

Source: Kueue, quota arithmetic of ClusterQueues in hierarchical cohorts (KEP-79).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quota.amounts import NOTHING, Amounts, missing
from quota.apportion import apportion
from quota.tree import Group, Node, Quota

Usage = Mapping[str, Amounts]
"""What admitted jobs hold, by project; a project that is absent holds nothing."""


def used(quota: Quota, usage: Usage, name: str) -> Amounts:
    """Return what a project, or all projects of a group, hold of the types under quota."""
    group = quota.groups.get(name)
    if group is None:
        return usage.get(name, NOTHING).only(quota.types)
    return Amounts.sum(used(quota, usage, member) for member in group.members)


def unused(quota: Quota, usage: Usage, name: str) -> Amounts:
    """Return the part of its own share that it does not hold, never negative."""
    return missing(quota.node(name).nominal, used(quota, usage, name))


def borrowed(quota: Quota, usage: Usage, name: str) -> Amounts:
    """Return what it holds beyond its own share, never negative."""
    return missing(used(quota, usage, name), quota.node(name).nominal)


def closed(quota: Quota, usage: Usage, name: str) -> Amounts:
    """
    Return what it takes from its siblings: what it holds, or keeps of its share if that is more.

    For a group, what its members take together, or what the group keeps if that is more.
    """
    return taken(quota, usage, name) | quota.node(name).kept


def taken(quota: Quota, usage: Usage, name: str) -> Amounts:
    """Return `closed` without what the node itself keeps: this counts against its own limits."""
    group = quota.groups.get(name)
    if group is None:
        return used(quota, usage, name)
    return Amounts.sum(closed(quota, usage, member) for member in group.members)


def unclaimed(quota: Quota, usage: Usage) -> Amounts:
    """
    Return what is neither held nor kept: available to every project, except for its ceiling.

    The result is negative if more is held or kept than exists. It takes a pass over all projects.
    """
    return quota.totals - Amounts.sum(closed(quota, usage, name) for name in _top(quota, usage))


def available(quota: Quota, usage: Usage, project: str) -> Amounts:
    """
    Return how much `project` could be admitted to now, without preempting anything.

    This is its unused share plus unused capacity that others would lend or that is in no share,
    limited by the ceilings of the project and of its groups. It is negative while the project is
    over-admitted: a quota or the total was cut, or lenders reclaimed theirs. For a project that
    does not borrow it is what the project could have if it did: see `may_borrow`.
    """
    return _open_to(quota, usage, project, unclaimed(quota, usage))


def room_under(quota: Quota, usage: Usage, project: str, group: Group) -> Amounts:
    """Return how much more `project` may hold under the ceiling of `group`, which contains it."""
    room = missing(group.ceiling, taken(quota, usage, group.name))
    for node in quota.chain(project):
        if node is group:
            break
        room += missing(node.kept, taken(quota, usage, node.name))
    return room


def _open_to(quota: Quota, usage: Usage, project: str, room: Amounts) -> Amounts:
    """Return what `project` could have if `room` is unclaimed; see `available`."""
    for node in reversed(quota.chain(project)):
        has = taken(quota, usage, node.name)
        room = (room + missing(node.kept, has)) & (node.ceiling - has)
    return room


def may_borrow(quota: Quota, usage: Usage, project: str, asked: Amounts) -> bool:
    """Whether `project` could be admitted to `asked` now, beyond its share and all groups' too."""
    room = available(quota, usage, project)
    return quota.project(project).borrow and all(
        units <= room[resource] for resource, units in asked.only(quota.types).items()
    )


def covering(quota: Quota, usage: Usage, project: str, asked: Amounts) -> str:
    """
    Return the nearest share that would cover `asked`: the project's, that of a group, or empty.

    A share covers it if it holds what is already taken from it together with `asked`, in every type
    under quota that `asked` names. What other members of a group keep counts as taken. A request
    for no such type, or by a project without a share anywhere above it, is covered by none: it
    borrows.
    """
    asked = asked.only(quota.types)
    after = {**usage, project: usage.get(project, NOTHING) + asked}
    if not asked:
        return ""
    for node in quota.chain(project):
        if node.nominal.holds(taken(quota, after, node.name) - asked, asked):
            return node.name
    return ""


def may_reclaim(quota: Quota, usage: Usage, project: str, asked: Amounts, *, of: str) -> bool:
    """
    Whether `project` may have borrowed jobs of the project `of` stopped for `asked`.

    The two meet in the nearest group that contains both, or in the pool. There the node of
    `project`, itself or a group of its own, must hold `asked` within its share.
    """
    asked = asked.only(quota.types)
    own = apart(quota, project, of)
    if not own or not asked:
        return False
    after = {**usage, project: usage.get(project, NOTHING) + asked}
    node = own[-1]
    return node.nominal.holds(taken(quota, after, node.name) - asked, asked)


def is_open_to(quota: Quota, cover: str, owner: str, project: str) -> bool:
    """
    Whether `project` sees a job of `owner` that the share `cover` covers as borrowed.

    It does not if `owner` has that share and `project` has no part in it.
    """
    return all(node.name != cover for node in apart(quota, owner, project))


def covers(quota: Quota, claims: Iterable[tuple[str, Amounts]]) -> list[str]:
    """
    Return the share that covers every job, from (project, held) of all jobs by precedence.

    As in `covering`: the project's, that of the nearest group with room for it, or empty. A job
    that does not fit leaves its room to later ones.
    """
    asked = [(project, held.only(quota.types)) for project, held in claims]
    found = [""] * len(asked)
    standing: dict[str, Amounts] = {}
    waiting: dict[str, list[int]] = {}
    for at, (project, held) in enumerate(asked):
        if held:
            waiting.setdefault(project, []).append(at)
    inner_first = sorted(quota.groups, key=lambda name: -len(quota.groups_of(name)))
    for name in (*tuple(waiting), *inner_first):
        node, on = quota.node(name), standing.get(name, NOTHING)
        for at in sorted(waiting.get(name, ())):
            held = asked[at][1]
            if node.nominal.holds(on, held):
                found[at], on = name, on + held
            elif node.group:
                waiting.setdefault(node.group, []).append(at)
        if node.group:
            standing[node.group] = standing.get(node.group, NOTHING) + on
    return found


def reach(quota: Quota, project: str, room: Amounts | None = None) -> Amounts:
    """
    Return the most that `project` could hold if all others held nothing: never more is admitted.

    Args:
        quota: With that project, or without.
        project: Its name.
        room: `unclaimed(quota, {})`, from a caller that asks about many projects.
    """
    most = _open_to(quota, {}, project, unclaimed(quota, {}) if room is None else room)
    own = quota.project(project)
    return most if own.borrow else most & own.nominal


def lent(quota: Quota, usage: Usage) -> dict[str, Amounts]:
    """
    Return how much of the unused share of every project and group others use, in one pass.

    Borrowers first use what is in no project's share (in a group, what is the group's alone). The
    rest is divided over all sibling lenders in proportion to what each could lend, in whole units.
    What a group lends outside comes from its members in the same way.
    """
    found: dict[str, Amounts] = {}
    levels = [(_top(quota, usage), quota.unassigned, NOTHING)]
    while levels:
        members, spare, outside = levels.pop()
        taken = Amounts.sum(borrowed(quota, usage, member) for member in members)
        lendable = {member: _lendable(quota, usage, member) for member in members}
        wanted = missing(taken + outside, spare) & Amounts.sum(lendable.values())
        parts: dict[str, dict[str, int]] = {member: {} for member in members}
        for resource, units in wanted.items():
            weights = [each[resource] for each in lendable.values()]
            for member, part in zip(members, apportion(units, weights)):
                parts[member][resource] = part
        for member in members:
            found[member] = Amounts(parts[member])
            if member in quota.groups:
                group = quota.groups[member]
                inside = Amounts.sum(quota.node(each).nominal for each in group.members)
                levels.append((list(group.members), group.nominal - inside, found[member]))
    return found


def _lendable(quota: Quota, usage: Usage, name: str) -> Amounts:
    return unused(quota, usage, name) & quota.node(name).lending_limit


def _top(quota: Quota, usage: Usage) -> list[str]:
    """Return what is in no group, including projects that have left the file."""
    gone = usage.keys() - quota.projects.keys()
    return [*(node.name for node in quota.top()), *sorted(gone)]


def apart(quota: Quota, project: str, other: str) -> list[Node]:
    """Return the project and those of its groups without `other`, the nearest first."""
    if project == other:
        return []
    own, others, shared = quota.chain(project), quota.groups_of(other), 0
    while shared < len(others) and own[-1 - shared] is others[-1 - shared]:
        shared += 1
    return list(own[: len(own) - shared])
