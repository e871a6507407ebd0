"""Whole units out of fractions: largest remainder, exact and deterministic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction


def apportion(units: int, weights: Sequence[Fraction]) -> list[int]:
    """
    Split `units` by `weights` into whole parts that add up to exactly `units`.

    Every part is less than one unit away from its exact share, and a weight of zero gets nothing.
    The larger remainder is served first, the earlier of two equal ones.

    Args:
        units: Zero or more.
        weights: None negative, not all zero.

    Source: the method of largest remainders (Hamilton, 1792).
    """
    whole = sum(weights, Fraction(0))
    exact = [units * weight / whole for weight in weights]
    parts = [int(share) for share in exact]
    by_remainder = sorted(range(len(weights)), key=lambda i: (parts[i] - exact[i], i))
    for i in by_remainder[: units - sum(parts)]:
        parts[i] += 1
    return parts


def nominal_units(units: int, fractions: Mapping[str, Fraction]) -> dict[str, int]:
    """
    The share of every project in `units`, in whole units.

    What no project claims takes part as one more claimant, last among equals: shares never add up
    to more than `units`, and to exactly `units` when the fractions add up to exactly 1. Projects
    with equal remainders are served by name, so the order of the file does not matter.

    Args:
        units: Zero or more.
        fractions: By project, none negative, together at most 1.
    """
    names = sorted(fractions)
    claims = [fractions[name] for name in names]
    return dict(zip(names, apportion(units, [*claims, 1 - sum(claims, Fraction(0))])))
