"""
Quota arithmetic: small functions over a `Quota` and what every project holds.

Rules: only types under quota count; every other type is left out of what is returned and restricts
no project. A project that has left the file keeps what it holds, all of it borrowed (see
`Quota.project`), so no function here fails on a name. Where a name is asked for, that of a group
will do unless only a project is named; a group holds what its members hold.

It must not know jobs, machines or time. `quota.nesting` keeps what costs a pass here.

Source: Kueue, quota arithmetic of ClusterQueues in hierarchical cohorts (KEP-79).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quota.amounts import NOTHING, Amounts, missing
from quota.apportion import apportion
from quota.tree import Node, Quota

Usage = Mapping[str, Amounts]
"""What admitted jobs hold, by project; a project that is absent holds nothing."""


def used(quota: Quota, usage: Usage, name: str) -> Amounts:
    """What a project, or all projects of a group, hold of the types under quota."""
    group = quota.groups.get(name)
    if group is None:
        return usage.get(name, NOTHING).only(quota.types)
    return Amounts.sum(used(quota, usage, member) for member in group.members)


def unused(quota: Quota, usage: Usage, name: str) -> Amounts:
    """The part of its own share that it does not hold, never negative."""
    return missing(quota.node(name).nominal, used(quota, usage, name))


def borrowed(quota: Quota, usage: Usage, name: str) -> Amounts:
    """What it holds beyond its own share, never negative."""
    return missing(used(quota, usage, name), quota.node(name).nominal)


def closed(quota: Quota, usage: Usage, name: str) -> Amounts:
    """
    What it takes from those beside it: what it holds, or keeps of its share if that is more.

    For a group, what its members take together, or what the group keeps if that is more.
    """
    return _taken(quota, usage, name) | quota.node(name).kept


def _taken(quota: Quota, usage: Usage, name: str) -> Amounts:
    """As `closed`, but without what the node itself keeps: what stands against its own limits."""
    group = quota.groups.get(name)
    if group is None:
        return used(quota, usage, name)
    return Amounts.sum(closed(quota, usage, member) for member in group.members)


def unclaimed(quota: Quota, usage: Usage) -> Amounts:
    """
    What is neither held nor kept back: open to every project, its ceiling apart.

    Negative while more is held or kept back than there is. It costs a pass over all projects.
    """
    return quota.totals - Amounts.sum(closed(quota, usage, name) for name in _top(quota, usage))


def available(quota: Quota, usage: Usage, project: str) -> Amounts:
    """
    How much `project` could still be admitted to now, without preempting anything.

    Own unused nominal share plus what others would lend and what is no project's share, as far as
    it is not in use, cut by the ceilings of the project and of its groups. Negative while it is
    over-admitted: a quota or the total was cut, or lenders took theirs back. A project that does
    not borrow is told what it could have if it did: see `may_borrow`.
    """
    return _open_to(quota, usage, project, unclaimed(quota, usage))


def _open_to(quota: Quota, usage: Usage, project: str, room: Amounts) -> Amounts:
    """What `project` could have where `room` is unclaimed; see `available`."""
    for node in reversed(quota.chain(project)):
        taken = _taken(quota, usage, node.name)
        room = (room + missing(node.kept, taken)) & (node.ceiling - taken)
    return room


def may_borrow(quota: Quota, usage: Usage, project: str, asked: Amounts) -> bool:
    """Whether `project` could be admitted to `asked` now, beyond its share and all groups' too."""
    room = available(quota, usage, project)
    return quota.project(project).borrow and all(
        units <= room[resource] for resource, units in asked.only(quota.types).items()
    )


def covering(quota: Quota, usage: Usage, project: str, asked: Amounts) -> str:
    """
    The nearest share that `asked` would stand on: the project's, that of a group, or empty.

    It stands on a share when the share holds what is taken from it already and `asked` together, in
    every type under quota that `asked` names. What other members of a group keep is taken. A
    request that asks for no such type, and one of a project without a share anywhere above it,
    stands on none: it borrows.
    """
    asked = asked.only(quota.types)
    after = {**usage, project: usage.get(project, NOTHING) + asked}
    if not asked:
        return ""
    for node in quota.chain(project):
        if node.nominal.holds(_taken(quota, after, node.name) - asked, asked):
            return node.name
    return ""


def may_reclaim(quota: Quota, usage: Usage, project: str, asked: Amounts, *, of: str) -> bool:
    """
    Whether `project` may have borrowed jobs of the project `of` stopped for `asked`.

    The two meet in the nearest group that both are in, or in the pool. What stands there for
    `project`, itself or a group of its own, must hold `asked` within its share.
    """
    asked = asked.only(quota.types)
    own = apart(quota, project, of)
    if not own or not asked:
        return False
    after = {**usage, project: usage.get(project, NOTHING) + asked}
    node = own[-1]
    return node.nominal.holds(_taken(quota, after, node.name) - asked, asked)


def is_open_to(quota: Quota, cover: str, owner: str, project: str) -> bool:
    """
    Whether a job of `owner` that stands on the share `cover` is borrowed as `project` sees it.

    It is not where the share is one that `owner` has and `project` has no part in.
    """
    return all(node.name != cover for node in apart(quota, owner, project))


def covers(quota: Quota, claims: Iterable[tuple[str, Amounts]]) -> list[str]:
    """
    On which share every job stands, from (project, held) of all jobs in order of precedence.

    As in `covering`: the project's, that of the nearest group that has room for it, or empty. A job
    that does not fit leaves its room to those that come after it.
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
    The most that `project` could hold if all others held nothing: more can never be admitted.

    Args:
        quota: It has that project, or not.
        project: Its name.
        room: `unclaimed(quota, {})`, from a caller that asks about many projects.
    """
    most = _open_to(quota, {}, project, unclaimed(quota, {}) if room is None else room)
    own = quota.project(project)
    return most if own.borrow else most & own.nominal


def lent(quota: Quota, usage: Usage) -> dict[str, Amounts]:
    """
    How much of the unused share of every project and group others are using, in one pass.

    Borrowers use what is in no project's share first: in a group, what is the group's alone. The
    rest is divided over all lenders beside them in proportion to what each could lend, in whole
    units. What a group lends outside comes from its members in the same way.
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
    """What is in no group, projects that have left the file among it."""
    gone = usage.keys() - quota.projects.keys()
    return [*(node.name for node in quota.top()), *sorted(gone)]


def apart(quota: Quota, project: str, other: str) -> list[Node]:
    """The project and those of its groups that `other` is not in, the nearest first."""
    if project == other:
        return []
    own, others, shared = quota.chain(project), quota.groups_of(other), 0
    while shared < len(others) and own[-1 - shared] is others[-1 - shared]:
        shared += 1
    return list(own[: len(own) - shared])
