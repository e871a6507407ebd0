"""Whole units from weights: largest remainder, exact and deterministic."""

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
    Return the share of every project in `units`, in whole units.

    The unclaimed part counts as one more claimant, last among equals: shares never add up to more
    than `units`, and to exactly `units` if all of it is claimed. Equal remainders are served in the
    order of project names, so the order of the file does not matter.

    Args:
        units: Zero or more.
        shares: The parts of `whole` by project, none negative, together at most `whole`.
        whole: The number of parts in total, above zero.
    """
    names = sorted(shares)
    claims = [shares[name] for name in names]
    return dict(zip(names, apportion(units, [*claims, whole - sum(claims)])))
