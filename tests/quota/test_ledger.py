"""The ledger's identities on random quotas, and the states that must come out right."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from quota import NOTHING, Amounts, Project, Quota, Tier, ledger

TYPES = ("h100", "v4")
NAMES = ("a", "b", "c")
amounts = st.fixed_dictionaries({r: st.integers(0, 12) for r in TYPES}).map(Amounts)


@st.composite
def quotas(draw: st.DrawFn) -> Quota:
    """Three projects, some of the total nobody's, ceilings and lending limits anywhere legal."""
    nominal = {name: draw(amounts) for name in NAMES}
    totals = Amounts.sum(nominal.values()) + draw(amounts)
    projects = {
        name: Project(
            name=name,
            nominal=own,
            ceiling=(own + draw(amounts)) & totals,
            kept=own & draw(st.sampled_from([NOTHING, own, draw(amounts)])),
        )
        for name, own in nominal.items()
    }
    return Quota(tiers=(Tier(name="0", units=totals),), types=frozenset(TYPES), projects=projects)


usages = st.dictionaries(st.sampled_from((*NAMES, "gone")), amounts)


def halves(*, kept: int = 0, ceiling: int = 100) -> Quota:
    """100 units, half of them for each of two projects."""
    projects = {
        name: Project(name=name, nominal=v4(50), ceiling=v4(ceiling), kept=v4(kept))
        for name in ("a", "b")
    }
    tier = Tier(name="0", units=v4(100))
    return Quota(tiers=(tier,), types=frozenset({"v4"}), projects=projects)


def v4(units: int) -> Amounts:
    """So many units of the one type that these states are about."""
    return Amounts({"v4": units})


@given(quotas(), usages, st.sampled_from((*NAMES, "gone")))
def test_own_and_borrowed_make_up_what_is_held(
    quota: Quota, usage: dict[str, Amounts], name: str
) -> None:
    """Used = nominal - unused + borrowed, and a type is never both unused and borrowed."""
    own, extra = ledger.unused(quota, usage, name), ledger.borrowed(quota, usage, name)
    assert ledger.used(quota, usage, name) == quota.project(name).nominal - own + extra
    assert own & extra == NOTHING


@given(quotas(), usages, st.sampled_from(NAMES), amounts)
def test_whoever_takes_what_is_available_breaks_no_limit(
    quota: Quota, usage: dict[str, Amounts], name: str, request: Amounts
) -> None:
    """Admitting within `available` keeps total, ceiling and what others do not lend."""
    if not request <= ledger.available(quota, usage, name).positive():
        return
    for resource in request.types():
        after = {**usage, name: usage.get(name, NOTHING) + request}
        assert Amounts.sum(after.values())[resource] <= quota.totals[resource]
        assert after[name][resource] <= quota.project(name).ceiling[resource]
        closed = sum(
            max(0, quota.project(n).kept[resource] - after.get(n, NOTHING)[resource])
            for n in NAMES
            if n != name
        )
        assert Amounts.sum(after.values())[resource] + closed <= quota.totals[resource]


@given(quotas(), usages, st.sampled_from(NAMES), st.sampled_from(TYPES))
def test_one_unit_beyond_what_is_available_breaks_a_limit(
    quota: Quota, usage: dict[str, Amounts], name: str, resource: str
) -> None:
    """`available` is not less than the limits leave."""
    after = ledger.available(quota, usage, name)[resource] + 1
    held = usage.get(name, NOTHING)[resource] + after
    others = sum(
        max(usage.get(n, NOTHING)[resource], quota.project(n).kept[resource])
        for n in (*NAMES, "gone")
        if n != name
    )
    assert held > quota.project(name).ceiling[resource] or held + others > quota.totals[resource]


@given(quotas(), usages, st.sampled_from((*NAMES, "gone")))
def test_a_share_can_always_be_reclaimed(
    quota: Quota, usage: dict[str, Amounts], name: str
) -> None:
    """What borrowers hold covers all that a project lacks to reach its own share."""
    others = {*NAMES, *usage} - {name}
    theirs = Amounts.sum(ledger.borrowed(quota, usage, other) for other in others)
    back = ledger.reclaimable(quota, usage, name)
    assert back <= theirs
    assert back >= NOTHING
    assert back <= ledger.unused(quota, usage, name)


@given(quotas(), usages)
def test_what_is_lent_is_what_was_borrowed(quota: Quota, usage: dict[str, Amounts]) -> None:
    """All lent units are the borrowed ones that are some project's, as far as lenders allow."""
    parts = [ledger.lent(quota, usage, name) for name in NAMES]
    taken = Amounts.sum(ledger.borrowed(quota, usage, name) for name in (*NAMES, "gone"))
    lendable = [
        ledger.unused(quota, usage, name) & quota.project(name).lending_limit for name in NAMES
    ]
    expected = (taken - quota.unassigned).positive() & Amounts.sum(lendable)
    assert Amounts.sum(parts) == expected
    assert all(part <= limit for part, limit in zip(parts, lendable, strict=True))


@given(quotas(), usages, st.sampled_from((*NAMES, "gone")), amounts)
def test_within_share_is_fitting_beside_all_that_is_held(
    quota: Quota, usage: dict[str, Amounts], name: str, request: Amounts
) -> None:
    """A request is within the share when usage plus request is, for every type it asks for."""
    held, nominal = usage.get(name, NOTHING), quota.project(name).nominal
    expected = all(held[r] + request[r] <= nominal[r] for r in request.types())
    assert ledger.is_within_share(quota, usage, name, request) == expected


def test_usage_is_added_up_by_project() -> None:
    """Every admitted job counts for its project, whatever types it holds."""
    jobs = [("a", v4(8)), ("b", v4(2)), ("a", Amounts({"v4": 1, "cpu": 4}))]
    assert ledger.usage_by_project(jobs) == {"a": Amounts({"v4": 9, "cpu": 4}), "b": v4(2)}


def test_idle_shares_of_others_may_be_borrowed() -> None:
    """Alone, a project may have everything; while the other runs, what is left."""
    assert ledger.available(halves(), {}, "a") == v4(100)
    assert ledger.available(halves(), {"b": v4(30)}, "a") == v4(70)


def test_ceiling_and_lending_limit_cut_what_is_available() -> None:
    """A ceiling of 90 leaves 90, a share of which 20 are kept leaves 80 to the other."""
    assert ledger.available(halves(ceiling=90), {}, "a") == v4(90)
    assert ledger.available(halves(kept=20), {}, "a") == v4(80)
    assert ledger.available(halves(kept=20), {"b": v4(20)}, "a") == v4(80)


def test_over_admission_shows_as_a_negative_number() -> None:
    """More held than the total is what must go before anything may come."""
    assert ledger.available(halves(), {"a": v4(60), "b": v4(50)}, "a") == v4(-10)


def test_a_lent_share_is_reclaimed_not_available() -> None:
    """With all 100 borrowed by the other, nothing is free and the whole share is to reclaim."""
    usage = {"b": v4(100)}
    assert ledger.available(halves(), usage, "a") == NOTHING
    assert ledger.reclaimable(halves(), usage, "a") == v4(50)
    assert ledger.lent(halves(), usage, "a") == v4(50)
    assert ledger.is_within_share(halves(), usage, "a", v4(50))


def test_a_project_that_left_the_file_borrows_all_it_holds() -> None:
    """Its jobs count in the total, it gets nothing new, and lenders may have theirs back."""
    usage = {"gone": v4(60)}
    assert ledger.borrowed(halves(), usage, "gone") == v4(60)
    assert ledger.available(halves(), usage, "gone") == v4(-60)
    assert ledger.available(halves(), usage, "a") == v4(40)
    assert ledger.reclaimable(halves(), usage, "a") == v4(10)
    assert not ledger.is_within_share(halves(), usage, "gone", v4(1))


def test_types_without_a_total_restrict_nobody() -> None:
    """Processors and memory count in no sum of the ledger."""
    usage = {"a": Amounts({"cpu": 900}), "b": Amounts({"cpu": 900, "v4": 10})}
    assert ledger.available(halves(), usage, "a") == v4(90)
    assert ledger.borrowed(halves(), usage, "b") == NOTHING
    assert ledger.is_within_share(halves(), usage, "a", Amounts({"cpu": 5000, "v4": 50}))
    assert ledger.dominant_share(halves(), usage, "a") == 0.0


def test_borrowing_one_type_leaves_the_guarantee_on_another() -> None:
    """A project above its share of v4 is within its share when it asks for h100 alone."""
    units = Amounts({"h100": 8, "v4": 8})
    project = Project(name="a", nominal=Amounts({"h100": 4, "v4": 4}), ceiling=units)
    tier = Tier(name="0", units=units)
    quota = Quota(tiers=(tier,), types=frozenset(units), projects={"a": project})
    usage = {"a": v4(6)}
    assert ledger.is_within_share(quota, usage, "a", Amounts({"h100": 4}))
    assert not ledger.is_within_share(quota, usage, "a", Amounts({"h100": 4, "v4": 1}))


def test_the_dominant_share_is_the_largest_part_of_an_own_share() -> None:
    """It counts against the project's own share and has no end where there is none."""
    assert ledger.dominant_share(halves(), {"a": v4(25)}, "a") == 0.5
    assert ledger.dominant_share(halves(), {"a": v4(75)}, "a") == 1.5
    assert ledger.dominant_share(halves(), {}, "a") == 0.0
    assert ledger.dominant_share(halves(), {"gone": v4(1)}, "gone") == math.inf
