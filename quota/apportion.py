"""Whole units out of weights: largest remainder, exact and deterministic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def apportion(units: int, weights: Sequence[int]) -> list[int]:
    """
    Split `units` by `weights` into whole parts that add up to exactly `units`.

    Every part is less than one unit away from its exact share, and a weight of zero gets nothing.
    The larger remainder is served first, the earlier of two equal ones.

    Args:
        units: Zero or more.
        weights: None negative, not all zero.

    Source: the method of largest remainders (Hamilton, 1792).
    """
    whole = sum(weights)
    exact = [divmod(units * weight, whole) for weight in weights]
    parts = [part for part, _ in exact]
    by_remainder = sorted(range(len(weights)), key=lambda i: (-exact[i][1], i))
    for i in by_remainder[: units - sum(parts)]:
        parts[i] += 1
    return parts


def nominal_units(units: int, shares: Mapping[str, int], *, whole: int) -> dict[str, int]:
    """
    The share of every project in `units`, in whole units.

    What no project claims takes part as one more claimant, last among equals: shares never add up
    to more than `units`, and to exactly `units` when all of it is claimed. Projects with equal
    remainders are served by name, so the order of the file does not matter.

    Args:
        units: Zero or more.
        shares: The parts of `whole` by project, none negative, together at most `whole`.
        whole: So many parts are all there is, above zero.
    """
    names = sorted(shares)
    claims = [shares[name] for name in names]
    return dict(zip(names, apportion(units, [*claims, whole - sum(claims)])))
