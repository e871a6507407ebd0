"""Fractions into whole units."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from quota.apportion import apportion, nominal_units

units = st.integers(0, 2000)
weights = st.lists(st.fractions(0, 1, max_denominator=50), min_size=1, max_size=8).filter(any)


@st.composite
def shares(draw: st.DrawFn) -> dict[str, Fraction]:
    """Fractions by project that add up to at most 1, often to exactly 1."""
    parts = draw(weights)
    whole = sum(parts) * draw(st.sampled_from([Fraction(1), Fraction(1), Fraction(3, 2)]))
    return {f"p{i}": part / whole for i, part in enumerate(parts)}


@given(units, weights)
def test_parts_add_up_and_stay_near_their_exact_share(units: int, weights: list[Fraction]) -> None:
    """Parts add up to the whole, each is less than one unit off, and zero weight gets nothing."""
    parts = apportion(units, weights)
    assert sum(parts) == units
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - units * weight / sum(weights)) < 1
        assert part == 0 or weight > 0


@given(units, weights)
def test_remainders_are_served_largest_first(units: int, weights: list[Fraction]) -> None:
    """Nobody rounded down has a larger remainder than someone rounded up."""
    exact = [units * weight / sum(weights) for weight in weights]
    parts = apportion(units, weights)
    up = [e - int(e) for e, part in zip(exact, parts, strict=True) if part > e]
    down = [e - int(e) for e, part in zip(exact, parts, strict=True) if part <= e]
    assert not up or max(down, default=Fraction(0)) <= min(up)


@given(units, shares())
def test_shares_never_exceed_the_total(units: int, fractions: dict[str, Fraction]) -> None:
    """Nominal units fit into the total, and fill it when the fractions are exactly 1."""
    nominal = nominal_units(units, fractions)
    assert sum(nominal.values()) <= units
    if sum(fractions.values()) == 1:
        assert sum(nominal.values()) == units


@given(units, shares())
def test_the_order_of_the_file_does_not_matter(units: int, fractions: dict[str, Fraction]) -> None:
    """The same fractions in another order give the same units."""
    assert nominal_units(units, dict(reversed(fractions.items()))) == nominal_units(
        units, fractions
    )


def test_equal_remainders_go_by_name() -> None:
    """Two halves of an odd number: the first name has the odd unit."""
    assert nominal_units(5, {"b": Fraction(1, 2), "a": Fraction(1, 2)}) == {"a": 3, "b": 2}


def test_thirds_that_were_cut_short_are_still_thirds() -> None:
    """0.333 three times of 3 units is one unit each: the thousandth nobody claims takes none."""
    third = Fraction("0.333")
    assert nominal_units(3, {"a": third, "b": third, "c": third}) == {"a": 1, "b": 1, "c": 1}
