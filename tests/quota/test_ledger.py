"""The ledger's identities on random quotas, and the states that must be right."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quota import NOTHING, Amounts, Project, Quota, Tier, ledger

TYPES = ("h100", "v4")
NAMES = ("a", "b", "c")
amounts = st.fixed_dictionaries({r: st.integers(0, 12) for r in TYPES}).map(Amounts)


@st.composite
def quotas(draw: st.DrawFn) -> Quota:
    """Return three projects, some unshared total, and any legal ceilings and lending limits."""
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
    """Return 100 units, half of them for each of two projects."""
    projects = {
        name: Project(name=name, nominal=v4(50), ceiling=v4(ceiling), kept=v4(kept))
        for name in ("a", "b")
    }
    tier = Tier(name="0", units=v4(100))
    return Quota(tiers=(tier,), types=frozenset({"v4"}), projects=projects)


def v4(units: int) -> Amounts:
    """Return that many units of the single type of these states."""
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
def test_a_project_that_takes_what_is_available_breaks_no_limit(
    quota: Quota, usage: dict[str, Amounts], name: str, request: Amounts
) -> None:
    """Admitting within `available` respects the total, the ceiling and unlent units."""
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
    """`available` is not less than the limits allow."""
    after = ledger.available(quota, usage, name)[resource] + 1
    held = usage.get(name, NOTHING)[resource] + after
    others = sum(
        max(usage.get(n, NOTHING)[resource], quota.project(n).kept[resource])
        for n in (*NAMES, "gone")
        if n != name
    )
    assert held > quota.project(name).ceiling[resource] or held + others > quota.totals[resource]


@given(quotas(), usages)
def test_what_is_lent_is_what_was_borrowed(quota: Quota, usage: dict[str, Amounts]) -> None:
    """All lent units are the borrowed ones that belong to a project, as far as lenders allow."""
    parts = [ledger.lent(quota, usage)[name] for name in NAMES]
    taken = Amounts.sum(ledger.borrowed(quota, usage, name) for name in (*NAMES, "gone"))
    lendable = [
        ledger.unused(quota, usage, name) & quota.project(name).lending_limit for name in NAMES
    ]
    expected = (taken - quota.unassigned).positive() & Amounts.sum(lendable)
    assert Amounts.sum(parts) == expected
    assert all(part <= limit for part, limit in zip(parts, lendable, strict=True))


def test_idle_shares_of_others_may_be_borrowed() -> None:
    """Alone, a project may have everything; while the other runs, it may have the rest."""
    assert ledger.available(halves(), {}, "a") == v4(100)
    assert ledger.available(halves(), {"b": v4(30)}, "a") == v4(70)


def test_ceiling_and_lending_limit_cut_what_is_available() -> None:
    """A ceiling of 90 leaves 90; a share of which 20 are kept leaves 80 to the other."""
    assert ledger.available(halves(ceiling=90), {}, "a") == v4(90)
    assert ledger.available(halves(kept=20), {}, "a") == v4(80)
    assert ledger.available(halves(kept=20), {"b": v4(20)}, "a") == v4(80)


def test_over_admission_shows_as_a_negative_number() -> None:
    """Usage above the total must end before anything can start."""
    assert ledger.available(halves(), {"a": v4(60), "b": v4(50)}, "a") == v4(-10)


def test_a_lent_share_is_not_available() -> None:
    """With all 100 borrowed by the other, nothing is free and the whole share is lent."""
    usage = {"b": v4(100)}
    assert ledger.available(halves(), usage, "a") == NOTHING
    assert ledger.lent(halves(), usage)["a"] == v4(50)


def test_a_project_that_left_the_file_borrows_all_it_holds() -> None:
    """Its jobs count in the total, it gets nothing new, and lenders may reclaim theirs."""
    usage = {"gone": v4(60)}
    assert ledger.borrowed(halves(), usage, "gone") == v4(60)
    assert ledger.available(halves(), usage, "gone") == v4(-60)
    assert ledger.available(halves(), usage, "a") == v4(40)


def test_types_without_a_total_restrict_no_project() -> None:
    """CPUs and memory count in no sum of the ledger."""
    usage = {"a": Amounts({"cpu": 900}), "b": Amounts({"cpu": 900, "v4": 10})}
    assert ledger.available(halves(), usage, "a") == v4(90)
    assert ledger.borrowed(halves(), usage, "b") == NOTHING
