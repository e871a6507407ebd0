"""Fractions into whole units."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from quota.apportion import apportion, nominal_units

units = st.integers(0, 2000)
weights = st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(any)


@st.composite
def shares(draw: st.DrawFn) -> tuple[dict[str, int], int]:
    """Return parts by project and their whole, often exactly adding up."""
    parts = draw(weights)
    whole = sum(parts) + draw(st.sampled_from([0, 0, 1, 17]))
    return {f"p{i}": part for i, part in enumerate(parts)}, whole


@given(units, weights)
def test_parts_add_up_and_stay_near_their_exact_share(units: int, weights: list[int]) -> None:
    """Parts add up to the whole, each is less than one unit off, and zero weight gets nothing."""
    parts = apportion(units, weights)
    assert sum(parts) == units
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - Fraction(units * weight, sum(weights))) < 1
        assert part == 0 or weight > 0


@given(units, weights)
def test_remainders_are_served_largest_first(units: int, weights: list[int]) -> None:
    """No part rounded down has a larger remainder than one rounded up."""
    exact = [Fraction(units * weight, sum(weights)) for weight in weights]
    parts = apportion(units, weights)
    up = [e - int(e) for e, part in zip(exact, parts, strict=True) if part > e]
    down = [e - int(e) for e, part in zip(exact, parts, strict=True) if part <= e]
    assert not up or max(down, default=Fraction(0)) <= min(up)


@given(units, shares())
def test_shares_never_exceed_the_total(units: int, given: tuple[dict[str, int], int]) -> None:
    """Nominal units fit in the total, and fill it if all of it is claimed."""
    parts, whole = given
    nominal = nominal_units(units, parts, whole=whole)
    assert sum(nominal.values()) <= units
    if sum(parts.values()) == whole:
        assert sum(nominal.values()) == units


@given(units, shares())
def test_the_order_of_the_file_does_not_matter(
    units: int, given: tuple[dict[str, int], int]
) -> None:
    """The same shares in another order give the same units."""
    parts, whole = given
    turned = dict(reversed(parts.items()))
    assert nominal_units(units, turned, whole=whole) == nominal_units(units, parts, whole=whole)


def test_equal_remainders_go_by_name() -> None:
    """With two halves of an odd number, the first name has the odd unit."""
    assert nominal_units(5, {"b": 1, "a": 1}, whole=2) == {"a": 3, "b": 2}


def test_thirds_that_were_cut_short_are_still_thirds() -> None:
    """0.333 three times of 3 units is one unit each: the unclaimed thousandth takes none."""
    thirds = {"a": 333, "b": 333, "c": 333}
    assert nominal_units(3, thirds, whole=1000) == {"a": 1, "b": 1, "c": 1}
