"""Quantiles, and an index of fairness."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(ordered: Sequence[float], part: float) -> float:
    """Return the quantile of sorted numbers, linear between neighbors; 0 if there are none."""
    if not ordered:
        return 0.0
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spread_of(numbers: Sequence[float]) -> dict[str, float]:
    """Return mean, p50, p90, p99 and maximum."""
    ordered = sorted(numbers)
    mean = sum(ordered) / len(ordered) if ordered else 0.0
    return {
        "mean": mean,
        "p50": quantile(ordered, 0.5),
        "p90": quantile(ordered, 0.9),
        "p99": quantile(ordered, 0.99),
        "max": ordered[-1] if ordered else 0.0,
    }


def jain(numbers: Sequence[float]) -> float:
    """
    Return Jain's index of fairness: 1 if all are equal, 1 / n if one has everything.

    Source: Jain, Chiu, Hawe, DEC Research Report TR-301, 1984.
    """
    squares = sum(number * number for number in numbers)
    return sum(numbers) ** 2 / (len(numbers) * squares) if squares else 1.0
