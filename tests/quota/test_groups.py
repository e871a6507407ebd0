"""The ledger of nested groups, compared with its definitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quota import NOTHING, Amounts, Quota, ledger
from quota.nesting import Nesting
from tests.quota import trees
from tests.quota.trees import GONE, PROJECTS, TYPES, amounts, claims, quotas, usages

Usage = dict[str, Amounts]
Claims = list[tuple[str, Amounts]]


@given(quotas(), usages, st.sampled_from((*PROJECTS, GONE)), st.sampled_from(TYPES))
def test_what_is_available_is_the_most_that_may_be_added(
    quota: Quota, usage: Usage, project: str, resource: str
) -> None:
    """One unit more would exceed a ceiling, or take what others hold or keep."""
    more = ledger.available(quota, usage, project)[resource]
    now = usage.get(project, NOTHING)[resource]
    assert trees.may_hold(quota, usage, project, resource, now + more)
    assert not trees.may_hold(quota, usage, project, resource, now + more + 1)


@given(quotas(), usages, st.sampled_from(PROJECTS), amounts)
def test_a_project_may_borrow_what_is_available(
    quota: Quota, usage: Usage, project: str, asked: Amounts
) -> None:
    """`may_borrow` checks every requested type, and no other."""
    now = usage.get(project, NOTHING)
    fits = [trees.may_hold(quota, usage, project, r, now[r] + n) for r, n in asked.items()]
    assert ledger.may_borrow(quota, usage, project, asked) == all(fits)


@given(quotas(), usages)
def test_own_and_borrowed_make_up_what_a_group_holds(quota: Quota, usage: Usage) -> None:
    """Used = nominal - unused + borrowed at every level, and a group holds what its members do."""
    for name in trees.names(quota):
        own, extra = ledger.unused(quota, usage, name), ledger.borrowed(quota, usage, name)
        used = ledger.used(quota, usage, name)
        assert used == quota.node(name).nominal - own + extra
        assert own & extra == NOTHING
        assert all(used[r] == trees.held(quota, usage, name, r) for r in TYPES)


@given(quotas(), usages)
def test_what_is_lent_is_borrowed_inside_or_outside(quota: Quota, usage: Usage) -> None:
    """
    Members lend what their group borrows and lends, as far as they may.

    What belongs only to the group is used first.
    """
    lent = {**dict.fromkeys(trees.names(quota), NOTHING), **ledger.lent(quota, usage)}
    levels = [(name, group.members) for name, group in quota.groups.items()]
    levels.append(("", tuple(n for n in trees.names(quota) if not quota.node(n).group)))
    for parent, members in levels:
        for resource in TYPES:
            nominal = [quota.node(n).nominal[resource] for n in members]
            holds = [trees.held(quota, usage, n, resource) for n in members]
            limit = [quota.node(n).lending_limit[resource] for n in members]
            taken = sum(max(0, h - n) for h, n in zip(holds, nominal))
            lendable = [min(max(0, n - h), m) for n, h, m in zip(nominal, holds, limit)]
            share = quota.node(parent).nominal if parent else quota.totals
            spare, outside = share[resource] - sum(nominal), 0
            if parent:
                outside = lent[parent][resource]
            parts = [lent[n][resource] for n in members]
            assert sum(parts) == min(max(0, taken + outside - spare), sum(lendable))
            assert all(part <= most for part, most in zip(parts, lendable))


@given(quotas(), claims)
def test_no_share_carries_more_than_it_is(quota: Quota, all_claims: Claims) -> None:
    """The jobs on a share, or on one inside it, fit in it together."""
    on = ledger.covers(quota, all_claims)
    for name in trees.names(quota):
        inside = [
            held
            for (_, held), cover in zip(all_claims, on)
            if cover and name in [node.name for node in quota.chain(cover)]
        ]
        assert Amounts.sum(inside) <= quota.node(name).nominal


@given(quotas(), claims)
def test_within_the_share_means_safe_from_outside(quota: Quota, all_claims: Claims) -> None:
    """No job of a project or group within its share is open to anything outside of it."""
    usage = _usage(all_claims)
    on = ledger.covers(quota, all_claims)
    for (owner, held), cover in zip(all_claims, on):
        for other in PROJECTS:
            apart = [n for n in quota.chain(owner) if n not in quota.chain(other)]
            is_within = any(ledger.used(quota, usage, n.name) <= n.nominal for n in apart)
            if held and other != owner and is_within:
                assert not ledger.is_open_to(quota, cover, owner, other)


@given(quotas(), claims, st.sampled_from(PROJECTS), amounts.filter(bool))
def test_what_a_share_covers_can_be_had(
    quota: Quota, all_claims: Claims, project: str, asked: Amounts
) -> None:
    """
    The guarantee at every level: what a share covers fits once the borrowed jobs around it ended.

    They are stopped from the inside out, each only while the rule allows it.
    """
    if not ledger.covering(quota, _usage(all_claims), project, asked):
        return
    left = list(zip(all_claims, ledger.covers(quota, all_claims)))
    for _ in range(len(trees.GROUPS) + 1):
        usage = _usage([claim for claim, _ in left])
        left = [
            ((owner, held), cover)
            for (owner, held), cover in left
            if not ledger.may_reclaim(quota, usage, project, asked, of=owner)
            or not ledger.is_open_to(quota, cover, owner, project)
        ]
    held = Amounts.sum(held for (_, held), _ in left)
    assert all(held[r] + n <= quota.totals[r] for r, n in asked.items())


@given(quotas(), claims, st.sampled_from(PROJECTS), amounts.filter(bool), st.sampled_from(PROJECTS))
def test_a_group_above_its_share_takes_nothing_back_from_outside(
    quota: Quota, all_claims: Claims, project: str, asked: Amounts, of: str
) -> None:
    """The level beside the lender must hold the request within its own share."""
    usage = _usage(all_claims)
    if ledger.may_reclaim(quota, usage, project, asked, of=of):
        apart = [n for n in quota.chain(project) if n not in quota.chain(of)]
        after = ledger.used(quota, usage, apart[-1].name) + asked
        assert all(after[r] <= apart[-1].nominal[r] for r in asked)


@given(quotas(), st.lists(st.tuples(st.sampled_from((*PROJECTS, GONE)), amounts), max_size=6))
def test_kept_sums_are_those_of_the_ledger(quota: Quota, changes: Claims) -> None:
    """After any changes, `Nesting` has the results of a pass over all projects."""
    nesting, usage = Nesting(quota), dict[str, Amounts]()
    whole = dict(nesting.kept.items())
    closing = dict.fromkeys((*PROJECTS, GONE), NOTHING)
    for project, now in [(name, NOTHING) for name in PROJECTS] + changes:
        usage[project] = now
        after = ledger.closed(quota, usage, project)
        for resource, units in (after - closing[project]).items():
            whole[resource] = whole.get(resource, 0) + nesting.add(project, resource, units)
        closing[project] = after
    assert quota.totals - Amounts(whole) == ledger.unclaimed(quota, usage)
    for group in quota.groups:
        for resource in TYPES:
            expected = trees.taken(quota, usage, group, resource)
            assert nesting.taken(group, resource) == expected
    for project in PROJECTS:
        own, now = quota.project(project), usage[project]
        for resource in TYPES:
            free = quota.totals[resource] - whole.get(resource, 0)
            room = nesting.room(project, resource, free)
            room = min(
                room + max(0, own.kept[resource] - now[resource]),
                own.ceiling[resource] - now[resource],
            )
            assert room == ledger.available(quota, usage, project)[resource]


@given(quotas(), usages, st.sampled_from(PROJECTS), amounts.filter(bool))
def test_nesting_finds_the_same_share(
    quota: Quota, usage: Usage, project: str, asked: Amounts
) -> None:
    """`Nesting.covering` finds the group that `ledger.covering` finds beyond the project."""
    nesting = Nesting(quota)
    for name in (*PROJECTS, GONE):
        for resource, units in ledger.closed(quota, usage, name).items():
            nesting.add(name, resource, units)
    own = quota.project(project)
    now = usage.get(project, NOTHING)
    more = {r: max(now[r] + n, own.kept[r]) - max(now[r], own.kept[r]) for r, n in asked.items()}
    expected = ledger.covering(quota, usage, project, asked)
    if expected != project:
        assert nesting.covering(project, more) == expected
    after = {**usage, project: now + asked}
    for group in quota.groups_of(project):
        taken = {r: trees.taken(quota, after, group.name, r) for r in asked}
        fits = all(units <= group.nominal[r] for r, units in taken.items())
        assert (group.name in nesting.holding(project, more)) == fits
        before = {r: trees.taken(quota, usage, group.name, r) for r in asked}
        is_over = any(n > max(group.ceiling[r], before[r]) for r, n in taken.items())
        assert (group.name in nesting.over_ceilings(project, more)) == is_over


def _usage(all_claims: Claims) -> Usage:
    usage: Usage = {}
    for project, held in all_claims:
        usage[project] = usage.get(project, NOTHING) + held
    return usage
