"""Words that reasons share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bastion.spec.values.quantity import text_of_amounts, text_of_bytes, text_of_seconds
from quota.amounts import Amounts

NAMED = 3
"""The most names that a sentence lists before it counts the rest."""

PLACES: Mapping[str, str] = {"machines": "on single machines", "tiers": "in single tiers"}
"""Where capacity scattered over them would have to be together."""


def place_of(over: str) -> str:
    """Return where capacity scattered over machines, tiers or blocks would have to be together."""
    return PLACES.get(over, f"in one {over}")


def when(at: float, now: float) -> str:
    """Return a time, as said at `now`."""
    return f"in {text_of_seconds(at - now)}" if at > now else "now"


def listed(names: Sequence[str], number: int = 0) -> str:
    """Return the first of `names`, and how many more there are; `number`: of all, if known."""
    rest = max(number, len(names)) - len(names[:NAMED])
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")


def counted(number: int, noun: str) -> str:
    """`1 machine`, `2 machines`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def units(amounts: Amounts) -> str:
    """`8 h100 + 64 GiB memory`."""
    return text_of_amounts(amounts)


def is_or_are(amounts: Amounts) -> str:
    """`1 h100 is free`, `2 h100 are free`."""
    return "is" if sum(number for _, number in amounts.items()) == 1 else "are"


def part_of(part: Amounts, whole: Amounts) -> str:
    """`8 of 16 h100`, for every type in `whole`."""
    told = [
        f"{_number(kind, part[kind])} of {_number(kind, number)} {kind}"
        for kind, number in whole.items()
    ]
    return " and ".join(told) or units(part)


def _number(kind: str, number: int) -> str:
    return text_of_bytes(number) if kind == "memory" else str(number)
