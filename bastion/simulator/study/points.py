"""Combinations of policies, and ranges of loads, as a command line writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from bastion.errors import SpecError
from bastion.simulator.setup import Setup

_RANGE = re.compile(r"(\d+(?:\.\d+)?)\.\.(\d+(?:\.\d+)?)(?::(\d+(?:\.\d+)?))?")
MAX_POINTS = 1000


def combined(
    setup: Setup, orders: Sequence[str], admissions: Sequence[str], policies: Sequence[str]
) -> list[Setup]:
    """Return `setup` with every order and own policy, each with every admission."""
    ways = [replace(setup, order=order) for order in orders]
    ways += [replace(setup, policy=policy) for policy in policies]
    return [
        replace(way, admission=admission)
        for way in ways or [setup]
        for admission in admissions or [setup.admission]
    ]


def loads_of(written: str) -> list[float]:
    """
    Return the loads, in jobs an hour, that `written` means: `4`, `1,2,8`, `1..9` or `1..9:0.5`.

    Raises:
        SpecError: It means none, or too many.
    """
    found: list[float] = []
    for word in written.split(","):
        ranged = _RANGE.fullmatch(word.strip())
        try:
            if ranged is None:
                found.append(float(word))
                continue
        except ValueError:
            raise SpecError(
                f"load: {word.strip()!r} is no load; allowed: jobs an hour as 4, 1,2,8 or 1..9,"
                " or a part of the cluster as 70%"
            ) from None
        low, high, step = (float(each) if each else 1.0 for each in ranged.groups())
        if high < low or step <= 0 or (high - low) / step > MAX_POINTS:
            raise SpecError(f"load: {word.strip()!r} has no points, or more than {MAX_POINTS}")
        count = int((high - low) / step + 1e-9) + 1
        found += [low + step * number for number in range(count)]
    if any(load <= 0 for load in found):
        raise SpecError(f"load: {written!r}: allowed: above zero")
    return found
